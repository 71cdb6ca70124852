#!/usr/bin/python3
"""train.sbatch with a large member: two nodes train it together, in parts of a batch. The time limit
of the job stops them, and it is queued again. While it waits, its user asks for three nodes and for
stages of layers: it continues from the checkpoint and ends with the bits of one rank. Before that,
two-gpus.sbatch of examples/resnet: two ranks of a node, each with some of the layers."""
import slurm_rig as rig
from slurm_rig import h

SCIENCE = ["train.parts=4", "train.batch_size=64", "train.epochs=8"]
MARGIN = "stop_margin: 1h"  # longer than the job: it stops as soon as it can
PARTS = f"run: {{ranks_per_member: 2, {MARGIN},"
STAGES = "run: {stages: 3,"
PLAN = 'tutti plan --ranks "$SLURM_NTASKS" "${run[@]}"'  # how the ranks share a member


def write_job(folder, run):
    (folder / "job.yaml").write_text(h.JOB.replace("run: {", run))


def more_nodes(job):
    """What a user does with a job that waits in the queue. "3" alone would be the least number only."""
    rig.wait_for("the job to be queued again",
                 lambda: rig.restarts(job) == 1 and rig.state(job) == "PENDING")
    rig.command("scontrol", "update", f"jobid={job}", "NumNodes=3-3", "NumTasks=3", "NumCPUs=3",
                good=True)


def check_log(log):
    """Each start says how its ranks share a member."""
    first, _, second = log.partition(": queued again")
    for text, words in ((first, "4 parts of a batch are dealt 2 + 2"), (first, "the time limit"),
                        (second, "3 layers in 3 stages: 1 + 1 + 1"),
                        (second, "tutti: resumed from checkpoint"), (second, ": it is done")):
        h.check(words in text, f"\"{words}\" is not in\n{text}")


def check_two_gpus(folder, wanted):
    text = rig.script("../examples/resnet/two-gpus.sbatch", 2, [*SCIENCE, "run.directory=two"])
    job = rig.submit(folder, "two", text, "--partition=sites", "--time=10")
    rig.check_done(job, folder / "two", wanted, "two", rig.output(folder, "two", job))
    log = rig.output(folder, "two", job)
    h.check("3 layers in 2 stages: 1 + 2" in log, f"no two stages in\n{log}")


def main():
    with rig.workplace() as folder:
        wanted = rig.local_run(folder, "wanted", SCIENCE)
        check_two_gpus(folder, wanted)
        write_job(folder, PARTS)
        text = rig.script("train.sbatch", 1, [*SCIENCE, "run.directory=large"])
        text = text.replace('"${launch[@]}"', f'{PLAN}\n"${{launch[@]}}"')
        job = rig.submit(folder, "large", text, "--partition=sites", "--time=10", "--nodes=2",
                         "--exclusive", "--distribution=block:block")
        rig.wait_for("a stop by the time limit", lambda: rig.starts(folder / "large"))
        write_job(folder, STAGES)
        more_nodes(job)
        rig.check_done(job, folder / "large", wanted, "large", rig.output(folder, "large", job))
        check_log(rig.output(folder, "large", job))
        h.check(int(rig.describe(job)["NumNodes"]) == 3, f"nodes: {rig.describe(job)}")
        h.finish("2 starts of one job")


if __name__ == "__main__":
    main()
