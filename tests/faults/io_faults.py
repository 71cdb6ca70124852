#!/usr/bin/python3
"""Every file call fails once: the run ends in time, with verified data, or with the exit code, one
message and the status of an I/O error, and the old generation.

  io_faults.py --shim libfaultio.so [--most 1] [--ranks 2]            a sample
  io_faults.py --shim libfaultio.so --every [--part 1/8] [--summary FILE]    all of them

A run from the checkpoints of a stopped one is recorded first; then each of its calls on the run
directory, the data and the job file fails in turn, on each rank. --most bounds the cases per rank
and kind of call, spread over all calls; --every takes all numbers and all errors; --part 1/8 every
eighth case. Every fourth failure is followed by the failure of all later calls of its kind.
"""
import argparse
import collections
import re
import os
import sys

import campaign_kill
import harness as h

# Kind of call: the errors it can give.
ERRORS = {"write": ("ENOSPC", "EIO", "SHORT"), "pwrite": ("EIO", "ENOSPC", "SHORT"),
          "read": ("EIO",), "open": ("EIO",), "close": ("EIO",), "seek": ("EIO",),
          "stat": ("EIO",), "fsync": ("EIO",), "ftruncate": ("ENOSPC",), "fallocate": ("ENOSPC",),
          "rename": ("EIO",), "unlink": ("EIO",), "mkdir": ("ENOSPC",), "opendir": ("EIO",)}
REASON = {"EIO": "Input/output error", "ENOSPC": "No space left on device"}
SETTINGS = ["train.epochs=20", "checkpoint.every=1h", "run.directory=out"]
# Rank 0 closes a new file once in MPI_File_open. If that fails, ROMIO 3.2.1 lets the ranks wait for
# each other for ever, until the watchdog ends them.
CLOSE_SETTINGS = [*SETTINGS, "run.watchdog=8s"]
ENDS_WITHIN = 20.0  # seconds after the time an undisturbed run takes
Case = collections.namedtuple("Case", "rank op at error sticky")


def shim(args, folder, rank, ops, at=0, error="ENOSPC", sticky=False):
    pattern = f"{folder}/@(out|out/*|data.h5|job.yaml)"
    return h.shim(args.shim, folder, pattern, ops, at, error, sticky, rank)


def count_calls(args, folder, base, rank):
    """{kind: number of calls} of an undisturbed resumption on one rank."""
    h.copy_directory(base, folder / "out")
    h.train(folder, args.ranks, SETTINGS, rank_env=shim(args, folder, rank, ",".join(ERRORS)))
    return collections.Counter(re.findall(r"^seen \d+ (\w+) ", (folder / "shim.log").read_text(),
                                          re.M))


