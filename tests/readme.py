#!/usr/bin/env python3
"""Types every command of README.md and of the pages in lpmm/, in their order, and says how long each takes.

What a page leaves to the reader (CONFIG, a folder of pictures, a published model) gets a small stand-in. Commands that
the pages only name, such as `lpmm info`, are typed as they stand.
usage: python3 tests/readme.py [--without TEXT]... --model FILE > log     in a checkout
--without leaves out commands that hold TEXT. --model is a published model of conversations, a folder or a GGUF: a small one,
as the commands fine-tune it. Exits with 1 where a command fails.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = ["README.md", "lpmm/README.md", "lpmm/RECIPES.md", "lpmm/memory/README.md", "lpmm/EMBEDDING.md"]
STARTS = r"(?:lpmm|build/lpmm|bash|cmake|python3|source)\b"
# Typed before the pages: what their placeholders stand for.
SETUP = """mkdir -p runs/readme
lpmm import tests/golden/marian_text --out runs/t
lpmm train gpt_tiny_embedded --preset lpmm-min --set train.steps=100 --out runs/b
python3 tests/readme.py --pictures runs/readme/pictures
"""
SHORT = "--set train.steps=2 --set train.batch=2 --set train.microbatches=1"
STAND_INS = [
    (r"mine\.csv --out runs/mine\b", f"runs/readme/mine.csv --set data.length=16 {SHORT} --out runs/mine_csv"),
    (r"my\.jsonl --out", f"my.jsonl --set data.length=64 {SHORT} --out"), (r"\bmy\.jsonl\b", "runs/readme/my.jsonl"),
    (r"\bruns/smol\b", "runs/base"), (r"SmolLM2-135M/ --out runs/base\b", "SmolLM2-135M/ --out runs/base_folder"),
    (r"\bCONFIG\b", "gpt_tiny_embedded"), (r"train\.epochs=10", "train.epochs=2 --set checkpoint.every_steps=100"), (r"\bSmolLM2-135M/", "tests/golden/llama_tiny"),
    (r"\bdata\.path=DIR\b", "data.path=runs/readme/pictures --set train.batch=8 --set train.steps=2"), (r"\bphoto\.jpg\b", "runs/readme/pictures/test/dark/0.png"), (r"\bCOMMAND\b", "train"), (r"~/lpmm\b", "runs/readme/prefix"),
    (r"--gtest_filter=NAME", "--gtest_filter='Spec.*'"), (r"frontier --parts NAME", "frontier --quick --parts image --out runs/readme/frontier"),
    (r"FILE\.toml --out DIR", "runs/readme/grid.toml --quick --out runs/readme/grid"), (r"\bFILE\.toml\b", "runs/readme/grid.toml"),
    (r"experiments/results/frontier/NAME", "runs/readme/frontier/image"), (r"model\.name=NAME", "model.name=resnet20"),
]
# Named in running text without what they need, or shown only to say what they do.
NAMED = {"lpmm classify", "lpmm train dpo_tune", "lpmm stop RUN", "lpmm embed", "lpmm export --hf", "lpmm data tokenizer", "lpmm plan", "lpmm train", "lpmm import", "lpmm data get",
         "lpmm data pack-images", "lpmm watch", "lpmm serve", "lpmm serve runs/mine"}


def commands(page):
    """(line, command) of its blocks and of its text."""
    found, block, kind = [], False, ""
    for number, line in enumerate((ROOT / page).read_text().splitlines(), 1):
        if line.startswith("```"):
            block, kind = not block, line[3:]
        elif block and (kind == "bash" or line.startswith("$ ")):
            found.append((number, re.split(r"\s+#\s|\s{2,}#", line.removeprefix("$ "))[0].strip()))
        elif not block:
            found += [(number, text) for text in re.findall(r"`([^`]+)`", line) if re.match(STARTS + r" \S", text)]
    return found


def pictures(folder):
    """Two classes of small PNGs, by hand: no library is needed."""
    import struct
    import zlib
    for name, level in (("train/dark", 40), ("train/light", 200), ("test/dark", 50), ("test/light", 210)):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for i in range(4):
            rows = b"".join(b"\0" + bytes([level + i] * 24) for _ in range(8))
            parts = [(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
            body = b"".join(struct.pack(">I", len(data)) + tag + data + struct.pack(">I", zlib.crc32(tag + data)) for tag, data in parts)
            (folder / name / f"{i}.png").write_bytes(b"\x89PNG\r\n\x1a\n" + body)


def tables(folder):
    """Sentences of two classes, and conversations."""
    words = [("good", "yes"), ("fine", "yes"), ("bad", "no"), ("poor", "no")] * 16
    (folder / "mine.csv").write_text("text,label\n" + "".join(f"A {word} film.,{label}\n" for word, label in words))
    talks = [[{"role": "user", "content": f"Is a {word} film worth it?"}, {"role": "assistant", "content": label}] for word, label in words]
    (folder / "my.jsonl").write_text("".join(json.dumps({"messages": talk}) + "\n" for talk in talks))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--without", action="append", default=[])
    parser.add_argument("--model", type=Path)
    parser.add_argument("--pictures", type=Path)
    args = parser.parse_args()
    if args.pictures:
        return pictures(args.pictures)
    if not args.model:
        parser.error("--model is missing: what commands that import a model and fine-tune it take")
    (ROOT / "runs/readme").mkdir(parents=True, exist_ok=True)
    tables(ROOT / "runs/readme")
    grid = re.search(r"```toml\n(.*?)```", (ROOT / "lpmm/RECIPES.md").read_text(), re.S)
    (ROOT / "runs/readme/grid.toml").write_text(grid.group(1))
    lines, seen = [], set()
    for page in PAGES:
        for number, command in commands(page):
            if command not in NAMED and command not in seen and not any(text in command for text in args.without):
                lines.append((f"{page}:{number}", command))
                seen.add(command)
    # The first command of README builds; what the placeholders stand for is made next.
    lines[1:1] = [("before", command) for command in SETUP.splitlines()]
    environment = dict(os.environ, PATH=f"{ROOT / 'build'}:{os.environ['PATH']}")
    failed = 0
    for place, command in lines:
        for pattern, stand_in in [*STAND_INS, (r"\bFOLDER\b", str(args.model))]:
            command = re.sub(pattern, stand_in, command)
        begin = time.monotonic()
        done = subprocess.run(["bash", "-c", command], cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              errors="replace", check=False)
        said = (done.stdout + done.stderr).replace(f"{ROOT}/", "").strip().splitlines()
        failed += done.returncode != 0
        print(f"{place}  {time.monotonic() - begin:.1f} s, exit code {done.returncode}\n$ {command}")
        print("".join(f"  {line[:160]}\n" for line in (said[-12:] if done.returncode else said[-2:])), flush=True)
    print(f"{len(lines)} commands, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
