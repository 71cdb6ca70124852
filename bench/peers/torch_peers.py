#!/usr/bin/python3
"""Training steps of an ensemble of MLPs in PyTorch on the CPU, timed in four ways.

  torch_peers.py --workload A|B|C|E --way loop|procs|bmm|vmap [--threads N] [--seconds S]

  loop   one nn.Module and one torch.optim.Adam per member, member after member
  procs  the same loop in N processes of one thread each, members dealt over them
  bmm    stacked parameters, hand-written backward pass, stacked Adam
  vmap   functorch vmap over grad, stacked Adam

Before timing, steps of loop, bmm and vmap from one start must agree (--check alone does only that).
Prints one line of JSON. A member-step is one Adam step of one member on one whole batch. The rows a
member visits are drawn before the clock starts; gathering them is timed.
"""
import argparse
import ctypes
import json
import math
import multiprocessing
import os
import sys
import time

import torch
import torch.nn.functional as F

# members, layer widths, batch size; the same table is in ../bench_cpu.c
WORKLOADS = {
    "A": (16, (8, 32, 32, 1), 256),
    "B": (128, (8, 64, 64, 1), 256),
    "C": (1000, (16, 128, 128, 1), 256),
    "E": (4096, (4, 16, 1), 64),
}
WAYS = ("loop", "procs", "bmm", "vmap")
ROWS = 10000
TRAIN_ROWS = 9984  # 39 * 256 = 156 * 64: every step of every workload has a whole batch
LEARNING_RATE, BETA1, BETA2, EPSILON = 1e-3, 0.9, 0.999, 1e-8
LOOP_VISIT = 39  # steps of one member before the loop goes on to the next
LOOP_SAMPLE = 32  # members the loop is timed on, at most


def make_data(widths, dtype):
    g = torch.Generator().manual_seed(1)
    x = torch.randn(ROWS, widths[0], generator=g, dtype=dtype)
    y = torch.sin(x.sum(1, keepdim=True)) + 0.1 * torch.randn(ROWS, 1, generator=g, dtype=dtype)
    return x, y


def make_start(members, widths, dtype):
    """Stacked W (M, out, in) and b (M, out) per layer, uniform in +-1/sqrt(in)."""
    g = torch.Generator().manual_seed(2)
    params = []
    for n_in, n_out in zip(widths, widths[1:]):
        for shape in ((members, n_out, n_in), (members, n_out)):
            u = torch.rand(*shape, generator=g, dtype=dtype)
            params.append((2 * u - 1) * n_in**-0.5)
    return params


def make_orders(members):
    """Rows of one epoch (M, TRAIN_ROWS): every member shuffles for itself."""
    g = torch.Generator().manual_seed(3)
    return torch.stack([torch.randperm(TRAIN_ROWS, generator=g) for _ in range(members)])


def batch_of(order, step, batch):
    """Row numbers of a step, the last dimension of `order` cut into whole batches."""
    first = step * batch % TRAIN_ROWS
    return order[..., first : first + batch]


class Loop:
    """Member after member, as a user of torch.nn writes it."""

    def __init__(self, params, x, y, order, batch):
        self.x, self.y, self.order, self.batch = x, y, order, batch
        self.members = order.shape[0]
        self.nets = [self.make_net([p[m] for p in params]) for m in range(self.members)]
        self.adams = [self.make_adam(net) for net in self.nets]

    @staticmethod
    def make_net(params):
        layers = []
        for w, b in zip(params[0::2], params[1::2]):
            linear = torch.nn.Linear(w.shape[1], w.shape[0], dtype=w.dtype)
            with torch.no_grad():
                linear.weight.copy_(w)
                linear.bias.copy_(b)
            layers += [linear, torch.nn.ReLU()]
        return torch.nn.Sequential(*layers[:-1])

    @staticmethod
    def make_adam(net):
        return torch.optim.Adam(
            net.parameters(), lr=LEARNING_RATE, betas=(BETA1, BETA2), eps=EPSILON
        )

    def step_member(self, m, step):
        net, adam = self.nets[m], self.adams[m]
        rows = batch_of(self.order[m], step, self.batch)
        loss = F.mse_loss(net(self.x[rows]), self.y[rows])
        adam.zero_grad()
        loss.backward()
        adam.step()
        return loss.detach()

    def step(self, step):
        return torch.stack([self.step_member(m, step) for m in range(self.members)])

    def params(self):
        lists = [[p.detach() for p in net.parameters()] for net in self.nets]
        return [torch.stack(same) for same in zip(*lists)]


