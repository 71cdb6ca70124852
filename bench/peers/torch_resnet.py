#!/usr/bin/env python3
"""Residual networks of torchvision and of tutti: the same numbers, and the time of a step, in turn.

  torch_resnet.py [--equal 18 34 50 101] [--cases resnet18 resnet50 cifar5 teams] [--rounds 5] [--steps 20]
                  [--threads 1] [--build build] [--device cpu|gpu]

Equality: tutti's initial weights go into torchvision's network; then both take steps of sgd with momentum on
32 made-up images of 64 x 64 pixels, all of them in each batch. Largest difference of the weights with the
running values after some steps, by the largest value: of tutti, and of PyTorch in float32, from PyTorch in
float64. Rounding grows from step to step in such networks.

Time: `resnet18`, `resnet50` with these images, batch 32; `cifar5`, five networks of the CIFAR form (16, 32 and 64
channels, six basic blocks) on 32 x 32 images with one channel, batch 64: tutti trains them together, PyTorch
one after another (`loop`) and in one network whose convolutions have five groups (`grouped`). tutti: CPU
seconds of a long training less a short one, divided by the steps between; PyTorch: CPU seconds of a step. With
`--device gpu` these are seconds, tutti and PyTorch compute in fp32 and in TF32, and PyTorch's steps are one CUDA
graph (channels last), or with `eager` none. `teams`: wall seconds of a step of one ResNet-18 with batch 32 on one process and on two or four, in stages or
by batches or both, in 2 to 8 parts (a batch in one part is not shared), with what `tutti plan` says at most,
beside DistributedDataParallel and a pipeline of two stages (ScheduleGPipe), without and with two processes for
each stage; gloo, processes of one thread.

One JSON line per program and round. Needs torch, torchvision, h5py, numpy.
"""
import argparse
import json
import os
import pathlib
import platform
import re
import resource
import socket
import subprocess
import tempfile
import time

import h5py
import numpy as np
import torch
import torchvision
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

STEPS, CLASSES = (1, 5, 20), 10
BLOCKS = {18: ("basic", (2, 2, 2, 2)), 34: ("basic", (3, 4, 6, 3)),
          50: ("bottleneck", (3, 4, 6, 3)), 101: ("bottleneck", (3, 4, 23, 3))}


def resnet_rows(depth):
    kind, times = BLOCKS[depth]
    rows = ["conv 64 7 stride 2 pad 3", "batch_norm", "pool max 3 stride 2 pad 1"]
    for i, k in enumerate(times):
        width = 64 << i
        channels = width if kind == "basic" else f"{width} {4 * width}"
        rows.append(f"{kind} {channels} stride {2 if i else 1} times {k}")
    return [*rows, "global_mean"]


CIFAR = ["conv 16 3", "batch_norm", "basic 16 times 2", "basic 32 stride 2 times 2", "basic 64 stride 2 times 2",
         "global_mean"]


def write_job(folder, shape, front, rows, batch, members, threads, device="cpu"):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((rows, int(np.prod(shape)))).astype("f4")
    y = rng.integers(0, CLASSES, rows).astype("f4")
    with h5py.File(folder / "d.h5", "w") as f:
        f["x"], f["y"] = x, y[:, None]
    (folder / "job.json").write_text(json.dumps({
        "data": {"file": "d.h5", "normalize": "none", "split": {"train": 1, "validation": 0, "test": 0}},
        "model": {"image": list(shape), "front": front, "hidden": [], "activation": "relu", "output": "softmax",
                  "classes": CLASSES},
        "train": {"loss": "cross_entropy", "optimizer": "sgd", "momentum": 0.9, "learning_rate": 1e-3,
                  "batch_size": batch},
        "ensembles": [{"name": "e", "members": members}],
        "run": {"device": device, "threads": threads}}))
    return torch.tensor(x.reshape(rows, *shape)), torch.tensor(y).long()


