#!/usr/bin/python3
"""Training steps of an ensemble of MLPs in PyTorch, on CPU or GPU, in several ways.

  torch_peers.py --case DIR --way NAME [--device cpu|cuda] [--precision fp32|tf32] [--threads N]
  torch_peers.py --serve [--device cpu|cuda]

  loop           one nn.Module and one torch.optim.Adam per member, member after member
  procs          the same loop in N processes of one thread each, members dealt over them; CPU only
  bmm            all members by torch.baddbmm, backward pass by hand
  vmap           torch.func vmap over grad, stacked parameters
  bmm_graph      bmm in one CUDA graph of all steps of the case
  vmap_graph     vmap in one CUDA graph of all steps of the case
  compile        bmm under torch.compile(mode="reduce-overhead")
  compile_graph  bmm under torch.compile, then one CUDA graph of all steps of the case

See case.py for the case, the check before the timing, and the output. The rows of a member are
drawn beforehand; gathering them is timed.
"""
import ctypes
import multiprocessing
import os

import torch
import torch.nn.functional as F

import case
from case import Contender, Refused

LOOP_SAMPLE = 32  # members the loop is timed on, at most


# settings

def begin(precision, settings):
    """Set the precision of matrix products, and record the memory in use."""
    device = settings["device"]
    if precision == "tf32" and device == "cpu":
        raise Refused("a CPU has no tf32")
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        settings["taken"] = torch.cuda.memory_allocated()


def make_adam(params, at, device):
    """On a GPU one kernel for all parameters."""
    options = {"lr": at.learning_rate, "betas": (at.beta1, at.beta2), "eps": at.epsilon}
    if device == "cuda":
        options.update(fused=True, capturable=True)
    return torch.optim.Adam(params, **options)


def blas_core():
    """"MKL", or the processor type that OpenBLAS detected; "" with another BLAS."""
    if torch.backends.mkl.is_available():
        return "MKL"
    try:
        library = ctypes.CDLL("libopenblas.so.0")
        library.openblas_get_corename.restype = ctypes.c_char_p
        return library.openblas_get_corename().decode()
    except (OSError, AttributeError):
        return ""


def tensors(at, device):
    """x, y, weights, order on the device."""
    def put(array):
        return torch.from_numpy(array).to(device)
    return put(at.x), put(at.y), [put(p) for p in at.weights()], put(at.order().astype("int64"))


def device_bytes(settings):
    """The largest memory use since begin()."""
    if settings["device"] != "cuda":
        return None
    return torch.cuda.max_memory_allocated() - settings["taken"]


def wait(device):
    if device == "cuda":
        torch.cuda.synchronize()


# activations and losses of a case

MODULES = {"relu": torch.nn.ReLU, "silu": torch.nn.SiLU}
# the function, which may overwrite z, and its slope times d, from z or from h = f(z)
ACTIVATIONS = {"relu": (torch.relu_, lambda d, z, h: torch.ops.aten.threshold_backward(d, h, 0)),
               "silu": (F.silu, lambda d, z, h: torch.ops.aten.silu_backward(d, z))}


def loss_of(at, o, y):
    """The loss of one member, for automatic gradients."""
    if at.loss == "mse":
        return F.mse_loss(o, y)
    variance = F.softplus(o[:, 1::2]) + at.variance_floor
    return 0.5 * (variance.log() + (o[:, 0::2] - y).square() / variance).mean()


def loss_by_hand(at, o, y):
    """The losses of all members (M), and their slopes in o."""
    values = y.shape[1] * y.shape[2]
    if at.loss == "mse":
        return (o - y).square().mean((1, 2)), (o - y) * (2 / values)
    e, s = o[..., 0::2] - y, o[..., 1::2]
    inverse = 1 / (F.softplus(s) + at.variance_floor)
    z = e.square() * inverse
    slopes = (e * inverse, 0.5 * inverse * (1 - z) * torch.sigmoid(s))
    loss = 0.5 * (z - inverse.log()).mean((1, 2))
    return loss, torch.stack(slopes, -1).flatten(-2) / values


