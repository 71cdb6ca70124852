#!/usr/bin/python3
"""tutti, PyTorch and JAX on the CPU, all workloads in one run, programs in turn, same threads.

  run_cpu.py [--build build] [--threads 2] [--seconds 5] [--rounds 3] [--workloads A,B,C,E,F]
             [--ways loop,procs,bmm,vmap,scan4] [--python /usr/bin/python3] [--simd auto] [--output FILE]

--ways are those of peers/torch_peers.py and, with scan, of peers/jax_peers.py; --python has these packages.
Each round measures every program once before the next round begins, so that a slow minute of the
machine affects all of them; the table shows the median of the rounds, and tutti's share of the fused
multiply-adds that the threads can do, which bench_engine measures each time (bench/roof.h). Raw lines of JSON go to
bench/results/cpu/<date>-cpu-<processor>.jsonl, the first line describes the machine.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
GOAL = 5.0  # required ratio to the best PyTorch way


def cpu_facts():
    text = pathlib.Path("/proc/cpuinfo").read_text()
    model = re.search(r"^model name\s*: (.*)$", text, re.M)
    flags = re.search(r"^flags\s*: (.*)$", text, re.M)
    return (model[1] if model else platform.machine()), (flags[1].split() if flags else [])


def command_text(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def machine_facts(args):
    model, flags = cpu_facts()
    wanted = ("sse4_2", "avx2", "fma", "avx512f", "avx512_vnni", "amx_tile")
    return {
        "program": "machine",
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "processor": model,
        "cores": os.cpu_count(),
        "flags": [f for f in wanted if f in flags],
        "kernel": platform.release(),
        "compiler": command_text("gcc", "-dumpfullversion"),
        "commit": command_text("git", "-C", str(HERE), "rev-parse", "--short", "HEAD"),
        "load_before": os.getloadavg()[0],
        "threads": args.threads,
        "rounds": args.rounds,
    }


def peer_environment(threads):
    """Best settings of the peers: the vector width of OpenBLAS, whose detection fails for some
    processors, and threads bound to cores."""
    flags = cpu_facts()[1]
    env = dict(os.environ, OMP_NUM_THREADS=str(threads), OPENBLAS_NUM_THREADS=str(threads))
    core = "SkylakeX" if "avx512f" in flags else "Haswell" if "avx2" in flags else None
    if core and "OPENBLAS_CORETYPE" not in env:
        env["OPENBLAS_CORETYPE"] = core
    return env


def make_cases(args, folder):
    """The case of every program, and the losses that it must reproduce."""
    cases = [f"{folder}/{workload}" for workload in args.workloads]
    for workload, case in zip(args.workloads, cases):
        subprocess.run([str(args.engine), "--workload", workload, "--export", case], check=True)
    subprocess.run([args.python, "-B", str(HERE / "peers" / "reference.py"), *cases], check=True,
                   stdout=subprocess.DEVNULL)


def programs(args, workload, folder):
    """(way, command, environment) of everything to be measured."""
    common = ["--case", f"{folder}/{workload}", "--repeats", "1"]
    common += ["--threads", str(args.threads), "--seconds", str(args.seconds)]
    tutti = [str(args.engine), "--workload", workload, "--precision", "fp32", "--simd", args.simd]
    yield "tutti", tutti + common, dict(os.environ, OMP_NUM_THREADS=str(args.threads))
    for way in args.ways:
        script = "jax_peers.py" if way.startswith("scan") else "torch_peers.py"
        peer = [args.python, "-B", str(HERE / "peers" / script), "--way", way]
        yield way, peer + common, peer_environment(args.threads)


def measure(command, env):
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr}")
    line = json.loads(done.stdout.splitlines()[-1])
    if "refused" in line:
        sys.exit(f"{' '.join(command)}: {line['refused']}")
    return line


def run_rounds(args, log, folder):
    """rates[workload][way] = one entry per round: (member-steps/s, GFLOP/s)."""
    rates = {w: {} for w in args.workloads}
    for turn in range(args.rounds):
        for workload in args.workloads:
            for way, command, env in programs(args, workload, folder):
                line = dict(measure(command, env), round=turn)
                log.write(json.dumps(line) + "\n")
                log.flush()
                entry = (line["member_steps_per_s"], line["gflops"], line.get("roof_percent"))
                rates[workload].setdefault(way, []).append(entry)
                print(f"round {turn + 1} {workload} {way:6} {entry[0]:12.0f} member-steps/s "
                      f"{entry[1]:8.2f} GFLOP/s", file=sys.stderr)
    return rates


def table(rates, ways):
    """Markdown, and the smallest ratio tutti / best peer."""
    median = lambda entries, i: statistics.median(e[i] for e in entries)
    lines = ["| workload | tutti member-steps/s | GFLOP/s | % of roof | "
             + " | ".join(f"{w} GFLOP/s" for w in ways) + " | tutti / best peer |",
             "|" + "---|" * (len(ways) + 5)]
    worst = float("inf")
    for workload, by_way in rates.items():
        peers = [median(by_way[w], 1) for w in ways]
        mine = median(by_way["tutti"], 1)
        ratio = mine / max(peers)
        worst = min(worst, ratio)
        lines.append(f"| {workload} | {median(by_way['tutti'], 0):.0f} | {mine:.1f} | "
                     + f"{median(by_way['tutti'], 2):.1f} | "
                     + " | ".join(f"{p:.2f}" for p in peers) + f" | {ratio:.1f} |")
    return "\n".join(lines), worst


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent / "build")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workloads", default="A,B,C,E,F", type=lambda s: s.split(","))
    parser.add_argument("--ways", default="loop,procs,bmm,vmap", type=lambda s: s.split(","))
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--simd", default="auto")
    parser.add_argument("--output", type=pathlib.Path)
    args = parser.parse_args()
    args.engine = args.build / "bench" / "bench_engine"
    if not args.engine.exists():
        parser.error(f"{args.engine} is missing: cmake --build {args.build} --target bench_engine")
    return args


def main():
    args = parse()
    facts = machine_facts(args)
    plain = re.sub(r"\(R\)|\(TM\)|CPU|Processor", "", facts["processor"])
    short = re.sub(r"[^A-Za-z0-9]+", "-", plain)
    name = f"{facts['date'][:10]}-cpu-{short.strip('-')}.jsonl"
    output = args.output or HERE / "results/cpu" / name
    output.parent.mkdir(parents=True, exist_ok=True)
    with open(output, "w") as log, tempfile.TemporaryDirectory() as folder:
        log.write(json.dumps(facts) + "\n")
        make_cases(args, folder)
        rates = run_rounds(args, log, folder)
    text, worst = table(rates, args.ways)
    print(f"{facts['processor']}, {args.threads} threads, median of {args.rounds} rounds\n")
    print(text + "\n")
    print(f"smallest ratio {worst:.1f}, goal {GOAL:.0f}; raw data: {output}")


if __name__ == "__main__":
    main()
