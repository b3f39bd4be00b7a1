#!/usr/bin/env python3
"""Makes sampling.json: drawn logits, and which tokens transformers' logits processors leave of them, with which
probabilities. Needs torch and transformers.
usage: make_sampling.py OUTDIR"""
import json
import sys
from pathlib import Path

import torch
import transformers
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

OPTIONS = [
    {}, {"temperature": 0.7}, {"top_k": 5}, {"top_p": 0.8}, {"min_p": 0.1}, {"repetition_penalty": 1.3},
    {"temperature": 1.6, "top_k": 12, "top_p": 0.9, "min_p": 0.05, "repetition_penalty": 1.2},
    {"temperature": 0.5, "top_p": 0.5, "repetition_penalty": 0.8}, {"top_k": 1}, {"top_p": 0.01}, {"min_p": 1.0},
    {"temperature": 2.5, "min_p": 0.3}, {"temperature": 0.3, "top_k": 8, "min_p": 0.02}]
TOKENS = 24

model = LlamaForCausalLM(LlamaConfig(vocab_size=TOKENS, hidden_size=8, intermediate_size=8, num_hidden_layers=1,
                                     num_attention_heads=1))
draws = torch.Generator().manual_seed(5)
cases = []
for _ in range(3):
    for options in OPTIONS:
        logits = [round(x, 3) for x in (torch.randn(TOKENS, generator=draws) * 2).tolist()]
        before = torch.randint(0, TOKENS, (5,), generator=draws).tolist()
        config = GenerationConfig(do_sample=True, **{"temperature": 1.0, "top_k": 0, "top_p": 1.0, **options})
        processors = model._get_logits_processor(
            config, input_ids_seq_length=5, encoder_input_ids=None, prefix_allowed_tokens_fn=None,
            logits_processor=transformers.LogitsProcessorList(), device="cpu", model_kwargs={})
        shares = torch.softmax(processors(torch.tensor([before]), torch.tensor([logits])).double(), -1)[0]
        ids = [int(i) for i in torch.argsort(-shares, stable=True) if shares[i] > 0]
        cases.append({**options, "logits": logits, "before": before, "ids": ids,
                      "probabilities": [round(float(shares[i]), 7) for i in ids]})
said = {"by": f"transformers {transformers.__version__}, _get_logits_processor", "cases": cases}
text = json.dumps(said, separators=(",", ":")).replace("},{", "},\n{") + "\n"
(Path(sys.argv[1]) / "sampling.json").write_text(text)