class Stacked:
    """All members at once; a subclass gives loss (M) and gradients from stacked parameters."""

    def __init__(self, params, x, y, order, batch):
        self.x, self.y, self.order, self.batch = x, y, order, batch
        self.members = order.shape[0]
        self.w = [p.clone() for p in params]
        self.mean = [torch.zeros_like(p) for p in params]
        self.square = [torch.zeros_like(p) for p in params]
        self.steps = 0

    def step(self, step):
        rows = batch_of(self.order, step, self.batch)
        loss, grads = self.gradient(self.x[rows], self.y[rows])
        with torch.no_grad():
            self.adam(grads)
        return loss

    def adam(self, grads):
        self.steps += 1
        k1, k2 = 1 - BETA1**self.steps, 1 - BETA2**self.steps
        for w, g, m, v in zip(self.w, grads, self.mean, self.square):
            m.mul_(BETA1).add_(g, alpha=1 - BETA1)
            v.mul_(BETA2).addcmul_(g, g, value=1 - BETA2)
            w.addcdiv_(m, v.sqrt().div_(k2**0.5).add_(EPSILON), value=-LEARNING_RATE / k1)

    def params(self):
        return self.w


class Bmm(Stacked):
    """Matrix products of all members by torch.baddbmm, backward pass by hand."""

    @torch.no_grad()
    def gradient(self, x, y):
        h, layers = [x], len(self.w) // 2
        for i in range(layers):
            w, b = self.w[2 * i], self.w[2 * i + 1]
            z = torch.baddbmm(b.unsqueeze(1), h[i], w.transpose(1, 2))
            h.append(z.relu_() if i < layers - 1 else z)
        residual = h[-1] - y
        loss = residual.square().mean((1, 2))
        d = residual.mul_(2 / (y.shape[1] * y.shape[2]))
        grads = [None] * len(self.w)
        for i in reversed(range(layers)):
            if i < layers - 1:
                d.mul_(h[i + 1] > 0)
            grads[2 * i] = torch.bmm(d.transpose(1, 2), h[i])
            grads[2 * i + 1] = d.sum(1)
            if i > 0:
                d = torch.bmm(d, self.w[2 * i])
        return loss, grads


class Vmap(Stacked):
    """Gradient of one member, vectorised over members."""

    def __init__(self, *args):
        from functorch import grad_and_value, vmap

        super().__init__(*args)
        self.vectorised = vmap(grad_and_value(self.loss_of_one))

    @staticmethod
    def loss_of_one(params, x, y):
        layers = len(params) // 2
        for i in range(layers):
            x = F.linear(x, params[2 * i], params[2 * i + 1])
            x = F.relu(x) if i < layers - 1 else x
        return F.mse_loss(x, y)

    def gradient(self, x, y):
        grads, loss = self.vectorised(tuple(self.w), x, y)
        return loss, grads


def check(widths, batch, members=3, steps=3, tolerance=1e-5):
    """Largest difference of losses and weights after some steps. In double: Adam divides a gradient
    by its own size, which turns the rounding of a vanishing float32 gradient into a whole step."""
    x, y = make_data(widths, torch.float64)
    start, order = make_start(members, widths, torch.float64), make_orders(members)
    runs = [way(start, x, y, order, batch) for way in (Loop, Bmm, Vmap)]
    worst = 0.0
    for step in range(steps):
        losses = [run.step(step) for run in runs]
        for run, loss in zip(runs[1:], losses[1:]):
            pairs = [(loss, losses[0])] + list(zip(run.params(), runs[0].params()))
            gaps = [(a - b).abs().nan_to_num(math.inf).max() for a, b in pairs]
            worst = max([worst] + [float(gap) for gap in gaps])
    if not worst <= tolerance:
        sys.exit(f"torch_peers.py: the ways differ by {worst:.3g}, more than {tolerance:g}")
    return worst


