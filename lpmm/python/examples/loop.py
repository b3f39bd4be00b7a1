#!/usr/bin/env python3
"""A plain PyTorch loop with packed memory, one line at a time.

usage: python3 lpmm/python/examples/loop.py [--level 0|1|2|3] [--preset lpmm-min]
A network learns which of eight drawn centres a point belongs to; 0 is torch.optim.AdamW. Prints the accuracy, and
what the optimizer keeps per weight."""
import argparse

import torch


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--level", type=int, choices=range(4), default=3)
    parser.add_argument("--preset", default="lpmm-min")
    o = parser.parse_args()

    torch.manual_seed(1)
    centres = torch.randn(8, 64)
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 8))
    if o.level == 0:
        optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    else:
        import lpmm

        optimizer = lpmm.AdamW(model.parameters(), lr=2e-3, preset=o.preset)  # 1: states are packed
        if o.level > 1:
            optimizer.fold_gradients()  # 2: gradients are packed as they come
        if o.level > 2:
            lpmm.pack(model, optimizer)  # 3: weights are codes

    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=200)
    for step in range(200):
        for _ in range(4):  # microbatches
            labels = torch.randint(8, (32,))
            points = centres[labels] + 2 * torch.randn(32, 64)
            loss = torch.nn.functional.cross_entropy(model(points), labels) / 4
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()

    with torch.no_grad():
        labels = torch.randint(8, (4096,))
        points = centres[labels] + 2 * torch.randn(4096, 64)
        right = (model(points).argmax(1) == labels).float().mean().item()
    print(f"level {o.level}: {100 * right:.1f} % of 4096 points are right")
    if o.level > 0:
        print(f"memory: {optimizer.memory()}")


if __name__ == "__main__":
    main()
