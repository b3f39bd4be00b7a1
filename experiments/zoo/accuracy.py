#!/usr/bin/env python3
"""Is an accuracy that lpmm tells the one that a publisher's library has with the same weights and the same pictures? A small ViT
is trained on CIFAR-10, exported, and given by timm to the 10,000 test pictures, prepared as the export's files say.

    pip install torch timm safetensors numpy pillow
    LPMM_DATA=FOLDER python3 experiments/zoo/accuracy.py build/lpmm [--steps 400]

FOLDER has cifar-10-batches-bin. Exits with 1 where the numbers of correct pictures are more than one apart, and with 77 where a
library or the data is absent."""
import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import numpy
    import timm
    import torch
    from PIL import Image
except ImportError as absent:
    print(f"skipped: {absent}")
    sys.exit(77)
SIDE, CHANNELS = 32, 3


def test_pictures(file):
    rows = numpy.frombuffer(file.read_bytes(), numpy.uint8).reshape(-1, 1 + CHANNELS * SIDE * SIDE)
    pixels = rows[:, 1:].reshape(-1, CHANNELS, SIDE, SIDE).transpose(0, 2, 3, 1)
    return [Image.fromarray(p) for p in pixels], torch.from_numpy(rows[:, 0].astype(numpy.int64))


def main():
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("lpmm")
    asked.add_argument("--steps", type=int, default=400)
    asked = asked.parse_args()
    file = Path(os.environ.get("LPMM_DATA", "")) / "cifar-10-batches-bin/test_batch.bin"
    if not file.exists():
        print(f"skipped: LPMM_DATA names no folder with {file.parent.name}/{file.name}")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        run, exported = f"{folder}/run", f"{folder}/exported"
        settings = [f"train.steps={asked.steps}", "model.layers=4", "model.embedding=96", "model.heads=3", "train.compute=fp32",
                    "train.eval_every_epochs=0"]
        lpmm = lambda *words: subprocess.run([asked.lpmm, *words], check=True, capture_output=True, text=True).stdout
        lpmm("train", "vit_cifar10", "--out", run, *(word for s in settings for word in ("--set", s)))
        here = round(json.loads(lpmm("eval", run, "--json"))["test_accuracy"] * 10000)
        lpmm("export", run, "--hf", "--out", exported)
        model = timm.create_model(f"local-dir:{exported}", pretrained=True).eval()
        prepare = timm.data.create_transform(**timm.data.resolve_model_data_config(model))
        pictures, labels = test_pictures(file)
        with torch.no_grad():
            told = torch.cat([model(torch.stack([prepare(p) for p in pictures[i:i + 500]])).argmax(-1) for i in range(0, len(pictures), 500)])
        theirs = int((told == labels).sum())
    print(f"correct of {len(pictures)} pictures: lpmm {here}, timm {theirs}")
    sys.exit(abs(here - theirs) > 1)


if __name__ == "__main__":
    main()
