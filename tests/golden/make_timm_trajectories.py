#!/usr/bin/env python3
"""Writes timm_trajectories.json: what timm's Lion, LAMB and LARS do over 20 steps in fp64.

timm's defaults differ from this project's in the following, and the cases below set them alike. Its LAMB cuts the norm of
all gradients to 1 (here: optimizer.clip_norm) and has a decay of 0.01; LAMB and LARS scale the steps of a tensor only
where it has decay, without always_adapt, whereas here all matrices are scaled. LARS has no momentum there. Its LARS may
dampen, its LAMB may decay outside of the norm, and all may be cautious; here none does. No timm rule is lars_clip.

Gradients and starts are those of make_trajectories.py, exact in fp32. Made with timm 1.0.31 and PyTorch 2.15; run
`python3 tests/golden/make_timm_trajectories.py` to make it again. Options have this project's names in the file.
"""
import json
import os

import torch
from timm.optim import Lamb, Lars, Lion

N, STEPS = 12, 20
ADAPTS = dict(always_adapt=True)
LAMB = dict(max_grad_norm=None, **ADAPTS)
CASES = [
    ("lion", Lion, dict(lr=0.01, betas=(0.9, 0.99), weight_decay=0.0), {}),
    ("lion", Lion, dict(lr=0.003, betas=(0.95, 0.98), weight_decay=0.1), {}),
    ("lamb", Lamb, dict(lr=0.01, weight_decay=0.0), LAMB),
    ("lamb", Lamb, dict(lr=0.05, betas=(0.8, 0.99), eps=1e-4, weight_decay=0.1), LAMB),
    ("lamb", Lamb, dict(lr=0.1, betas=(0.9, 0.95), weight_decay=0.02, trust_clip=True), LAMB),
    ("lars", Lars, dict(lr=1.0, momentum=0.9, weight_decay=0.0), ADAPTS),
    ("lars", Lars, dict(lr=0.5, momentum=0.9, nesterov=True, trust_coeff=0.02, weight_decay=0.01), ADAPTS),
    ("lars", Lars, dict(lr=0.1, momentum=0.8, trust_coeff=0.5, eps=1e-4, weight_decay=0.05, trust_clip=True), ADAPTS),
    ("lars", Lars, dict(lr=0.8, momentum=0.0, trust_coeff=0.4, eps=1e-2, weight_decay=0.05, trust_clip=True), ADAPTS),
]
NAMES = {"trust_coeff": "trust_coefficient"}


def start(i):
    return (i - 5) / 8


def gradient(step, i):
    return ((step * 7 + i * 13) % 32 - 15) / 64


def renamed(rule, options):
    names = dict(NAMES, eps="norm_epsilon") if rule == "lars" else NAMES
    return {names.get(key, key): value for key, value in options.items()}


def main():
    out = []
    for rule, timm_class, options, alike in CASES:
        p = torch.nn.Parameter(torch.tensor([[start(i) for i in range(N)]], dtype=torch.float64))
        optimizer = timm_class([p], **options, **alike)
        trajectory = []
        for step in range(STEPS):
            p.grad = torch.tensor([[gradient(step, i) for i in range(N)]], dtype=torch.float64)
            optimizer.step()
            trajectory.append([float(f"{x:.9g}") for x in p.detach().flatten().tolist()])
        out.append(dict(rule=rule, options=renamed(rule, options), parameters=trajectory))
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "timm_trajectories.json")
    with open(path, "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(case) for case in out) + "\n]\n")


main()
