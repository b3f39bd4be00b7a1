#!/usr/bin/env python3
"""Fine-tunes a published BERT for tasks of GLUE in PyTorch, fp32, by the recipes of experiments/glue: the data of `lpmm train`, AdamW
with warm-up and linear decay, batches of about one length, 3 epochs, dropout 0.1, gradients clipped to norm 1.
Prints one JSON object per task and seed: task, seed, scores, final_loss, steps, seconds, sentences_per_second. Needs PyTorch, transformers.
usage: glue.py MODEL [--data DIR] [--tasks rte,mrpc] [--seeds 1,2,3] [--threads 2] >> pytorch.jsonl"""
import argparse
import gzip
import json
import os
import sys
import time
from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import AutoModelForSequenceClassification

# folder, columns of the first sentence, the second and the answer (a number: of a file without names), labels (none: a score),
# scores, longest
TASKS = {
    "sst2": ("SST-2", ("sentence", None, "label"), ["0", "1"], ["accuracy"], 64),
    "cola": ("CoLA", (3, None, 1), ["0", "1"], ["matthews"], 64),
    "mrpc": ("MRPC", ("#1 String", "#2 String", "Quality"), ["0", "1"], ["f1", "accuracy"], 128),
    "rte": ("RTE", ("sentence1", "sentence2", "label"), ["entailment", "not_entailment"], ["accuracy"], 128),
    "stsb": ("STS-B", ("sentence1", "sentence2", "score"), None, ["spearman", "pearson"], 128),
}
EPOCHS, DECAY, DROPOUT = 3, 0.01, 0.1
# Sentences per step, learning rate, steps of warm-up.
RECIPES, SMALL = {"sst2": (128, 1e-4, 150)}, (32, 5e-5, 100)


def read(folder, name, columns, labels):
    path = folder / f"{name}.tsv"
    with open(path, "rb") if path.exists() else gzip.open(f"{path}.gz") as file:
        lines = file.read().decode().removeprefix("\ufeff").rstrip("\n").split("\n")
    if isinstance(columns[0], str):
        names = [n.strip(" \r") for n in lines.pop(0).split("\t")]
        columns = [c if c is None else names.index(c) for c in columns]
    rows = [[part.strip(" \r") for part in line.split("\t")] for line in lines]
    first, second, answer = columns
    return [((r[first], r[second]) if second is not None else r[first], labels.index(r[answer]) if labels else float(r[answer]))
            for r in rows]


def buckets(longest):
    lengths, n = [], 8
    while n < longest:
        lengths.append(n)
        n += 8 if n < 32 else n // 2 // 8 * 8
    return lengths + [longest]


class Sentences:
    def __init__(self, tokenizer, examples, lengths, dtype):
        encoded = tokenizer.encode_batch([sentence for sentence, _ in examples])
        self.ids, self.types = [e.ids for e in encoded], [e.type_ids for e in encoded]
        self.answers = torch.tensor([answer for _, answer in examples], dtype=dtype)
        self.place = [next(i for i, n in enumerate(lengths) if n >= len(ids)) for ids in self.ids]
        self.lengths = lengths

    def batch(self, rows):
        longest = self.lengths[max(self.place[i] for i in rows)]
        padded = lambda lists: torch.tensor([lists[i] + [0] * (longest - len(lists[i])) for i in rows])
        mask = torch.tensor([[1] * len(self.ids[i]) + [0] * (longest - len(self.ids[i])) for i in rows])
        return dict(input_ids=padded(self.ids), token_type_ids=padded(self.types), attention_mask=mask), self.answers[rows]

    # Drawn order, those of one length together, what is left over with the next longer ones.
    def epoch(self, draws, size):
        waiting, batches = [[] for _ in self.lengths], []

        def add(place, row):
            waiting[place].append(row)
            if len(waiting[place]) == size:
                batches.append(waiting[place])
                waiting[place] = []

        for row in torch.randperm(len(self.ids), generator=draws).tolist():
            add(self.place[row], row)
        for place in range(len(waiting) - 1):
            left, waiting[place] = waiting[place], []
            for row in left:
                add(place + 1, row)
        return batches


