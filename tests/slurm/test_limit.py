#!/usr/bin/python3
"""Jobs whose time limit is shorter than their work: they stop in time, are requeued and end with
the bits of an undisturbed run; the number of restarts is limited."""
import re

import slurm_rig as rig
from slurm_rig import h

# The shortest time limit of Slurm is a minute; nearly all of it is reserved for the last
# checkpoint.
LIVES = ["run.stop_margin=58s", "checkpoint.every=1h"]
WORK = 6.2  # least seconds of training in the whole job: three starts have at most two each
LONGER = (1, 3, 9, 27)  # factor on the epochs if the job is too short on this machine
ENDLESS = "train.epochs=16000000"
SAID = re.compile(r"^tutti: job (\d+), restart (\d+): (\w+) at checkpoint (\d+)(.*)$", re.M)


def enough_work(folder):
    """A local run of at least WORK seconds, and its epochs."""
    epochs, seconds = 1000, 0
    while seconds < WORK:
        epochs = int(epochs * max(1.1, min(8, 1.1 * WORK / seconds if seconds else 1.1)))
        wanted = rig.local_run(folder, f"wanted{epochs}", [f"train.epochs={epochs}"])
        seconds = h.status_of(wanted)["seconds"]
    return wanted, epochs


def short(name, epochs):
    """A script whose starts end by the time limit of the job only."""
    text = rig.script("train.sbatch", 1, [epochs, *LIVES, f"run.directory={name}"])
    return text.replace("#SBATCH --signal=USR1@300\n", "")


def started_again(folder, name, epochs):
    """The number of a job that was requeued and ran to its end."""
    job = rig.submit(folder, name, short(name, epochs), "--time=1")
    h.check(rig.wait_end(job) == "COMPLETED", f"several starts: {rig.state(job)}")
    return job


def several_starts(folder):
    wanted, epochs = enough_work(folder)
    for longer in LONGER:
        name, settings = f"several{longer}", f"train.epochs={longer * epochs}"
        job = started_again(folder, name, settings)
        if rig.restarts(job) >= 3:
            break
    if longer > 1:
        wanted = rig.local_run(folder, f"wanted{longer}x", [settings])
    log = rig.output(folder, name, job)
    h.check_same(folder / name, wanted, "several starts")
    said, rows = SAID.findall(log), rig.starts(folder / name)
    again = rig.restarts(job)
    h.check(again >= 3, f"several starts: only {again} restarts\n{log}")
    h.check([int(row[1]) for row in said] == list(range(again + 1)), f"one line per start:\n{log}")
    h.check([int(row[3]) for row in said] == sorted({int(row[3]) for row in said}),
            f"every start has a new checkpoint:\n{log}")
    for row in said[:-1]:
        h.check("the time limit" in row[4] and row[4].endswith(": queued again"), f"{row}")
    h.check(said[-1][4].endswith(": it is done"), f"{said[-1]}")
    h.check(len(rows) == again + 1 and rows[-1]["state"] == "done", f"starts.tsv: {rows}")
    h.check(log.count("tutti: resumed from checkpoint") == again, f"resumed every time:\n{log}")
    return again


def capped(folder):
    """--max-restarts 1: the second start is the last one."""
    text = short("capped", ENDLESS).replace("--max-restarts 50", "--max-restarts 1")
    return rig.submit(folder, "capped", text, "--time=1")


def check_capped(folder, job):
    h.check(rig.wait_end(job) == "FAILED", f"capped: {rig.state(job)}")
    log = rig.output(folder, "capped", job)
    h.check(rig.restarts(job) == 1, f"capped: {rig.restarts(job)} restarts\n{log}")
    h.check(rig.exit_code(job) == 75, f"capped: exit {rig.exit_code(job)}")
    h.check("this was restart 1 of at most 1" in log, f"capped:\n{log}")


STUCK = """
stuck() {
  mkdir -p stuck
  printf '{\\n  "state": "hung",\\n  "reason": "made up",\\n  "stop": "",\\n' > stuck/status.json
  printf '  "incarnation": "%s.%s.host.0",\\n' "$SLURM_JOB_ID" "${SLURM_RESTART_COUNT:-0}" \\
    >> stuck/status.json
  printf '  "exit_code": 75,\\n  "generation": 4,\\n  "resumed": 4\\n}\\n' >> stuck/status.json
}
"""


def stuck(folder):
    """Three starts that end at one checkpoint are the limit; a shell function in place of the
    program makes them."""
    text = rig.script("train.sbatch", 1, ["run.directory=stuck"], launch="stuck")
    text = text.replace("launch=(stuck)", f"{STUCK}launch=(stuck)")
    return rig.submit(folder, "stuck", text, "--time=1")


def check_stuck(folder, job):
    h.check(rig.wait_end(job) == "FAILED", f"stuck: {rig.state(job)}")
    log = rig.output(folder, "stuck", job)
    h.check(rig.restarts(job) == 2, f"stuck: {rig.restarts(job)} restarts\n{log}")
    h.check("3 starts have ended at this checkpoint" in log, f"stuck:\n{log}")
    h.check(rig.exit_code(job) == 75, f"stuck: exit {rig.exit_code(job)}")


def signaled(folder):
    """--signal: Slurm sends USR1 before the end, up to a minute early; here 5 to 65 s after the
    start, which the run's own limit must not forestall."""
    settings = [ENDLESS, "run.directory=signaled", "run.max_time=1h"]
    text = rig.script("train.sbatch", 1, settings).replace("USR1@300", "USR1@55")
    return rig.submit(folder, "signaled", text, "--time=2")


def check_signaled(folder, job):
    rows = rig.wait_for("USR1 before the end", lambda: rig.starts(folder / "signaled"))
    rig.command("scancel", job)
    h.check((rows[0]["stopped_by"], rows[0]["decision"]) == ("signal", "queued again"), f"{rows}")
    log = rig.output(folder, "signaled", job)
    h.check("SIGUSR1" in log and int(rows[0]["checkpoint"]) > 0, f"signaled: {rows}\n{log}")


def main():
    with rig.workplace() as folder:
        jobs = signaled(folder), stuck(folder), capped(folder)
        again = several_starts(folder)
        check_signaled(folder, jobs[0])
        check_stuck(folder, jobs[1])
        check_capped(folder, jobs[2])
        h.finish(f"{again + 1} starts of one job")


if __name__ == "__main__":
    main()
