#!/usr/bin/python3
"""One job with every training method: retries, ensemble early stopping, heads. The
same bits on 1 and 3 ranks, and when stopped on 2, killed on 3 and resumed on 1; the results show that
each method was used.
"""
import os
import signal
import sys
import time

for folder in ("faults", "rig"):
    sys.path.insert(0, __file__.rpartition("/tests/")[0] + "/tests/" + folder)
import harness
from harness import check, h5py, np
from nets import layers_of

JOB = """\
title: every way to train
data:  {file: data.h5, split: {train: 0.7, validation: 0.15, test: 0.15, seed: 3}}
model: {hidden: [8]}
ensembles:
  - {name: again, target: y0, members: 3,
     train: {optimizer: sgd, on_diverged: {retries: 2, lr_scale: 1e-6}},
     sweep: {learning_rate: {list: [0.01, 1e4, 0.01]}}}
  - {name: stops, target: y1, members: 4, model: {hidden: [24]}, train: {patience: 3, learning_rate: 0.05}}
  - {name: heads, target: y1, members: 2, model: {heads: 3}, train: {average: ema, patience: 9}}
train: {loss: mse, learning_rate: 2e-2, batch_size: 32, epochs: 90}
checkpoint: {every: 1h, keep: 2}
run: {seed: 11, device: cpu, threads: 1, directory: out}
"""


def kill_after(folder, ranks, generation, directory):
    """Train, and kill all ranks when a checkpoint exists; True if the run was killed in time."""
    arguments = harness.train_arguments(["checkpoint.every=10ms", f"run.directory={directory}"])
    process = harness.start(folder, ranks, arguments)
    end = time.monotonic() + 30
    while process.poll() is None and time.monotonic() < end:
        if harness.newest(folder / directory) >= generation:
            os.killpg(process.pid, signal.SIGKILL)
            break
        time.sleep(0.002)
    harness.reap(process)
    return not harness.is_complete(folder / directory)


def of(f, name, ensemble):
    """Values of the members of one ensemble."""
    owner = [b"".join(row).strip(b"\0 ").decode() for row in f["ensemble"][()]]
    return f[name][()][np.array([o == ensemble for o in owner])]


def check_results(path):
    with h5py.File(path, "r") as f:
        check(list(of(f, "attempts", "again")) == [0, 1, 0], "the diverging member restarted once")
        check(set(of(f, "status", "again")) == {1}, "the diverging member finished")
        check(np.allclose(of(f, "learning_rate", "again"), [0.01, 1e4 * 1e-6, 0.01]),
              "learning_rate is that of the last attempt")
        check(list(of(f, "head", "heads")) == [1, 2, 3] * 2, "heads in order")
        check(list(of(f, "member_index", "heads")) == [0, 0, 0, 1, 1, 1], "members of the heads")
        errors = of(f, "test_rmse", "heads")
        check(len(np.unique(np.nanmax(errors, 1))) == 6, f"six heads, six errors: {errors}")
        at = f["provenance"].attrs
        check(at["member_epochs_trained"] < at["member_epochs_planned"], "something was saved")


def check_heads(path):
    """The heads of a member share its hidden layer; each has an output layer of its own."""
    with h5py.File(path, "r") as f:
        nets = [layers_of(f, c) for c in range(len(f["net/n_layers"]))]
        (trunk, _), (output, _) = next(
            n for n in nets if len(n) == 2 and n[0][0].shape[:2] == (6, 8)
            and np.array_equal(n[0][0][0], n[0][0][1]))
        check(np.array_equal(trunk[0], trunk[2]) and np.array_equal(trunk[3], trunk[5]), "one trunk")
        check(not np.array_equal(trunk[2], trunk[3]), "another trunk for the other member")
        check(len(np.unique(output, axis=0)) == 6, "six output layers")


def main():
    with harness.workplace() as folder:
        (folder / "job.yaml").write_text(JOB)
        wanted, _ = harness.undisturbed(folder, ranks=0)
        check_results(wanted / "results.h5")
        check_heads(wanted / "model.h5")
        got, _ = harness.undisturbed(folder, ranks=3, name="three")
        harness.check_same(got, wanted, "3 ranks")
        stopped = harness.train(folder, 2, ["run.directory=killed", "run.max_time=10ms"])
        check(stopped.code == harness.STOPPED, f"stopped early: exit {stopped.code}")
        if not kill_after(folder, 3, harness.newest(folder / "killed") + 1, "killed"):
            print("the run was over before it could be killed")
        done = harness.train(folder, 0, ["run.directory=killed"])
        check(done.code == harness.DONE, f"resumed: exit {done.code}\n{done.output}")
        harness.check_same(folder / "killed", wanted, "killed and resumed")
    harness.finish("every training method")


main()
