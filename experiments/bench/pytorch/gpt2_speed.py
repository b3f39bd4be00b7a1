#!/usr/bin/env python3
"""Training speed and memory of GPT-2 124M in PyTorch, to set beside `lpmm bench train` on gpt2_124m.toml; with
--characters of the GPT of gpt_char_shakespeare.toml.

Same network, sequences and optimizer as lpmm's: pre-norm blocks, learned positions, GELU by tanh, tied embedding,
no dropout, fused AdamW (0.9, 0.95, decay 0.1 on matrices), gradients clipped to norm 1, synthetic tokens. Prints tokens
per second and the peak of memory; bf16 autocast.
"""
import argparse
import math
import resource
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

from turn import add_turn, turn


class Size:
    def __init__(self, name, vocabulary, context, width, heads, layers, dropout=0.0):
        self.name, self.vocabulary, self.context = name, vocabulary, context
        self.width, self.heads, self.layers, self.dropout = width, heads, layers, dropout


GPT2_124M = Size("GPT-2 124M", 50257, 1024, 768, 12, 12)
CHARACTERS = Size("GPT of characters", 65, 64, 128, 4, 4)


class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        width, self.heads = size.width, size.heads
        self.drop = nn.Dropout(size.dropout)
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def attention(self, x):
        b, t, width = x.shape
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(x).split(width, 2))
        if hasattr(F, "scaled_dot_product_attention"):
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=self.drop.p if self.training else 0.0)
        else:  # before PyTorch 2
            scores = q @ k.transpose(2, 3) / math.sqrt(width // self.heads)
            mask = torch.ones(t, t, dtype=torch.bool).tril()
            y = self.drop(F.softmax(scores.masked_fill(~mask, float("-inf")), -1)) @ v
        return self.out(y.transpose(1, 2).reshape(b, t, width))

    def forward(self, x):
        x = x + self.drop(self.attention(self.ln_1(x)))
        return x + self.drop(self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh")))


class GPT(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(size.vocabulary, size.width), nn.Embedding(size.context, size.width)
        self.blocks = nn.Sequential(*(Block(size) for _ in range(size.layers)))
        self.last, self.drop = nn.LayerNorm(size.width), nn.Dropout(size.dropout)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, tokens, labels):
        x = self.drop(self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device)))
        logits = F.linear(self.last(self.blocks(x)), self.wte.weight)
        return F.cross_entropy(logits.flatten(0, 1).float(), labels.view(-1))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fp32", action="store_true", help="no autocast")
    parser.add_argument("--characters", action="store_true", help="the small GPT; wants --sequences 12 --length 64")
    parser.add_argument("--sequences", type=int, default=4, help="of a microbatch")
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--microbatches", type=int, nargs="+", default=[1], help="of a step; several: one after the other")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--compile", action="store_true", help="torch.compile the model")
    parser.add_argument("--steps", type=int, default=5, help="measured, after some to warm up")
    add_turn(parser)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(args.threads)
    size = CHARACTERS if args.characters else GPT2_124M
    torch.set_default_device(args.device)
    model = GPT(size)
    matrices = [p for p in model.parameters() if p.dim() > 1]
    rest = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}],
                                  lr=6e-4, betas=(0.9, 0.95), fused=True)
    shape = (args.sequences, args.length)
    forward = torch.compile(model) if args.compile else model
    kind = args.device.split(":")[0]
    wait = torch.cuda.synchronize if kind == "cuda" else lambda: None

    def step(microbatches):
        optimizer.zero_grad(set_to_none=True)
        for _ in range(microbatches):
            tokens, labels = torch.randint(size.vocabulary, shape), torch.randint(size.vocabulary, shape)
            with torch.autocast(kind, dtype=torch.bfloat16, enabled=not args.fp32):
                loss = forward(tokens, labels) / microbatches
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    def measure(microbatches):
        step(microbatches)
        wait()
        start = time.perf_counter()
        for _ in range(args.steps):
            step(microbatches)
        wait()
        tokens = args.steps * microbatches * args.sequences * args.length
        return tokens / (time.perf_counter() - start)

    step(1)
    wait()
    with turn(args.turn):
        rates = [measure(microbatches) for microbatches in args.microbatches]
    how = ("fp32" if args.fp32 else "bf16 autocast") + (", compiled" if args.compile else "")
    peak = f"peak RSS {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9:.2f} GB"
    if kind == "cuda":
        peak = f"peak reserved on the GPU {torch.cuda.max_memory_reserved() / 1e9:.2f} GB"
    for microbatches, rate in zip(args.microbatches, rates):
        print(f"PyTorch {torch.__version__}, {size.name}, {microbatches} x {args.sequences} x {args.length} tokens per "
              f"step, {how}, {args.device}, {args.threads} threads: {rate:.1f} tokens/s, {peak}")


if __name__ == "__main__":
    main()
