#!/usr/bin/env python3
"""Writes rule_trajectories.json: 20 steps of Lion and LAMB in fp64, written down from the papers' algorithms
(arXiv 2302.06675, program 2; arXiv 1904.00962, algorithm 2 with phi(z) = z) and nothing of this project.

Gradients and starts are those of make_trajectories.py, exact in fp32.
"""
import json
import math
import os

N, STEPS = 12, 20
CASES = [
    ("lion", dict(lr=0.01)),
    ("lion", dict(lr=0.003, betas=(0.95, 0.98), weight_decay=0.1)),
    ("lamb", dict(lr=0.01)),
    ("lamb", dict(lr=0.05, betas=(0.8, 0.99), eps=1e-4, weight_decay=0.1)),
]


def start(i):
    return (i - 5) / 8


def gradient(step, i):
    return ((step * 7 + i * 13) % 32 - 15) / 64


def lion(p, m, _v, g, _t, lr, betas=(0.9, 0.99), weight_decay=0.0):
    for i in range(N):
        c = betas[0] * m[i] + (1 - betas[0]) * g[i]
        p[i] -= lr * ((c > 0) - (c < 0) + weight_decay * p[i])
        m[i] = betas[1] * m[i] + (1 - betas[1]) * g[i]


def norm(x):
    return math.sqrt(sum(e * e for e in x))


def lamb(p, m, v, g, t, lr, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.0):
    u = []
    for i in range(N):
        m[i] = betas[0] * m[i] + (1 - betas[0]) * g[i]
        v[i] = betas[1] * v[i] + (1 - betas[1]) * g[i] * g[i]
        m_hat, v_hat = m[i] / (1 - betas[0] ** t), v[i] / (1 - betas[1] ** t)
        u.append(m_hat / (math.sqrt(v_hat) + eps) + weight_decay * p[i])
    size, length = norm(p), norm(u)
    ratio = size / length if size > 0 and length > 0 else 1
    for i in range(N):
        p[i] -= lr * ratio * u[i]


def main():
    out = []
    for name, options in CASES:
        p, m, v = [start(i) for i in range(N)], [0.0] * N, [0.0] * N
        trajectory = []
        for step in range(STEPS):
            {"lion": lion, "lamb": lamb}[name](p, m, v, [gradient(step, i) for i in range(N)], step + 1, **options)
            trajectory.append([float(f"{x:.9g}") for x in p])
        out.append(dict(rule=name, options=options, parameters=trajectory))
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "rule_trajectories.json")
    with open(path, "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(case) for case in out) + "\n]\n")


main()
