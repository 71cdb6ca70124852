#!/usr/bin/env python3
"""The model of a run on 1 to 1,024 ranks, as tables for docs/internals/scaling.md.

  scaling_model.py [--flops 80e9] [--beta 1e9] [--latency 0.3e-6] [--write 0.5e9] [--score 2.3e6]

Everything that it prints is computed. The constants are measured on one machine with two cores:
flops: per second and core in training (large_member.py speed); beta, latency: bytes per second and
seconds of a message between two ranks (bench_exchange); write: bytes per second of a checkpoint
(bench/results/cpu/2026-11-23-checkpoint-stall.txt); score: rows of a pool per second and core
(pool_scale.py). Give those of your machine instead.
"""
import argparse
import math

from large_member import WORD, cut_layers

RANKS = [2 ** k for k in range(11)]


def parameters(widths):
    return sum(a * b + b for a, b in zip(widths, widths[1:]))


def step_in_parts(k, params, batch, ranks):
    """Seconds: products, exchange of gradients and weights, messages of all ranks with all."""
    busy = min(ranks, batch // 16)
    compute = 6 * params * batch / (busy * k.flops)
    if ranks == 1:
        return compute, 0.0, 0.0
    return (compute, 8 * params * (ranks - 1) / ranks / k.beta,
            3 * (ranks - 1) * k.latency + WORD * (ranks - 1) / k.beta)


def step_in_stages(k, widths, batch, parts, stages):
    """Seconds: products of the largest stage with the bubble, the exchange that is not hidden (the
    first and the last part wait at each cut), messages."""
    width = max(widths)
    cost = [(2 if layer == 0 else 3) * a * b for layer, (a, b) in enumerate(zip(widths, widths[1:]))]
    largest = max(sum(cost[first:end]) for first, end in cut_layers(cost, stages))
    share = largest / sum(cost)
    compute = 6 * parameters(widths) * batch * share / k.flops * (parts + stages - 1) / parts
    if stages == 1:
        return compute, 0.0, 0.0
    part = 4 * width * batch / parts / k.beta + k.latency
    return compute, 2 * (stages - 1) * part, 4 * (stages - 1) * k.latency


def table(title, head, rows):
    print(f"\n{title}\n\n| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |")


def figure(value):
    return f"{value:.3g}"


def ensemble(k):
    """1,024 members without teams: no rank waits for another one but at checkpoints."""
    params, batch, steps, members = parameters([8, 64, 64, 1]), 256, 30000, 1024
    one = 6 * params * batch * steps / k.flops
    rows = []
    for ranks in RANKS:
        train = one * math.ceil(members / ranks)
        write = members * 16 * params / k.write
        rows.append([ranks, figure(train), figure(write),
                     figure(one * members / ranks / (train + write))])
    table("1,024 members 8-64-64-1, batch 256, 30,000 steps; one checkpoint while nothing trains",
          ["ranks", "training, s", "checkpoint, s", "efficiency"], rows)


def teams(k, title, widths, batch, most):
    params = parameters(widths)
    base = sum(step_in_parts(k, params, batch, 1))
    rows = []
    for ranks in [r for r in RANKS if r <= most]:
        parts = step_in_parts(k, params, batch, ranks)
        row = [ranks, *(figure(1e3 * x) for x in parts), figure(base / sum(parts) / ranks)]
        stages = min(ranks, len(widths) - 1)
        step = step_in_stages(k, widths, batch, max(1, batch // 64), stages)
        row += [stages, figure(1e3 * sum(step)), figure(base / sum(step) / stages)]
        rows.append(row)
    table(title, ["ranks", "products, ms", "bytes, ms", "messages, ms", "efficiency", "stages",
                  "step in stages, ms", "efficiency of stages"], rows)


def weak(k):
    """64 members and batches that grow with the ranks of a team."""
    widths, rows = [64, 1024, 1024, 1], []
    params = parameters(widths)
    base = sum(step_in_parts(k, params, 256, 1))
    for ranks in [r for r in RANKS if r >= 64]:
        team = ranks // 64
        step = sum(step_in_parts(k, params, 256 * team, team))
        rows.append([ranks, team, 256 * team, figure(1e3 * step), figure(base / step)])
    table("Weak scaling: 64 members 64-1024-1024-1, 256 rows of a batch for each rank",
          ["ranks", "ranks of a team", "batch", "step, ms", "efficiency"], rows)


def pool(k):
    rows = [[ranks, figure(1e9 / (k.score * ranks)), figure(1e9 * 32 / k.write)]
            for ranks in RANKS]
    table("A pool of 1e9 rows of 8 inputs, 5 members 8-64-64-1; the file system is shared",
          ["ranks", "scores, s", "reading at the speed of one checkpoint, s"], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flops", type=float, default=80e9)
    parser.add_argument("--beta", type=float, default=1e9)
    parser.add_argument("--latency", type=float, default=0.3e-6)
    parser.add_argument("--write", type=float, default=0.5e9)
    parser.add_argument("--score", type=float, default=2.3e6)
    k = parser.parse_args()
    ensemble(k)
    teams(k, "Strong scaling of one member 64-1024-1024-1, batch 2048", [64, 1024, 1024, 1], 2048,
          1024)
    teams(k, "Strong scaling of one member of 16 layers of 1024 units, batch 2048",
          [1024] * 17, 2048, 1024)
    weak(k)
    pool(k)


if __name__ == "__main__":
    main()
