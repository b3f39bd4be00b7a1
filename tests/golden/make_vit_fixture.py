#!/usr/bin/env python3
"""Makes vit_tiny.safetensors and vit_tiny_expected.safetensors, and the same of deit_tiny, which has a distillation token, of vit_mean_tiny, which has no class token, and of vit_registers_tiny and vit_registers_mean_tiny, which have registers: a small ViT of timm's with random parameters, and what
PyTorch computes with it in fp32: logits, the mean cross-entropy and some of its gradients. Parameters are numbers that
fp16 holds; images are those of make_resnet_fixtures.py. Needs PyTorch and timm (pip install timm).
usage: make_vit_fixture.py OUTDIR"""
import sys
from functools import partial

import torch
import torch.nn.functional as F
from timm.models.deit import VisionTransformerDistilled
from timm.models.vision_transformer import VisionTransformer

from make_resnet_fixtures import IMAGES, images, save

SIDE, PATCH, WIDTH, HEADS, LAYERS, CLASSES = 16, 4, 8, 2, 2, 5
GRADIENTS = ("cls_token", "pos_embed", "patch_embed.proj.bias", "blocks.0.norm1.weight", "blocks.0.attn.qkv.bias",
             "blocks.1.attn.proj.bias", "blocks.1.mlp.fc1.bias", "norm.bias", "head.weight")


def make(name, made, folder, gradients_of):
    torch.manual_seed(2)
    model = made(img_size=SIDE, patch_size=PATCH, embed_dim=WIDTH, depth=LAYERS, num_heads=HEADS,
                 num_classes=CLASSES).eval()
    for key, t in model.state_dict().items():
        start = 1.0 if "norm" in key and key.endswith("weight") else 0.0
        scale = (1 / t[0].numel()) ** 0.5 if key.endswith("weight") and t.dim() > 1 else 0.3
        t.copy_((start + scale * torch.randn(t.shape).clamp(-2, 2)).half().float())
    save(f"{folder}/{name}.safetensors", {k: v.half() for k, v in model.state_dict().items()})
    logits = model(images(SIDE))
    loss = F.cross_entropy(logits, torch.arange(IMAGES) % CLASSES)
    loss.backward()
    gradients = dict(model.named_parameters())
    save(f"{folder}/{name}_expected.safetensors",
         {"logits": logits, "loss": loss.reshape(1), **{f"gradient.{k}": gradients[k].grad for k in gradients_of}})


if __name__ == "__main__":
    make("vit_tiny", VisionTransformer, sys.argv[1], GRADIENTS)
    make("deit_tiny", VisionTransformerDistilled, sys.argv[1], (*GRADIENTS, "dist_token", "head_dist.weight"))
    make("vit_mean_tiny", partial(VisionTransformer, class_token=False, global_pool="avg"), sys.argv[1],
         (*(name.replace("norm.bias", "fc_norm.bias") for name in GRADIENTS[1:]), "fc_norm.weight"))
    make("vit_registers_tiny", partial(VisionTransformer, reg_tokens=3, no_embed_class=True, init_values=1e-5), sys.argv[1],
         (*GRADIENTS, "reg_token", "blocks.0.ls1.gamma", "blocks.1.ls2.gamma"))
    make("vit_registers_mean_tiny", partial(VisionTransformer, class_token=False, reg_tokens=3, global_pool="avg"), sys.argv[1],
         (*(name.replace("norm.bias", "fc_norm.bias") for name in GRADIENTS[1:]), "fc_norm.weight", "reg_token"))
