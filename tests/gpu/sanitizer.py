#!/usr/bin/python3
"""A program under one tool of NVIDIA's compute-sanitizer.

    sanitizer.py memcheck|racecheck|synccheck|initcheck PROGRAM...

Fails if the program does, or if the tool finds an error; exit status 77, with the reason, if the
program finds no GPU, there is no compute-sanitizer, or it does not support this GPU.
"""
import glob
import os
import shutil
import subprocess
import sys

SKIPPED, FOUND = 77, 99
PLACES = ("/usr/local/cuda*/bin", "/opt/nvidia/nsight-compute/*", "/opt/nvidia/compute-sanitizer",
          "/usr/local/cuda*/compute-sanitizer")


def find():
    places = [place for pattern in PLACES for place in sorted(glob.glob(pattern))]
    return shutil.which("compute-sanitizer", path=os.pathsep.join([os.environ["PATH"], *places]))


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace")
    print(done.stdout, end="")
    return done.returncode, done.stdout


def main():
    tool, program = sys.argv[1], sys.argv[2:]
    code, _ = run(program)
    if code:
        sys.exit(code)  # 77: the program has printed the reason
    sanitizer = find()
    if not sanitizer:
        skip("no compute-sanitizer on this machine")
    code, said = run([sanitizer, "--tool", tool, "--error-exitcode", str(FOUND), *program])
    if "Device not supported" in said:
        skip("compute-sanitizer does not support this GPU, or not in this container")
    sys.exit(code)


if __name__ == "__main__":
    main()
