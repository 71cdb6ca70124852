#!/usr/bin/python3
"""A GPU that is lost, crashes or has no memory left ends all ranks together; no checkpoint is lost.

The program runs on the test double ($TUTTI), two ranks on its one GPU. From the N-th call of CUDA
on, rank 1 gets an error, for several N over the whole run: both ranks must end soon, with the exit
code of the table and a message with place and remedy; the same command without the fault must then
continue from the last checkpoint and end with the bits of an undisturbed run. Control: some faults
must occur before the first checkpoint and some after it.
"""
import json
import pathlib
import re
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "faults"))
import harness as h  # noqa: E402

UNAVAILABLE, INTERNAL, MEMORY = 69, 70, 71
SETTINGS = ["run.device=gpu", "run.share_gpu=true", "train.epochs=12", "train.batch_size=48",
            "checkpoint.every=10ms", "model.hidden=[18, 17]", "run.verify=0"]
CALLS = {"warp": (3, 300), "block": (3, 300), "layered": (3, 300, 600), "team": (3, 600, 1500)}
TEAM = ["train.parts=3", "run.ranks_per_member=2"]  # on the layered path, as all members with parts

# error of CUDA, exit code, words of the message
LOST = (214, UNAVAILABLE, ("rank 1 on ", "the GPU is lost", "the checkpoint is whole"))
CRASHED = (719, INTERNAL, ("rank 1 on ", ", GPU 0", "a computation on the GPU failed",
                           "the checkpoint is whole"))


def train(folder, path, faults=(), exchange="host"):
    """Run both ranks; the faults, as NAME=VALUE, are for rank 1 only."""
    team = [*TEAM, f"run.exchange={exchange}"]
    settings = [*SETTINGS, *(team if path == "team" else [])]
    program = [h.TUTTI, *h.train_arguments(settings)]
    way = {"TUTTI_GPU_PATH": "auto" if path == "team" else path}
    command = [*h.MPIRUN, "1", *program, ":", h.MPIRUN[-1], "1", "env", *faults, *program]
    return h.wait(folder, h.launch(folder, command, way), 60)


def ends_together(done, code, words, name):
    h.check(not done.hung, f"{name}: hung\n{done.output}")
    h.check(done.code == code, f"{name}: exit {done.code}, not {code}\n{done.output}")
    for word in words:
        h.check(word in done.output, f"{name}: \"{word}\" is not in the output\n{done.output}")


def lose(folder, path, wanted, call, kind, exchange):
    """1 if there was a checkpoint to resume from, 0 if not, None if the run had ended before."""
    error, code, words = kind
    name = f"{path}, error {error} at call {call}"
    shutil.rmtree(folder / "out", ignore_errors=True)
    done = train(folder, path, [f"TT_DOUBLE_FAIL_CALL={call}:{error}"], exchange)
    if done.code == h.DONE:
        return None
    ends_together(done, code, words, name)
    saved = bool(h.generations(folder / "out"))
    done = train(folder, path, exchange=exchange)
    if h.check(done.code == h.DONE, f"{name}, again: exit {done.code}\n{done.output}"):
        h.check_same(folder / "out", wanted, f"{name}, again")
    return int(saved)


def lose_everywhere(folder, path):
    shutil.rmtree(folder / "out", ignore_errors=True)
    done = train(folder, path)
    if not h.check(done.code == h.DONE, f"{path}: exit {done.code}\n{done.output}"):
        return
    wanted = (folder / "out").rename(folder / f"wanted_{path}")
    met = [lose(folder, path, wanted, call, (LOST, CRASHED)[i % 2],
                "device" if i else "host")
           for i, call in enumerate(CALLS[path])]
    print(f"{path}: {met.count(0)} faults before the first checkpoint, {met.count(1)} after it, "
          f"{met.count(None)} after the end", flush=True)
    h.check(met.count(0) and met.count(1), f"{path}: faults on one side only: {met}")


def run_out_of_memory(folder):
    """8 KiB of memory are not enough for any path."""
    shutil.rmtree(folder / "out", ignore_errors=True)
    done = train(folder, "auto", ["TT_DOUBLE_MEMORY=8192"])
    words = ("the members of rank 1 need ", " of GPU memory, but it may use 3.8 KiB: use more ranks",
             "train.batch_size", "fewer members")
    ends_together(done, MEMORY, words, "8 KiB")


