#!/usr/bin/env python3
"""Makes bert_tiny/ and distilbert_tiny/: a small BERT and a small DistilBERT with three classes and random parameters as transformers
saves them, and in expected.safetensors what it computes with each in fp32 for three sentences of different lengths: logits, the
gradients of their mean cross-entropy, and the means of the last layer's positions. Needs PyTorch and transformers.
usage: make_bert_tiny.py OUTDIR"""
import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import BertConfig, BertForSequenceClassification, DistilBertConfig, DistilBertForSequenceClassification


def make(folder, model, types):
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(0.3 * torch.randn(p.shape) + (1 if name.lower().replace("_", "").endswith("layernorm.weight") else 0))
    lengths, longest = [11, 16, 3], 16
    ids = torch.randint(1, 61, (3, longest))
    mask = torch.tensor([[1] * n + [0] * (longest - n) for n in lengths])
    ids *= mask
    types = mask * torch.tensor([[0] * 5 + [types - 1] * (longest - 5)])
    labels = torch.tensor([2, 0, 1])
    given = {"token_type_ids": types} if types.any() else {}
    out = model(ids, attention_mask=mask, labels=labels, output_hidden_states=True, **given)
    out.loss.backward()
    last = out.hidden_states[-1] * mask[..., None]
    means = last.sum(1) / mask.sum(1, keepdim=True)
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    whole = lambda x: x.to(torch.int32).contiguous()
    save_file({"ids": whole(ids), "types": whole(types), "lengths": torch.tensor(lengths, dtype=torch.int32), "labels": whole(labels),
               "logits": out.logits.detach().contiguous(), "means": means.detach().contiguous(),
               **{name: p.grad.contiguous() for name, p in model.named_parameters()}}, folder / "expected.safetensors")


torch.manual_seed(1)
make(Path(sys.argv[1]) / "bert_tiny", BertForSequenceClassification(BertConfig(
    vocab_size=61, hidden_size=16, intermediate_size=20, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=24,
    num_labels=3, attn_implementation="eager", hidden_dropout_prob=0, attention_probs_dropout_prob=0)), 2)
torch.manual_seed(1)
make(Path(sys.argv[1]) / "distilbert_tiny", DistilBertForSequenceClassification(DistilBertConfig(
    vocab_size=61, dim=16, hidden_dim=20, n_layers=2, n_heads=4, max_position_embeddings=24, num_labels=3,
    attn_implementation="eager", dropout=0, attention_dropout=0, seq_classif_dropout=0)), 1)
