#!/usr/bin/env python3
"""Makes qwen3_classes_tiny/, bert_words_tiny/, modernbert_tiny/ and modernbert_words_tiny/: a small Qwen3 and a small ModernBERT with a
head for three classes of texts, and a small BERT and a small ModernBERT with one for three classes of words, with random parameters as transformers saves them, and in expected.safetensors what it computes with them in
fp32: logits, gradients of the mean cross-entropy of some labels; of the Qwen3 also the loss of several labels per text with the
gradient of its head, and the last layer's last positions. One of its texts ends with the token that texts are filled up with. And
entities.json: drawn tags of sentences, and the F1 that seqeval gives them. Needs PyTorch, transformers and seqeval.
usage: make_heads_tiny.py OUTDIR"""
import json
import random
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from seqeval.metrics import f1_score
from transformers import (BertConfig, BertForTokenClassification, ModernBertConfig, ModernBertForSequenceClassification,
                          ModernBertForTokenClassification, Qwen3Config, Qwen3ForSequenceClassification)

LENGTHS, LONGEST = [11, 16, 3], 16


def whole(x):
    return x.to(torch.int32).contiguous()


def drawn(model):
    torch.manual_seed(1)
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(0.3 * torch.randn(p.shape) + (1 if "norm" in name.lower() and name.endswith("weight") else 0))
    mask = torch.tensor([[1] * n + [0] * (LONGEST - n) for n in LENGTHS])
    return torch.randint(1, 61, (3, LONGEST)) * mask, mask


def save(folder, model, expected):
    model.save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    save_file({name: value.detach().contiguous() for name, value in expected.items()}, folder / "expected.safetensors")


def gradients(model):
    return {name: p.grad.clone() for name, p in model.named_parameters()}


def classes_of_texts(folder):
    model = Qwen3ForSequenceClassification(Qwen3Config(
        vocab_size=61, hidden_size=16, intermediate_size=20, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=6,
        max_position_embeddings=24, rms_norm_eps=1e-6, num_labels=3, pad_token_id=0, attn_implementation="eager"))
    ids, mask = drawn(model)
    ids[0, 10] = 0  # a text's own
    labels = torch.tensor([2, 0, 1])
    out = model(ids, attention_mask=mask, labels=labels, output_hidden_states=True)
    out.loss.backward()
    expected = gradients(model)
    model.zero_grad()
    targets = torch.tensor([[1.0, 0, 1], [0, 0, 0], [0, 1, 0]])
    several = torch.nn.functional.binary_cross_entropy_with_logits(model(ids, attention_mask=mask).logits, targets)
    several.backward()
    ends = torch.stack([out.hidden_states[-1][i, n - 1] for i, n in enumerate(LENGTHS)])
    save(folder, model, expected | {"ids": whole(ids), "lengths": whole(torch.tensor(LENGTHS)), "labels": whole(labels), "logits": out.logits,
                                    "ends": ends, "targets": targets, "several_loss": several.reshape(1), "several": model.score.weight.grad})


def bert():
    return BertForTokenClassification(BertConfig(
        vocab_size=61, hidden_size=16, intermediate_size=20, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=24,
        num_labels=3, attn_implementation="eager", hidden_dropout_prob=0, attention_probs_dropout_prob=0))


def modernbert(made):
    return made(ModernBertConfig(
        vocab_size=61, hidden_size=16, intermediate_size=20, num_hidden_layers=4, num_attention_heads=4, max_position_embeddings=24,
        local_attention=6, num_labels=3, classifier_pooling="mean", pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1,
        sep_token_id=2, attn_implementation="eager"))


def classes_of_modernbert(folder):
    model = modernbert(ModernBertForSequenceClassification)
    ids, mask = drawn(model)
    labels = torch.tensor([2, 0, 1])
    out = model(ids, attention_mask=mask, labels=labels)
    out.loss.backward()
    expected = gradients(model) | {"ids": whole(ids), "lengths": whole(torch.tensor(LENGTHS)), "labels": whole(labels), "logits": out.logits}
    last = model.model(ids, attention_mask=mask).last_hidden_state * mask[..., None]
    weights = torch.arange(1, LONGEST + 1)[:, None] * mask[..., None]
    save(folder, model, expected | {"means": last.sum(1) / mask.sum(1, keepdim=True), "firsts": last[:, 0],
                                    "weighted": (last * weights).sum(1) / weights.sum(1)})


def classes_of_words(folder, model):
    ids, mask = drawn(model)
    labels = torch.randint(0, 3, ids.shape)
    labels[(mask == 0) | (torch.rand(ids.shape) < 0.4)] = -100
    out = model(ids, attention_mask=mask, labels=labels)
    out.loss.backward()
    save(folder, model, gradients(model) | {"ids": whole(ids), "lengths": whole(torch.tensor(LENGTHS)),
                                            "labels": whole(labels.clamp(min=-1)), "logits": out.logits[labels >= 0]})


def entities(file):
    random.seed(1)
    cases = []
    for i in range(60):
        kinds = ["B-A", "I-A", "B-B", "I-B", "O"] + (["E-A", "S-A", "S-B"] if i % 2 else [])
        draw = lambda: [[random.choice(kinds) for _ in range(n)] for n in lengths]
        lengths = [random.randint(1, 9) for _ in range(random.randint(1, 3))]
        tags = draw()
        told = [[t if random.random() < 0.7 else random.choice(kinds) for t in sentence] for sentence in tags]
        cases.append({"tags": tags, "told": told, "f1": float(f1_score(tags, told))})
    file.write_text("[" + ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases) + "]\n")


out = Path(sys.argv[1])
classes_of_texts(out / "qwen3_classes_tiny")
classes_of_words(out / "bert_words_tiny", bert())
classes_of_modernbert(out / "modernbert_tiny")
classes_of_words(out / "modernbert_words_tiny", modernbert(ModernBertForTokenClassification))
entities(out / "entities.json")
