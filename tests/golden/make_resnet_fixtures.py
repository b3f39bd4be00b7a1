#!/usr/bin/env python3
"""Makes resnet_basic.safetensors, resnet_bottleneck.safetensors, resnet_wide_deep.safetensors, resnet_groups.safetensors and resnet_expected.safetensors:
three narrow ResNets with random parameters, made of torchvision's blocks by its own code, and timm's resnet-d with wide bottlenecks, and what PyTorch computes with them in fp32:
logits in evaluation and in training, the mean cross-entropy, some of its gradients, and a running mean and variance
after one training batch. Parameters are numbers that fp16 holds; images are a formula (see `images`).
Needs PyTorch, torchvision and timm. usage: make_resnet_fixtures.py OUTDIR"""
import json
import struct
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torchvision.models.resnet import BasicBlock, Bottleneck, ResNet

CLASSES, IMAGES = 5, 3
GRADIENTS = ("conv1.weight", "layer3.0.bn1.bias", "layer2.0.conv2.weight", "layer2.0.downsample.0.weight",
             "layer2.0.downsample.1.weight", "layer4.0.conv1.weight", "layer4.0.bn2.weight", "fc.weight", "fc.bias")


DEEP = ("conv1.0.weight", "conv1.4.bias", "conv1.6.weight", "layer2.0.downsample.1.weight", "layer1.0.downsample.2.bias",
        "layer3.0.bn1.bias", "layer2.0.conv2.weight", "layer4.0.bn2.weight", "fc.weight")


def save(path, tensors):
    header, data = {}, b""
    for name, t in tensors.items():
        kind = {torch.float32: "F32", torch.float16: "F16", torch.int64: "I64"}[t.dtype]
        raw = t.detach().contiguous().numpy().tobytes()
        header[name] = {"dtype": kind, "shape": list(t.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def drawn(model):
    for name, t in model.state_dict().items():
        if t.dtype == torch.float32:
            start = 1.0 if t.dim() == 1 and not name.endswith(("bias", "mean")) else 0.0
            scale = 0.2 if t.dim() == 1 else (2 / t[0].numel()) ** 0.5
            t.copy_((start + scale * torch.randn(t.shape).clamp(-2, 2)).half().float())
    return model


def wide_deep():
    from timm.models.resnet import Bottleneck, ResNet
    return drawn(ResNet(Bottleneck, (1, 1, 1, 1), num_classes=CLASSES, stem_type="deep", stem_width=1, avg_down=True,
                        channels=(2, 4, 8, 16), base_width=128))


def network(block, width, small_stem, groups=1):
    """torchvision's ResNet with a block a stage and fewer channels, which its constructor has no setting for."""
    model = ResNet.__new__(ResNet)
    nn.Module.__init__(model)
    model._norm_layer, model.inplanes, model.dilation, model.groups, model.base_width = nn.BatchNorm2d, width, 1, groups, 64
    kernel, stride = (3, 1) if small_stem else (7, 2)
    model.conv1 = nn.Conv2d(3, width, kernel, stride, kernel // 2, bias=False)
    model.bn1, model.relu = nn.BatchNorm2d(width), nn.ReLU(inplace=True)
    model.maxpool = nn.Identity() if small_stem else nn.MaxPool2d(3, 2, 1)
    for stage in range(4):
        layer = model._make_layer(block, width << stage, 1, stride=1 if stage == 0 else 2)
        setattr(model, f"layer{stage + 1}", layer)
    model.avgpool, model.fc = nn.AdaptiveAvgPool2d(1), nn.Linear((width << 3) * block.expansion, CLASSES)
    return drawn(model)


def images(side):
    n, c, y, x = torch.meshgrid(*(torch.arange(k) for k in (IMAGES, 3, side, side)), indexing="ij")
    return ((x * x + 3 * y + 5 * c * x + 7 * n * (x + y)) % 17 - 8).float() / 8


def main(folder):
    torch.manual_seed(1)
    expected = {}
    for kind, make, side in (("basic", lambda: network(BasicBlock, 2, True), 16),
                             ("bottleneck", lambda: network(Bottleneck, 1, False), 64), ("wide_deep", wide_deep, 64),
                             ("groups", lambda: network(Bottleneck, 2, False, 2), 64)):
        model, x, labels = make(), images(side), torch.arange(IMAGES) % CLASSES
        half = {k: v.half() if v.dtype == torch.float32 else v.clone() for k, v in model.state_dict().items()}
        save(f"{folder}/resnet_{kind}.safetensors", half)
        expected[f"{kind}.eval"] = model.eval()(x)
        expected[f"{kind}.train"] = model.train()(x)
        loss = F.cross_entropy(expected[f"{kind}.train"], labels)
        loss.backward()
        expected[f"{kind}.loss"] = loss.reshape(1)
        gradients = dict(model.named_parameters())
        for name in GRADIENTS if kind != "wide_deep" else DEEP:
            expected[f"{kind}.gradient.{name}"] = gradients[name].grad
        for name in ("layer3.0.bn1.running_mean", "layer3.0.bn1.running_var"):
            expected[f"{kind}.after.{name}"] = model.state_dict()[name]
    save(f"{folder}/resnet_expected.safetensors", expected)


if __name__ == "__main__":
    main(sys.argv[1])
