#!/usr/bin/env python3
"""Perplexity of a published language model in transformers, over a text cut into windows as `lpmm eval --data` cuts it.

    pip install torch transformers
    python3 experiments/zoo/perplexity.py FOLDER TEXT [--length 1024]

Windows lie side by side; each token but the first of a text is told once, from those before it in its window. fp32."""
import argparse
import json
import math
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM
from tokenizers import Tokenizer

parser = argparse.ArgumentParser()
parser.add_argument("folder")
parser.add_argument("text")
parser.add_argument("--length", type=int, default=1024)
given = parser.parse_args()
text = open(given.text, encoding="utf-8", newline="").read()
if Path(f"{given.folder}/tokenizer.json").exists():
    ids = Tokenizer.from_file(f"{given.folder}/tokenizer.json").encode(text, add_special_tokens=False).ids
else:  # a SentencePiece model out of an imported GGUF
    import sentencepiece
    ids = sentencepiece.SentencePieceProcessor(model_file=f"{given.folder}/tokenizer.model").encode(text)
model = AutoModelForCausalLM.from_pretrained(given.folder, dtype=torch.float32)
loss, tokens = 0.0, 0
with torch.no_grad():
    for first in range(0, len(ids) - 1 - given.length + 1, given.length):
        window = torch.tensor(ids[first:first + given.length + 1])
        logits = model(window[None, :-1]).logits[0]
        loss += torch.nn.functional.cross_entropy(logits, window[1:], reduction="sum").item()
        tokens += given.length
print(json.dumps({"tokens": tokens, "loss": loss / tokens, "perplexity": math.exp(loss / tokens)}))