# member after member

class Loop(Contender):
    """The usual style with torch.nn. A unit is all steps of one member; each unit trains the next
    member of a sample."""

    def __init__(self, at, settings, only=None):
        self.at, self.settings, self.device = at, settings, settings["device"]
        self.x, self.y, params, self.order = tensors(at, self.device)
        rest = [m for m in range(at.members) if m not in at.checked]
        self.sample = only or (at.checked + rest)[:LOOP_SAMPLE]
        self.nets = [self.make_net([p[m] for p in params]) for m in self.sample]
        self.adams = [make_adam(net.parameters(), at, self.device) for net in self.nets]
        self.member_steps_per_unit, self.turn = at.steps, 0

    def make_net(self, params):
        layers = []
        for w, b in zip(params[0::2], params[1::2]):
            linear = torch.nn.Linear(w.shape[1], w.shape[0], device=self.device)
            with torch.no_grad():
                linear.weight.copy_(w)
                linear.bias.copy_(b)
            layers += [linear, MODULES[self.at.activation]()]
        return torch.nn.Sequential(*layers[:-1])

    def visit(self, i):
        """All steps of the case of member i of the sample; its losses."""
        net, adam, losses = self.nets[i], self.adams[i], []
        for k in range(self.at.steps):
            rows = self.order[k, self.sample[i]]
            loss = loss_of(self.at, net(self.x[rows]), self.y[rows])
            adam.zero_grad()
            loss.backward()
            adam.step()
            losses.append(loss.detach())
        return torch.stack(losses)

    def losses(self):
        return torch.stack([self.visit(self.sample.index(m)) for m in self.at.checked]).cpu()

    def units(self, count):
        for _ in range(count):
            self.visit(self.turn % len(self.sample))
            self.turn += 1
        wait(self.device)

    def memory(self):
        return device_bytes(self.settings)


def procs_worker(folder, seconds, members, gate, answers):
    torch.set_num_threads(1)
    timed = object.__new__(case.Timed)
    at = case.Case(folder)
    timed.case, timed.it = at, Loop(at, {"device": "cpu"}, members)
    gate.wait()
    timed.warm_up()
    steps, taken = timed.time(seconds)
    answers.put(steps * at.members / taken)


class Procs(Loop):
    """The loop in several processes; each one measures its own time."""

    def __init__(self, at, settings):
        super().__init__(at, settings)
        if self.device != "cpu":
            raise Refused("processes that share a GPU need NVIDIA's MPS; timed on the CPU only")
        self.processes = settings["threads"]

    def rate(self, seconds):
        """Member-steps per second of all processes."""
        os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")  # for the children
        context = multiprocessing.get_context("spawn")
        gate, answers = context.Barrier(self.processes), context.Queue()
        shares = [self.sample[i :: self.processes] or self.sample for i in range(self.processes)]
        workers = [context.Process(target=procs_worker,
                                   args=(str(self.at.folder), seconds, share, gate, answers))
                   for share in shares]
        for worker in workers:
            worker.start()
        rates = [answers.get() for _ in workers]
        for worker in workers:
            worker.join()
        return sum(rates)


# all members at once

class Stacked(Contender):
    """A subclass turns parameters and a batch into losses (M) and gradients. A unit is one step."""

    def __init__(self, at, settings):
        self.at, self.settings, self.device = at, settings, settings["device"]
        self.x, self.y, params, self.order = tensors(at, self.device)
        self.w = self.arrange(params)
        self.member_steps_per_unit, self.turn = at.members, 0
        self.adam = make_adam(self.trained(), at, self.device)

    def arrange(self, params):
        return [p.requires_grad_() for p in params]

    def trained(self):
        """What the optimizer sees."""
        return self.w

    def gradient(self, x, y):
        raise NotImplementedError

    def give(self, grads):
        for p, g in zip(self.w, grads):
            p.grad = g

    def step(self, k):
        rows = self.order[k]
        loss, grads = self.gradient(self.x[rows], self.y[rows])
        self.give(grads)
        self.adam.step()
        return loss

    def losses(self):
        taken = torch.stack([self.step(k) for k in range(self.at.steps)])
        return taken[:, self.at.checked].T.detach().cpu()

    def units(self, count):
        for _ in range(count):
            self.step(self.turn % self.at.steps)
            self.turn += 1
        wait(self.device)

    def memory(self):
        return device_bytes(self.settings)


