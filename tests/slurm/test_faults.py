#!/usr/bin/python3
"""Jobs that end early: a lost node, a killed rank, scancel, scontrol requeue, a second start of the
same run, a STOP file. Each ends soon, with a valid checkpoint, and is requeued if it should be; run
to its end it has the bits of an undisturbed run."""
import os
import signal

import cluster
import slurm_rig as rig
from slurm_rig import h

WORK = ["train.epochs=20000", "checkpoint.every=20ms"]


def submit(folder, name, ranks=1, *options, more=()):
    text = rig.script("train.sbatch", ranks, [*WORK, f"run.directory={name}", *more])
    return rig.submit(folder, name, text, "--time=10", *options)


def read(path):
    try:
        return open(path, errors="replace").read()
    except OSError:
        return ""


def processes_of(job):
    """Process numbers of everything that a job has started, its ranks last."""
    found = []
    for pid in (p for p in os.listdir("/proc") if p.isdigit()):
        world = read(f"/proc/{pid}/environ").split("\0")
        if f"SLURM_JOB_ID={job}" in world or f"slurmstepd: [{job}." in read(f"/proc/{pid}/cmdline"):
            rank = "SLURM_STEP_ID=0" in world and "\0train\0" in read(f"/proc/{pid}/cmdline")
            found.append((rank, int(pid)))
    return [pid for _, pid in sorted(found)]


def kill_rank(folder):
    """SIGKILL of one of two ranks: srun -K1 ends the other; it had checkpoints, so it is
    requeued."""
    job = submit(folder, "killed", 2)
    rig.wait_generation(folder / "killed", 2)
    h.send(processes_of(job)[-1], signal.SIGKILL)
    return job


def lose_node(folder):
    """The slurmd of the only node is killed with all its children; the test then sets the node
    down, as the health check of a center does. Slurm requeues the job on the other node."""
    job = submit(folder, "lost", 1, "--partition=frail")
    rig.wait_generation(folder / "lost", 2)
    node = rig.describe(job)["NodeList"]
    for pid in [int((rig.RUN / "pid" / f"slurmd.{node}").read_text()), *processes_of(job)]:
        h.send(pid, signal.SIGKILL)
    rig.command("scontrol", "update", f"nodename={node}", "state=down", "reason=killed", good=True)
    rig.wait_for("the job to leave the node", lambda: rig.describe(job)["NodeList"] != node)
    h.check(rig.restarts(job) == 1, f"lost node: {rig.restarts(job)} restarts")
    return job, node


def bring_back(node):
    """Restore the node for the next run of this test on the same cluster."""
    cluster.start_node(rig.RUN, node)

    def is_up():
        """A node that registers may return by itself or needs `scontrol update state=resume`, which
        fails for a node that is up."""
        if "down" in rig.command("sinfo", "-h", "-N", "-n", node, "-o", "%T", good=True).stdout:
            rig.command("scontrol", "update", f"nodename={node}", "state=resume")
            return False
        return True

    rig.wait_for(f"node {node} to come back", is_up)


def requeue_from_outside(folder):
    """scontrol requeue kills all processes at once, also during a write."""
    job = submit(folder, "outside", 1)
    rig.wait_generation(folder / "outside", 3)
    rig.command("scontrol", "requeue", job, good=True)
    return job


def signal_the_step(folder):
    """scancel --signal=USR1 reaches the ranks only: stopped, and requeued once."""
    job = submit(folder, "asked", 2)
    rig.wait_generation(folder / "asked")
    rig.command("scancel", "--signal=USR1", job, good=True)
    return job


def check_again(folder, job, name, wanted, said):
    rig.check_done(job, folder / name, wanted, name, rig.output(folder, name, job))
    log = rig.output(folder, name, job)
    h.check(rig.restarts(job) == 1, f"{name}: {rig.restarts(job)} restarts\n{log}")
    h.check("tutti: resumed from checkpoint" in log, f"{name}: not resumed\n{log}")
    for words in said:
        either = (words,) if isinstance(words, str) else words
        h.check(any(one in log for one in either), f"{name}: \"{words}\" is not in\n{log}")


