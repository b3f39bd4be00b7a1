#!/usr/bin/env python3
"""Makes vit_transformers_tiny/ and resnet_transformers_tiny/: small models with random parameters as transformers saves
them, and in expected.safetensors what it computes with them in fp32: logits in evaluation, the mean cross-entropy in
training and some of its gradients, under timm's names. Images are those of make_resnet_fixtures.py.
Needs PyTorch, torchvision and transformers. usage: make_hugging_face_images.py OUTDIR"""
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from transformers import ResNetConfig, ResNetForImageClassification, ViTConfig, ViTForImageClassification

from make_resnet_fixtures import IMAGES, images, save

CLASSES = 5


def make(folder, model, side, gradients):
    torch.manual_seed(3)
    for name, t in model.state_dict().items():
        if t.dtype == torch.float32:
            is_start = t.dim() == 1 and not name.endswith(("bias", "mean"))
            scale = 0.2 if t.dim() == 1 else (2 / t[0].numel()) ** 0.5 if name.endswith("weight") else 0.3
            t.copy_(float(is_start) + scale * torch.randn(t.shape).clamp(-2, 2))
    model.save_pretrained(folder)
    x = images(side)
    with torch.no_grad():
        logits = model.eval()(pixel_values=x).logits
    loss = F.cross_entropy(model.train()(pixel_values=x).logits, torch.arange(IMAGES) % CLASSES)
    loss.backward()
    of = {name: p.grad for name, p in model.named_parameters()}
    found = {ours: torch.cat([of[name] for name in theirs]) for ours, theirs in gradients.items()}
    save(folder / "expected.safetensors",
         {"logits": logits, "loss": loss.reshape(1), **{f"gradient.{name}": g for name, g in found.items()}})


def main(out):
    vit = ViTForImageClassification(ViTConfig(
        hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, image_size=16, patch_size=4,
        num_labels=CLASSES, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0))
    names = [name for name, _ in vit.named_parameters()]
    pick = lambda *ends: [next(n for n in names if n.endswith(end)) for end in ends]
    layer = lambda part: [n for n in names if ".1." in n and part in n]
    joined = lambda kind: [n for part in ("query", "key", "value") for n in names if ".0." in n and part in n and n.endswith(kind)] or [
        n for part in ("q_proj", "k_proj", "v_proj") for n in names if ".0." in n and part in n and n.endswith(kind)]
    make(out / "vit_transformers_tiny", vit, 16, {
        "cls_token": pick("cls_token"), "pos_embed": pick("position_embeddings"), "patch_embed.proj.bias": pick("projection.bias"),
        "blocks.0.attn.qkv.bias": joined("bias"), "blocks.0.attn.qkv.weight": joined("weight"),
        "blocks.1.norm2.weight": layer("layernorm_after.weight"), "norm.bias": pick("vit.layernorm.bias"), "head.weight": pick("classifier.weight")})
    resnet = ResNetForImageClassification(ResNetConfig(embedding_size=2, hidden_sizes=[8, 16, 32, 64], depths=[1, 1, 1, 1], num_labels=CLASSES))
    stage = lambda name: ["resnet.encoder.stages." + name]
    make(out / "resnet_transformers_tiny", resnet, 64, {
        "conv1.weight": ["resnet.embedder.embedder.convolution.weight"], "layer2.0.conv2.weight": stage("1.layers.0.layer.1.convolution.weight"),
        "layer3.0.downsample.1.bias": stage("2.layers.0.shortcut.normalization.bias"), "layer4.0.bn3.weight": stage("3.layers.0.layer.2.normalization.weight"),
        "fc.weight": ["classifier.1.weight"]})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