def see_the_doctor(folder):
    """tutti doctor names the GPU and the CUDA path, or why a path cannot be used."""
    args = ["doctor", "job.yaml", "--set", "run.device=gpu"]
    done = h.run(folder, 1, args)
    words = ("GPU-0001", "CUDA path: warp: ", "GPU memory in messages: ", "no problems found")
    ends_together(done, h.DONE, words, "doctor")
    done = h.run(folder, 1, [*args, "--set", "model.hidden=[900, 900]"], {"TUTTI_GPU_PATH": "block"})
    ends_together(done, UNAVAILABLE, ("a member needs", "remove the variable"), "doctor, too wide")


def see_the_plan(folder):
    """tutti plan has the memory of the layered path, which parts of the batches make smaller, and the
    multiprocessors that few members use, a block or a cluster each."""
    args = ["plan", "job.yaml", "--set", "run.device=gpu", "--set", "train.batch_size=500"]
    found = []
    for parts in (1, 8):
        done = h.run(folder, 1, [*args, "--set", "model.hidden=[64, 64]", "--set",
                                 "model.layer_norm=true", "--set", f"train.parts={parts}"])
        found += re.findall(r"GPU memory ([0-9.]+) MiB for 7 members of a rank", done.output)
    h.check(len(found) == 2 and float(found[0]) > float(found[1]), f"GPU memory: {found}")
    done = h.run(folder, 1, [*args, "--set", "model.hidden=[18, 17]"])
    h.check("CUDA path  " in done.output and "GPU memory" not in done.output, done.output)
    done = h.run(folder, 1, [*args, "--set", "model.hidden=[64, 64]", "--set",
                             "train.batch_size=256"])
    for line in ("block on A40: ", "block on A100: ",
                 "GPU use    7 of 108 multiprocessors of A100 (6 %); 108 members",
                 "cluster on H100, H200: 7 members on 132 multiprocessors, 4 blocks for each member",
                 "GPU use    28 of 132 multiprocessors of H100, H200 (21 %); 33 members"):
        h.check(line in done.output, f"{line}: {done.output}")
    for settings, words in ((["run.exchange=device"], "from GPU memory, as run.exchange says"),
                            (["run.exchange=host"], "from host memory\n"),
                            (["run.stages=2", "run.exchange=device"],
                             "exchange   gradients, weights and activations from GPU memory, as ")):
        sets = [word for s in [*TEAM, *settings] for word in ("--set", s)]
        done = h.run(folder, 0, [*args, "--ranks", "2", *sets])
        h.check(words in done.output, f"{settings}: not \"{words}\"\n{done.output}")
        device = settings[-1] == "run.exchange=device"
        h.check(("for what it exchanges" in done.output) == device, f"{settings}: {done.output}")
        done = h.run(folder, 0, [*args, "--ranks", "2", *sets, "--json"])
        plan = json.loads(done.output)["exchange"]
        h.check(plan["from"] == ("device" if device else "host"), f"{settings}: {plan}")
        h.check((plan["gpu_bytes"] > 0) == device, f"{settings}: {plan}")


def have_an_old_driver(folder):
    """run.device: gpu refuses a driver that is too old, with both versions; auto says why it takes
    the CPU. No driver at all is no GPU."""
    shutil.rmtree(folder / "out", ignore_errors=True)
    versions = ("supports CUDA 12.2", "built with CUDA 13.0", "newer NVIDIA driver")
    for device, driver, code, words in (
            ("gpu", 12020, UNAVAILABLE, versions), ("auto", 12020, h.DONE, versions),
            ("gpu", 0, UNAVAILABLE, ("no GPU is visible",)),
            ("auto", 0, h.DONE, ("computing on the CPU: no GPU is visible",))):
        settings = [*SETTINGS, f"run.device={device}", "train.epochs=1"]
        arguments = [word for word in h.train_arguments(settings) if word != "-q"]
        done = h.run(folder, 2, arguments, {"TT_DOUBLE_DRIVER": str(driver)})
        ends_together(done, code, words, f"device {device}, driver {driver}")
        shutil.rmtree(folder / "out", ignore_errors=True)


