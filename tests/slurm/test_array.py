#!/usr/bin/python3
"""An array of eight seeds, of which a partition of higher priority preempts a different one each
time, and a prediction that waits for all of them."""
import slurm_rig as rig
from slurm_rig import h

TASKS, PREEMPTIONS = 8, 2
EPOCHS = (4000, 16000, 64000)  # the next one if all tasks end before a preemption


def array(folder, epochs):
    text = rig.script("train-array.sbatch")
    text = text.replace('run=("$job"', f'run=("$job" --set {epochs} --set checkpoint.every=50ms')
    text = text.replace("/out-$task", "/out$task")
    return rig.submit(folder, "array", text, "--time=10", "--partition=prey")


def predict(folder, job):
    text = rig.script("predict.sbatch").replace("model=out/", "model=out3/")
    text = text.replace("data=new.h5", "data=data.h5")
    return rig.submit(folder, "predict", text, f"--dependency=afterok:{job}",
                      "--kill-on-invalid-dep=yes", "--partition=prey", "--time=10")


def stopped(folder):
    """Tasks that have been stopped by a signal so far."""
    return {t for t in range(TASKS)
            for start in rig.starts(folder / f"out{t}") if start["stopped_by"] == "signal"}


def over(folder):
    return all(h.is_complete(folder / f"out{t}") for t in range(TASKS))


def preempt(folder, number):
    """A job that needs one processor of the full partition and keeps it until its end. None if all
    tasks had ended before."""
    before = stopped(folder)
    job = rig.submit(folder, f"high{number}", "#!/bin/bash\nsleep 600\n", "--partition=high",
                     "--ntasks=1", "--time=10", "--output=/dev/null")
    rig.wait_for(f"preemption {number}", lambda: stopped(folder) - before or over(folder))
    if not stopped(folder) - before:
        return None
    rig.wait_for(f"job {job} to run", lambda: rig.state(job) == "RUNNING")
    return job


def preempted(epochs):
    """False if the tasks ended too soon."""
    with rig.workplace() as folder:
        job = array(folder, epochs)
        chain = predict(folder, job)
        for task in range(TASKS):
            rig.wait_for(f"task {task}", lambda t=task: h.status_of(folder / f"out{t}"))
        high = [preempt(folder, n) for n in range(PREEMPTIONS)]
        if not all(high):
            return False
        victims = stopped(folder)
        h.check(len(victims) >= PREEMPTIONS, f"only tasks {victims} were preempted")
        rig.command("scancel", *high, good=True)
        for task in range(TASKS):
            name, number = f"out{task}", f"{job}_{task}"
            settings = [epochs, f"run.seed={task}"]
            wanted = rig.local_run(folder, f"wanted{task}", settings) if task in victims else None
            log = rig.output(folder, "array", number)
            h.check(rig.wait_end(number) == "COMPLETED", f"{number}: {rig.state(number)}\n{log}")
            h.check(h.is_complete(folder / name), f"{number}: no results")
            rows = rig.starts(folder / name)
            h.check(all(row["job"] == number for row in rows), f"{number}: starts {rows}")
            if wanted:
                h.check_same(folder / name, wanted, f"task {task}, preempted")
        h.check(rig.wait_end(chain) == "COMPLETED", f"prediction: {rig.state(chain)}")
        h.check((folder / "pred.h5").exists(), rig.output(folder, "predict", chain))
        print(f"{TASKS} tasks, {epochs}, preempted: {sorted(victims)}")
    return True


def main():
    met = any(preempted(f"train.epochs={n}") for n in EPOCHS)
    h.check(met, f"{EPOCHS[-1]} epochs ended before a preemption")
    h.finish("arrays")


if __name__ == "__main__":
    main()