def time_steps(step, seconds):
    """Steps and seconds of whole calls of step(i) after a warm-up of at most seconds / 4."""
    begin, i = time.perf_counter(), 0
    while i == 0 or (i < 3 and time.perf_counter() - begin < seconds / 4):
        step(i)
        i += 1
    begin, first = time.perf_counter(), i
    while i == first or time.perf_counter() - begin < seconds:
        step(i)
        i += 1
    return i - first, time.perf_counter() - begin


def time_loop(workload, seconds, members):
    """Member-steps per second of one process that trains `members` members in turn."""
    _, widths, batch = WORKLOADS[workload]
    x, y = make_data(widths, torch.float32)
    start = make_start(members, widths, torch.float32)
    loop = Loop(start, x, y, make_orders(members), batch)

    def visit(i):
        m, first = i % members, i // members * LOOP_VISIT
        for step in range(first, first + LOOP_VISIT):
            loop.step_member(m, step)

    visits, wall = time_steps(visit, seconds)
    return visits * LOOP_VISIT / wall, min(members, visits)


def procs_worker(workload, seconds, members, gate, answers):
    torch.set_num_threads(1)
    gate.wait()
    answers.put(time_loop(workload, seconds, members))


def time_procs(workload, seconds, members, processes):
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")  # for the children
    context = multiprocessing.get_context("spawn")
    gate, answers = context.Barrier(processes), context.Queue()
    share = max(1, members // processes)
    args = (workload, seconds, share, gate, answers)
    workers = [context.Process(target=procs_worker, args=args) for _ in range(processes)]
    for worker in workers:
        worker.start()
    results = [answers.get() for _ in workers]
    for worker in workers:
        worker.join()
    return sum(rate for rate, _ in results), sum(count for _, count in results)


def time_stacked(way, workload, seconds):
    members, widths, batch = WORKLOADS[workload]
    x, y = make_data(widths, torch.float32)
    start = make_start(members, widths, torch.float32)
    run = way(start, x, y, make_orders(members), batch)
    steps, wall = time_steps(run.step, seconds)
    return members * steps / wall, members


def time_way(way, workload, seconds, threads):
    sample = min(WORKLOADS[workload][0], LOOP_SAMPLE)
    if way == "procs":
        return time_procs(workload, seconds, sample, threads)
    if way == "loop":
        return time_loop(workload, seconds, sample)
    return time_stacked({"bmm": Bmm, "vmap": Vmap}[way], workload, seconds)


def flops(widths, batch):
    """Of the matrix products of a member-step; the first layer has no input gradient."""
    weights = sum(a * b for a, b in zip(widths, widths[1:]))
    return 2 * batch * (3 * weights - widths[0] * widths[1])


def blas_core():
    """What OpenBLAS takes this processor for; "" with another BLAS."""
    try:
        library = ctypes.CDLL("libopenblas.so.0")
        library.openblas_get_corename.restype = ctypes.c_char_p
        return library.openblas_get_corename().decode()
    except (OSError, AttributeError):
        return ""


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workload", choices=WORKLOADS, required=True)
    parser.add_argument("--way", choices=WAYS, default="bmm")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--check", action="store_true", help="compare the ways, time nothing")
    parser.add_argument("--any-blas", action="store_true", help="time with another BLAS too")
    args = parser.parse_args()

    core = blas_core()
    if not core and not args.any_blas:
        parser.error("PyTorch multiplies with a BLAS that is not OpenBLAS; with the reference BLAS "
                     "no comparison is fair: install libopenblas0-pthread, or say --any-blas")
    torch.set_num_threads(args.threads)
    members, widths, batch = WORKLOADS[args.workload]
    difference = check(widths, batch)
    line = {"program": "torch", "workload": args.workload, "way": args.way}
    line.update(threads=args.threads, members=members, widths=widths, batch=batch)
    line.update(torch=torch.__version__, blas_core=core, check_difference=difference)
    if not args.check:
        rate, timed = time_way(args.way, args.workload, args.seconds, args.threads)
        line.update(member_steps_per_s=rate, gflops=rate * flops(widths, batch) / 1e9)
        line.update(members_timed=timed, seconds=args.seconds)
    print(json.dumps(line))


if __name__ == "__main__":
    main()
