#!/usr/bin/env python3
"""Makes marian_tiny/: a small translator of Marian's kind with random parameters as transformers saves it, and in
expected.safetensors what it computes with it in fp32 for three pairs of sentences of different lengths: logits, the loss with
smoothed labels and its gradients; and for a few sources what generate() finds with five beams and with one, its length penalty
1 and 0.6. Needs PyTorch and transformers.
usage: make_marian_tiny.py OUTDIR"""
import copy
import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import MarianConfig, MarianMTModel

torch.manual_seed(9)
vocabulary, end, start = 47, 0, 46
model = MarianMTModel(MarianConfig(
    vocab_size=vocabulary, d_model=16, encoder_layers=2, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4,
    encoder_ffn_dim=20, decoder_ffn_dim=20, max_position_embeddings=24, activation_function="swish", scale_embedding=True,
    dropout=0.0, attention_dropout=0.0, pad_token_id=start, decoder_start_token_id=start, eos_token_id=end,
    forced_eos_token_id=end, bad_words_ids=[[start]], attn_implementation="eager")).eval()
bias = model.final_logits_bias
with torch.no_grad():
    for name, p in model.named_parameters():
        if "embed_positions" in name:
            continue
        size = 0.3 if "shared" in name or "bias" in name else 0.8
        p.copy_(size * torch.randn(p.shape) + (1 if "layer_norm.weight" in name else 0))
    bias.copy_(0.3 * torch.randn(bias.shape))
    bias[0, end] += 1.5
sources, counts = torch.randint(1, start, (6, 8)), [8, 5, 1, 7, 3, 8]
lengths, targets, longest = [11, 16, 3], [9, 16, 5], 16
source = torch.randint(1, start, (3, longest))
mask = torch.tensor([[1] * n + [0] * (longest - n) for n in lengths])
tokens = torch.cat([torch.full((3, 1), start), torch.randint(1, start, (3, longest - 1))], 1)
labels = torch.cat([tokens[:, 1:], torch.full((3, 1), end)], 1)
for row, n in enumerate(targets):
    labels[row, n:] = -1
logits = model(input_ids=source, attention_mask=mask, decoder_input_ids=tokens).logits
# In double precision, and with a gradient of the start's row too, which is no padding here.
exact = copy.deepcopy(model).double()
for module in exact.modules():
    if isinstance(module, torch.nn.Embedding):
        module.padding_idx = None
exact_bias = exact.final_logits_bias.requires_grad_(True)
told = exact(input_ids=source, attention_mask=mask, decoder_input_ids=tokens).logits
loss = torch.nn.functional.cross_entropy(told.reshape(-1, vocabulary), labels.reshape(-1), ignore_index=-1, label_smoothing=0.1)
loss.backward()
gradients = {name: p.grad.float().contiguous() for name, p in exact.named_parameters() if p.grad is not None}
gradients["final_logits_bias"] = exact_bias.grad.float().contiguous()
whole = lambda x: x.to(torch.int32).contiguous()
found = {}
seen = torch.tensor([[1] * n + [0] * (8 - n) for n in counts])
for beams, penalty in ((5, 1.0), (5, 0.6), (1, 1.0)):
    out = model.generate(input_ids=sources, attention_mask=seen, num_beams=beams, length_penalty=penalty, max_length=20,
                         early_stopping=False, do_sample=False)[:, 1:]
    print(beams, penalty, out.tolist())
    found[f"found_{beams}_{penalty}"] = whole(out)
folder = Path(sys.argv[1]) / "marian_tiny"
model.save_pretrained(folder)
(folder / "generation_config.json").unlink(missing_ok=True)
config = json.loads((folder / "config.json").read_text())
(folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
save_file({"source": whole(source), "lengths": torch.tensor(lengths, dtype=torch.int32), "tokens": whole(tokens),
           "labels": whole(labels), "logits": logits.detach().contiguous(), "loss": loss.detach().float().reshape(1),
           "sources": whole(sources), "counts": torch.tensor(counts, dtype=torch.int32), **found, **gradients},
          folder / "expected.safetensors")