def train(program, folder, threads, *settings):
    """CPU seconds of a training, and its weights [members][P] in the order of the layers."""
    out = folder / f"out{time.monotonic_ns()}"
    arguments = [word for s in (f"run.directory={out}", *settings) for word in ("--set", s)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run([program, "train", "--quiet", "job.json", *arguments], cwd=folder, check=True,
                   env={**os.environ, "OMP_NUM_THREADS": str(threads)}, stderr=subprocess.DEVNULL)
    used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    with h5py.File(out / "model.h5") as f:
        weights = f["net/parameters"][()].reshape(len(f["member_weight"]), -1)
    return used, weights


def load(net, w):
    """Weights of one member, layer by layer: those of the output layer come last, as in torchvision."""
    at = 0
    with torch.no_grad():
        for name, tensor in net.state_dict().items():
            if not name.endswith("num_batches_tracked"):
                tensor.copy_(torch.tensor(w[at:at + tensor.numel()]).view_as(tensor))
                at += tensor.numel()
    assert at == len(w), (at, len(w))


def flat(net):
    values = [t for name, t in net.state_dict().items() if not name.endswith("num_batches_tracked")]
    return torch.cat([t.detach().reshape(-1) for t in values]).numpy()


def reset_running(net):
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.reset_running_stats()


def apart(a, b):
    return float(np.abs(a - b).max() / np.abs(b).max())


def step(net, optimizer, x, y):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()


def torchvision_net(depth, weights):
    net = getattr(torchvision.models, f"resnet{depth}")(num_classes=CLASSES)
    load(net, weights)
    return net


def compare(program, folder, depth):
    x, y = write_job(folder, (3, 64, 64), resnet_rows(depth), 32, 32, 1, 1)
    _, first = train(program, folder, 1, "train.epochs=1", "train.learning_rate=1e-30")
    nets = {"float32": torchvision_net(depth, first[0]), "float64": torchvision_net(depth, first[0]).double()}
    optimizers = {}
    for kind, net in nets.items():
        reset_running(net)
        net.train()
        optimizers[kind] = torch.optim.SGD(net.parameters(), 1e-3, momentum=0.9)
    done = 0
    for steps in STEPS:
        _, got = train(program, folder, 1, f"train.epochs={steps}")
        for _ in range(done, steps):
            for kind, net in nets.items():
                step(net, optimizers[kind], x.to(net.fc.weight.dtype), y)
        done = steps
        want = flat(nets["float64"])
        print(json.dumps({"equal": f"resnet{depth}", "steps": steps,
                          "parameters": sum(p.numel() for p in nets["float32"].parameters()),
                          "tutti": apart(got[0], want), "torch_float32": apart(flat(nets["float32"]), want)}),
              flush=True)


class Basic(nn.Module):
    """A basic block of `groups` networks side by side."""

    def __init__(self, channels_in, channels, stride, groups):
        super().__init__()
        a, b = channels_in * groups, channels * groups
        self.body = nn.Sequential(nn.Conv2d(a, b, 3, stride, 1, groups=groups, bias=False), nn.BatchNorm2d(b),
                                  nn.ReLU(), nn.Conv2d(b, b, 3, 1, 1, groups=groups, bias=False), nn.BatchNorm2d(b))
        self.side = nn.Identity() if stride == 1 and channels_in == channels else nn.Sequential(
            nn.Conv2d(a, b, 1, stride, groups=groups, bias=False), nn.BatchNorm2d(b))

    def forward(self, x):
        return torch.relu(self.body(x) + self.side(x))


class Cifar(nn.Module):
    def __init__(self, groups):
        super().__init__()
        self.groups, widths = groups, (16, 16, 16, 32, 32, 64, 64)
        blocks = [Basic(a, b, 1 + (a != b), groups) for a, b in zip(widths, widths[1:])]
        self.body = nn.Sequential(nn.Conv2d(groups, 16 * groups, 3, 1, 1, groups=groups, bias=False),
                                  nn.BatchNorm2d(16 * groups), nn.ReLU(), *blocks, nn.AdaptiveAvgPool2d(1))
        self.last = nn.Conv1d(64 * groups, CLASSES * groups, 1, groups=groups)

    def forward(self, x):
        out = self.last(self.body(x.repeat(1, self.groups, 1, 1)).flatten(2))
        return out.view(len(x), self.groups, CLASSES).mean(1) if self.groups > 1 else out.flatten(1)


def time_torch(nets, x, y, steps):
    optimizers = [torch.optim.SGD(net.parameters(), 1e-3, momentum=0.9) for net in nets]

    def all_nets():
        for net, optimizer in zip(nets, optimizers):
            step(net, optimizer, x, y)

    all_nets()
    before = time.process_time()
    for _ in range(steps):
        all_nets()
    return (time.process_time() - before) / steps


def time_torch_on_gpu(nets, x, y, steps, graph, tf32):
    """Seconds of a step of all networks."""
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.backends.cudnn.benchmark = True
    nets = [net.cuda().to(memory_format=torch.channels_last) for net in nets]
    x, y = x.cuda().to(memory_format=torch.channels_last), y.cuda()
    optimizers = [torch.optim.SGD(net.parameters(), 1e-3, momentum=0.9) for net in nets]

    def all_nets():
        for net, optimizer in zip(nets, optimizers):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            optimizer.step()

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            all_nets()
        run = all_nets
        if graph:
            captured = torch.cuda.CUDAGraph()
            with torch.cuda.graph(captured, stream=stream):
                all_nets()
            run = captured.replay
        run()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(steps):
            run()
        torch.cuda.synchronize()
        return (time.perf_counter() - begin) / steps


# Image, front, batch, members; epochs of the short and the long training; steps of PyTorch.
CASES = {"resnet18": ((3, 64, 64), resnet_rows(18), 32, 1, (2, 22), 5),
         "resnet50": ((3, 64, 64), resnet_rows(50), 32, 1, (2, 22), 5),
         "cifar5": ((1, 32, 32), CIFAR, 64, 5, (2, 42), 10)}


def nets_of(case):
    """PyTorch's networks one by one, and those that compute all of them at once."""
    if case == "cifar5":
        return {"loop": [Cifar(1) for _ in range(5)], "grouped": [Cifar(5)]}
    return {"loop": [getattr(torchvision.models, case)(num_classes=CLASSES)]}


def seconds_of_step(program, folder, case, threads, *settings, longer=1):
    """CPU seconds and seconds of a step of tutti; the long training has `longer` times as many epochs."""
    times, (few, many) = [], CASES[case][4]
    for n in (few, many * longer):
        begin = time.perf_counter()
        used, _ = train(program, folder, threads, f"train.epochs={n}", *settings)
        times.append((used, time.perf_counter() - begin))
    steps = many * longer - few
    return [(long - short) / steps for short, long in zip(*times)]


def race(program, folder, case, threads, rounds):
    shape, front, batch, members, _, steps = CASES[case]
    x, y = write_job(folder, shape, front, batch, batch, members, threads)
    nets = nets_of(case)
    for k in range(rounds):
        times = {"tutti": seconds_of_step(program, folder, case, threads)[0]}
        times.update({name: time_torch(of, x, y, steps) for name, of in nets.items()})
        for name, seconds in times.items():
            print(json.dumps({"case": case, "round": k, "program": name, "cpu_s_per_step": round(seconds, 5)}),
                  flush=True)


def race_on_gpu(program, folder, case, rounds):
    shape, front, batch, members, _, steps = CASES[case]
    x, y = write_job(folder, shape, front, batch, batch, members, 1, "gpu")
    seconds_of_step(program, folder, case, 1)  # the first start is slower
    for k in range(rounds):
        for precision in ("fp32", "tf32"):
            times = {"tutti": seconds_of_step(program, folder, case, 1, f"run.precision={precision}", longer=30)[1]}
            for name in nets_of(case):
                for graph in (True, False):
                    times[name if graph else f"{name} eager"] = time_torch_on_gpu(
                        nets_of(case)[name], x, y, 4 * steps, graph, precision == "tf32")
            for name, seconds in times.items():
                print(json.dumps({"case": case, "round": k, "precision": precision, "program": name,
                                  "ms_per_step": round(1e3 * seconds, 3)}), flush=True)


WAYS = [(1, 1, []), (1, 8, [])] + [(2, parts, ["run.stages=2"]) for parts in (2, 4, 8)] + [
    (2, parts, ["run.ranks_per_member=2"]) for parts in (2, 8)] + [
    (4, parts, ["run.stages=2", "run.ranks_per_member=2"]) for parts in (4, 8)]
PIPELINES = [(2, parts) for parts in (1, 2, 4, 8)] + [(4, parts) for parts in (2, 4)]


def time_ranks(program, folder, ranks, settings, epochs):
    """Wall seconds of a training on ranks of one thread."""
    launch = ["mpirun", "--oversubscribe", "--allow-run-as-root", "-n", str(ranks)] if ranks > 1 else []
    words = [w for s in (f"run.directory=out{time.monotonic_ns()}", f"train.epochs={epochs}", *settings)
             for w in ("--set", s)]
    begin = time.perf_counter()
    subprocess.run([*launch, program, "train", "--quiet", "job.json", *words], cwd=folder, check=True,
                   stderr=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"})
    return time.perf_counter() - begin


def predicted(program, folder, ranks, settings):
    """How many times as fast as one rank, at most, as `tutti plan` says."""
    words = [w for s in ("run.directory=planned", *settings) for w in ("--set", s)]
    text = subprocess.run([program, "plan", "job.json", "--ranks", str(ranks), *words], cwd=folder, check=True,
                          capture_output=True, text=True).stdout
    found = re.search(r"at most ([0-9.]+) times as fast as one rank", text)
    return float(found[1]) if found else None


def pipeline_of(net, stage):
    halves = ([net.conv1, net.bn1, net.relu, net.maxpool, net.layer1, net.layer2],
              [net.layer3, net.layer4, net.avgpool, nn.Flatten(), net.fc])
    return nn.Sequential(*halves[stage])


def pipeline(rank, ranks, port, parts, steps, result):
    """Seconds of a step of two stages in `parts` parts; each stage has ranks / 2 processes with as many rows."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
    columns = ranks // 2
    stage, rows = rank // columns, 32 // columns
    columns_of = [torch.distributed.new_group([c, columns + c]) for c in range(columns)]
    stages_of = [torch.distributed.new_group(list(range(s * columns, (s + 1) * columns))) for s in range(2)]
    net = pipeline_of(torchvision.models.resnet18(num_classes=CLASSES), stage)
    optimizer = torch.optim.SGD(net.parameters(), 1e-3, momentum=0.9)
    schedule = ScheduleGPipe(PipelineStage(net, stage, 2, torch.device("cpu"), group=columns_of[rank % columns]),
                             parts, loss_fn=nn.functional.cross_entropy)
    x, y = torch.randn(rows, 3, 64, 64), torch.randint(0, CLASSES, (rows,))

    def one():
        optimizer.zero_grad()
        schedule.step(*([x] if stage == 0 else []), **({"target": y} if stage else {}))
        for p in net.parameters() if columns > 1 else []:
            torch.distributed.all_reduce(p.grad, group=stages_of[stage])
            p.grad /= columns
        optimizer.step()

    for _ in range(2):
        one()
    begin = time.perf_counter()
    for _ in range(steps):
        one()
    result.put((time.perf_counter() - begin) / steps)


def ddp(rank, ranks, port, steps, result):
    """Seconds of a step of DistributedDataParallel, in a process of one thread."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
    net = nn.parallel.DistributedDataParallel(torchvision.models.resnet18(num_classes=CLASSES))
    optimizer = torch.optim.SGD(net.parameters(), 1e-3, momentum=0.9)
    x, y = torch.randn(32 // ranks, 3, 64, 64), torch.randint(0, CLASSES, (32 // ranks,))
    for _ in range(2):
        step(net, optimizer, x, y)
    begin = time.perf_counter()
    for _ in range(steps):
        step(net, optimizer, x, y)
    result.put((time.perf_counter() - begin) / steps)


def time_processes(function, ranks, *more):
    context = torch.multiprocessing.get_context("spawn")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    result = context.Queue()
    processes = [context.Process(target=function, args=(r, ranks, port, *more, result)) for r in range(ranks)]
    for process in processes:
        process.start()
    times = [result.get() for _ in processes]
    for process in processes:
        process.join()
    return max(times)


def teams(program, folder, rounds, steps):
    write_job(folder, (3, 64, 64), resnet_rows(18), 32, 32, 1, 1)
    for k in range(rounds):
        for ranks, parts, settings in WAYS:
            own = [f"train.parts={parts}", *settings]
            short, long = (time_ranks(program, folder, ranks, own, n) for n in (2, 2 + steps))
            print(json.dumps({"case": "teams", "round": k, "program": "tutti", "ranks": ranks, "parts": parts,
                              "how": " ".join(settings), "s_per_step": round((long - short) / steps, 4),
                              "plan": predicted(program, folder, ranks, own)}), flush=True)
        for ranks in (1, 2):
            print(json.dumps({"case": "teams", "round": k, "program": "torch", "ranks": ranks,
                              "how": "DistributedDataParallel",
                              "s_per_step": round(time_processes(ddp, ranks, steps), 4)}), flush=True)
        for ranks, parts in PIPELINES:
            print(json.dumps({"case": "teams", "round": k, "program": "torch", "ranks": ranks, "parts": parts,
                              "how": "ScheduleGPipe",
                              "s_per_step": round(time_processes(pipeline, ranks, parts, steps), 4)}),
                  flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--equal", type=int, nargs="*", default=[18, 34, 50, 101])
    p.add_argument("--cases", nargs="*", default=["resnet18", "cifar5"])
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--steps", type=int, default=20, help="steps that `teams` measures")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--build", default="build")
    p.add_argument("--device", default="cpu", choices=("cpu", "gpu"))
    a = p.parse_args()
    program = str(pathlib.Path(a.build, "tutti").resolve())
    torch.set_num_threads(a.threads)
    print(json.dumps({"torch": torch.__version__, "torchvision": torchvision.__version__,
                      "threads": a.threads, "machine": platform.processor() or platform.machine()}), flush=True)
    for depth in a.equal:
        with tempfile.TemporaryDirectory() as folder:
            compare(program, pathlib.Path(folder), depth)
    for case in a.cases:
        with tempfile.TemporaryDirectory() as folder:
            if case == "teams":
                teams(program, pathlib.Path(folder), a.rounds, a.steps)
            elif a.device == "gpu":
                race_on_gpu(program, pathlib.Path(folder), case, a.rounds)
            else:
                race(program, pathlib.Path(folder), case, a.threads, a.rounds)


if __name__ == "__main__":
    main()
