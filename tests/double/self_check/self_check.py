#!/usr/bin/python3
"""self_check.py [--all] — the self-check of a GPU finds each fault that is planted on each path
(faulty_engine.h), and nothing on a sound engine; what it found decides what trains. Without it,
run.verify or another guard ends a training with that fault, here on two paths, with --all on each.
The table in docs/internals/tests.md is FAULTS.

$TUTTI is the program on the test double. Control: without a fault the same jobs pass, and train.
"""
import json
import os
import pathlib
import random
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "faults"))
import harness as h  # noqa: E402

UNAVAILABLE, INTERNAL, DEVICE, ABORTED = 69, 70, 72, -6
WAYS = {"warp": 2, "block": 4, "layered": 6, "cluster": 8}  # in fp32: TT_GPU_PATH_WAY
TRAINED = ("block", "layered") + (("warp", "cluster") if "--all" in sys.argv else ())
# What is planted; what the self-check and a training say; exit code of the training.
FAULTS = {
    "formula": ("a learning rate that is wrong by a hundredth", "its steps are not those of the CPU",
                "is not that of the CPU", DEVICE),
    "row": ("every eighth row is lost", "are not those of the CPU", "is not that of the CPU", DEVICE),
    "race": ("a weight has other bits now and then, as by a race", "it has other bits when it is trained again",
             "has other bits when it is computed again", DEVICE),
    "bit": ("a bit of a weight flips once, in some step of a training",
            "it has other bits when it is trained again",
            "has other bits when it is computed again", DEVICE),
    "error": ("an error of CUDA", "an illegal memory access was encountered",
              "an illegal memory access was encountered", INTERNAL),
    "crash": ("a crash", "its process was ended by signal 6", "", ABORTED),
    "hang": ("a hang", "no answer within", "made no progress", h.STOPPED),
}
SEED = 7
# Calls of one step whose bits are compared: of the first job of a self-check; verified ones in a
# training; at least. (Rows of a caller are compared with the CPU, where one bit is nothing.)
CALLS = 9, 3
BUSY = "all CUDA-capable devices are busy or unavailable"


def fault_of(path, name, training=False):
    """TT_DOUBLE_FAULT; the step of a bit is another on each path."""
    step = random.Random(f"{SEED} {path}").randint(1, CALLS[training])
    return f"{path} {name} {-step if training else step}" if name == "bit" else f"{path} {name}"


def answer_child(folder, way, planted, **env):
    """The line of a child."""
    env = h.environment(folder, {"TT_DOUBLE_FAULT": planted, **env})
    command = [h.TUTTI, "check-device", "0", str(way)]
    return subprocess.run(command, env=env, check=False, capture_output=True, text=True,
                          timeout=1500).stdout


def find_faults(folder):
    """The answer of the child for each fault and path; a path that gets no GPU is unknown. A sound path
    has trained all jobs of dense networks, so each row of the tables. Hang and crash, and the sound
    layered path, which takes longest, are in leave_out_a_path and leave_out_the_gpu. Returns the
    seconds of the slowest path here."""
    slowest = 0.0
    for path, way in WAYS.items():
        answers = [(fault, {}, "failed", FAULTS[fault][1]) for fault in FAULTS
                   if fault not in ("hang", "crash")]
        answers.append(("none", {"TT_DOUBLE_BUSY": path}, "unknown", BUSY))
        if path != "layered":
            answers.append(("none", {}, "passed", " 12 jobs\n"))
        for fault, env, begin, words in answers:
            start, planted = time.monotonic(), fault_of(path, fault)
            got = answer_child(folder, way, planted, **env)
            slowest = max(slowest, time.monotonic() - start)
            h.check(got.startswith(begin) and words in got, f"{path}, {planted}: {got}")
    return slowest


def end_training(folder):
    """Without a self-check each fault ends a training, before a checkpoint has it."""
    for path in TRAINED:
        for fault in [*FAULTS, "none"]:
            _, _, words, code = FAULTS.get(fault, ("", "", "", h.DONE))
            options = ["run.device=gpu", "run.verify=1ms", "checkpoint.every=1000s",
                       f"train.epochs={5 if fault == 'none' else 600}", "train.resample=none",
                       f"run.watchdog={'3s' if fault == 'hang' else '10min'}"]
            args = [*h.train_arguments(options), "--resume", "never"]
            planted = fault_of(path, fault, True)
            done = h.run(folder, 0, args, {"TT_DOUBLE_FAULT": planted, "TUTTI_SELF_CHECK": "0",
                                           "TUTTI_GPU_PATH": path}, limit=200)
            h.check(done.code == code and words in done.output,
                    f"{planted}: exit {done.code}\n{done.output}")
            saved = h.generations(folder / "out")
            h.check(fault == "none" or not saved, f"{path}, {fault}: checkpoints {saved}")


def compare_table():
    text = (h.ROOT / "docs" / "internals" / "tests.md").read_text()
    for what, found, words, code in FAULTS.values():
        end = f"exit {code}: {words}" if code > 0 else "the process ends"
        row = f"| {what} | {found} | {end} |"
        h.check(row in text, f"not in docs/internals/tests.md: {row}")


