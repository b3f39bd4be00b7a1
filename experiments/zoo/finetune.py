#!/usr/bin/env python3
"""A published language model fine-tuned by transformers, with the recipe of experiments/configs/smollm2_tune.toml.

    pip install torch transformers
    python3 experiments/zoo/finetune.py FOLDER TEXT [--steps 200] [--bf16] [--seed 0]

The last tenth of the text is held out; windows are drawn with other random numbers than lpmm's. Prints one JSON line:
validation loss before and after, tokens per second of training, peak resident memory."""
import argparse
import json
import math
import resource
import time

import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("folder")
parser.add_argument("text")
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--length", type=int, default=512)
parser.add_argument("--batch", type=int, default=2)
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--bf16", action="store_true", help="autocast")
parser.add_argument("--no-test", action="store_true", help="time steps only")
given = parser.parse_args()
RATE, WARM_UP, FINAL = 5e-5, 20, 0.1

torch.manual_seed(given.seed)
torch.set_num_threads(given.threads)
ids = torch.tensor(Tokenizer.from_file(f"{given.folder}/tokenizer.json")
                   .encode(open(given.text, encoding="utf-8").read(), add_special_tokens=False).ids)
split = len(ids) - len(ids) // 10
model = AutoModelForCausalLM.from_pretrained(given.folder, dtype=torch.float32)
optimizer = torch.optim.AdamW([
    {"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 0.01},
    {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}], lr=RATE, betas=(0.9, 0.95))


def loss_of(windows):
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=given.bf16):
        logits = model(windows[:, :-1]).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), windows[:, 1:].flatten())


def window(first):
    return ids[first:first + given.length + 1]


@torch.no_grad()
def validation():
    firsts = range(split, len(ids) - given.length, given.length)
    return sum(loss_of(window(first)[None]).item() for first in firsts) / len(firsts)


def rate(step):
    if step < WARM_UP:
        return (step + 1) / (WARM_UP + 1)
    share = (step - WARM_UP) / (given.steps - WARM_UP)
    return FINAL + (1 - FINAL) * 0.5 * (1 + math.cos(math.pi * share))


before = None if given.no_test else validation()
seconds = 0.0
for step in range(given.steps):
    start = time.perf_counter()
    for group in optimizer.param_groups:
        group["lr"] = RATE * rate(step)
    optimizer.zero_grad(set_to_none=True)
    for _ in range(given.batch):  # one sequence a microbatch, as in the config
        (loss_of(window(int(torch.randint(split - given.length, ())))[None]) / given.batch).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if step > 0:  # the first makes the optimizer's state
        seconds += time.perf_counter() - start
print(json.dumps({
    "program": f"PyTorch {torch.__version__}", "compute": "bf16" if given.bf16 else "fp32", "seed": given.seed,
    "steps": given.steps, "before": before, "validation_loss": None if given.no_test else validation(),
    "tokens_per_second": (given.steps - 1) * given.batch * given.length / seconds,
    "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3}))
