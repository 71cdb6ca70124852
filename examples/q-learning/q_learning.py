#!/usr/bin/env python3
"""Bootstrapped DQN on a chain of states, trained in this process with tutti.Trainer.

  q_learning.py [--states 20] [--heads 128] [--episodes 600] [--seed 1] [--record FILE.csv]

The method is that of Osband, Blundell, Pritzel & Van Roy, "Deep exploration via bootstrapped DQN",
2016, and the chain too, except that another action goes to the right in each state. An agent
starts at the second of N states and has N + 9 steps. The first state has a reward of 0.001, the
last one of 1: the best return is 12. An agent that tries at random where to go arrives at the last
state in one of about 2^N episodes.

Each head is a network that estimates the values of both actions. Each learns from its own half of
the transitions, so that heads disagree about what has been tried little. In each episode the agent
follows one head, drawn at random, to the end.
"""
import argparse
import time

import numpy as np

import tutti

HIDDEN, RATE, BATCH = [32, 32], 1e-3, 32
DISCOUNT = 0.95
SHARE = 0.5           # of the transitions that a head learns from
STEPS = 16            # optimizer steps after each episode
NEW_TARGETS = 10      # episodes between two copies of the weights to the target networks
CAPACITY = 20000      # transitions in the memory


class Chain:
    """States 0 ... N - 1 in a row; in state s the action right[s] goes right, the other left."""

    def __init__(self, states, seed):
        self.states, self.length = states, states + 9
        self.right = np.random.default_rng([seed, 1]).integers(2, size=states)
        # State s as the networks see it: inputs 0 ... s are 1, the others 0.
        self.inputs = np.tril(np.ones((states, states), dtype=np.float32))

    def step(self, state, action):
        """The next state and its reward."""
        state = min(max(state + (1 if action == self.right[state] else -1), 0), self.states - 1)
        return state, {0: 0.001, self.states - 1: 1.0}.get(state, 0.0)


class Memory:
    """The last transitions, and which heads learn from each."""

    def __init__(self, heads):
        self.count = 0
        self.state, self.action, self.next = (np.zeros(CAPACITY, dtype=np.int64) for _ in range(3))
        self.reward = np.zeros(CAPACITY, dtype=np.float32)
        self.mask = np.zeros((CAPACITY, heads), dtype=np.float32)

    def add(self, random, state, action, reward, after):
        i = self.count % CAPACITY
        self.state[i], self.action[i], self.next[i], self.reward[i] = state, action, after, reward
        self.mask[i] = random.random(self.mask.shape[1]) < SHARE
        self.count += 1

    def draw(self, random):
        """A batch: state, action, reward, next state (rows,), mask (heads, rows)."""
        i = random.integers(min(self.count, CAPACITY), size=BATCH)
        return self.state[i], self.action[i], self.reward[i], self.next[i], self.mask[i].T


class Heads:
    """The networks, and the target networks: their weights of some episodes ago."""

    def __init__(self, heads, inputs, seed):
        options = {"inputs": inputs, "targets": 2, "members": heads, "hidden": HIDDEN,
                   "activation": "relu", "optimizer": "adam", "learning_rate": RATE,
                   "batch_size": BATCH, "seed": seed}
        self.online, self.target = tutti.Trainer(**options), tutti.Trainer(**options)

    def values(self, x):
        """Value of each action, (heads, rows, 2)."""
        return self.online.predict(x)

    def target_values(self, x):
        return self.target.predict(x)

    def learn(self, x, action, goal, mask):
        """One step of Adam for the loss sum(mask * (q - goal)**2) / (2 rows) of each head."""
        q = self.online.forward(x)
        rows = np.arange(len(action))
        gradient = np.zeros_like(q)
        gradient[:, rows, action] = mask * (q[:, rows, action] - goal) / len(rows)
        self.online.backward(gradient)
        self.online.update()

    def copy_to_targets(self):
        self.target.set_weights(-1, self.online.get_weights(-1))


def play(chain, heads, memory, random):
    """One episode; returns the sum of its rewards."""
    head, state, total = random.integers(memory.mask.shape[1]), 1, 0.0
    for _ in range(chain.length):
        action = int(heads.values(chain.inputs[state:state + 1])[head, 0].argmax())
        after, reward = chain.step(state, action)
        memory.add(random, state, action, reward, after)
        state, total = after, total + reward
    return total


def learn(chain, heads, memory, random):
    """One optimizer step of all heads."""
    state, action, reward, after, mask = memory.draw(random)
    best = heads.target_values(chain.inputs[after]).max(2)
    heads.learn(chain.inputs[state], action, reward + DISCOUNT * best, mask)


def train(heads, count, chain, episodes, seed):
    """Returns of the episodes; `count` is the number of heads."""
    random, memory, returns = np.random.default_rng(seed), Memory(count), []
    for episode in range(episodes):
        returns.append(play(chain, heads, memory, random))
        for _ in range(STEPS):
            learn(chain, heads, memory, random)
        if episode % NEW_TARGETS == 0:
            heads.copy_to_targets()
    return np.array(returns)


def main(kind=Heads):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--states", type=int, default=20)
    parser.add_argument("--heads", type=int, default=128)
    parser.add_argument("--episodes", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", metavar="FILE.csv", help="add a line: name, seed, returns")
    args = parser.parse_args()
    chain = Chain(args.states, args.seed)
    heads = kind(args.heads, args.states, args.seed)
    begin = time.process_time()
    returns = train(heads, args.heads, chain, args.episodes, args.seed)
    seconds = time.process_time() - begin
    found = np.flatnonzero(returns >= 1)
    first = f"first reward in episode {found[0] + 1}" if len(found) else "never at the last state"
    print(f"{kind.__name__}, seed {args.seed}: {first}, mean return of the last 100 episodes "
          f"{returns[-100:].mean():.2f}, {seconds:.1f} s of CPU time")
    if args.record:
        with open(args.record, "a", encoding="utf-8") as f:
            f.write(",".join([f"{kind.__name__} {args.heads}", str(args.seed),
                              *(f"{r:g}" for r in returns)]) + "\n")


if __name__ == "__main__":
    main()
