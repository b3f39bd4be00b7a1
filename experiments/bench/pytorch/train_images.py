#!/usr/bin/env python3
"""An image model trained in PyTorch, fp32, with the recipe of a shipped config of lpmm.

    python3 experiments/bench/pytorch/train_images.py resnet20_cifar10

Configs: resnet20_cifar10, resnet20_fashion, resnet18_cifar10 (torchvision), vit_cifar10 (timm). The same network,
normalisation, augmentation, batches and schedule as lpmm's, drawn with other random numbers; reads $LPMM_DATA. One JSON
line per epoch; the last holds the test accuracy.
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

from resnet20_speed import resnet, resnet18

PAD = 4


def cifar():
    folder = pathlib.Path(os.environ["LPMM_DATA"]) / "cifar-10-batches-bin"

    def read(names):
        rows = np.concatenate([np.fromfile(folder / name, np.uint8).reshape(-1, 3073) for name in names])
        return torch.from_numpy(rows[:, 1:].reshape(-1, 3, 32, 32).copy()), torch.from_numpy(rows[:, 0].astype(np.int64))

    return *read([f"data_batch_{i}.bin" for i in range(1, 6)]), *read(["test_batch.bin"])


def fashion():
    folder = pathlib.Path(os.environ["LPMM_DATA"]) / "fashion-mnist"

    def read(split):
        images = np.fromfile(folder / f"{split}-images-idx3-ubyte", np.uint8)[16:].reshape(-1, 1, 28, 28)
        labels = np.fromfile(folder / f"{split}-labels-idx1-ubyte", np.uint8)[8:]
        return torch.from_numpy(images.copy()), torch.from_numpy(labels.astype(np.int64))

    return *read("train"), *read("t10k")


def small_resnet(channels):
    model = resnet(20, channels)
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return model


def vit():
    from timm.models.vision_transformer import VisionTransformer
    model = VisionTransformer(img_size=32, patch_size=4, num_classes=10, embed_dim=192, depth=6, num_heads=3)
    with torch.no_grad():  # lpmm draws these otherwise than timm
        model.cls_token.normal_(0, 0.02)
        model.patch_embed.proj.weight.normal_(0, 0.02)
        model.patch_embed.proj.bias.zero_()
        for p in model.head.parameters():
            p.uniform_(-192**-0.5, 192**-0.5)
    return model


def sgd(model, decay):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=decay)


def adamw(model, decay):
    plain = [p for p in model.parameters() if p.dim() > 1]
    rest = [p for p in model.parameters() if p.dim() < 2]
    return torch.optim.AdamW([{"params": plain, "weight_decay": decay}, {"params": rest, "weight_decay": 0.0}], lr=1e-3)


# data, model, optimizer, epochs, microbatches, warm-up steps, label smoothing
CONFIGS = {
    "resnet20_cifar10": (cifar, lambda: small_resnet(3), lambda m: sgd(m, 1e-4), 10, 2, 0, 0.0),
    "resnet20_fashion": (fashion, lambda: small_resnet(1), lambda m: sgd(m, 1e-4), 20, 2, 0, 0.0),
    "resnet18_cifar10": (cifar, resnet18, lambda m: sgd(m, 5e-4), 2, 1, 100, 0.0),
    "vit_cifar10": (cifar, vit, lambda m: adamw(m, 0.05), 10, 1, 200, 0.1),
}


def augmented(images, generator):
    """Every image padded with zeros, cropped and mirrored by draws of its own."""
    count, _, height, width = images.shape
    padded = F.pad(images, (PAD,) * 4)
    dx, dy = torch.randint(0, 2 * PAD + 1, (2, count, 1), generator=generator)
    x = torch.arange(width).expand(count, width)
    mirrored = torch.rand(count, 1, generator=generator) < 0.5
    x = torch.where(mirrored, width - 1 - x, x) + dx
    y = torch.arange(height) + dy
    return padded[torch.arange(count)[:, None, None], :, y[:, :, None], x[:, None, :]].permute(0, 3, 1, 2)


@torch.no_grad()
def evaluate(model, images, labels):
    model.eval()
    hits = sum(int((model(x).argmax(1) == y).sum()) for x, y in zip(images.split(500), labels.split(500)))
    model.train()
    return hits / len(labels)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", choices=CONFIGS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=int, help="default: the config's")
    parser.add_argument("--microbatches", type=int, help="default: the config's")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    generator = torch.Generator().manual_seed(args.seed)

    data, model, optimizer, epochs, microbatches, warm_up, smoothing = CONFIGS[args.config]
    epochs, microbatches = args.epochs or epochs, args.microbatches or microbatches
    images, labels, test_images, test_labels = data()
    deviation, mean = (v.float()[:, None, None] for v in torch.std_mean(images.double(), (0, 2, 3)))
    images, test_images = (images - mean) / deviation, (test_images - mean) / deviation
    model = model().to(memory_format=torch.channels_last)
    optimizer = optimizer(model)
    peak = optimizer.param_groups[0]["lr"]
    per_epoch = len(images) // args.batch
    total = epochs * per_epoch

    def rate(step):
        if step < warm_up:
            return peak * (step + 1) / (warm_up + 1)
        return peak * (1 + math.cos(math.pi * (step - warm_up) / (total - warm_up))) / 2

    step, start = 0, time.perf_counter()
    for epoch in range(1, epochs + 1):
        order, losses = torch.randperm(len(images), generator=generator), 0.0
        for chosen in order[: per_epoch * args.batch].split(args.batch):
            for group in optimizer.param_groups:
                group["lr"] = rate(step)
            optimizer.zero_grad(set_to_none=True)
            for part in chosen.chunk(microbatches):
                x = augmented(images[part], generator).contiguous(memory_format=torch.channels_last)
                loss = F.cross_entropy(model(x), labels[part], label_smoothing=smoothing) / microbatches
                loss.backward()
                losses += loss.item()
            optimizer.step()
            step += 1
        print(json.dumps({"torch": torch.__version__, "config": args.config, "seed": args.seed,
                          "microbatches": microbatches, "epoch": epoch, "train_loss": losses / per_epoch,
                          "test_accuracy": evaluate(model, test_images, test_labels),
                          "seconds": time.perf_counter() - start}), flush=True)


if __name__ == "__main__":
    main()
