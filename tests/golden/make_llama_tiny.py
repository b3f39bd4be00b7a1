#!/usr/bin/env python3
"""Makes llama_tiny/, qwen2_tiny/, qwen3_tiny/, smollm3_tiny/, mistral_tiny/, and smaller llama_biased_tiny/, phi3_tiny/, olmo2_tiny/,
granite_tiny/, gemma3_tiny/, phi3_long_tiny/, qwen3_moe_tiny/, qwen3_moe_mixed_tiny/ and gpt2_wide_tiny/: small models with random parameters as transformers saves them, and in expected.safetensors
what it computes with them in double precision: the logits of one text and the gradients of its loss, the mean cross-entropy and, where
it counts, the loss that balances experts. The Llama has heads that
share keys, an output of its own and Llama 3's rotary scaling, the Qwen2 biases and a tied output, the Qwen3 norms of heads
that are wider than channels / heads, the SmolLM3 every second layer without rotary positions, the Mistral a window of 7 positions and
GeGLU. The smaller ones: a Llama with biases everywhere and YaRN, a Phi-3 with a window, an OLMo 2 whose heads share keys, a Granite
whose four factors differ, a Qwen3-MoE of which one expert is never chosen, another with experts in one layer of four, whose weights
do not sum to 1, a Gemma 3 whose second of three layers sees all positions, scaled, a GPT-2 with a narrow MLP and ReLU;
phi3_long_tiny/ is a Phi-3 with LongRoPE on three quarters of its heads' channels, whose text is longer than its first context: logits_short
are those of the first 16 tokens alone. Needs PyTorch and transformers.
usage: make_llama_tiny.py OUTDIR"""
import copy
import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import Gemma3ForCausalLM, Gemma3TextConfig, GPT2Config, GPT2LMHeadModel, GraniteConfig, GraniteForCausalLM, LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM, Olmo2Config, Olmo2ForCausalLM, Phi3Config, Phi3ForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM, SmolLM3Config, SmolLM3ForCausalLM

SIZES = dict(vocab_size=61, hidden_size=16, intermediate_size=20, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64, hidden_act="silu", attn_implementation="eager")


def make(folder, model):
    torch.manual_seed(1)
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(0.3 * torch.randn(p.shape) + (1 if "norm" in name or "ln_" in name else 0))
            if "norm" in name and model.config.model_type == "gemma3_text":  # few bits, as published: 1 + weight is exact
                p.copy_((1024 * (p - 1)).round() / 1024)
    text = torch.randint(61, (25,), dtype=torch.int32)
    text[5] = text[9] = text[2]  # a token that comes three times
    exact = copy.deepcopy(model).double()
    out = exact(text[None, :-1].long())
    logits = out.logits[0]
    loss = torch.nn.functional.cross_entropy(logits, text[1:].long())
    if getattr(out, "aux_loss", None) is not None:  # as its forward adds it where it is given labels
        loss = loss + exact.router_aux_loss_coef * out.aux_loss
    loss.backward()
    first = getattr(model.config, "original_max_position_embeddings", 0)
    short = {"logits_short": exact(text[None, :first].long()).logits[0].detach().float().contiguous()} if 0 < first < 24 else {}
    (model if not hasattr(model, "transformer") else model.transformer).save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    # A GPT-2's matrices and their gradients are stored as (outputs, inputs).
    gradients = {name.removeprefix("transformer."): (p.grad.T if ".c_" in name and p.dim() == 2 else p.grad).float().contiguous()
                 for name, p in exact.named_parameters()}
    for name in [name for name in gradients if ".experts." in name]:  # since transformers 5 those of a layer are joined
        for expert, of_expert in enumerate(gradients.pop(name)):
            parts = ["gate_proj", "up_proj"] if name.endswith("gate_up_proj") else ["down_proj"]
            for part, gradient in zip(parts, of_expert.chunk(len(parts))):
                gradients[f"{name.rsplit('.', 1)[0]}.{expert}.{part}.weight"] = gradient.contiguous()
    save_file({"text": text, "logits": logits.detach().float().contiguous(), **short, **gradients}, folder / "expected.safetensors")


