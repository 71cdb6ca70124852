#!/usr/bin/env python3
"""One member on two processes of one thread: tutti beside PyTorch, in turn.

  torch_teams.py [--rounds 5] [--what data,stages]

data    64-1024-1024-1, batch 2048: tutti with ranks_per_member, torch DistributedDataParallel (gloo)
stages  64-512 x 15-1, batch 2048 in 16 parts: tutti with stages (1F1B), torch.distributed.pipelining
        (ScheduleGPipe: the same bubble; its Schedule1F1B waits for ever on gloo, torch 2.6)

First both take four steps of sgd from the same weights on one batch; the largest difference of a weight is
printed. Then each round gives one line per program: seconds of a step of Adam. tutti: a long training less a
short one, divided by the steps between; PyTorch: mean of the steps after two, its batches lie ready.
Needs torch of at least 2.5, h5py and numpy; TUTTI and TUTTI_MPIRUN as for bench/large_member.py.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import h5py
import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import large_member  # noqa: E402

BATCH, CHECKED, WARM, TIMED = 2048, 4, 2, 6
RATE = {"sgd": 0.05, "adam": 1e-3}  # sgd is compared: Adam makes rounding of small gradients large
CASES = {"data": ([1024] * 2, 8, "ranks_per_member: 2"), "stages": ([512] * 15, 16, "stages: 2")}


def network(hidden, weights=None):
    widths = [large_member.INPUTS, *hidden, 1]
    layers = []
    for i, (a, b) in enumerate(zip(widths, widths[1:])):
        layer = torch.nn.Linear(a, b)
        if weights:
            with torch.no_grad():
                layer.weight.copy_(torch.from_numpy(weights[2 * i]))
                layer.bias.copy_(torch.from_numpy(weights[2 * i + 1]))
        layers += [layer, torch.nn.ReLU()] if i < len(hidden) else [layer]
    return layers


def cut_in_two(hidden):
    """First module of the second stage, as tutti cuts: half of the layers with their cost."""
    widths = [large_member.INPUTS, *hidden, 1]
    cost = [(3 - (i == 0)) * a * b for i, (a, b) in enumerate(zip(widths, widths[1:]))]
    return 2 * large_member.cut_layers(cost, 2)[0][1]


def worker(rank, what, folder, steps, optimizer):
    """A torch process: trains `steps` steps, writes its weights and the seconds of a step."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    hidden, parts, _ = CASES[what]
    with h5py.File(f"{folder}/data.h5") as f:
        x, y = torch.from_numpy(f["x"][:BATCH]), torch.from_numpy(f["y"][:BATCH])
    with np.load(f"{folder}/start.npz") as f:
        layers = network(hidden, [f[name] for name in f.files])
    if what == "data":
        net = torch.nn.Sequential(*layers)
        model = torch.nn.parallel.DistributedDataParallel(net)
        x, y = x.chunk(2)[rank], y.chunk(2)[rank]

        def compute():
            torch.nn.functional.mse_loss(model(x), y).backward()
    else:
        cut = cut_in_two(hidden)
        net = torch.nn.Sequential(*(layers[:cut], layers[cut:])[rank])
        stage = PipelineStage(net, rank, 2, torch.device("cpu"))
        schedule = ScheduleGPipe(stage, n_microbatches=parts,
                                 loss_fn=lambda out, y: torch.nn.functional.mse_loss(out, y) / parts)

        def compute():
            schedule.step(x) if rank == 0 else schedule.step(target=y, losses=[])
    kind = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[optimizer]
    step = kind(net.parameters(), lr=RATE[optimizer], fused=True)
    taken = []
    for _ in range(steps):
        dist.barrier()
        begin = time.perf_counter()
        compute()
        step.step()
        step.zero_grad(set_to_none=True)
        taken.append(time.perf_counter() - begin)
    weights = [p.detach().numpy() for p in net.parameters()]
    np.savez(f"{folder}/torch{rank}.npz", *weights)
    if rank == 0:
        pathlib.Path(f"{folder}/seconds").write_text(str(np.mean(taken[WARM:])))
    dist.destroy_process_group()


