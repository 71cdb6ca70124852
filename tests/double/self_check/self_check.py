#!/usr/bin/python3
"""The self-check of a GPU finds each fault that is planted on each path (faulty_engine.h), and
nothing on a sound engine; what it found decides what trains.

$TUTTI is the program on the test double. Control: without a fault the same jobs pass.
"""
import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "faults"))
import harness as h  # noqa: E402

UNAVAILABLE = 69
WAYS = {"warp": 2, "block": 4, "layered": 6, "cluster": 8}  # in fp32: TT_GPU_PATH_WAY
FAULTS = {"formula": "its steps are not those of the CPU",
          "row": "its losses are not those of the CPU",
          "bit": "it has other bits when it is trained again",
          "error": "an illegal memory access was encountered",
          "busy": "all CUDA-capable devices are busy or unavailable",
          "none": ""}
HANG_LIMIT = "6"  # seconds


def find_faults(folder):
    """The answer of the child for each fault and path."""
    for fault, words in FAULTS.items():
        for path, way in WAYS.items():
            env = h.environment(folder, {"TT_DOUBLE_FAULT": f"{path} {fault}"})
            said = subprocess.run([h.TUTTI, "check-device", "0", str(way)], env=env, check=False,
                                  capture_output=True, text=True, timeout=300).stdout
            begin = "unknown " if fault == "busy" else "failed "  # busy: says nothing about the path
            right = said.startswith(begin) and words in said if words else said == "passed \n"
            h.check(right, f"{path}, {fault}: {said}")


def settings(folder, fault, **env):
    """The program then checks in the child that it finds by TUTTI_EXE."""
    return {"TUTTI_EXE": h.TUTTI, "XDG_CACHE_HOME": str(folder / fault), "TT_DOUBLE_FAULT": fault, **env}


def run(folder, ranks, fault, args, **env):
    return h.run(folder, ranks, args, settings(folder, fault, **env), limit=400)


def train(folder, ranks, fault, device, **env):
    options = [f"run.device={device}", "run.share_gpu=true", "train.epochs=2",
               "model.hidden=[18, 17]"]
    args = [a for a in h.train_arguments(options) if a not in ("-q", "--resume", "auto")]
    return run(folder, ranks, fault, [*args, "--resume", "never"], **env)


def says(done, code, words, name):
    h.check(done.code == code and not done.hung, f"{name}: exit {done.code}\n{done.output}")
    for word in words:
        h.check(done.output.count(word) == 1, f"{name}: not once \"{word}\"\n{done.output}")


def leave_out_a_path(folder):
    """Two ranks on one GPU that crashes on the warp path: it is checked once, another path trains."""
    fails = "fails the self-check of warp in fp32, which is not used: its process was ended by "
    new = "is new to this build of tutti"
    says(train(folder, 2, "warp crash", "gpu"), h.DONE, [fails + "signal 6", new], "crash")
    done = train(folder, 2, "warp crash", "gpu")
    says(done, h.DONE, [fails], "crash, again")
    h.check(new not in done.output, f"checked again: {done.output}")
    args = ["doctor", "job.yaml", *h.sets("run.device=gpu", "model.hidden=[18, 17]")]
    says(run(folder, 1, "warp crash", args), UNAVAILABLE,
         ["CUDA path: block: ", "passed by block in fp32, block in tf32, layered in fp32, layered in "
          "tf32, cluster in fp32\n", "fails the self-check of warp in fp32: its process"], "doctor")
    done = train(folder, 1, "warp crash", "gpu", TUTTI_GPU_PATH="warp")
    says(done, UNAVAILABLE, ["warp cannot train these members: it failed the self-check"], "by name")


def leave_out_the_gpu(folder):
    """No answer on the layered path, which every job needs: exit 69, or the CPU."""
    fault = "layered hang"
    env = h.environment(folder, settings(folder, fault, TUTTI_SELF_CHECK=HANG_LIMIT))
    done = subprocess.run([h.TUTTI, "doctor", "--check", "--json"], env=env, check=False,
                          capture_output=True, text=True, timeout=400)
    h.check(done.returncode == UNAVAILABLE, f"exit {done.returncode}\n{done.stderr}")
    found = json.loads(done.stdout)
    paths = {(row["path"], row["precision"]): row for row in found["self_checks"][0]["paths"]}
    failed = [way for way, row in paths.items() if row["result"] == "failed"]
    h.check(failed == [("layered", "fp32"), ("layered", "tf32")], paths)
    h.check(f"no answer within {HANG_LIMIT} s" in paths["layered", "fp32"]["text"], paths)
    says(train(folder, 1, fault, "gpu"), UNAVAILABLE, ["run.device: gpu, but a GPU fails"], "gpu")
    says(train(folder, 2, fault, "auto"), h.DONE,
         ["computing on the CPU: a GPU fails the self-check"], "auto")


def know_nothing(folder):
    """A TUTTI_EXE that checks nothing is no reason to leave out a GPU, and not remembered."""
    done = run(folder, 1, "none", ["doctor", "--check"], TUTTI_EXE="/bin/false")
    says(done, UNAVAILABLE, ["could not end the self-check of warp in fp32: exit code 1"], "false")
    h.check(not os.path.exists(folder / "none"), "remembered without a result")


def main():
    with h.workplace() as folder:
        find_faults(folder)
        know_nothing(folder)
        leave_out_the_gpu(folder)
        leave_out_a_path(folder)
    h.finish(f"{len(FAULTS) - 1} faults on {len(WAYS)} paths, a hang and a crash")


if __name__ == "__main__":
    main()
