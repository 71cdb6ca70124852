#!/usr/bin/python3
"""`tutti train` that is killed after a checkpoint and started again: the bits of a run that was not
disturbed, on every path; and an RMSE near that of the cpu engine.

    restart.py [--device gpu|cpu] TUTTI

Exit status 77, with the reason, without a GPU or h5py. --device cpu tests this script.
"""
import argparse
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import ranks

JOB = """\
data: {file: energy.h5, split: {train: 0.8, validation: 0.1, test: 0.1, seed: 7}}
model: {hidden: [20, 18], activation: silu, output: mean_variance}
ensembles: [{name: heating, target: heating_load, members: 6}]
train: {loss: gaussian_nll, batch_size: 64, epochs: 4000, resample: bootstrap}
checkpoint: {every: 200ms}
run: {seed: 3, threads: 1, directory: out}
"""
RATIO = 1.5  # of two RMSEs, at most: they differ by the rounding of 4,000 epochs


def command(args, out, settings):
    return ranks.command(args, settings, "--set", f"run.directory={out}")


def finish(args, folder, out, settings):
    """Train to the end. False if tutti cannot use this path."""
    done = ranks.run(command(args, out, settings), folder)
    if done.returncode == ranks.UNAVAILABLE and "cannot train" in done.stderr:
        return False
    if done.returncode:
        sys.exit(f"{settings}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return True


def kill_after_a_checkpoint(args, folder, out, settings):
    process = subprocess.Popen(command(args, out, settings), cwd=folder)
    while process.poll() is None and not list(out.glob("ckpt-*.h5")):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    if (out / "model.h5").exists():
        sys.exit(f"{settings}: the run ended before its first checkpoint: nothing was tested")


def rmse(out):
    with ranks.h5py.File(out / "results.h5", "r") as f:
        return float(f["ensemble_rmse"][0])


def try_path(args, folder, settings):
    """RMSE of a killed run that equals an undisturbed one; None if tutti cannot use this path."""
    name = ranks.name_of(settings).replace("=", "_").replace(" ", "_")
    whole, killed = folder / f"{name}_whole", folder / f"{name}_killed"
    if not finish(args, folder, whole, settings):
        print(f"  {name}: not for these members")
        return None
    kill_after_a_checkpoint(args, folder, killed, settings)
    finish(args, folder, killed, settings)
    wrong = ranks.differences(whole, killed)
    if wrong:
        sys.exit(f"{settings}: differs after a restart in {', '.join(wrong)}")
    print(f"  {name}: the same bits after SIGKILL and a restart, RMSE {rmse(whole):.3f}")
    return rmse(whole)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="gpu", choices=("gpu", "cpu"))
    parser.add_argument("tutti")
    args = parser.parse_args()
    args.tutti = os.path.realpath(args.tutti)
    ranks.skip_without(args, need_h5py=True)
    with tempfile.TemporaryDirectory(prefix="tutti-") as folder:
        folder = pathlib.Path(folder)
        ranks.import_table(args, folder)
        (folder / "job.yaml").write_text(JOB)
        finish(args, folder, folder / "cpu", ["--set", "run.device=cpu"])
        want = rmse(folder / "cpu")
        for settings in ranks.combinations(args, precisions=False):
            got = try_path(args, folder, settings)
            if got is not None and not want / RATIO < got < want * RATIO:
                sys.exit(f"{settings}: RMSE {got}, that of the cpu engine is {want}")


if __name__ == "__main__":
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    main()