def settings(folder, fault, **env):
    """The program then checks in the child that it finds by TUTTI_EXE."""
    return {"TUTTI_EXE": h.TUTTI, "XDG_CACHE_HOME": str(folder / fault), "TT_DOUBLE_FAULT": fault,
            "TUTTI_SELF_CHECK": "900", **env}


def run(folder, ranks, fault, args, **env):
    return h.run(folder, ranks, args, settings(folder, fault, **env), limit=1500)


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
    says(train(folder, 2, "warp crash", "gpu"), h.DONE,
         [fails + "signal 6", new, "please report the output of tutti doctor --check --json"], "crash")
    done = train(folder, 2, "warp crash", "gpu")
    says(done, h.DONE, [fails], "crash, again")
    h.check(new not in done.output, f"checked again: {done.output}")
    args = ["doctor", "job.yaml", *h.sets("run.device=gpu", "model.hidden=[18, 17]")]
    says(run(folder, 1, "warp crash", args), UNAVAILABLE,
         ["CUDA path: block: ", "passed by block in fp32, block in tf32, layered in fp32, layered in "
          "tf32, cluster in fp32\n", "fails the self-check of warp in fp32: its process"], "doctor")
    done = train(folder, 1, "warp crash", "gpu", TUTTI_GPU_PATH="warp")
    says(done, UNAVAILABLE, ["warp cannot train these members: it has not passed the self-check"],
         "by name")


def take_the_next_path(folder):
    """Networks for block and cluster: the next path is taken if theirs fails. The layered path is not
    checked, which saves its jobs: in fp32 it is taken without a result."""
    for path, taken, batch in (("block", "layered", 16), ("cluster", "block", 256)):
        args = ["doctor", "job.yaml", *h.sets("run.device=gpu", "model.hidden=[64, 64]",
                                              f"train.batch_size={batch}")]
        for fault, more, name in (("none", [], path), ("error", ["--check"], taken)):
            done = run(folder, 1, f"{path} {fault}", [*args, *more], TT_DOUBLE_BUSY="layered")
            h.check(f"CUDA path: {name}: " in done.output, f"{path}, {fault}: {done.output}")


def leave_out_the_gpu(folder, slowest):
    """No answer on the layered path, which every job needs: exit 69, or the CPU. `slowest`: seconds of
    a sound path, for which the time limit holds too."""
    fault, limit = "layered hang", str(2 + int(10 * slowest))
    env = h.environment(folder, settings(folder, fault, TUTTI_SELF_CHECK=limit))
    done = subprocess.run([h.TUTTI, "doctor", "--check", "--json"], env=env, check=False,
                          capture_output=True, text=True, timeout=1500)
    h.check(done.returncode == UNAVAILABLE, f"exit {done.returncode}\n{done.stderr}")
    found = json.loads(done.stdout)
    paths = {(row["path"], row["precision"]): row for row in found["self_checks"][0]["paths"]}
    failed = [way for way, row in paths.items() if row["result"] == "failed"]
    h.check(failed == [("layered", "fp32"), ("layered", "tf32")], paths)
    h.check(f"no answer within {limit} s" in paths["layered", "fp32"]["text"], paths)
    says(train(folder, 1, fault, "gpu"), UNAVAILABLE, ["run.device: gpu, but a GPU fails"], "gpu")
    says(train(folder, 2, fault, "auto"), h.DONE,
         ["computing on the CPU: a GPU fails the self-check"], "auto")


def know_nothing(folder):
    """A TUTTI_EXE that checks nothing is no reason to leave out a GPU, and not remembered; but without
    a result only the layered path trains, or one that is named."""
    done = run(folder, 1, "none", ["doctor", "--check"], TUTTI_EXE="/bin/false")
    says(done, UNAVAILABLE, ["could not end the self-check of warp in fp32: exit code 1"], "false")
    h.check(not os.path.exists(folder / "none"), "remembered without a result")
    no_result = "no result of the self-check of warp in fp32 (TUTTI_EXE does not name the program tutti)"
    for path, taken in (("auto", "cuda fp32 layered"), ("warp", "cuda fp32 warp")):
        done = train(folder, 1, "none", "gpu", TUTTI_EXE="", TUTTI_GPU_PATH=path)
        says(done, h.DONE, [no_result], f"no result, {path}")
        with h.h5py.File(folder / "out" / "model.h5") as f:
            found = f["provenance"].attrs["arithmetic"]
        h.check(taken in str(found), f"no result, {path}: {found}")


def main():
    compare_table()
    with h.workplace() as folder:
        slowest = find_faults(folder)
        end_training(folder)
        know_nothing(folder)
        leave_out_the_gpu(folder, slowest)
        leave_out_a_path(folder)
        take_the_next_path(folder)
    h.finish(f"{len(FAULTS)} faults on {len(WAYS)} paths; seed {SEED}")


if __name__ == "__main__":
    main()