def ranks(x):
    _, where, counts = torch.unique(x, return_inverse=True, return_counts=True)
    return (torch.cumsum(counts, 0) - (counts + 1) / 2)[where]


def score(name, told, answers):
    if name in ("spearman", "pearson"):
        a, b = (told[:, 0].double(), answers.double())
        if name == "spearman":
            a, b = ranks(a), ranks(b)
        return torch.corrcoef(torch.stack([a, b]))[0, 1].item()
    said = told.argmax(1)
    count = lambda is_, was: ((answers == is_) & (said == was)).sum().item()
    tp, tn, fp, fn = count(1, 1), count(0, 0), count(0, 1), count(1, 0)
    if name == "accuracy":
        return (said == answers).double().mean().item()
    if name == "f1":
        return 2 * tp / max(1, 2 * tp + fp + fn)
    below = ((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)) ** 0.5
    return (tp * tn - fp * fn) / below if below else 0.0


def tune(folder, data, task, seed):
    where, columns, labels, names, longest = TASKS[task]
    size, peak, warmup = RECIPES.get(task, SMALL)
    torch.manual_seed(seed)
    tokenizer = Tokenizer.from_file(str(Path(folder) / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(longest)
    lengths, dtype = buckets(longest), torch.long if labels else torch.float
    train, test = (Sentences(tokenizer, read(Path(data) / "glue" / where, name, columns, labels), lengths, dtype)
                   for name in ("train", "dev"))
    model = AutoModelForSequenceClassification.from_pretrained(
        folder, num_labels=len(labels) if labels else 1, hidden_dropout_prob=DROPOUT, attention_probs_dropout_prob=DROPOUT)
    with torch.no_grad():  # the head as lpmm draws it
        for p in model.classifier.parameters():
            p.uniform_(-model.config.hidden_size**-0.5, model.config.hidden_size**-0.5)
    is_plain = lambda name: name.endswith(".bias") or name.endswith("LayerNorm.weight")
    optimizer = torch.optim.AdamW([
        {"params": [p for n, p in model.named_parameters() if not is_plain(n)], "weight_decay": DECAY},
        {"params": [p for n, p in model.named_parameters() if is_plain(n)], "weight_decay": 0.0}], lr=peak)
    steps = EPOCHS * (len(train.ids) // size)
    rate = lambda i: (i + 1) / (warmup + 1) if i < warmup else 1 - (i - warmup) / (steps - warmup)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    draws = torch.Generator().manual_seed(seed)
    loss_of = (lambda told, answers: torch.nn.functional.cross_entropy(told, answers)) if labels else (
        lambda told, answers: ((told[:, 0] - answers) ** 2).mean())
    seconds, done = 0.0, 0
    for _ in range(EPOCHS):
        model.train()
        losses = []
        for rows in train.epoch(draws, size):
            started = time.time()
            inputs, answers = train.batch(rows)
            loss = loss_of(model(**inputs).logits, answers)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            losses.append(loss.item())
            seconds += time.time() - started
            done += len(rows)
        print(f"{task}, seed {seed}: {done // size}/{steps} steps, loss {sum(losses) / len(losses):.4f}", file=sys.stderr)
    model.eval()
    with torch.no_grad():
        told = [model(**test.batch(list(range(i, min(i + size, len(test.ids)))))[0]).logits for i in range(0, len(test.ids), size)]
    told = torch.cat(told)
    return {"task": task, "seed": seed, "scores": {name: score(name, told, test.answers) for name in names},
            "final_loss": sum(losses) / len(losses), "steps": done // size, "seconds": round(seconds, 1),
            "sentences_per_second": round(done / seconds, 2), "torch": torch.__version__, "threads": torch.get_num_threads()}


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("model")
    options.add_argument("--data", default=os.environ.get("LPMM_DATA", str(Path.home() / ".cache/lpmm")))
    options.add_argument("--tasks", default=",".join(TASKS))
    options.add_argument("--seeds", default="1,2,3")
    options.add_argument("--threads", type=int, default=0)
    o = options.parse_args()
    if o.threads:
        torch.set_num_threads(o.threads)
    for seed in o.seeds.split(","):
        for task in o.tasks.split(","):
            print(json.dumps(tune(o.model, o.data, task, int(seed))), flush=True)


if __name__ == "__main__":
    main()
