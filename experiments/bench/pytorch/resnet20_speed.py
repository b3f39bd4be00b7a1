#!/usr/bin/env python3
"""Training speed of ResNet-20 (CIFAR shapes) in PyTorch, to set beside `lpmm bench train`.

Same network, batch and optimizer as lpmm's: 3x3 stem of 16, stages 16/32/64, shortcut option A, SGD with
momentum 0.9 and decay 1e-4, synthetic images. Prints images per second; bf16 autocast and channels_last.
With --resnet18 torchvision's network with a stem for small images, as in experiments/configs/resnet18_cifar10.toml.
"""
import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

from turn import add_turn, turn


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.stride, self.pad = stride, (outputs - inputs) // 2

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        if self.pad:
            x = F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, self.pad, self.pad))
        return F.relu(y + x)


def resnet(depth, channels=3):
    layers = [nn.Conv2d(channels, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    inputs = 16
    for outputs in (16, 32, 64):
        for i in range((depth - 2) // 6):
            layers.append(Block(inputs, outputs, 2 if i == 0 and outputs > 16 else 1))
            inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def resnet18():
    import torchvision
    model = torchvision.models.resnet18(num_classes=10)
    model.conv1, model.maxpool = nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.Identity()
    nn.init.kaiming_normal_(model.conv1.weight, mode="fan_out", nonlinearity="relu")
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fp32", action="store_true", help="no autocast")
    parser.add_argument("--depth", type=int, default=20)
    parser.add_argument("--resnet18", action="store_true")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    compiled = parser.add_mutually_exclusive_group()
    compiled.add_argument("--compile", action="store_true", help="torch.compile the model")
    compiled.add_argument("--graphs", action="store_true", help="torch.compile it with CUDA graphs")
    parser.add_argument("--seconds", type=float, default=20, help="measured time, after warm-up steps")
    add_turn(parser)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(args.threads)
    torch.set_default_device(args.device)
    device_kind = args.device.split(":")[0]
    wait = torch.cuda.synchronize if device_kind == "cuda" else lambda: None
    model = (resnet18() if args.resnet18 else resnet(args.depth)).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4, fused=True)
    images = torch.randn(args.batch, 3, 32, 32).to(memory_format=torch.channels_last)
    labels = torch.randint(0, 10, (args.batch,))
    forward = torch.compile(model) if args.compile else model
    if args.graphs:
        forward = torch.compile(model, mode="reduce-overhead")

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device_kind, dtype=torch.bfloat16, enabled=not args.fp32):
            loss = F.cross_entropy(forward(images).float(), labels)
        loss.backward()
        optimizer.step()

    def run(steps):
        for _ in range(steps):
            step()
        wait()

    at_once = 20 if device_kind == "cuda" else 1
    run(2)
    with turn(args.turn):
        run(at_once)
        start, steps = time.perf_counter(), 0
        while time.perf_counter() - start < args.seconds:
            run(at_once)
            steps += at_once
        seconds = time.perf_counter() - start
    kind = ("fp32" if args.fp32 else "bf16 autocast") + (", compiled" if args.compile else ", compiled, CUDA graphs" if args.graphs else "")
    peak = f", peak reserved on the GPU {torch.cuda.max_memory_reserved() / 1e9:.2f} GB" if device_kind == "cuda" else ""
    print(f"PyTorch {torch.__version__}, ResNet-{18 if args.resnet18 else args.depth}, batch {args.batch}, {kind}, {args.device}, "
          f"{args.threads} threads: {steps * args.batch / seconds:.1f} images/s{peak}")


if __name__ == "__main__":
    main()
