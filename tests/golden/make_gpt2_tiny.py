#!/usr/bin/env python3
"""Makes gpt2_tiny.safetensors and gpt2_tiny_expected.safetensors: a small GPT-2 with random parameters in Hugging
Face's layout, and what PyTorch computes with it in fp32: the logits of one text and the gradients of its mean
cross-entropy. Needs PyTorch (Debian: python3-torch). Written after the paper, without any library of models.
usage: make_gpt2_tiny.py OUTDIR"""
import json
import struct
import sys

import torch
import torch.nn.functional as F

VOCABULARY, CONTEXT, WIDTH, HEADS, LAYERS = 61, 18, 16, 2, 2


def save(path, tensors):
    header, data = {}, b""
    for name, t in tensors.items():
        kind = {torch.float32: "F32", torch.int32: "I32"}[t.dtype]
        raw = t.detach().contiguous().numpy().tobytes()
        header[name] = {"dtype": kind, "shape": list(t.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def parameters():
    torch.manual_seed(1)
    p = {"wte.weight": (VOCABULARY, WIDTH), "wpe.weight": (CONTEXT, WIDTH)}
    for i in range(LAYERS):
        for norm in ("ln_1", "ln_2"):
            p[f"h.{i}.{norm}.weight"] = p[f"h.{i}.{norm}.bias"] = (WIDTH,)
        for name, n_in, n_out in (("attn.c_attn", WIDTH, 3 * WIDTH), ("attn.c_proj", WIDTH, WIDTH),
                                  ("mlp.c_fc", WIDTH, 4 * WIDTH), ("mlp.c_proj", 4 * WIDTH, WIDTH)):
            p[f"h.{i}.{name}.weight"], p[f"h.{i}.{name}.bias"] = (n_in, n_out), (n_out,)
    p["ln_f.weight"] = p["ln_f.bias"] = (WIDTH,)
    return {name: (0.3 * torch.randn(shape) + (1 if ".ln_" in "." + name and name.endswith("weight") else 0))
            .requires_grad_() for name, shape in p.items()}


def forward(p, ids):
    norm = lambda x, name: F.layer_norm(x, (WIDTH,), p[name + ".weight"], p[name + ".bias"], 1e-5)
    project = lambda x, name: x @ p[name + ".weight"] + p[name + ".bias"]
    x = p["wte.weight"][ids] + p["wpe.weight"][: len(ids)]
    for i in range(LAYERS):
        q, k, v = project(norm(x, f"h.{i}.ln_1"), f"h.{i}.attn.c_attn").view(len(ids), 3, HEADS, -1).unbind(1)
        scores = torch.einsum("thd,uhd->htu", q, k) / (WIDTH // HEADS) ** 0.5
        scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), float("-inf"))
        y = torch.einsum("htu,uhd->thd", scores.softmax(-1), v).reshape(len(ids), WIDTH)
        x = x + project(y, f"h.{i}.attn.c_proj")
        h = project(norm(x, f"h.{i}.ln_2"), f"h.{i}.mlp.c_fc")
        h = 0.5 * h * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (h + 0.044715 * h ** 3)))
        x = x + project(h, f"h.{i}.mlp.c_proj")
    return norm(x, "ln_f") @ p["wte.weight"].T


p = parameters()
text = torch.randint(VOCABULARY, (CONTEXT + 1,), dtype=torch.int32)
text[5] = text[9] = text[2]  # a token that comes three times
logits = forward(p, text[:-1].long())
F.cross_entropy(logits, text[1:].long()).backward()
out = sys.argv[1]
save(f"{out}/gpt2_tiny.safetensors", p)
save(f"{out}/gpt2_tiny_expected.safetensors",
     {"text": text, "logits": logits, **{name: t.grad for name, t in p.items()}})
