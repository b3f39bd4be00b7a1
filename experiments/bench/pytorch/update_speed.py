#!/usr/bin/env python3
"""One optimizer step of PyTorch in fp32 with fused=True, or of bitsandbytes, to set beside `lpmm bench update`.

One tensor, SGD with momentum 0.9 or AdamW, decay 1e-4; adamw8bit is bitsandbytes' AdamW8bit, whose weights and
gradients are fp32 and whose two states have 8 bits. Prints the best of the repetitions in elements per second, as JSON.
"""
import argparse
import json
import time

import torch


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--optimizer", choices=("sgd", "adamw", "adamw8bit"), default="sgd")
    parser.add_argument("--elements", type=int, default=1 << 26)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    torch.set_default_device(args.device)
    weights = torch.nn.Parameter(torch.randn(args.elements) * 0.05)
    weights.grad = torch.randn(args.elements) * 0.01
    wait = torch.cuda.synchronize if args.device.startswith("cuda") else lambda: None
    if args.optimizer == "sgd":
        optimizer = torch.optim.SGD([weights], lr=1e-3, momentum=0.9, weight_decay=1e-4, fused=True)
    elif args.optimizer == "adamw8bit":
        import bitsandbytes
        optimizer = bitsandbytes.optim.AdamW8bit([weights], lr=1e-3, weight_decay=1e-4)
    else:
        optimizer = torch.optim.AdamW([weights], lr=1e-3, weight_decay=1e-4, fused=True)
    optimizer.step()  # makes the states
    best = float("inf")
    for _ in range(args.repetitions):
        wait()
        start = time.perf_counter()
        optimizer.step()
        wait()
        best = min(best, time.perf_counter() - start)
    print(json.dumps({"elements_per_second": args.elements / best, "optimizer": args.optimizer,
                      "elements": args.elements, "threads": args.threads, "device": args.device, "torch": torch.__version__}))


if __name__ == "__main__":
    main()
