#!/usr/bin/env python3
"""Trains small models of every family for two steps and compares the peak of resident memory with what
`lpmm plan` said. Draws its own data. Ends with 1 where a peak lies further off than the plan allows.

    python3 experiments/memory/peaks.py build/lpmm [--only PATTERN] [--threads N] > experiments/results/memory/peaks.txt
"""
import argparse
import fnmatch
import json
import os
import random
import subprocess
import sys
import tempfile

SHARE, LEAST = 0.04, 8e6  # a peak may lie so far from the plan, whichever is more

TEXT = {"data.set": "text", "data.path": "{data}/text.txt", "data.tokenizer": "bytes", "data.validation_share": 0.01,
        "train.batch": 4}
GPT = TEXT | {"model.name": "gpt", "model.layers": 6, "model.heads": 6, "model.embedding": 384, "model.context": 256,
              "model.vocabulary": 50257, "optimizer.rule": "adamw"}
LLAMA = TEXT | {"model.name": "llama", "model.layers": 8, "model.heads": 8, "model.embedding": 512, "model.mlp_width": 1376,
                "model.context": 256, "model.vocabulary": 8000, "optimizer.rule": "adamw"}
BERT = {"model.name": "bert", "model.layers": 6, "model.heads": 12, "model.embedding": 384, "model.mlp_width": 1536,
        "model.context": 512, "data.set": "sentences", "data.path": "{data}/sentences", "data.tokenizer": "{data}/vocab.txt",
        "data.length": 128, "train.batch": 32, "optimizer.rule": "adamw"}
MARIAN = {"model.name": "transformer", "model.layers": 4, "model.decoder_layers": 4, "model.heads": 8,
          "model.embedding": 512, "model.mlp_width": 2048, "model.context": 256, "model.vocabulary": 8000, "model.end_token": 256,
          "model.start_token": 257, "data.set": "pairs", "data.path": "{data}/short", "data.tokenizer": "bytes", "data.bleu": "false",
          "train.batch": 32, "train.steps": 4, "optimizer.rule": "adam"}
DRAWN = {"data.set": "drawn", "data.train_images": 256, "data.test_images": 32, "optimizer.rule": "sgd",
         "optimizer.momentum": 0.9}
VIT = {k: v for k, v in DRAWN.items() if not k.startswith("optimizer.")} | {"model.name": "vit", "model.layers": 8, "model.heads": 6, "model.embedding": 384, "model.patch": 8,
               "data.side": 64, "train.batch": 64, "optimizer.rule": "adamw"}
RESNET = DRAWN | {"model.name": "resnet50", "data.side": 96, "train.batch": 16}
CIFAR = DRAWN | {"model.name": "resnet20", "train.batch": 128}
AGAIN = {"model.recompute": "true"}
FP32 = {"train.compute": "fp32"}

RUNS = {
    "GPT": GPT,
    "GPT, recompute": GPT | AGAIN,
    "GPT, fp32": GPT | FP32 | {"memory.preset": "fp32"},
    "GPT, no accumulator": GPT | {"memory.preset": "lpmm-nano", "memory.accumulator": "none"},
    "Llama": LLAMA,
    "Llama, recompute": LLAMA | AGAIN,
    "Llama, grouped queries": LLAMA | {"model.kv_heads": 2},
    "Llama, grouped, fp32, recompute": LLAMA | FP32 | AGAIN | {"model.kv_heads": 1, "memory.preset": "fp32"},
    "Llama, tied": LLAMA | {"model.tied": "true", "memory.preset": "lpmm-min"},
    "Llama, wide, tied": LLAMA | {"model.vocabulary": 128256, "model.tied": "true", "model.embedding": 256, "model.layers": 4},
    "Llama, wide, tied, recompute": LLAMA | AGAIN | {"model.vocabulary": 151936, "model.embedding": 256, "model.tied": "true"},
    "Llama, deep, narrow, recompute": LLAMA | AGAIN | {"model.layers": 24, "model.embedding": 256, "model.mlp_width": 688,
                                                       "train.batch": 16},
    "BERT": BERT,
    "BERT, recompute": BERT | AGAIN,
    "Marian, short lines": MARIAN,
    "Marian, long lines, recompute": MARIAN | AGAIN | {"data.path": "{data}/long"},
    "Marian, BLEU": MARIAN | {"data.bleu": "true"},
    "ResNet-50": RESNET,
    "ResNet-18, fp32": RESNET | FP32 | {"model.name": "resnet18", "train.batch": 32, "train.microbatches": 2},
    "ResNet-20": CIFAR,
    "ResNet-56, microbatches": CIFAR | {"model.name": "resnet56", "train.microbatches": 4, "memory.preset": "lpmm-nano"},
    "ViT": VIT,
    "ViT, recompute": VIT | AGAIN,
    "ViT, Muon": VIT | {"optimizer.rule": "muon"},
    "MLP": DRAWN | {"model.name": "mlp", "model.hidden": "[4096, 4096]", "train.batch": 128},
}