def by_hand(at, w, x, y, out):
    """Loss (M) and gradients of stacked [W1 (M, out, in), b1 (M, out), ...] by matrix products of
    all members; gradients go to out[...] where that is not None."""
    value, slope = ACTIVATIONS[at.activation]
    h, zs, layers = [x], [], len(w) // 2
    for i in range(layers):
        zs.append(torch.baddbmm(w[2 * i + 1].unsqueeze(1), h[i], w[2 * i].transpose(1, 2)))
        h.append(value(zs[i]) if i < layers - 1 else zs[i])
    loss, d = loss_by_hand(at, h[-1], y)
    grads = [None] * len(w)
    for i in reversed(range(layers)):
        if i < layers - 1:
            d = slope(d, zs[i], h[i + 1])
        grads[2 * i] = torch.bmm(d.transpose(1, 2), h[i], out=out[2 * i])
        grads[2 * i + 1] = torch.sum(d, 1, out=out[2 * i + 1])
        if i > 0:
            d = torch.bmm(d, w[2 * i])
    return loss, grads


class Bmm(Stacked):
    """Parameters and gradients are views of one array each, so that Adam is one kernel."""

    def arrange(self, params):
        self.flat = torch.cat([p.reshape(-1) for p in params])
        self.flat.grad = torch.zeros_like(self.flat)
        sizes = [p.numel() for p in params]
        self.slots = [g.view(p.shape) for p, g in zip(params, self.flat.grad.split(sizes))]
        return [f.view(p.shape) for p, f in zip(params, self.flat.split(sizes))]

    def trained(self):
        return [self.flat]

    def give(self, grads):
        pass  # views of the array that Adam reads

    @torch.no_grad()
    def gradient(self, x, y):
        return by_hand(self.at, self.w, x, y, self.slots)


class Vmap(Stacked):
    """Gradient of one member, vectorized over members."""

    def __init__(self, at, settings):
        try:
            from torch.func import grad_and_value, vmap
        except ImportError:  # before 2.0
            from functorch import grad_and_value, vmap
        super().__init__(at, settings)
        self.vectorized = vmap(grad_and_value(self.loss_of_one))

    def loss_of_one(self, params, x, y):
        layers, activation = len(params) // 2, MODULES[self.at.activation]()
        for i in range(layers):
            x = F.linear(x, params[2 * i], params[2 * i + 1])
            x = activation(x) if i < layers - 1 else x
        return loss_of(self.at, x, y)

    def gradient(self, x, y):
        grads, loss = self.vectorized(tuple(p.detach() for p in self.w), x, y)
        return loss, grads


