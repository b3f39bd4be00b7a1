#!/usr/bin/env python3
"""The GPT of words of experiments/configs/gpt_words_wikitext2.toml in PyTorch, fp32, with the same recipe.

The same words, network, batches and schedule as lpmm's, drawn with other random numbers; reads
$LPMM_DATA/wikitext2/valid.txt. Prints one JSON line: validation loss and perplexity over the last tenth.
"""
import argparse
import collections
import json
import math
import os
import pathlib
import time

import torch
import torch.nn as nn

from gpt2_speed import GPT, Size

WORDS, LENGTH, BATCH, STEPS, WARM_UP, RATE, FINAL = 6000, 128, 16, 1000, 100, 1e-3, 0.1


def read():
    text = (pathlib.Path(os.environ["LPMM_DATA"]) / "wikitext2/valid.txt").read_text()
    words = [word for line in text.split("\n") for word in (*line.split(), "<eos>")]
    words = words[:-1] if text.endswith("\n") else words  # no line begins behind the last line end
    counts = collections.Counter(word for word in words if word not in ("<unk>", "<eos>"))
    ids = {word: i for i, word in enumerate(["<unk>", "<eos>"] + [word for word, _ in counts.most_common(WORDS - 2)])}
    return torch.tensor([ids.get(word, 0) for word in words]), len(ids)


def initialise(model, layers):
    for name, p in model.named_parameters():
        if p.dim() > 1:
            residual = name.endswith((".out.weight", ".down.weight"))
            nn.init.normal_(p, std=0.02 / math.sqrt(2 * layers) if residual else 0.02)
        elif name.endswith(".bias"):
            nn.init.zeros_(p)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    ids, vocabulary = read()
    split = len(ids) - round(len(ids) * 0.1)
    size = Size("GPT of words", vocabulary, LENGTH, 256, 4, 4, 0.3)
    model = GPT(size)
    initialise(model, size.layers)
    matrices = [p for p in model.parameters() if p.dim() > 1]
    rest = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}],
                                  lr=RATE, betas=(0.9, 0.99))

    def loss_of(firsts):
        windows = torch.stack([ids[i:i + LENGTH + 1] for i in firsts])
        return model(windows[:, :-1], windows[:, 1:].reshape(-1))

    start = time.perf_counter()
    for step in range(args.steps):
        if step < WARM_UP:
            rate = (step + 1) / (WARM_UP + 1)
        else:
            share = (step - WARM_UP) / (args.steps - WARM_UP)
            rate = FINAL + (1 - FINAL) * 0.5 * (1 + math.cos(math.pi * share))
        for group in optimizer.param_groups:
            group["lr"] = RATE * rate
        optimizer.zero_grad(set_to_none=True)
        loss_of(torch.randint(split - LENGTH, (BATCH,)).tolist()).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    seconds = time.perf_counter() - start
    model.eval()
    with torch.no_grad():
        firsts = list(range(split, len(ids) - LENGTH, LENGTH))
        loss = sum(loss_of([first]).item() for first in firsts) / len(firsts)
    print(json.dumps({"torch": torch.__version__, "seed": args.seed, "steps": args.steps, "vocabulary": vocabulary,
                      "tokens": len(ids), "validation_loss": loss, "perplexity": math.exp(loss), "seconds": seconds}))


if __name__ == "__main__":
    main()
