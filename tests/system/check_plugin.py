#!/usr/bin/python3
"""The cuda engine is a library beside the program, and tutti works without it.

Neither links a library of CUDA. Without libtutti_cuda.so, with a library of another build and with one
that cannot be loaded, `tutti doctor` says what is wrong, `tutti plan` works, run.device: gpu is
refused, and run.device: auto trains on the CPU and says why.
"""
import pathlib
import re
import shutil
import sys

sys.path.insert(0, __file__.rpartition("/tests/")[0] + "/tests/rig")
from rig import TUTTI, check, run, skip, test

UNAVAILABLE = 69
PLUGIN = pathlib.Path(TUTTI).parent / "libtutti_cuda.so"
JOB = """\
data: {file: d.h5, inputs: x, targets: y, split: {train: 0.8, validation: 0.1, test: 0.1, seed: 1}}
model: {hidden: [4]}
ensembles: [{name: one, target: c, members: 2}]
train: {loss: mse, epochs: 2, batch_size: 8}
run: {seed: 1, threads: 1, directory: out}
"""


def another_build():
    """The library with another hash in its text of the interface, \"0.1.0 5e884898da28\"."""
    version = run(TUTTI, "--version").split()[1]
    data = PLUGIN.read_bytes()
    at = data.find(version.encode() + b" ")
    check(at > 0, f"no text of the interface in {PLUGIN}")
    end = data.index(b"\0", at)
    return data[:at] + b"0.0.0" + b"?" * (end - at - 5) + data[end:]


def main():
    if not PLUGIN.exists():
        skip("built without CUDA")
    for file in (TUTTI, PLUGIN):
        linked = run("ldd", file)
        check("libc.so" in linked and not re.search("libcu(da|blas|rand)|libnv", linked),
              f"{file} links a library of CUDA:\n{linked}")
    libraries = ((None, "cannot open shared object file"), (b"no library", "file too short"),
                 (another_build(), "is of another build"))
    shutil.copy(TUTTI, "tutti")
    pathlib.Path("d.csv").write_text("a,b,c\n" + "".join(f"{i % 7},{i % 5},{i % 3}\n" for i in range(60)))
    pathlib.Path("job.yaml").write_text(JOB)
    run("./tutti", "import", "d.csv", "-o", "d.h5", "--inputs", "a,b", "--targets", "c")
    for library, words in libraries:
        if library:
            pathlib.Path(PLUGIN.name).write_bytes(library)
        run("./tutti", "doctor", code=UNAVAILABLE, says=words)
        run("./tutti", "plan", "job.yaml")
        run("./tutti", "train", "job.yaml", "--set", "run.device=gpu", code=UNAVAILABLE, says=words)
        run("./tutti", "train", "job.yaml",
            says="rank 0 computes on the CPU: the cuda engine cannot be used")
        shutil.rmtree("out")
    print(f"{len(libraries)} faulty libraries: each was named, and the CPU was used")


test(main)