out = Path(sys.argv[1])
rope = {"rope_type": "llama3", "rope_theta": 1e4, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 16}
make(out / "llama_tiny", LlamaForCausalLM(LlamaConfig(**SIZES, rope_parameters=rope, tie_word_embeddings=False)))
make(out / "qwen2_tiny", Qwen2ForCausalLM(Qwen2Config(**SIZES, rms_norm_eps=1e-6, tie_word_embeddings=True)))
make(out / "smollm3_tiny", SmolLM3ForCausalLM(SmolLM3Config(**SIZES, no_rope_layer_interval=2, rms_norm_eps=1e-6, pad_token_id=None,
                                                            bos_token_id=None, eos_token_id=None, tie_word_embeddings=True)))
make(out / "qwen3_tiny", Qwen3ForCausalLM(Qwen3Config(**SIZES, head_dim=6, rms_norm_eps=1e-6, tie_word_embeddings=True)))
make(out / "mistral_tiny", MistralForCausalLM(MistralConfig(**{**SIZES, "hidden_act": "gelu_pytorch_tanh"}, sliding_window=7, bos_token_id=None,
                                                            eos_token_id=None, tie_word_embeddings=False)))

SMALL = {**SIZES, "hidden_size": 8, "intermediate_size": 12, "bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
yarn = {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 4.0}
make(out / "llama_biased_tiny", LlamaForCausalLM(LlamaConfig(**{**SMALL, "num_attention_heads": 2, "num_key_value_heads": 1}, head_dim=12,
                                                             rope_parameters=yarn, attention_bias=True, mlp_bias=True, tie_word_embeddings=True)))
make(out / "phi3_tiny", Phi3ForCausalLM(Phi3Config(**SMALL, sliding_window=7)))
make(out / "phi3_long_tiny", Phi3ForCausalLM(Phi3Config(
    **{**SMALL, "hidden_size": 16, "num_attention_heads": 2, "num_key_value_heads": 1}, original_max_position_embeddings=16, partial_rotary_factor=0.75,
    rope_scaling={"type": "longrope", "short_factor": [1.0, 1.3, 2.125], "long_factor": [1.1, 2.9, 7.5]})))
make(out / "olmo2_tiny", Olmo2ForCausalLM(Olmo2Config(**SMALL)))
make(out / "granite_tiny", GraniteForCausalLM(GraniteConfig(**SMALL, embedding_multiplier=3.0, residual_multiplier=0.4, attention_multiplier=0.3,
                                                            logits_scaling=2.5, tie_word_embeddings=True)))
make(out / "gemma3_tiny", Gemma3ForCausalLM(Gemma3TextConfig(
    **{**{k: v for k, v in SMALL.items() if k != "hidden_act"}, "num_hidden_layers": 3, "num_attention_heads": 2, "num_key_value_heads": 1},
    head_dim=6, sliding_window=7, query_pre_attn_scalar=6, layer_types=["sliding_attention", "full_attention", "sliding_attention"],
    rope_parameters={"full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e4},
                     "sliding_attention": {"rope_type": "default", "rope_theta": 100.0}})))
moe = dict(**SMALL, head_dim=6, moe_intermediate_size=6, rms_norm_eps=1e-6, experts_implementation="eager")
make(out / "qwen3_moe_tiny", Qwen3MoeForCausalLM(Qwen3MoeConfig(**moe, num_experts=7, num_experts_per_tok=2, norm_topk_prob=True,
                                                                output_router_logits=True, router_aux_loss_coef=0.5)))
make(out / "qwen3_moe_mixed_tiny", Qwen3MoeForCausalLM(Qwen3MoeConfig(**{**moe, "num_hidden_layers": 4}, num_experts=3, num_experts_per_tok=2,
                                                                      decoder_sparse_step=2, mlp_only_layers=[3], norm_topk_prob=False)))
make(out / "gpt2_wide_tiny", GPT2LMHeadModel(GPT2Config(vocab_size=61, n_embd=8, n_inner=12, n_layer=2, n_head=2, n_positions=64, activation_function="relu",
                                                       layer_norm_epsilon=1e-4, bos_token_id=None, eos_token_id=None, resid_pdrop=0, embd_pdrop=0,
                                                       attn_pdrop=0, attn_implementation="eager")))