def see_no_gpu(folder):
    """An empty CUDA_VISIBLE_DEVICES is named, whatever the machine has."""
    for device, words in (("gpu", "no GPU is visible: CUDA_VISIBLE_DEVICES is empty"),
                          ("auto", "would train on the CPU: CUDA_VISIBLE_DEVICES is empty")):
        done = h.run(folder, 2, ["doctor", "job.yaml", "--set", f"run.device={device}"],
                     {"TT_DOUBLE_DEVICES": "0", "CUDA_VISIBLE_DEVICES": ""})
        ends_together(done, UNAVAILABLE, (words, "ranks 0, 1:"), f"no GPU, {device}")


def exchange_by_nccl(folder):
    """Two GPUs of a team by the double of NCCL: the bits of host memory. A library that is missing,
    or too old, and ranks that share a GPU end the run with the remedy."""
    settings = [s for s in SETTINGS if not s.startswith("run.share_gpu")] + TEAM
    two = {"TT_DOUBLE_DEVICES": "2"}
    empty = folder / "empty"
    empty.mkdir()
    (empty / "libnccl.so.2").touch()
    for how, more, env, code, words in (
            ("host", [], {}, h.DONE, ()), ("nccl", [], {}, h.DONE, ()),
            ("nccl", [], {"LD_LIBRARY_PATH": str(empty)}, UNAVAILABLE,
             ("cannot be opened: ", "LD_LIBRARY_PATH (2.14 or newer)", "run.exchange: host")),
            ("nccl", [], {"TT_NCCL_VERSION": "20903"}, UNAVAILABLE,
             ("needs NCCL 2.14 or newer, but libnccl.so.2 is 2.9.3", "run.exchange: host")),
            ("nccl", ["run.share_gpu=true"], {"TT_DOUBLE_DEVICES": "1"}, UNAVAILABLE,
             ("rank 1 on ", "the same GPU as rank 0 on ", "because NCCL refuses it"))):
        shutil.rmtree(folder / "out", ignore_errors=True)
        arguments = h.train_arguments([*settings, *more, f"run.exchange={how}"])
        done = h.run(folder, 2, arguments, {**two, **env})
        ends_together(done, code, words, f"exchange by {how}, {env}")
        if how == "host":
            wanted = (folder / "out").rename(folder / "wanted_nccl")
        elif code == h.DONE:
            h.check_same(folder / "out", wanted, "exchange by NCCL")
    args = ["job.yaml", "--set", "run.device=gpu", "--set", "run.exchange=nccl"]
    done = h.run(folder, 2, ["doctor", *args], two)
    ends_together(done, h.DONE, ("NCCL 2.28.9 (run.exchange: nccl)", "no problems"), "doctor, NCCL")
    done = h.run(folder, 1, ["doctor", "--json"])
    h.check('"nccl": "NCCL 2.28.9"' in done.output, done.output)
    done = h.run(folder, 2, ["doctor", *args, "--set", "run.share_gpu=true"], {"TT_DOUBLE_DEVICES": "1"})
    ends_together(done, UNAVAILABLE, ("use run.exchange: host",), "doctor, NCCL on one GPU")
    done = h.run(folder, 0, ["plan", *args, "--ranks", "2", *[w for s in TEAM for w in ("--set", s)]])
    h.check("from GPU memory, by NCCL\n" in done.output and "what it exchanges" in done.output,
            done.output)


def have_slices(folder):
    """Two instances of MIG are two GPUs, although CUDA gives both the UUID of the whole GPU."""
    program = [h.TUTTI, "doctor", "job.yaml", "--set", "run.device=gpu"]
    for first, second, code, words in (
            ("MIG-01", "MIG-02", h.DONE, ("  MIG-01\n", "  MIG-02\n", "no problems found")),
            ("MIG-01", "MIG-01", UNAVAILABLE, ("2 ranks of this node see the same 1 GPU",))):
        command = [*h.MPIRUN, "1", "env", f"CUDA_VISIBLE_DEVICES={first}", *program, ":",
                   h.MPIRUN[-1], "1", "env", f"CUDA_VISIBLE_DEVICES={second}", *program]
        done = h.wait(folder, h.launch(folder, command), 60)
        ends_together(done, code, words, f"{first} and {second}")


def main():
    with h.workplace() as folder:
        see_the_doctor(folder)
        see_the_plan(folder)
        have_an_old_driver(folder)
        see_no_gpu(folder)
        have_slices(folder)
        exchange_by_nccl(folder)
        for path in CALLS:
            lose_everywhere(folder, path)
        run_out_of_memory(folder)
    h.finish(f"{sum(map(len, CALLS.values()))} faults")


if __name__ == "__main__":
    main()
