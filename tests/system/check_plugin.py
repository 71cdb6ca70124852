#!/usr/bin/python3
"""The cuda engine is a library beside the program, and tutti works without it.

    check_plugin.py TUTTI

Neither links a library of CUDA. Without libtutti_cuda.so, with a library of another build and with one
that cannot be loaded, `tutti doctor` says what is wrong, `tutti plan` works, run.device: gpu is
refused, and run.device: auto trains on the CPU and says why.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

UNAVAILABLE = 69
TUTTI = pathlib.Path(sys.argv[1])
PLUGIN = TUTTI.parent / "libtutti_cuda.so"
JOB = """\
data: {file: d.h5, inputs: x, targets: y, split: {train: 0.8, validation: 0.1, test: 0.1, seed: 1}}
model: {hidden: [4]}
ensembles: [{name: one, target: c, members: 2}]
train: {loss: mse, epochs: 2, batch_size: 8}
run: {seed: 1, threads: 1, directory: out}
"""


def run(folder, *arguments):
    done = subprocess.run([folder / "tutti", *arguments], cwd=folder, capture_output=True, text=True,
                          timeout=60)
    return done.returncode, done.stdout + done.stderr


def check(condition, message):
    if not condition:
        sys.exit(f"check_plugin: {message}")


def expect(folder, what, code, words, *arguments):
    got, text = run(folder, *arguments)
    check(got == code, f"{what}: exit {got}, not {code}\n{text}")
    check(words in text, f"{what}: \"{words}\" is missing in\n{text}")


def another_build():
    """The library with another hash in its text of the interface, \"0.1.0 5e884898da28\"."""
    version = subprocess.run([TUTTI, "--version"], capture_output=True, text=True).stdout.split()[1]
    data = PLUGIN.read_bytes()
    at = data.find(version.encode() + b" ")
    check(at > 0, f"no text of the interface in {PLUGIN}")
    end = data.index(b"\0", at)
    return data[:at] + b"0.0.0" + b"?" * (end - at - 5) + data[end:]


def main():
    if not PLUGIN.exists():
        print("skipped: built without CUDA")
        sys.exit(77)
    for file in (TUTTI, PLUGIN):
        linked = subprocess.run(["ldd", file], capture_output=True, text=True, check=True).stdout
        check("libc.so" in linked and not re.search("libcu(da|blas|rand)|libnv", linked),
              f"{file} links a library of CUDA:\n{linked}")
    libraries = ((None, "cannot open shared object file"), (b"no library", "file too short"),
                 (another_build(), "is of another build"))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        shutil.copy(TUTTI, folder / "tutti")
        (folder / "d.csv").write_text("a,b,c\n" + "".join(
            f"{i % 7},{i % 5},{i % 3}\n" for i in range(60)))
        (folder / "job.yaml").write_text(JOB)
        expect(folder, "import", 0, "", "import", "d.csv", "-o", "d.h5", "--inputs", "a,b",
               "--targets", "c")
        for library, words in libraries:
            if library:
                (folder / PLUGIN.name).write_bytes(library)
            expect(folder, "doctor", UNAVAILABLE, words, "doctor")
            expect(folder, "plan", 0, "", "plan", "job.yaml")
            expect(folder, "gpu", UNAVAILABLE, words, "train", "job.yaml", "--set", "run.device=gpu")
            expect(folder, "auto", 0, "rank 0 computes on the CPU: the cuda engine cannot be used",
                   "train", "job.yaml")
            shutil.rmtree(folder / "out")
    print(f"{len(libraries)} faulty libraries: each was named, and the CPU was used")


main()