def run_torch(folder, what, steps, optimizer="adam"):
    (folder / "meet").unlink(missing_ok=True)
    command = [sys.executable, __file__, "--worker", what, str(folder), str(steps), optimizer]
    ranks = [subprocess.Popen([*command, str(r)], env={**os.environ, "OMP_NUM_THREADS": "1"})
             for r in (0, 1)]
    if any([p.wait() for p in ranks]):
        sys.exit("a process of PyTorch failed")
    return float((folder / "seconds").read_text())


def run_tutti(folder, what, epochs, optimizer="adam", rate=None):
    """Seconds of a training; folder/out/model.h5."""
    hidden, parts, team = CASES[what]
    (folder / "job.yaml").write_text(
        "data: {file: data.h5, normalize: none, split: {train: 1, validation: 0, test: 0}}\n"
        f"model: {{hidden: {hidden}, activation: relu}}\n"
        f"train: {{batch_size: {BATCH}, parts: {parts}, epochs: {epochs}, loss: mse, "
        f"optimizer: {optimizer}, learning_rate: {rate or RATE[optimizer]}}}\n"
        f"ensembles: [{{name: a, members: 1}}]\nrun: {{threads: 1, {team}, directory: out}}\n")
    begin = time.perf_counter()
    done = subprocess.run([*large_member.MPIRUN, "2", large_member.TUTTI, "train", "job.yaml",
                           "--resume", "never"], cwd=folder, capture_output=True, text=True,
                          check=False, env={**os.environ, "OMP_NUM_THREADS": "1"})
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    return time.perf_counter() - begin


def weights_of(folder):
    """Weights (outputs, inputs) and biases of out/model.h5, layer after layer."""
    with h5py.File(folder / "out/model.h5") as f:
        net = {name: f[f"net/{name}"][()] for name in
               ("parameters", "layer_out", "layer_in", "weight_offset", "bias_offset")}
    each = zip(*(net[name][0] for name in ("layer_out", "layer_in", "weight_offset", "bias_offset")))
    return [part for out, inputs, at, bias in each
            for part in (net["parameters"][at:at + out * inputs].reshape(out, inputs),
                         net["parameters"][bias:bias + out])]


def compare(folder, what):
    """Largest difference of a weight after the same steps from the same weights."""
    large_member.write_data(folder / "data.h5", BATCH)
    run_tutti(folder, what, 1, "sgd", 1e-30)  # a step that changes no bit of a weight: the initial ones
    np.savez(folder / "start.npz", *weights_of(folder))
    run_tutti(folder, what, CHECKED, "sgd")
    ours = weights_of(folder)
    run_torch(folder, what, CHECKED, "sgd")
    theirs = []
    for rank in (0,) if what == "data" else (0, 1):
        with np.load(folder / f"torch{rank}.npz") as f:
            theirs += [f[name] for name in f.files]
    return max(float(abs(a - b).max()) for a, b in zip(ours, theirs, strict=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--what", default="data,stages")
    args = parser.parse_args()
    print(json.dumps({**large_member.machine(), "bench": "torch_teams", "torch": torch.__version__}),
          flush=True)
    for what in args.what.split(","):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            print(json.dumps({"what": what, "largest_difference": compare(folder, what)}), flush=True)
            for number in range(args.rounds):
                less, more = (run_tutti(folder, what, n) for n in (2, 2 + TIMED))
                rows = {"tutti": (more - less) / TIMED, "torch": run_torch(folder, what, WARM + TIMED)}
                for program, seconds in rows.items():
                    print(json.dumps({"what": what, "round": number, "program": program,
                                      "s_per_step": round(seconds, 5),
                                      "load": os.getloadavg()[0]}), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        worker(int(sys.argv[6]), sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5])
    else:
        main()
