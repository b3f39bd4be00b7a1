#!/usr/bin/env python3
"""Writes muon_trajectories.json: what PyTorch's Muon does over 6 steps of one matrix.

PyTorch makes steps orthogonal in bf16. Each case is run as it is, and once with fp32 in the place of bf16, which
is what this project does. Gradients are exact in fp32. Made with PyTorch 2.15; run
`python3 tests/golden/make_muon_trajectories.py` to make it again.
"""
import json
import os

import torch

STEPS = 6
CASES = [
    ((6, 11), dict(lr=0.02, weight_decay=0.0, momentum=0.95, nesterov=True, adjust_lr_fn="original")),
    ((11, 6), dict(lr=0.02, weight_decay=0.1, momentum=0.9, nesterov=True, adjust_lr_fn="original")),
    ((11, 6), dict(lr=0.01, weight_decay=0.1, momentum=0.95, nesterov=False, adjust_lr_fn="match_rms_adamw")),
    ((8, 8), dict(lr=0.01, weight_decay=0.0, momentum=0.5, nesterov=True, ns_steps=3, adjust_lr_fn="match_rms_adamw")),
]


def start(i):
    return (i % 13 - 6) / 64


def gradient(step, i):
    return ((step * 7 + i * i * 13 + i * 5) % 61 - 30) / 64


def run(shape, options):
    n = shape[0] * shape[1]
    p = torch.nn.Parameter(torch.tensor([start(i) for i in range(n)], dtype=torch.float32).reshape(shape))
    optimizer = torch.optim.Muon([p], **options)
    trajectory = []
    for step in range(STEPS):
        p.grad = torch.tensor([gradient(step, i) for i in range(n)], dtype=torch.float32).reshape(shape)
        optimizer.step()
        trajectory.append([float(f"{x:.9g}") for x in p.detach().flatten().tolist()])
    return trajectory


def main():
    out = []
    bf16 = torch.bfloat16
    for shape, options in CASES:
        case = dict(shape=shape, options=options, bf16=run(shape, options))
        torch.bfloat16 = torch.float32
        case["parameters"] = run(shape, options)
        torch.bfloat16 = bf16
        out.append(case)
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "muon_trajectories.json")
    with open(path, "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(case) for case in out) + "\n]\n")


main()
