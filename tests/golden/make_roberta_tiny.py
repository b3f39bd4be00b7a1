#!/usr/bin/env python3
"""Makes roberta_tiny/, and xlm-roberta_tiny/ and mpnet_tiny/ without a tokenizer: a small RoBERTa with three classes and random parameters as transformers saves it, with a byte-level BPE in
tokenizer.json, and in expected.safetensors what it computes in fp32 for three sentences of different lengths: logits, the gradients of
their mean cross-entropy, and the means of the last layer's positions; the ids of a sentence and of a pair, the first's
mean, the second's logits. Needs PyTorch, transformers.
usage: make_roberta_tiny.py OUTDIR"""
import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import ByteLevelBPETokenizer, Tokenizer, processors
from transformers import (MPNetConfig, MPNetForSequenceClassification, RobertaConfig, RobertaForSequenceClassification, XLMRobertaConfig,
                          XLMRobertaForSequenceClassification)

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
folder = Path(sys.argv[1]) / "roberta_tiny"
folder.mkdir(exist_ok=True)
trained = ByteLevelBPETokenizer()
trained.train_from_iterator(["a cat sat on a mat, and the dog saw that cat"] * 3, vocab_size=280, min_frequency=2, special_tokens=SPECIAL)
trained.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False)
trained.save(str(folder / "tokenizer.json"))
tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
vocabulary = tokenizer.get_vocab_size()


def make(folder, made, config, **more):
    torch.manual_seed(1)
    model = made(config(
        vocab_size=vocabulary, hidden_size=16, intermediate_size=20, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=26,
        layer_norm_eps=1e-5, num_labels=3, attn_implementation="eager", hidden_dropout_prob=0, attention_probs_dropout_prob=0, **more))
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(0.3 * torch.randn(p.shape) + (1 if name.endswith("LayerNorm.weight") else 0))
    lengths, longest = [11, 16, 3], 16
    ids = torch.randint(2, vocabulary, (3, longest))
    mask = torch.tensor([[1] * n + [0] * (longest - n) for n in lengths])
    ids = ids * mask + model.config.pad_token_id * (1 - mask)
    labels = torch.tensor([2, 0, 1])
    out = model(ids, attention_mask=mask, labels=labels, output_hidden_states=True)
    out.loss.backward()
    last = out.hidden_states[-1] * mask[..., None]
    means = last.sum(1) / mask.sum(1, keepdim=True)
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    for name in ("config.json", "tokenizer.json"):
        if not (folder / name).exists():
            continue
        (folder / name).write_text(json.dumps(json.loads((folder / name).read_text()), indent=1, ensure_ascii=False) + "\n")
    texts = lambda *given: torch.tensor([tokenizer.encode(*given).ids])
    with torch.no_grad():
        single = model(texts("a dog sat"), output_hidden_states=True).hidden_states[-1].mean(1)
        pair = model(texts("a dog sat", "the cat, at last")).logits
    whole = lambda x: torch.as_tensor(x).to(torch.int32).contiguous()
    save_file({"ids": whole(ids), "types": whole(torch.zeros_like(ids)), "lengths": whole(lengths), "labels": whole(labels),
               "sentence": whole(tokenizer.encode("a dog sat").ids), "pair": whole(tokenizer.encode("a dog sat", "the cat, at last").ids),
               "sentence_mean": single, "pair_logits": pair, "logits": out.logits.detach().contiguous(), "means": means.detach().contiguous(),
               **{name: p.grad.contiguous() for name, p in model.named_parameters()}}, folder / "expected.safetensors")


make(folder, RobertaForSequenceClassification, RobertaConfig, type_vocab_size=1)
for name in ("xlm-roberta_tiny", "mpnet_tiny"):
    (Path(sys.argv[1]) / name).mkdir(exist_ok=True)
make(Path(sys.argv[1]) / "xlm-roberta_tiny", XLMRobertaForSequenceClassification, XLMRobertaConfig, type_vocab_size=1)
make(Path(sys.argv[1]) / "mpnet_tiny", MPNetForSequenceClassification, MPNetConfig)
