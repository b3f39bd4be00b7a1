#!/usr/bin/env python3
"""Training speed of torchvision's ResNets in PyTorch, to set beside `lpmm bench train resnet50_224`.

Same network, batch and optimizer as there: SGD with momentum 0.9 and decay 1e-4, 10 classes, synthetic images.
Prints images per second; channels_last, fp32 or bf16 autocast. Needs torchvision (Debian: python3-torchvision).
"""
import argparse
import time

import torch
import torch.nn.functional as F
import torchvision


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--fp32", action="store_true", help="no autocast")
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=5, help="measured, after a warm-up step")
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(args.threads)
    model = getattr(torchvision.models, args.model)(num_classes=10).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    images = torch.randn(args.batch, 3, args.side, args.side).to(memory_format=torch.channels_last)
    labels = torch.randint(0, 10, (args.batch,))

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=not args.fp32):
            loss = F.cross_entropy(model(images).float(), labels)
        loss.backward()
        optimizer.step()

    step()
    start = time.perf_counter()
    for _ in range(args.steps):
        step()
    seconds = time.perf_counter() - start
    print(f"PyTorch {torch.__version__}, {args.model} at {args.side}, batch {args.batch}, "
          f"{'fp32' if args.fp32 else 'bf16 autocast'}, {args.threads} threads: "
          f"{args.steps * args.batch / seconds:.2f} images/s")


if __name__ == "__main__":
    main()