def check_canceled(folder, wanted):
    """scancel: the job ends and is not requeued; submitted again it continues."""
    job = submit(folder, "gone", 2)
    rig.wait_generation(folder / "gone", 2)
    rig.command("scancel", job, good=True)
    h.check(rig.wait_end(job) == "CANCELLED", f"scancel: {rig.state(job)}")
    h.check(h.newest(folder / "gone") > 0, "scancel: no checkpoint")
    job = submit(folder, "gone", 1)
    rig.check_done(job, folder / "gone", wanted, "submitted again after scancel")
    h.check("tutti: resumed from checkpoint" in rig.output(folder, "gone", job), "not resumed")


def check_stop_file(folder):
    job = submit(folder, "person", 1)
    rig.wait_generation(folder / "person")
    (folder / "person" / "STOP").touch()
    h.check(rig.wait_end(job) == "FAILED", f"STOP: {rig.state(job)}")
    log = rig.output(folder, "person", job)
    h.check(rig.exit_code(job) == 75 and rig.restarts(job) == 0, f"STOP:\n{log}")
    h.check("a person stopped it" in log, f"STOP:\n{log}")


def check_refused(folder):
    """A job with another seed in the directory of a running one: it fails and changes nothing."""
    before = h.status_of(folder / "twice")
    text = rig.script("train.sbatch", 1, [*WORK, "run.directory=twice", "run.seed=7"])
    other = rig.submit(folder, "other", text, "--time=10")
    h.check(rig.wait_end(other) == "FAILED", f"refused: the other is {rig.state(other)}")
    log = rig.output(folder, "other", other)
    h.check(rig.exit_code(other) == 65 and rig.restarts(other) == 0, f"refused:\n{log}")
    h.check("run.seed is 11 there and 7 here" in log, f"refused: not explained\n{log}")
    h.check(h.status_of(folder / "twice") == before, "refused: status.json changed")


def check_fence(folder, wanted):
    """Two jobs of one run, the earlier one stopped (SIGSTOP) while the later one takes the
    directory over: after SIGCONT both run, and only the later one commits. The earlier one is not
    requeued."""
    first = submit(folder, "twice", 1)
    rig.wait_generation(folder / "twice")
    rank = processes_of(first)[-1]
    h.send(rank, signal.SIGSTOP)
    check_refused(folder)
    text = rig.script("train.sbatch", 1, [*WORK, "run.directory=twice"])
    second = rig.submit(folder, "second", text, "--time=10")
    rig.wait_for("the second to take over", lambda: h.status_of(folder / "twice").get(
        "incarnation", "").startswith(f"{second}.0."))
    h.send(rank, signal.SIGCONT)
    h.check(rig.wait_end(first) == "FAILED", f"fence: the first is {rig.state(first)}")
    log = rig.output(folder, "twice", first)
    h.check("has taken the directory over" in log and rig.restarts(first) == 0, f"fence:\n{log}")
    h.check("is of another start" in log, f"fence: not explained\n{log}")
    rig.check_done(second, folder / "twice", wanted, "fence: the second",
                   rig.output(folder, "second", second))


def main():
    with rig.workplace() as folder:
        wanted = rig.local_run(folder, "wanted", WORK)
        killed, (lost, node) = kill_rank(folder), lose_node(folder)
        outside, asked = requeue_from_outside(folder), signal_the_step(folder)
        check_canceled(folder, wanted)
        check_stop_file(folder)
        check_fence(folder, wanted)
        check_again(folder, killed, "killed", wanted,
                    [("training at checkpoint", "hung at checkpoint"), ": queued again"])
        check_again(folder, lost, "lost", wanted, [])
        bring_back(node)
        check_again(folder, outside, "outside", wanted, [])
        check_again(folder, asked, "asked", wanted, ["SIGUSR1", ": queued again", ": it is done"])
        h.finish("8 ways to end a job")


if __name__ == "__main__":
    main()
