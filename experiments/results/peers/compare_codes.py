#!/usr/bin/env python3
"""Codes of `lpmm quantize` beside those of bitsandbytes and torchao, on the CPU.

    pip install bitsandbytes torchao torch numpy
    python3 compare_codes.py build/lpmm > codes.txt

Each row: one format, one kind of data, one library. Both say they round to nearest, so a code differs because of
  scale   they are not the same (bf16 rounded up without `step32`; torchao's is 1e-12 at least), and both codes
          are the nearest to the value over their own
  tie     the value lies in the middle, to 2^-13 of the gap, and both codes are as near
  theirs  their code is not the nearest; README.md says why
  ours    ours is not
Skips, with the reason, what is not installed. Seeds are fixed.
"""
import importlib
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import numpy as np
    import torch
except ImportError as e:
    sys.exit(f"skipped: {e}")

COUNT = 1 << 20


def library(name):
    try:
        return importlib.import_module(name)
    except Exception as e:  # an import may fail in many ways
        print(f"skipped {name}: {type(e).__name__}: {e}")
        return None


def data_sets(block, signed):
    """Momentum- or variance-like values; `bf16 largest`: every block's largest is a bf16 number."""
    random = np.random.default_rng(1)
    m = random.standard_normal(COUNT).astype(np.float32)
    m *= np.exp(2 * random.standard_normal(COUNT)).astype(np.float32)
    m[::97] = 0
    for name, x in (("normal", random.standard_normal(COUNT).astype(np.float32)), ("wide", m)):
        x = x if signed else np.square(x)
        yield name, x
        exact = x.reshape(-1, block).copy()
        largest = np.arange(len(exact)), np.abs(exact).argmax(axis=1)
        exact[largest] = up_to_bf16(exact[largest])
        yield name + ", bf16 largest", exact.reshape(-1)


def ours(program, x, spec):
    with tempfile.TemporaryDirectory() as folder:
        given, codes = Path(folder, "x.npy"), Path(folder, "codes.npy")
        np.save(given, x)
        subprocess.run([program, "quantize", given, "--spec", spec, "--codes", codes, "--json"], check=True,
                       stdout=subprocess.DEVNULL)
        return np.load(codes).astype(np.int64)


def up_to_bf16(x):
    bits = x.astype(np.float32).view(np.uint32)
    return ((bits + 0xFFFF) & 0xFFFF0000).astype(np.uint32).view(np.float32)


def nearest(levels, y, codes):
    """The nearest code of each y, and whether `codes` are as near, but for 2^-13 of a gap."""
    best = np.searchsorted((levels[1:] + levels[:-1]) / 2, y)
    gap = np.abs(levels[best] - levels[codes])
    return best, (codes == best) | (np.abs(y - (levels[best] + levels[codes]) / 2) <= 2.0**-13 * gap)


def report(spec, data, peer, x, ours, theirs, levels, block, least):
    """Both codes are places in the ascending `levels`."""
    largest = np.abs(x.reshape(-1, block)).max(axis=1)
    by = lambda scale: x / np.where(scale > 0, scale, 1).repeat(block).astype(np.float64)
    best_ours, ours_is_near = nearest(levels, by(largest if "step32" in spec else up_to_bf16(largest)), ours)
    best_theirs, theirs_is_near = nearest(levels, by(np.maximum(largest, least)), theirs)
    differs = ours != theirs
    both = differs & ours_is_near & theirs_is_near
    zeros = (x == 0) & (largest > 0).repeat(block) & (levels[theirs] != 0) & (levels.min() <= 0)
    millionths = lambda what: f"{1e6 * what.mean():9.1f}"
    print(f"{spec:26} {data:22} {peer:12}", *map(millionths, (
        differs, both & (best_ours != best_theirs), both & (best_ours == best_theirs),
        differs & ~theirs_is_near, ~ours_is_near)),
          f"{np.abs(ours - theirs).max():5d} {zeros.sum():6d} {len(np.unique(ours)):5d} {len(np.unique(theirs)):6d}")


def compare(program, spec, block, signed, levels, peers):
    for data, x in data_sets(block, signed):
        mine = ours(program, x, spec)
        for peer, codes in peers.items():
            report(spec, data, peer, x, mine, codes(torch.from_numpy(x)).numpy().astype(np.int64).reshape(-1),
                   levels, block, 1e-12 if peer == "torchao" else 0)


def places_of_fp8(patterns):
    """Places of e4m3 bytes among the 253 numbers of them, ascending."""
    return 126 + torch.where(patterns > 127, 128 - patterns.to(torch.int64), patterns.to(torch.int64))


def main(program):
    bnb, ao = library("bitsandbytes.functional"), library("torchao.optim.quant_utils")
    print("torch", torch.__version__)
    for name in ("bitsandbytes", "torchao"):
        if name in sys.modules:
            print(name, sys.modules[name].__version__)
    print(f"\nper million of {COUNT} elements; most: largest distance of codes; zeros: zeros that the peer stores as\n"
          "something else; used: different codes that occur, ours and theirs")
    print(f"{'spec':26} {'data':22} {'peer':12} {'differ':>9} {'scale':>9} {'tie':>9} {'theirs':>9} {'ours':>9} "
          f"{'most':>5} {'zeros':>6} {'used':>5} {'theirs':>6}")
    for block in (256, 2048):
        for spec, signed in ((f"de8:block{block}:step32:rn", True), (f"ude8:block{block}:step32:rn", False)):
            peers, levels = {}, None
            if bnb is not None:
                code = bnb.create_dynamic_map(signed=signed)
                levels = np.asarray(code, dtype=np.float64)
                peers["bitsandbytes"] = lambda x: bnb.quantize_blockwise(x, code=code, blocksize=block)[0]
            if ao is not None:
                qmap = torch.tensor(ao.create_dynamic_map(signed))
                levels = qmap.numpy().astype(np.float64)
                peers["torchao"] = lambda x: ao.quantize_8bit_with_qmap(ao.scale_tensor(x, block)[0], qmap)
            if peers:
                compare(program, spec, block, signed, levels, peers)
    if ao is not None:
        for spec, signed in (("de4:block128:step32:rn", True), ("lin04:block128:step32:rn", False)):
            qmap = torch.tensor(ao.create_dynamic_map(True, 3, 4)) if signed else torch.linspace(0, 1, 17)[1:]
            compare(program, spec, 128, signed, qmap.numpy().astype(np.float64),
                    {"torchao": lambda x: ao.quantize_4bit_with_qmap(ao.scale_tensor(x, 128)[0], qmap)})
        from torchao.optim.subclass_fp8 import quantize_fp8
        numbers = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).to(torch.float64).numpy()
        levels = np.unique(numbers[np.isfinite(numbers)]) / 448
        for signed in (True, False):
            compare(program, "e4m3:block256:step32:rn", 256, signed, levels,
                    {"torchao": lambda x: places_of_fp8(quantize_fp8(x, 256)[0].view(torch.uint8))})


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
