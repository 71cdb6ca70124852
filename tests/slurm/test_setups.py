#!/usr/bin/python3
"""Wrong starts under Slurm: each has a message with the remedy, and its exit code, before any work
is done; `tutti doctor` reports the same problem."""
import os

import slurm_rig as rig
from slurm_rig import h

DOUBLE = os.environ.get("TUTTI_ON_DOUBLE")
SRUN = ["srun", "-Q", "-t10", "-K1"]
FORGOTTEN = ["salloc", "-Q", "-t10", "-n2"]  # and no srun
UNAVAILABLE = 69


def expect(folder, what, command, code, words, launch=SRUN):
    """The message is printed once, not by every rank, and no file was created."""
    done = rig.command(*launch, *command, folder=folder)
    text = done.stdout + done.stderr
    h.check(done.returncode == code, f"{what}: exit {done.returncode}, not {code}\n{text}")
    for word in words:
        h.check(word in text, f"{what}: \"{word}\" is not in\n{text}")
    h.check(text.count(words[0]) == 1, f"{what}: printed {text.count(words[0])} times\n{text}")
    h.check(code == 0 or not (folder / "out").exists(), f"{what}: the run has started")


def both(folder, what, options, words, program=None, env=(), settings=(), launch=SRUN):
    """train and doctor."""
    sets = [w for s in settings for w in ("--set", s)]
    start = [*options, "env", *env, program or h.TUTTI]
    expect(folder, what, [*start, "train", "job.yaml", *sets], UNAVAILABLE, words, launch)
    expect(folder, f"{what}, doctor", [*start, "doctor", "job.yaml", *sets], UNAVAILABLE, words,
           launch)


def main():
    with rig.workplace() as folder:
        both(folder, "no PMIx", ["-n2", "--mpi=none"], ["without PMIx (--mpi=none)", "--mpi=pmix"])
        text = rig.command(*SRUN, "-n2", "--mpi=pmi2", h.TUTTI, "train", "job.yaml", folder=folder)
        h.check(text.returncode != 0 and "--mpi=pmix" in text.stderr, f"pmi2\n{text.stderr}")
        both(folder, "srun forgotten", [], ["this MPI world has one rank", "srun --mpi=pmix"],
             launch=FORGOTTEN)
        crowd = ["2 threads on 1 core:", "--cpus-per-task=2"]
        one = ["taskset", "-c", str(min(os.sched_getaffinity(0))), h.TUTTI]
        sets = ["--set", "run.threads=2"]
        expect(folder, "too few CPUs, doctor",
               ["-n1", "--mpi=pmix", *one, "doctor", "job.yaml", *sets], UNAVAILABLE, crowd)
        expect(folder, "too few CPUs", ["-n1", "--mpi=pmix", *one, "train", "job.yaml", *sets,
                                        "--set", "run.directory=crowd"], 0, crowd)
        if DOUBLE and os.access(DOUBLE, os.X_OK):
            gpus = ["run.device=auto", "train.epochs=1"]
            both(folder, "too many ranks for the GPUs", ["-n2", "--mpi=pmix"],
                 ["2 ranks of this node see the same 1 GPU", "--ntasks-per-node=1"], DOUBLE,
                 ["TT_DOUBLE_DEVICES=1"], gpus)
            both(folder, "no GPU to be seen", ["-n1", "--mpi=pmix", "--gpus-per-node=2"],
                 ["Slurm gave this job 2 GPUs", "--gpu-bind=none"], DOUBLE,
                 ["TT_DOUBLE_DEVICES=0"], gpus)
        h.finish("6 wrong starts")


if __name__ == "__main__":
    main()
