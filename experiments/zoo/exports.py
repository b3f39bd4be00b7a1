#!/usr/bin/env python3
"""Do the publishers' libraries take what `lpmm export --hf` writes? For each family: their model with drawn weights, saved by
them, imported and exported in fp32, loaded by them again (strictly: no tensor missing, left over or of another shape), and run
on the same input before and after.

    pip install torch torchvision timm transformers safetensors
    python3 experiments/zoo/exports.py build/lpmm

Prints a line per model: its tensors and bytes, and how far logits differ. Exits with 1 where one does not load, or differs."""
import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import timm
import torch
import torchvision
import transformers as t
from safetensors.torch import load_file, save_file

SMALL = dict(vocab_size=96, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48)
DISTILLED = dict(vocab_size=96, dim=32, n_layers=2, n_heads=4, hidden_dim=48)
LLAMA = dict(SMALL, num_key_value_heads=2, max_position_embeddings=64)
TRANSFORMERS = {
    "GPT-2": lambda: t.GPT2LMHeadModel(t.GPT2Config(vocab_size=96, n_positions=64, n_embd=32, n_layer=2, n_head=4)),
    "Llama": lambda: t.LlamaForCausalLM(t.LlamaConfig(**LLAMA)),
    "Llama 3.2 (tied, scaled rotary)": lambda: t.LlamaForCausalLM(t.LlamaConfig(
        **LLAMA, tie_word_embeddings=True, rope_parameters=dict(
            rope_type="llama3", rope_theta=1e4, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
            original_max_position_embeddings=32))),
    "Qwen2": lambda: t.Qwen2ForCausalLM(t.Qwen2Config(**LLAMA)),
    "Qwen3": lambda: t.Qwen3ForCausalLM(t.Qwen3Config(**LLAMA, head_dim=16)),
    "Llama, biases, YaRN": lambda: t.LlamaForCausalLM(t.LlamaConfig(
        **LLAMA, attention_bias=True, mlp_bias=True, rope_parameters=dict(
            rope_type="yarn", rope_theta=1e4, factor=8.0, original_max_position_embeddings=32))),
    "Llama, dynamic scaling": lambda: t.LlamaForCausalLM(t.LlamaConfig(
        **LLAMA, rope_parameters=dict(rope_type="dynamic", rope_theta=1e4, factor=2.0))),
    "Mistral": lambda: t.MistralForCausalLM(t.MistralConfig(**LLAMA, sliding_window=7)),
    "Phi-3": lambda: t.Phi3ForCausalLM(t.Phi3Config(**LLAMA, sliding_window=7, pad_token_id=None)),
    "OLMo 2": lambda: t.Olmo2ForCausalLM(t.Olmo2Config(**LLAMA, pad_token_id=None, eos_token_id=None)),
    "Granite": lambda: t.GraniteForCausalLM(t.GraniteConfig(
        **LLAMA, embedding_multiplier=12.0, residual_multiplier=0.22, attention_multiplier=0.1, logits_scaling=8.0)),
    "GPT-2, n_inner, ReLU": lambda: t.GPT2LMHeadModel(t.GPT2Config(
        vocab_size=96, n_positions=64, n_embd=32, n_layer=2, n_head=4, n_inner=48, activation_function="relu")),
    "SmolLM3": lambda: t.SmolLM3ForCausalLM(t.SmolLM3Config(**dict(LLAMA, num_hidden_layers=5), pad_token_id=None)),
    "BERT": lambda: t.BertModel(t.BertConfig(**SMALL)),
    "BERT, classes": lambda: t.BertForSequenceClassification(t.BertConfig(**SMALL, num_labels=3)),
    "RoBERTa": lambda: t.RobertaModel(t.RobertaConfig(**SMALL, type_vocab_size=1), add_pooling_layer=False),
    "RoBERTa, a score": lambda: t.RobertaForSequenceClassification(t.RobertaConfig(**SMALL, type_vocab_size=1, num_labels=1)),
    "XLM-RoBERTa": lambda: t.XLMRobertaModel(t.XLMRobertaConfig(**SMALL, type_vocab_size=1), add_pooling_layer=False),
    "CamemBERT, classes": lambda: t.CamembertForSequenceClassification(t.CamembertConfig(**SMALL, type_vocab_size=1, num_labels=3)),
    "DistilBERT": lambda: t.DistilBertModel(t.DistilBertConfig(**DISTILLED)),
    "DistilBERT, classes": lambda: t.DistilBertForSequenceClassification(t.DistilBertConfig(**DISTILLED, num_labels=3)),
    "Marian": lambda: t.MarianMTModel(t.MarianConfig(
        vocab_size=96, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=64, pad_token_id=95, eos_token_id=0,
        decoder_start_token_id=95, forced_eos_token_id=0, activation_function="relu", scale_embedding=True)),
    "ViT (transformers)": lambda: t.ViTForImageClassification(t.ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, image_size=64, num_labels=7)),
    "ResNet (transformers)": lambda: t.ResNetForImageClassification(t.ResNetConfig(
        embedding_size=8, hidden_sizes=[32, 64, 128, 256], depths=[1, 2, 1, 1], num_labels=7)),
}
IMAGES = {
    **{f"ResNet-{n} (torchvision)": lambda n=n: getattr(torchvision.models, f"resnet{n}")() for n in (18, 34, 50, 101)},
    "ResNet-50 d (timm)": lambda: timm.create_model("resnet50d"),
    "Wide ResNet-50 (torchvision)": lambda: torchvision.models.wide_resnet50_2(),
    **{f"ViT {size} (timm)": lambda size=size: timm.create_model(f"vit_{size}_patch16_224") for size in ("tiny", "small", "base")},
    "DeiT tiny, distilled (timm)": lambda: timm.create_model("deit_tiny_distilled_patch16_224"),
}


