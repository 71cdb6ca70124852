#!/usr/bin/python3
"""`tutti train` on 1 and on 3 ranks that share one GPU: the same bits in model.h5 and results.h5.

    ranks.py [--device gpu|cpu] TUTTI MPIRUN...

For every path, and every precision that `tutti options` names. Exit status 77, with the reason, without a
GPU, or without both h5py and h5diff. --device cpu tests this script, and the same law of the cpu
engine; --h5diff uses h5diff although there is h5py.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, __file__.rpartition("/tests/")[0] + "/tests/rig")
from rig import differences, skip

UNAVAILABLE = 69
TABLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "energy" / "energy.csv"
JOB = """\
data: {file: energy.h5, split: {train: 0.8, validation: 0.1, test: 0.1, seed: 7}}
model: {hidden: [20, 18], activation: silu, output: mean_variance}
ensembles: [{name: heating, target: heating_load, members: 5},
            {name: cooling, target: cooling_load, members: 4}]
train: {loss: gaussian_nll, batch_size: 64, epochs: 1, resample: bootstrap}
run: {seed: 3, threads: 1, directory: out}
"""
INPUTS = ("relative_compactness,surface_area,wall_area,roof_area,overall_height,orientation,"
          "glazing_area,glazing_area_distribution")
RANKS = (1, 3)
PATHS = ("warp", "block", "layered", "cluster")  # TT_GPU_PATHS
TEAM = ["--set", "train.parts=4", "--set", "run.ranks_per_member=3"]


try:
    import h5py
except ImportError:
    h5py = None


def run(command, folder):
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240)


def choices(tutti, option):
    """The values of an option; none if there is no such option."""
    text = run([tutti, "options"], ".").stdout
    found = re.search(rf"^  {re.escape(option)}\n(?:      .*\n)*?      one of (.*?) \(", text, re.M)
    return found[1].split(", ") if found else []


def combinations(args, precisions=True):
    """The settings, as lists for `command`: every path, in every precision or in fp32; a
    team of all ranks."""
    base = ["--set", f"run.device={args.device}"]
    if args.device == "cpu":
        return [base, base + TEAM]
    precisions = choices(args.tutti, "run.precision") if precisions else []
    parts = [["--set", f"run.precision={word}"] for word in precisions] or [[]]
    all_paths = [[f"TUTTI_GPU_PATH={path}", *base, *part] for path in PATHS for part in parts]
    return all_paths + [base + TEAM + ["--set", "run.precision=tf32"]]


def command(args, settings, *words):
    """`tutti train` with the settings: variables of the environment, words of the command line."""
    sets = [word for word in settings if not word.startswith("TUTTI_")]
    variables = settings[:len(settings) - len(sets)]
    return ["env", *variables, args.tutti, "train", "job.yaml", "--quiet", *words, *sets]


def name_of(settings):
    return " ".join(word for word in settings if "=" in word)


def skip_without(args, need_h5py):
    """Ends the program where there is no reader of HDF5 files, or no GPU to be tested."""
    if not h5py and (need_h5py or not shutil.which("h5diff")):
        skip("Debian: python3-h5py; missing: h5py" + ("" if need_h5py else ", h5diff"))
    if args.device == "cpu":
        return
    looked = run([args.tutti, "doctor"], ".").stdout
    if " cuda " not in looked.split("\n\n")[0]:
        skip("no GPU: " + (re.findall(r"^\d+\. (.*)|^(built without CUDA)", looked, re.M)
                           or [("tutti doctor finds none", "")])[0][0])


def import_table(args, folder):
    """energy.h5 in `folder`."""
    made = run([args.tutti, "import", str(TABLE), "-o", "energy.h5", "--inputs", INPUTS,
                "--targets", "heating_load,cooling_load"], folder)
    if made.returncode:
        sys.exit(made.stderr)


def train(args, folder, ranks, settings):
    """The directory of its files; None if tutti cannot use this path."""
    out = pathlib.Path(folder) / f"out{ranks}"
    done = run([*args.mpirun, str(ranks), *command(args, settings, "--resume", "never", "--set",
                                                   "run.share_gpu=true", "--set", f"run.directory={out}")], folder)
    if done.returncode == UNAVAILABLE and "cannot train" in done.stderr:
        print(f"  {name_of(settings)}: {done.stderr.strip().splitlines()[0]}")
        return None
    if done.returncode:
        sys.exit(f"{ranks} ranks, {settings}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return out


def compare_with_h5diff(one, other, settings):
    """h5diff has no option for bits: it compares values, and 0 with -0 as the same."""
    for name in ("model.h5", "results.h5"):
        done = run(["h5diff", "--exclude-path=/provenance", "--exclude-attribute=/",
                    str(one / name), str(other / name)], ".")
        if done.returncode:
            sys.exit(f"{settings}: {name} of {RANKS} ranks differ\n{done.stdout}{done.stderr}")
    print(f"  {name_of(settings)}: the same values on {RANKS} ranks (h5diff)")


def compare(one, other, settings):
    wrong = differences(one, other)
    if wrong:
        sys.exit(f"{settings}: {RANKS} ranks differ in {', '.join(wrong)}")
    print(f"  {name_of(settings)}: the same bits on {RANKS} ranks")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="gpu", choices=("gpu", "cpu"))
    parser.add_argument("--h5diff", action="store_true")
    parser.add_argument("tutti")
    parser.add_argument("mpirun", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    args.tutti = os.path.realpath(args.tutti)
    use_h5diff = args.h5diff or not h5py
    skip_without(args, need_h5py=False)
    with tempfile.TemporaryDirectory(prefix="tutti-") as folder:
        import_table(args, folder)
        (pathlib.Path(folder) / "job.yaml").write_text(JOB)
        for settings in combinations(args):
            files = [train(args, folder, ranks, settings) for ranks in RANKS]
            if all(files):
                (compare_with_h5diff if use_h5diff else compare)(*files, settings)


if __name__ == "__main__":
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    main()
