#!/usr/bin/env python3
"""How many bits an average of the weights needs: a small GPT of bytes, trained with lpmm-compact, whose average is stored by several
specs. An average changes nothing of the training, so runs of one seed have the same weights to the last bit, and the gaps are paired.

    python3 experiments/average/average.py build/lpmm OUT [--seeds 4] [--steps 800]

Written down before the first run: a spec loses nothing visible where its test loss is, on average over seeds and with its 95 % bound,
less than 0.001 nats (a tenth of a percent of perplexity) above that of the average in fp32. The default is the one of fewest bits
that holds this. For `sr` the difference of a stored weight to the average in fp32 has, by theory/README.md, a variance of half a gap
times the mean distance of weight and average."""
import argparse
import json
import math
import subprocess
import tomllib
from pathlib import Path

import numpy

SPECS = ["fp32", "bf16:sr", "int12:block128:sr:sticky", "int12:block128:qr:sticky", "int8:block128:sr:sticky", "int8:block128:qr:sticky",
         "int7:block128:qr:sticky", "int6:block128:sr:sticky", "int6:block128:qr:sticky", "int5:block128:qr:sticky", "int4:block128:qr:sticky", "soft4:block128:sr"]
CONFIG = """
[model]
name = "gpt"
layers = 2
heads = 4
embedding = 64
context = 64
[data]
set = "text"
[train]
batch = 16
average = 0.999
threads = 1
eval_every_epochs = 0
[optimizer]
rule = "adamw"
learning_rate = 2e-3
clip_norm = 1
[schedule]
kind = "constant"
warmup_steps = 50
[memory]
preset = "lpmm-compact"
"""
T95 = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36}


def lpmm(program, *words):
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, words))}: {done.stderr}")
    return done.stdout


def matrices(path):
    """Those of a plain safetensors file, {name: values}."""
    data = Path(path).read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    return {name: numpy.frombuffer(data, numpy.float32, math.prod(t["shape"]), end + t["data_offsets"][0])
            for name, t in header.items() if name != "__metadata__" and len(t["shape"]) > 1}


def predicted(weights, average, bits):
    """The root mean square of stored differences with `sr`: half a gap, a block's largest over 2^(b-1) - 1, times |w - a|."""
    total = count = 0
    for name, a in average.items():
        for at in range(0, len(a), 128):
            block, w = a[at:at + 128], weights[name][at:at + 128]
            total += numpy.abs(block).max() / (2 ** (bits - 1) - 1) / 2 * numpy.abs(w - block).mean() * len(block)
            count += len(block)
    return math.sqrt(total / count)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--steps", type=int, default=800)
    o = parser.parse_args()
    o.out.mkdir(parents=True, exist_ok=True)
    config = o.out / "average.toml"
    config.write_text(CONFIG)
    losses, roots, of_theory, last = ({} for _ in range(4))
    for seed in range(1, o.seeds + 1):
        plain = None
        for spec in SPECS:
            run = o.out / f"{seed}_{spec.replace(':', '_')}"
            if not (run / "checkpoints").exists():
                lpmm(o.program, "train", config, "--out", run, "--quiet", "--set", f"train.steps={o.steps}", "--set", f"train.seed={seed}",
                     "--set", f"memory.average={spec}")
            assert tomllib.loads((run / "config.toml").read_text())["memory"]["average"] == spec
            losses[spec, seed] = json.loads(lpmm(o.program, "eval", run, "--average", "--json"))["loss"]
            lpmm(o.program, "export", run, "--average", "--out", run / "average.safetensors", "--overwrite")
            average = matrices(run / "average.safetensors")
            if plain is None:
                plain = average
                last[seed] = json.loads(lpmm(o.program, "eval", run, "--json"))["loss"]
                lpmm(o.program, "export", run, "--out", run / "weights.safetensors", "--overwrite")
                weights = matrices(run / "weights.safetensors")
            squares = sum(float(((average[n] - plain[n]) ** 2).sum()) for n in plain)
            roots[spec, seed] = math.sqrt(squares / sum(len(v) for v in plain.values()))
            bits = spec.split(":")[0]
            of_theory[spec, seed] = predicted(weights, plain, int(bits[3:])) if bits.startswith("int") and ":sr" in spec else math.nan
            print(f"seed {seed}  {spec:26}  loss {losses[spec, seed]:.5f}  gap {losses[spec, seed] - losses['fp32', seed]:+.5f}  "
                  f"root mean square {roots[spec, seed]:.3e}  predicted {of_theory[spec, seed]:.3e}", flush=True)
    seeds = range(1, o.seeds + 1)
    print(f"\nlast weights: {numpy.mean([last[s] - losses['fp32', s] for s in seeds]):+.5f} nats above their average in fp32")
    for spec in SPECS[1:]:
        gaps = [losses[spec, s] - losses["fp32", s] for s in seeds]
        bound = T95[o.seeds - 1] * numpy.std(gaps, ddof=1) / math.sqrt(o.seeds)
        print(f"{spec:26}  gap {numpy.mean(gaps):+.5f} +- {bound:.5f}  {'holds' if numpy.mean(gaps) + bound < 0.001 else 'does not hold'}")


if __name__ == "__main__":
    main()