def run(*arguments):
    done = subprocess.run([str(a) for a in arguments], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(str(a) for a in arguments)}\n{done.stderr}")


def out_of(model, given):
    with torch.no_grad():
        told = model.eval()(**given) if isinstance(given, dict) else model.eval()(given)
    return told if torch.is_tensor(told) else told.logits if "logits" in told else told.last_hidden_state


def given_to(model):
    if model.main_input_name == "pixel_values":
        return dict(pixel_values=torch.randn(2, 3, 64, 64))
    ids = torch.arange(2 * 24).reshape(2, 24) * 7 % 90 + 3
    return dict(input_ids=ids, decoder_input_ids=ids[:, :9]) if model.config.is_encoder_decoder else dict(input_ids=ids)


def through(lpmm, folder):
    run(lpmm, "import", folder / "published", "--out", folder / "run", "--preset", "fp32")
    run(lpmm, "export", folder / "run", "--hf", "--out", folder / "exported")
    return folder / "exported"


def drawn(model):
    with torch.no_grad():
        for p in model.parameters():
            if p.requires_grad:  # no two alike: biases begin at 0, weights of norms at 1. Marian's positions are a formula
                p += 0.02 * torch.randn_like(p)
        for name, b in model.named_buffers():
            if "running_" in name:  # a ResNet's
                b += 0.1 * torch.rand_like(b)
    return model


def of_transformers(lpmm, make, folder):
    model = drawn(make())
    model.save_pretrained(folder / "published")
    options = {"add_pooling_layer": False} if type(model) in (t.RobertaModel, t.XLMRobertaModel) else {}
    back, found = type(model).from_pretrained(through(lpmm, folder), output_loading_info=True, **options)
    refused = [f"{what} {sorted(map(str, names))}" for what, names in found.items() if names]
    return model, back, refused, given_to(model)


def of_images(lpmm, make, folder):
    model = drawn(make())
    (folder / "published").mkdir()
    save_file(model.state_dict(), folder / "published/model.safetensors")
    back = make()
    back.load_state_dict(load_file(through(lpmm, folder) / "model.safetensors"), strict=True)
    return model, back, [], torch.randn(2, 3, 224, 224)


def told(name, model, back, refused, given):
    want, got = out_of(model, given), out_of(back, given)
    apart = ((got - want).abs().max() / want.abs().max()).item()
    state = model.state_dict()
    print(f"{name:34} {len(state):4} tensors {sum(v.numel() * v.element_size() for v in state.values()):12,} bytes   "
          f"{'loads strictly' if not refused else '; '.join(refused)}   logits differ by {apart:.1e}", flush=True)
    return not refused and apart <= 1e-6


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("lpmm", help="the program")
    lpmm = Path(options.parse_args().lpmm).resolve()
    t.utils.logging.set_verbosity_error()
    t.utils.logging.disable_progress_bar()
    print(f"torch {torch.__version__}, transformers {t.__version__}, timm {timm.__version__}, torchvision {torchvision.__version__}")
    torch.manual_seed(1)
    good = True
    for makes, way in ((TRANSFORMERS, of_transformers), (IMAGES, of_images)):
        for name, make in makes.items():
            with tempfile.TemporaryDirectory() as folder:
                good &= told(name, *way(lpmm, make, Path(folder)))
    sys.exit(not good)


if __name__ == "__main__":
    main()