def spread(count, most):
    """At most `most` numbers of 1..count, with both ends."""
    if count <= most:
        return range(1, count + 1)
    if most == 1:
        return [(count + 1) // 2]
    return sorted({1 + i * (count - 1) // (most - 1) for i in range(most)})


def files_hit(folder):
    """The names of the files whose calls failed, as messages give them: without what a temporary
    name adds. The child process that checks a data file cannot write the log of the shim."""
    paths = re.findall(r"^fired \d+ \w+ \d+ (.*)$", (folder / "shim.log").read_text(), re.M)
    temporary = r"^\.tmp-(?:owned-)?(.+)-[^-]+-\d+-[0-9a-f]{16}$"
    return {re.sub(temporary, r"\1", path.rsplit("/", 1)[1]) for path in paths} or {"data.h5"}


def check_error(folder, case, done, name):
    """The exit code, the message and the status file of an I/O error."""
    lines, hit = h.error_lines(done.output), files_hit(folder)
    claiming = hit & {"owner", "out"}  # then the start has nothing to say in status.json
    h.check(done.code in ([h.CANNOT_CREATE, h.IO_ERROR] if claiming else [h.IO_ERROR]),
            f"{name}: exit {done.code}, wanted {h.IO_ERROR}")
    if not h.check(len(lines) == 1, f"{name}: {len(lines)} error messages\n{done.output}"):
        return
    if case.error in REASON:
        h.check(REASON[case.error] in lines[0], f"{name}: no reason in: {lines[0]}")
    if case.sticky:
        return
    directory = (f"into {folder}/out (", f"create a file in {folder}/out:")
    h.check(any(words in lines[0] for words in (*hit, *directory)),
            f"{name}: none of {hit} in: {lines[0]}")
    status = h.status_of(folder / "out")
    if not claiming and not hit & {"data.h5", "job.yaml"}:
        h.check((status.get("state"), status.get("exit_code")) == ("failed", done.code),
                f"{name}: status {status}")
        h.check(status.get("reason", "-") in lines[0], f"{name}: reason {status.get('reason')}")


def check_done(folder, wanted, case, name):
    h.check_same(folder / "out", wanted, f"{name}: reported success")
    if not case.sticky:
        status = h.status_of(folder / "out")
        h.check((status.get("state"), status.get("exit_code")) == ("done", 0),
                f"{name}: reported success, status {status}")


def judge(args, folder, wanted, done, case):
    name = f"rank {case.rank}, {case.op} {case.at} {case.error}" \
           f"{' and all later ones' if case.sticky else ''} ({', '.join(files_hit(folder))})"
    if not h.check(not done.hung, f"{name}: still running after {args.limit:.0f} s\n{done.output}"):
        return
    if done.code == h.DONE:
        check_done(folder, wanted, case, name)
        return
    if case.op == "close" and done.code == h.STOPPED:  # see CLOSE_SETTINGS
        h.check("made no progress" in done.output, f"{name}: exit {done.code}\n{done.output}")
    else:
        check_error(folder, case, done, name)
    if not h.is_complete(folder / "out"):
        h.check(h.newest(folder / "out") > 0, f"{name}: the old generation is gone")
    again = h.train(folder, 0, SETTINGS, limit=60)
    if h.check(again.code == h.DONE, f"{name}: resumed, exit {again.code}\n{again.output}"):
        h.check_same(folder / "out", wanted, f"{name}: resumed")


def check_import(args, folder):
    """Without ranks: every call that `tutti import` makes on its output fails."""
    table, output = folder / "table.csv", folder / "out" / "table.h5"
    table.write_text("a,b\n1,2\n3,4\n")
    words = ["import", table, "-o", output, "--inputs", "a", "--targets", "b"]

    def run(op, at):
        h.copy_directory(folder / "tmp", folder / "out")
        return h.run(folder, 0, words, env=shim(args, folder, 0, op, at, "EIO"))

    for op in ("close", "pwrite", "write", "fsync", "rename"):
        run(op, 0)
        for at in range(1, (folder / "shim.log").read_text().count("seen ") + 1):
            done, name = run(op, at), f"import, {op} {at} EIO"
            lines = h.error_lines(done.output)
            if done.code == h.DONE:
                h.check(output.exists() and not lines, f"{name}: reported success\n{done.output}")
            else:
                h.check(done.code == h.IO_ERROR and len(lines) == 1 and REASON["EIO"] in lines[0] and
                        f"{folder}/out" in lines[0], f"{name}: exit {done.code}\n{done.output}")
                h.check(op == "rename" or not h.leftovers(folder / "out"), f"{name}: leftovers")


# The reads of a campaign that decide what it does, in the order of a start that finds round 2
# labeled, but not merged.
CAMPAIGN_READS = [("stat", "campaign.h5"), ("stat", "round-0002/results.h5"),
                  ("stat", "round-0002/queries.h5"), ("readdir", "round-0002/label"),
                  ("open", "round-0002/label/0001/input.csv"),
                  ("stat", "round-0002/label/0002/accepted.h5")]


def check_earlier_model(args, folder, command):
    """Each time that round 2 opens the model of round 1, for the pool or to begin with its weights:
    without it no member begins with other weights."""
    once = [*command, "--set", "campaign.directory=once", "--set", "stop.rounds=1"]
    h.run(folder, 0, [*once, "--set", "stop.rounds=0"])
    path, n = f"{folder}/once/round-0001/model.h5", 0
    while True:
        n += 1
        done = h.run(folder, 0, once, h.shim(args.shim, folder, path, "open", n, "EIO"))
        if "fired " not in (folder / "shim.log").read_text():
            break
        h.check(done.code == h.IO_ERROR and path in done.output,
                f"the model of the round before, open {n}: exit {done.code}\n{done.output}")
        h.check(not os.path.exists(f"{folder}/once/round-0002/model.h5"), "a model of round 2 was written")
    h.check(done.code == h.DONE and n > 2, f"the model of the round before: {n - 1} faults, exit {done.code}")


def check_campaign(args, folder):
    """A read that fails ends the start with its error, and never counts as a missing file: then the
    campaign would have other numbers, or request labels again."""
    command = ["campaign", "run", "campaign.yaml", "-q", "--set", "campaign.directory=out",
               "--set", "stop.rounds=2",
               "--set", "train.epochs=20", "--set", "label.rows_per_call=4"]
    campaign_kill.prepare(folder)
    check_earlier_model(args, folder, command)
    stop = h.shim(args.shim, folder, f"{folder}/out/campaign.h5", "rename", 2, "EIO")
    for out, env in ("whole", {}), ("out", stop):
        (folder / "oracle.log").unlink(missing_ok=True)
        h.run(folder, 0, [*command, "--set", f"campaign.directory={out}"], env)
    asked = (folder / "oracle.log").read_text()
    for op, name in CAMPAIGN_READS:
        path = os.path.normpath(f"{folder}/out/{name}")
        done = h.run(folder, 0, command, h.shim(args.shim, folder, path, op, 1, "EIO"))
        text = f"campaign, {op} {name} EIO"
        h.check("fired " in (folder / "shim.log").read_text(), f"{text}: did not fire")
        lines = h.error_lines(done.output)
        h.check(done.code == h.IO_ERROR and len(lines) == 1 and path in lines[0] and
                REASON["EIO"] in lines[0], f"{text}: exit {done.code}\n{done.output}")
    done = h.run(folder, 0, command)
    h.check(done.code == h.DONE, f"the campaign after the errors: exit {done.code}\n{done.output}")
    campaign_kill.judge_history(folder, "out", campaign_kill.history(folder, "whole"))
    h.check((folder / "oracle.log").read_text() == asked, "a label was requested again")


def cases(args, folder, base):
    """Errors and stickiness in turn over the numbers."""
    for rank in range(args.ranks):
        counts = count_calls(args, folder, base, rank)
        print(f"rank {rank}: {dict(counts)} calls", flush=True)
        for op, errors in ERRORS.items():
            numbers = range(1, counts[op] + 1) if args.every else spread(counts[op], args.most)
            for i, at in enumerate(numbers):
                for error in errors if args.every else [errors[(i + rank) % len(errors)]]:
                    yield Case(rank, op, at, error, i % 4 == 3)


def chosen(args, folder, base):
    part, parts = (int(n) for n in args.part.split("/"))
    return [case for i, case in enumerate(cases(args, folder, base)) if i % parts == part - 1]


def summarize(table):
    """Table of cases, fired faults and exit codes by kind of call."""
    lines = [f"{'call':10} {'cases':>5} {'fired':>5} {'exit 0':>6} {'exit 74':>7} {'failed':>6}"]
    for op in ERRORS:
        rows = [row for case, *row in table if case.op == op]
        codes = [code for fired, code, _ in rows if fired]
        lines.append(f"{op:10} {len(rows):5} {len(codes):5} {codes.count(0):6} "
                     f"{codes.count(h.IO_ERROR):7} {sum(failed for _, _, failed in rows):6}")
    print("\n".join(lines))


def record(args, case, fired, code, failed):
    if args.summary:
        with open(args.summary, "a") as f:
            f.write(f"{case.rank}\t{case.op}\t{case.at}\t{case.error}\t{int(case.sticky)}\t"
                    f"{int(fired)}\t{code}\t{int(failed)}\n")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shim", required=True, type=os.path.abspath)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--most", type=int, default=1)
    parser.add_argument("--every", action="store_true")
    parser.add_argument("--part", default="1/1")
    parser.add_argument("--summary", help="append one line per case: rank, call, number, error, "
                        "sticky, fired, exit code, failed")
    args = parser.parse_args()
    table = []
    with h.workplace() as folder:
        wanted, seconds = h.undisturbed(folder, SETTINGS)
        args.limit = seconds + ENDS_WITHIN
        check_import(args, folder)
        check_campaign(args, folder)
        base = h.stopped(folder, SETTINGS)
        for case in chosen(args, folder, base):
            failed = len(h.failures)
            h.copy_directory(base, folder / "out")
            settings = CLOSE_SETTINGS if case.op == "close" else SETTINGS
            done = h.train(folder, args.ranks, settings, rank_env=shim(args, folder, *case),
                           limit=args.limit)
            fired = "fired " in (folder / "shim.log").read_text()
            judge(args, folder, wanted, done, case)
            table.append((case, fired, done.code, len(h.failures) > failed))
            record(args, *table[-1])
        fired = sum(row[1] for row in table)
        summarize(table)
        h.check(fired > len(table) // 2, f"only {fired} of {len(table)} faults fired")
        h.finish(f"{fired} of {len(table)} faults fired")


if __name__ == "__main__":
    main()