class Compiled(Stacked):
    """Gradient and Adam in one compiled function; PyTorch makes the kernels."""

    mode = "reduce-overhead"

    def __init__(self, at, settings):
        if not hasattr(torch, "compile"):
            raise Refused(f"PyTorch {torch.__version__} has no torch.compile")
        super().__init__(at, settings)
        self.w = [p.detach() for p in self.w]
        self.m = [torch.zeros_like(p) for p in self.w]
        self.v = [torch.zeros_like(p) for p in self.w]
        self.taken = torch.zeros((), dtype=torch.float32, device=self.device)
        for kept in (*self.w, *self.m, *self.v, self.taken):
            torch._dynamo.mark_static_address(kept)
        mode = {"mode": self.mode} if self.mode else {}
        self.compiled = torch.compile(self.whole_step, fullgraph=True, **mode)

    def whole_step(self, rows):
        at = self.at
        loss, grads = by_hand(at, self.w, self.x[rows], self.y[rows], [None] * len(self.w))
        self.taken.add_(1)
        step_size = at.learning_rate / (1 - at.beta1**self.taken)
        root = (1 - at.beta2**self.taken).rsqrt()
        for p, g, m, v in zip(self.w, grads, self.m, self.v):
            m.lerp_(g, 1 - at.beta1)
            v.mul_(at.beta2).addcmul_(g, g, value=1 - at.beta2)
            p.sub_(step_size * m / (v.sqrt() * root + at.epsilon))
        return loss

    @torch.no_grad()
    def step(self, k):
        if self.mode:
            torch.compiler.cudagraph_mark_step_begin()
        loss = self.compiled(self.order[k])
        return loss.clone() if self.mode else loss  # the next step reuses its memory


class CompiledForGraph(Compiled):
    mode = None


class Graphed(Contender):
    """All steps of a case by another way, in one CUDA graph. A unit is one launch of it."""

    def __init__(self, at, settings, way):
        if settings["device"] != "cuda":
            raise Refused("a CUDA graph needs a GPU")
        self.at, self.settings, self.inner = at, settings, way(at, settings)
        self.member_steps_per_unit = at.members * at.steps
        self.before = self.copy_state()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for k in range(3):  # first-time allocations and choices must not be captured
                self.inner.step(k)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.taken = torch.stack([self.inner.step(k) for k in range(at.steps)])

    def state(self):
        """Every tensor that a step changes."""
        if isinstance(self.inner, Compiled):
            return [*self.inner.w, *self.inner.m, *self.inner.v, self.inner.taken]
        slots = [t for s in self.inner.adam.state.values() for t in s.values()]
        return [*self.inner.trained(), *slots]

    def copy_state(self):
        return [t.detach().clone() for t in self.state()]

    @torch.no_grad()
    def losses(self):
        state = self.state()
        for t in state[len(self.before) :]:  # Adam creates its state at the first step, all zero
            t.zero_()
        for t, old in zip(state, self.before):
            t.copy_(old)
        self.graph.replay()
        torch.cuda.synchronize()
        return self.taken[:, self.at.checked].T.detach().cpu()

    def units(self, count):
        for _ in range(count):
            self.graph.replay()
        torch.cuda.synchronize()

    def memory(self):
        return device_bytes(self.settings)


# the program

def plain(way):
    def make(at, precision, settings):
        begin(precision, settings)
        return way(at, settings)
    return make


def graphed(way):
    def make(at, precision, settings):
        begin(precision, settings)
        return Graphed(at, settings, way)
    return make


WAYS = {
    "loop": plain(Loop), "procs": plain(Procs), "bmm": plain(Bmm), "vmap": plain(Vmap),
    "bmm_graph": graphed(Bmm), "vmap_graph": graphed(Vmap), "compile": plain(Compiled),
    "compile_graph": graphed(CompiledForGraph),
}


def release():
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def main():
    args = case.arguments(__doc__, threads={"type": int, "default": 2},
                          **{"any-blas": {"action": "store_true"}})
    facts = {"torch": torch.__version__, "device": args.device, "threads": args.threads}
    if args.device == "cuda":
        facts["device"] = torch.cuda.get_device_name()
    elif not blas_core() and not args.any_blas:
        raise SystemExit("PyTorch multiplies with neither MKL nor OpenBLAS; with the reference BLAS "
                         "no comparison is fair: install libopenblas0-pthread, or say --any-blas")
    else:
        facts["blas_core"] = blas_core()
    torch.set_num_threads(args.threads)
    settings = {"device": args.device, "threads": args.threads, "release": release}
    case.main(case.Program("torch", WAYS, settings, facts), args)


if __name__ == "__main__":
    main()
