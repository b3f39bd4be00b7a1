#!/usr/bin/env python3
"""experiments/configs/transformer_multi30k.toml in PyTorch: the same data, pieces, model, batches' sizes, rule and schedule, in
fp32. Prints a line an epoch, and at the end sacreBLEU of the test set by five beams.

    pip install torch transformers sentencepiece sacrebleu
    python3 experiments/zoo/multi30k.py DATA/multi30k multi30k_8000.model [--epochs 25] [--seed 1] [--threads 2]

The model is transformers' MarianMTModel, whose output bias is trained here too. Batches are of sentences that are filled up to one
length, as lpmm's are; their order is another."""
import argparse
import gzip
import json
import math
import random
import time
from pathlib import Path

import sacrebleu
import sentencepiece
import torch
from transformers import MarianConfig, MarianMTModel

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("pieces")
parser.add_argument("--epochs", type=int, default=25)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--threads", type=int, default=2)
given = parser.parse_args()
torch.manual_seed(given.seed)
random.seed(given.seed)
torch.set_num_threads(given.threads)
BATCH, RATE, WARM_UP, WIDTH, LAYERS = 128, 3e-3, 1500, 128, 4
LENGTHS = [8, 16, 24, 32, 48, 72, 96]
pieces = sentencepiece.SentencePieceProcessor(model_file=given.pieces)
END, VOCABULARY = pieces.eos_id(), pieces.get_piece_size()


def lines(name):
    path = given.data / name
    opened = open(path, encoding="utf-8") if path.exists() else gzip.open(f"{path}.gz", "rt", encoding="utf-8")
    return [line.strip() for line in opened]


def pairs(part):
    return [(pieces.encode(s) + [END], pieces.encode(t) + [END]) for s, t in zip(lines(part + ".en"), lines(part + ".de"))]


def filled(pair):
    return next(n for n in LENGTHS if n >= max(map(len, pair)))


def tensors(batch):
    length = max(map(filled, batch))
    row = lambda ids, fill: ids + [fill] * (length - len(ids))
    return (torch.tensor([row(s, END) for s, _ in batch]), torch.tensor([row([1] * len(s), 0) for s, _ in batch]),
            torch.tensor([row([END] + t[:-1], END) for _, t in batch]), torch.tensor([row(t, -1) for _, t in batch]))


def epoch_of(examples):
    """Batches of those of one length, what is left over with the next longer ones; in drawn order."""
    random.shuffle(examples)
    batches, left = [], []
    for length in LENGTHS:
        left += [e for e in examples if filled(e) == length]
        while len(left) >= BATCH:
            batches.append(left[:BATCH])
            left = left[BATCH:]
    random.shuffle(batches)
    return batches


model = MarianMTModel(MarianConfig(
    vocab_size=VOCABULARY, d_model=WIDTH, encoder_layers=LAYERS, decoder_layers=LAYERS, encoder_attention_heads=4,
    decoder_attention_heads=4, encoder_ffn_dim=2 * WIDTH, decoder_ffn_dim=2 * WIDTH, max_position_embeddings=512,
    activation_function="relu", scale_embedding=True, dropout=0.15, pad_token_id=END, decoder_start_token_id=END, eos_token_id=END,
    forced_eos_token_id=END))
bias = torch.nn.Parameter(torch.zeros(VOCABULARY))
with torch.no_grad():
    for name, p in model.named_parameters():
        if "shared" in name:
            p.normal_(0, WIDTH**-0.5)
        elif p.ndim == 2 and "embed_positions" not in name:
            p.normal_(0, math.sqrt(2 / sum(p.shape)))
for table in (model.model.shared, model.model.encoder.embed_tokens, model.model.decoder.embed_tokens):
    table.padding_idx = None  # the end token is trained where it is read, too
trained = [p for name, p in model.named_parameters() if "embed_positions" not in name] + [bias]
train, val, test = pairs("train"), pairs("val"), pairs("test_2016_flickr")
steps = given.epochs * (len(train) // BATCH)
rule = torch.optim.Adam(trained, lr=RATE, betas=(0.9, 0.98), eps=1e-9)
rate = torch.optim.lr_scheduler.LambdaLR(
    rule, lambda s: min(1, (s + 1) / (WARM_UP + 1)) * (1 + math.cos(math.pi * max(0, s - WARM_UP) / max(1, steps - WARM_UP))) / 2)


def loss_of(batch):
    source, mask, tokens, labels = tensors(batch)
    told = model(input_ids=source, attention_mask=mask, decoder_input_ids=tokens).logits + bias
    return torch.nn.functional.cross_entropy(told.flatten(0, 1), labels.flatten(), ignore_index=-1, label_smoothing=0.1,
                                             reduction="sum"), (labels >= 0).sum().item()


for epoch in range(given.epochs):
    model.train()
    begin, total, count, seen = time.time(), 0.0, 0, 0
    for batch in epoch_of(list(train)):
        loss, n = loss_of(batch)
        rule.zero_grad()
        (loss / n).backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        rule.step()
        rate.step()
        total, count, seen = total + loss.item(), count + n, seen + len(batch)
    speed = seen / (time.time() - begin)
    model.eval()
    with torch.no_grad():
        tested = [loss_of(val[i:i + BATCH]) for i in range(0, len(val), BATCH)]
    print(json.dumps({"epoch": epoch, "loss": total / count, "test_loss": sum(a.item() for a, _ in tested) / sum(n for _, n in tested),
                      "sentences_per_second": speed}), flush=True)
model.final_logits_bias.copy_(bias.detach()[None])
told = []
for i in range(0, len(test), 32):
    source, mask, _, _ = tensors(test[i:i + 32])
    out = model.generate(input_ids=source, attention_mask=mask, num_beams=5, length_penalty=1.0, max_length=128)
    told += [pieces.decode([t for t in row.tolist() if t != END]) for row in out]
print(json.dumps({"bleu": sacrebleu.corpus_bleu(told, [lines("test_2016_flickr.de")]).score}))
