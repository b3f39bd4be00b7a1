#!/usr/bin/env python3
"""ResNet-20 on CIFAR-10 in PyTorch, fp32, with the recipe of experiments/configs/resnet20_cifar10.toml.

The same network, normalisation, augmentation, batches and schedule as lpmm's, drawn with other random numbers; reads
$LPMM_DATA/cifar-10-batches-bin. One JSON line an epoch; the last holds the test accuracy.
"""
import argparse
import json
import math
import os
import pathlib
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from resnet20_speed import resnet

PAD = 4


def read(folder, names):
    rows = np.concatenate([np.fromfile(folder / name, np.uint8).reshape(-1, 3073) for name in names])
    return torch.from_numpy(rows[:, 1:].reshape(-1, 3, 32, 32).copy()), torch.from_numpy(rows[:, 0].astype(np.int64))


def augmented(images, generator):
    """Every image padded with zeros, cropped and mirrored by draws of its own."""
    count = len(images)
    padded = F.pad(images, (PAD,) * 4)
    dx, dy = torch.randint(0, 2 * PAD + 1, (2, count, 1), generator=generator)
    x = torch.arange(32).expand(count, 32)
    mirrored = torch.rand(count, 1, generator=generator) < 0.5
    x = torch.where(mirrored, 31 - x, x) + dx
    y = torch.arange(32) + dy
    return padded[torch.arange(count)[:, None, None], :, y[:, :, None], x[:, None, :]].permute(0, 3, 1, 2)


@torch.no_grad()
def evaluate(model, images, labels):
    model.eval()
    hits = sum(int((model(x).argmax(1) == y).sum()) for x, y in zip(images.split(500), labels.split(500)))
    model.train()
    return hits / len(labels)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--microbatches", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    generator = torch.Generator().manual_seed(args.seed)

    folder = pathlib.Path(os.environ["LPMM_DATA"]) / "cifar-10-batches-bin"
    images, labels = read(folder, [f"data_batch_{i}.bin" for i in range(1, 6)])
    test_images, test_labels = read(folder, ["test_batch.bin"])
    deviation, mean = (v.float()[:, None, None] for v in torch.std_mean(images.double(), (0, 2, 3)))
    images, test_images = (images - mean) / deviation, (test_images - mean) / deviation

    model = resnet(20)
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    per_epoch = len(images) // args.batch
    total = args.epochs * per_epoch
    step, start = 0, time.perf_counter()
    for epoch in range(1, args.epochs + 1):
        order, losses = torch.randperm(len(images), generator=generator), 0.0
        for chosen in order[: per_epoch * args.batch].split(args.batch):
            for group in optimizer.param_groups:
                group["lr"] = 0.1 * (1 + math.cos(math.pi * step / total)) / 2
            optimizer.zero_grad(set_to_none=True)
            for part in chosen.chunk(args.microbatches):
                x = augmented(images[part], generator).contiguous(memory_format=torch.channels_last)
                loss = F.cross_entropy(model(x), labels[part]) / args.microbatches
                loss.backward()
                losses += loss.item()
            optimizer.step()
            step += 1
        print(json.dumps({"torch": torch.__version__, "seed": args.seed, "microbatches": args.microbatches,
                          "epoch": epoch, "train_loss": losses / per_epoch,
                          "test_accuracy": evaluate(model, test_images, test_labels),
                          "seconds": time.perf_counter() - start}), flush=True)


if __name__ == "__main__":
    main()