def draw_data(folder):
    rng = random.Random(1)
    words = ["".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(rng.randint(2, 7))) for _ in range(2000)]

    def line(least, most):
        return " ".join(rng.choice(words) for _ in range(rng.randint(least, most)))

    def write(name, lines):
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write("\n".join(lines) + "\n")

    write("text.txt", [line(8, 16) for _ in range(2000)])
    write("vocab.txt", ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + sorted(set(words)))
    for part, count in (("train", 128), ("dev", 16)):
        rows = [f"{line(90, 126)}\t{i % 2}" for i in range(count)]
        write(f"sentences/{part}.tsv", ["sentence\tlabel"] + rows)
        for name, least, most in (("short", 3, 5), ("long", 25, 31)):
            for side in ("en", "de"):
                write(f"{name}/{part}.{side}", [line(least, most) for _ in range(count)])


def measure(program, settings, folder, threads):
    lines = {}
    given = {"memory.preset": "lpmm", "train.steps": 2, "train.microbatches": 1, "train.compute": "bf16",
             "checkpoint.final": "false", "train.threads": threads, "optimizer.learning_rate": 0.001} | settings
    for key, value in given.items():
        section, name = key.split(".", 1)
        text = str(value).replace("{data}", folder)
        plain = text in ("true", "false") or text[0] in "[-0123456789"
        lines.setdefault(section, []).append(f"{name} = {text}" if plain else f'{name} = "{text}"')
    config = os.path.join(folder, "run.toml")
    with open(config, "w", encoding="utf-8") as f:
        for section, keys in lines.items():
            f.write(f"[{section}]\n" + "\n".join(keys) + "\n")
    out = tempfile.mkdtemp(dir=folder)
    done = subprocess.run([program, "train", config, "--quiet", "--json", "--out", os.path.join(out, "run")],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{config}: {done.stderr}")
    summary = json.loads(done.stdout)
    return summary["plan_peak_bytes"], summary["peak_rss_bytes"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("program")
    parser.add_argument("--only", default="*", help="pattern of the names of runs")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    far = 0
    with tempfile.TemporaryDirectory() as folder:
        draw_data(folder)
        print(f"{'':34} {'planned':>9} {'measured':>9} {'gap':>8} {'gap':>7}")
        for name, settings in RUNS.items():
            if not fnmatch.fnmatch(name, arguments.only):
                continue
            planned, peak = measure(arguments.program, settings, folder, arguments.threads)
            gap = peak - planned
            is_far = abs(gap) > max(SHARE * planned, LEAST)
            far += is_far
            print(f"{name:34} {planned / 1e6:6.1f} MB {peak / 1e6:6.1f} MB {gap / 1e6:+5.1f} MB {gap / planned:+7.1%}"
                  f"{'  too far' if is_far else ''}", flush=True)
    print(f"{far} further off than 4 % or 8 MB")
    return 1 if far else 0


if __name__ == "__main__":
    sys.exit(main())
