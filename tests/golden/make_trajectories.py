#!/usr/bin/env python3
"""Writes trajectories.json: what PyTorch's optimizers do over 20 steps in fp32.

Gradients are given, not computed: g[s][i] below is exact in fp32, so that both programs see the same
numbers. Made with PyTorch 1.13, RMSprop, Adagrad and Adafactor with later ones (which give the others to 1e-7);
run `python3 tests/golden/make_trajectories.py` to make it again. Options have this project's names in the file.
"""
import json
import os

import torch

N, STEPS = 12, 20
CASES = [
    ("sgd", dict(lr=0.1)),
    ("sgd", dict(lr=0.1, momentum=0.9)),
    ("sgd", dict(lr=0.05, momentum=0.9, dampening=0.3, weight_decay=0.01)),
    ("sgd", dict(lr=0.05, momentum=0.8, nesterov=True, weight_decay=0.001)),
    ("adam", dict(lr=0.01)),
    ("adam", dict(lr=0.003, betas=(0.8, 0.99), eps=1e-6, weight_decay=0.1)),
    ("adamw", dict(lr=0.01, weight_decay=0.01)),
    ("adamw", dict(lr=0.003, betas=(0.9, 0.95), weight_decay=0.1)),
    ("rmsprop", dict(lr=0.01)),
    ("rmsprop", dict(lr=0.005, alpha=0.9, eps=1e-4, momentum=0.9, weight_decay=0.01)),
    ("rmsprop", dict(lr=0.01, alpha=0.5, momentum=0.5)),
    ("adagrad", dict(lr=0.1)),
    ("adagrad", dict(lr=0.1, lr_decay=0.05, eps=1e-3, weight_decay=0.02)),
    ("adafactor", dict(lr=0.01, eps=(1e-18, 1e-3)), [3, 4]),
    ("adafactor", dict(lr=0.4, eps=(1e-18, 0.5), d=1.1, beta2_decay=-0.5, weight_decay=0.1), [4, 3]),
    ("adafactor", dict(lr=0.02, eps=(1e-18, 1e-3), d=2.0, weight_decay=0.01), [12]),
    ("rmsprop", dict(lr=0.01, centered=True)),
    ("rmsprop", dict(lr=0.005, alpha=0.9, eps=1e-4, momentum=0.9, weight_decay=0.01, centered=True)),
]
CLASSES = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW,
           "rmsprop": torch.optim.RMSprop, "adagrad": torch.optim.Adagrad,
           "adafactor": getattr(torch.optim, "Adafactor", None)}


def start(i):
    return (i - 5) / 8


def gradient(step, i):
    return ((step * 7 + i * 13) % 32 - 15) / 64


def renamed(options):
    out = {}
    for key, value in options.items():
        if key == "eps" and isinstance(value, tuple):
            out["epsilon1"], out["epsilon2"] = value
        elif key == "beta2_decay":
            out["decay_rate"] = -value
        else:
            out[{"d": "clip_threshold"}.get(key, key)] = value
    return out


def main():
    out = []
    for name, options, *rest in CASES:
        shape = rest[0] if rest else [1, N]
        values = torch.tensor([start(i) for i in range(N)], dtype=torch.float32)
        p = torch.nn.Parameter(values.reshape(shape) if rest else values)
        optimizer = CLASSES[name]([p], **options)
        trajectory = []
        for step in range(STEPS):
            p.grad = torch.tensor([gradient(step, i) for i in range(N)], dtype=torch.float32).reshape(p.shape)
            optimizer.step()
            trajectory.append([float(f"{x:.9g}") for x in p.detach().flatten().tolist()])
        case = dict(rule=name, options=renamed(options), parameters=trajectory)
        out.append(dict(case, shape=shape) if rest else case)
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "trajectories.json")
    with open(path, "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(case) for case in out) + "\n]\n")


main()
