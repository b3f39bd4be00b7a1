#!/usr/bin/env python3
"""Writes peer_codes.json: codes that FlashOptim and torchao give to blocks of values.

Blocks are even and uneven, and for torchao also smaller than 1e-12, where its steps end. FlashOptim's kernels run in Triton's
interpreter. Values have three digits, so that none is in the middle of two codes. Made with flashoptim 0.1.4, Triton 3.9.0,
torchao 0.18.0, PyTorch 2.15; run `TRITON_INTERPRET=1 python3 tests/golden/make_peer_codes.py` to make it again.
"""
import json
import os

import numpy as np
import torch
import torchao.optim.quant_utils as ao
import triton.language as tl
from flashoptim import optimizers as flash
from torchao.optim.subclass_fp8 import quantize_fp8


def flash_codes(x, root):
    """As its quantize() does, which would try out on a GPU how many values are best at once."""
    codes = torch.empty(x.shape, dtype=torch.uint8 if root else torch.int8)
    scales = torch.empty(x.numel() // 64, dtype=torch.float16)
    flash._triton_quantize_kernel.fn[(1,)](
        x, codes, scales, x.numel(), 255.0 if root else 127.0, tl.uint8 if root else tl.int8, 64, root, not root, 1024)
    return codes


def ao4_codes(x, signed):
    levels = torch.tensor(ao.create_dynamic_map(True, 3, 4)) if signed else torch.linspace(0, 1, 17)[1:]
    return ao.quantize_4bit_with_qmap(ao.scale_tensor(x, 128)[0], levels).reshape(-1)


def fp8_codes(x, signed):
    """Places among the 253 numbers, ascending."""
    bits = quantize_fp8(x, 256)[0].view(torch.uint8).reshape(-1).to(torch.int64)
    return 126 + torch.where(bits > 127, 128 - bits, bits)


def values(random, block, signed, is_torchao):
    """Of a variance, the roots are drawn."""
    normal = lambda: random.standard_normal(block)
    blocks = [normal(), normal() * np.exp(2 * normal()), normal() * 10 ** random.uniform(-3, 0, block)]
    if is_torchao:
        blocks = [normal() * np.exp(normal()), normal() * (3e-13 if signed else 2e-7)]
    x = np.concatenate(blocks)
    x[::17] = 0
    return [float(f"{v:.2e}") for v in (x if signed else x * x)]


CASES = [
    ("flash", "momentum", 64, True, lambda x: flash_codes(x, False)),
    ("flash", "variance", 64, False, lambda x: flash_codes(x, True)),
    ("ao4", "momentum", 128, True, lambda x: ao4_codes(x, True)),
    ("ao4", "variance", 128, False, lambda x: ao4_codes(x, False)),
    ("ao-fp8", "momentum", 256, True, lambda x: fp8_codes(x, True)),
    ("ao-fp8", "variance", 256, False, lambda x: fp8_codes(x, False)),
]


def main():
    cases = []
    for number, (preset, role, block, signed, codes_of) in enumerate(CASES):
        x = values(np.random.default_rng(number), block, signed, preset != "flash")
        codes = codes_of(torch.tensor(x, dtype=torch.float32))
        cases.append(dict(preset=preset, role=role, values=x, codes=[int(c) for c in codes]))
    path = os.path.join(os.path.dirname(__file__), "peer_codes.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(cases, file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
