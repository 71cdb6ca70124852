#!/usr/bin/python3
"""Training steps of an ensemble of MLPs in JAX: jit of a scan over steps of a vmap over members.

  jax_peers.py --case DIR --way NAME [--device cpu|cuda] [--precision fp32|tf32]
  jax_peers.py --serve [--device cpu|cuda]

  scan1, scan4, scan16   the body of the scan unrolled 1, 4 or 16 times

See case.py for the case, the check before the timing, and the output. The state is donated; a unit
is one call with all steps of the case. prepare_s includes the compilation.
"""
import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # other programs use the GPU too

import case
from case import Contender, Refused

try:
    import jax
    import jax.numpy as jnp
except ImportError as missing:
    raise SystemExit(f"jax_peers.py: {missing}") from None

# Precision of float32 matrix products; the default of JAX on a GPU is tf32.
PRECISION = {"fp32": "highest", "tf32": "TF32_TF32_F32"}


ACTIVATIONS = {"relu": jax.nn.relu, "silu": jax.nn.silu}


def loss_of_one(params, at, x, y):
    layers = len(params) // 2
    for i in range(layers):
        x = x @ params[2 * i].T + params[2 * i + 1]
        x = ACTIVATIONS[at.activation](x) if i < layers - 1 else x
    if at.loss == "mse":
        return jnp.mean(jnp.square(x - y))
    variance = jax.nn.softplus(x[:, 1::2]) + at.variance_floor
    return 0.5 * jnp.mean(jnp.log(variance) + jnp.square(x[:, 0::2] - y) / variance)


def make_step(at, x, y):
    """One Adam step of one member: (state, rows) -> (state, loss)."""
    def adam(p, g, m, v, t):
        m = at.beta1 * m + (1 - at.beta1) * g
        v = at.beta2 * v + (1 - at.beta2) * jnp.square(g)
        root = jnp.sqrt(v / (1 - at.beta2**t))
        return p - at.learning_rate * (m / (1 - at.beta1**t)) / (root + at.epsilon), m, v

    def step(state, rows):
        params, ms, vs, t = state
        loss, grads = jax.value_and_grad(loss_of_one)(params, at, x[rows], y[rows])
        t = t + 1
        moved = [adam(p, g, m, v, t) for p, g, m, v in zip(params, grads, ms, vs)]
        params, ms, vs = (list(part) for part in zip(*moved))
        return (params, ms, vs, t), loss

    return step


class Scan(Contender):
    def __init__(self, at, precision, unroll):
        self.at = at
        self.member_steps_per_unit = at.members * at.steps
        x, y, self.order = jnp.asarray(at.x), jnp.asarray(at.y), jnp.asarray(at.order())
        self.state = self.start()

        def run(state, order, x, y):
            step = jax.vmap(make_step(at, x, y), in_axes=((0, 0, 0, None), 0),
                            out_axes=((0, 0, 0, None), 0))
            return jax.lax.scan(step, state, order, unroll=unroll)

        with jax.default_matmul_precision(PRECISION[precision]):
            lowered = jax.jit(run, donate_argnums=0).lower(self.state, self.order, x, y)
            self.compiled = lowered.compile()
        self.data = (x, y)

    def start(self):
        params = [jnp.asarray(p) for p in self.at.weights()]
        zeros = [[jnp.zeros_like(p) for p in params] for _ in range(2)]
        return params, *zeros, jnp.zeros((), jnp.float32)

    def call(self):
        self.state, losses = self.compiled(self.state, self.order, *self.data)
        return losses

    def losses(self):
        return jax.device_get(self.call())[:, self.at.checked].T

    def units(self, count):
        for _ in range(count):
            self.call()
        jax.block_until_ready(self.state)

    def memory(self):
        plan = self.compiled.memory_analysis()
        return plan and (plan.temp_size_in_bytes + plan.argument_size_in_bytes
                         + plan.output_size_in_bytes - plan.alias_size_in_bytes)


def scan(unroll):
    def make(at, precision, settings):
        if precision != "fp32" and settings["device"] == "cpu":
            raise Refused(f"a CPU has no {precision}")
        return Scan(at, precision, unroll)
    return make


WAYS = {f"scan{unroll}": scan(unroll) for unroll in (1, 4, 16)}


def main():
    args = case.arguments(__doc__, threads={"type": int, "default": 2})
    jax.config.update("jax_platforms", args.device)
    facts = {"jax": jax.__version__, "device": jax.local_devices()[0].device_kind}
    case.main(case.Program("jax", WAYS, {"device": args.device}, facts), args)


if __name__ == "__main__":
    main()
