#!/usr/bin/env python3
"""A Llama in a GGUF file, with its tokenizer, as a folder that `lpmm import` and transformers read.

    pip install gguf safetensors tokenizers
    python3 experiments/zoo/gguf_to_safetensors.py MODEL.gguf FOLDER

Quantized weights are written as the fp32 numbers that they stand for. GGUF turns neighbouring values of a head by rotary
positions, published Llamas values half a head apart, so rows of queries and keys are put back into their order. The tokenizer is
a byte-level BPE (tokenizer.ggml.model = gpt2, pre = smollm); others are left out with a note."""
import json
import sys
from pathlib import Path

import gguf
import numpy as np
from safetensors.numpy import save_file

NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
LAYER = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
         "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm",
         "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}


def name_of(theirs):
    stem, kind = theirs.rsplit(".", 1)
    if stem in NAMES:
        return f"{NAMES[stem]}.{kind}"
    _, layer, part = stem.split(".")
    return f"model.layers.{layer}.{LAYER[part]}.{kind}"


def in_order(rows, heads):
    """Rows (heads, half, 2) of neighbouring pairs as (heads, 2, half)."""
    return rows.reshape(heads, rows.shape[0] // heads // 2, 2, -1).swapaxes(1, 2).reshape(rows.shape)


def write_tokenizer(field, folder):
    if field("tokenizer.ggml.model") != "gpt2" or field("tokenizer.ggml.pre") != "smollm":
        print("its tokenizer is not written: only byte-level BPE with single digits is known", file=sys.stderr)
        return
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    tokens = field("tokenizer.ggml.tokens")
    kinds = field("tokenizer.ggml.token_type")
    made = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)},
                                [tuple(m.split(" ")) for m in field("tokenizer.ggml.merges")]))
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([t for t, kind in zip(tokens, kinds) if kind == gguf.TokenType.CONTROL])
    made.save(str(folder / "tokenizer.json"))


def main(path, folder):
    reader = gguf.GGUFReader(path)
    field = lambda name: reader.fields[name].contents()
    if field("general.architecture") != "llama":
        sys.exit(f"{path}: is a {field('general.architecture')}, not a llama")
    heads, keys = field("llama.attention.head_count"), field("llama.attention.head_count_kv")
    tensors = {}
    for t in reader.tensors:
        values = gguf.dequantize(t.data, t.tensor_type).astype(np.float32).reshape(t.shape[::-1])
        if ".attn_q." in t.name or ".attn_k." in t.name:
            values = in_order(values, heads if ".attn_q." in t.name else keys)
        tensors[name_of(t.name)] = np.ascontiguousarray(values)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
              "num_hidden_layers": field("llama.block_count"), "num_attention_heads": heads, "num_key_value_heads": keys,
              "hidden_size": field("llama.embedding_length"), "intermediate_size": field("llama.feed_forward_length"),
              "max_position_embeddings": field("llama.context_length"), "vocab_size": field("llama.vocab_size"),
              "rope_theta": field("llama.rope.freq_base"),
              "rms_norm_eps": round(field("llama.attention.layer_norm_rms_epsilon"), 12),
              "tie_word_embeddings": "lm_head.weight" not in tensors, "torch_dtype": "float32"}
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    write_tokenizer(field, folder)


if len(sys.argv) != 3:
    sys.exit(__doc__)
main(sys.argv[1], Path(sys.argv[2]))
