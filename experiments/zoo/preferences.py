#!/usr/bin/env python3
"""Trains a tiny GPT on answers of two kinds, then on which kind is preferred (DPO), and says how often held-out pairs come out right.

The prompt is a drawn word, one answer copies it, the other one turns it round. First the model learns to answer either way, half of the
time each. Then it is told that copies are preferred. Words of the tests are in no training. Prints each command and what came out.
usage: python3 experiments/zoo/preferences.py LPMM [--out DIR]"""
import argparse
import json
import random
import shlex
import subprocess
import tempfile
from pathlib import Path

FIRST = """[model]
name = "gpt"
layers = 2
heads = 4
embedding = 64
context = 128
[data]
set = "conversations"
length = 128
validation_share = 0.1
[train]
steps = 1200
batch = 16
compute = "fp32"
[optimizer]
rule = "adamw"
learning_rate = 2e-3
[schedule]
kind = "cosine"
warmup_steps = 50
"""


def words(count):
    seen = set()
    while len(seen) < count:
        seen.add("".join(random.choices("abcdefghij", k=random.randint(3, 5))))
    return sorted(w for w in seen if w != w[::-1])


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def run(lpmm, *arguments):
    print("lpmm", shlex.join(str(a) for a in arguments), flush=True)
    return json.loads(subprocess.run([lpmm, *map(str, arguments), "--json"], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("lpmm")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    lpmm, out = Path(asked.lpmm).resolve(), asked.out or Path(tempfile.mkdtemp())
    out.mkdir(parents=True, exist_ok=True)
    random.seed(1)
    drawn = words(3000)
    random.shuffle(drawn)
    first, told, tests = drawn[:2000], drawn[2000:2600], drawn[2600:2850]
    write(out / "both.jsonl", [{"prompt": w + ">", "completion": a + "."} for w in first for a in (w, w[::-1])])
    for name, some in (("pairs", told), ("tests", tests)):
        write(out / f"{name}.jsonl", [{"prompt": w + ">", "chosen": w + ".", "rejected": w[::-1] + "."} for w in some])
    (out / "first.toml").write_text(FIRST)
    for preset in ("fp32", "lpmm-compact", "lpmm-min"):
        base, tuned = out / f"{preset}_first", out / f"{preset}_told"
        said = run(lpmm, "train", out / "first.toml", "--preset", preset, "--set", f"data.path={out / 'both.jsonl'}", "--out", base)
        print(f"  loss of held-out answers {said['test_loss']:.4f}")
        said = run(lpmm, "train", "dpo_tune", "--init", base, "--preset", preset, "--set", f"data.path={out / 'pairs.jsonl'}",
                   "--set", f"data.test_path={out / 'tests.jsonl'}", "--set", "data.length=128", "--set", "train.epochs=6",
                   "--set", "train.microbatches=1", "--set", "optimizer.learning_rate=5e-5", "--set", "train.compute=fp32", "--out", tuned)
        for line in (tuned / "log.jsonl").read_text().splitlines():
            record = json.loads(line)
            if record["type"] == "eval":
                scores = record["scores"]
                print(f"  epoch {record['epoch'] + 1}: of {len(tests)} held-out pairs {100 * scores['accuracy']:.1f} % right, "
                      f"margin {scores['margin']:.3f}, loss {record['loss']:.4f}")
        print(f"  {said['bits_per_parameter']:.1f} bits per weight")
        again = run(lpmm, "eval", tuned)
        print(f"  {again['pairs']} pairs, {100 * again['accuracy']:.1f} % right, margin {again['margin']:.3f}, loss {again['loss']:.4f}")


main()
