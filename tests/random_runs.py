#!/usr/bin/env python3
"""Trains small models with settings drawn at random, as no list of tests combines them, and holds each run to what every run
promises: two threads make the bytes of one, as do ranks, a run that goes on from a checkpoint ends as it would have, a run without an
accumulator (memory.accumulator = "none") ends as with one in fp32. Settings that do not go together must be refused in one
line, before anything is written.

usage: tests/random_runs.py LPMM [--runs 100] [--seed 1]
LPMM is the program. Half a second per run. Prints what was refused, and how often; for each fault the config that shows it,
and the command. Exits 1 where there is one. Wants Python 3.8 and nothing else.
"""
import argparse
import collections
import hashlib
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

WORDS = "the old man and a dog walk home at night while rain falls on quiet streets of stone".split()
TEXT, PAIRS, SENTENCES, IMAGES = range(4)
MODELS = {  # its kind of data; settings; options, some of which are taken; a pattern of tensors to freeze
    "gpt": (TEXT, "layers = 1\nheads = 2\nembedding = {width}\ncontext = 32",
            ["recompute = true", "stable_embedding = true", "dropout = 0.1"], "wte.weight"),
    "llama": (TEXT, "layers = 1\nheads = 2\nkv_heads = 1\nembedding = {width}\nmlp_width = 48\ncontext = 32",
              ["recompute = true", "tied = true"], "*embed*"),
    "transformer": (PAIRS, "layers = 1\ndecoder_layers = 1\nheads = 2\nembedding = {width}\nmlp_width = 40\ncontext = 32\n"
                    "vocabulary = 256\nend_token = 0\nstart_token = 0",
                    ["recompute = true", "dropout = 0.1", "label_smoothing = 0.1"], "*shared*"),
    "bert": (SENTENCES, "layers = 1\nheads = 2\nembedding = {width}\nmlp_width = 40\ncontext = 32",
             ["dropout = 0.1"], "*word_embeddings*"),
    "mpnet": (SENTENCES, "layers = 2\nheads = 2\nembedding = {width}\nmlp_width = 40\ncontext = 32",
              ["recompute = true", "dropout = 0.1"], "*relative_attention_bias*"),
    "modernbert": (SENTENCES, "layers = 3\nheads = 2\nembedding = {width}\nmlp_width = 40\ncontext = 32\nwindow = 3",
                   ["recompute = true", "dropout = 0.1"], "*tok_embeddings*"),
    "mlp": (IMAGES, "hidden = [{width}, 40]", ["label_smoothing = 0.1"], "*.bias"),
    "resnet8": (IMAGES, "", ["label_smoothing = 0.1"], "*bn*"),
    "vit": (IMAGES, "layers = 1\nheads = 2\nembedding = {width}\npatch = 8", ["dropout = 0.1"], "*pos_embed*"),
}
SCALES = ["", ":block64", ":block256", ":block4096"]
SCALES_OF_STATES = SCALES + [":row", ":rank1", ":block256:step32"]


class Tables:
    """What the program lists: rules, presets and formats. New ones are drawn as well."""

    def __init__(self, program):
        answer = json.loads(subprocess.run([program, "info", "--json"], check=True, capture_output=True, text=True).stdout)
        self.rules, self.presets = answer["rule_table"], answer["presets"]
        numbers = [f for f in answer["formats"] if "smallest" not in f and f["name"] != "ulp8"]
        packed = [f for f in answer["formats"] if "smallest" in f]
        self.formats = {role: numbers + [f for f in packed if f["signed"]] for role in ("parameter", "accumulator", "momentum")}
        # One that becomes 0 makes steps of any length: with few bits a run may end in numbers that are infinite.
        self.formats["variance"] = numbers + [f for f in packed if not f["signed"] and (f["bits"] >= 8 or not f["zero"])]

    def draw_spec(self, draw, role):
        form = draw.choice(self.formats[role])
        if form["name"] == "fp32":
            return "fp32"
        roundings = ["rn", "sr", "qr"] + (["ur", "ar"] if not form["zero"] else [])
        spec = form["name"]
        if "smallest" in form:
            keeps_range = form["name"].startswith("log0")  # in the step of a block
            scale = draw.choice(SCALES_OF_STATES if role in ("momentum", "variance") and not keeps_range else SCALES)
            spec += scale
            if role in ("parameter", "variance") and ":r" not in scale and ":step" not in scale:
                spec += draw.choice(["", ":sticky"])
        return spec + ":" + draw.choice(roundings)


def write_data(folder, draw):
    sentences = [" ".join(draw.choices(WORDS, k=draw.randint(2, 7))) for _ in range(120)]
    (folder / "text.txt").write_text(".\n".join(sentences * 4))
    (folder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + sorted(set(WORDS))) + "\n")
    for name in ("pairs", "sentences"):
        (folder / name).mkdir()
    for part in ("train", "dev"):
        (folder / f"pairs/{part}.en").write_text("\n".join(s[:20] for s in sentences[:24]) + "\n")
        (folder / f"pairs/{part}.de").write_text("\n".join(s[19::-1] for s in sentences[:24]) + "\n")
        rows = [f"{s}\t{i % 2}" for i, s in enumerate(sentences[:32])]
        (folder / f"sentences/{part}.tsv").write_text("\n".join(["sentence\tlabel"] + rows) + "\n")


def data_of(reads, draw):
    if reads == IMAGES:
        return ['set = "drawn"', "train_images = 64", "test_images = 16"]
    if reads == PAIRS:
        return ['set = "pairs"', 'path = "pairs"', 'tokenizer = "bytes"', "length = 24", "bleu = false"]
    if reads == SENTENCES:
        return ['set = "sentences"', 'path = "sentences"', 'tokenizer = "vocab.txt"', "length = 24"]
    return ['set = "text"', 'path = "text.txt"', f'tokenizer = "{draw.choice(["bytes", "characters"])}"',
            "validation_share = 0.2"] + draw.choice([[], ["length = 16"]])


def draw_config(draw, tables):
    """Most of what is drawn goes together. Returns the config, whether it has no accumulator, and its slots."""
    maybe = lambda share, *lines: list(lines) if draw.random() < share else []
    name, (reads, sizes, options, frozen) = draw.choice(list(MODELS.items()))
    rule, preset = draw.choice(list(tables.rules)), draw.choice(list(tables.presets))
    row = tables.rules[rule]
    # States of rows want whole tensors.
    has_rows = any(":row" in str(spec) or ":rank1" in str(spec) for spec in tables.presets[preset].values())
    at_once = not row["needs_whole_tensors"] and not has_rows and draw.random() < 0.5
    in_momentum = row["may_accumulate"] and not at_once and draw.random() < 0.4
    clips = not at_once and not in_momentum
    model = [f'name = "{name}"', sizes.format(width=draw.choice([16, 24, 64, 68]))] + maybe(0.5, draw.choice(options))
    microbatches = 1 if at_once else draw.choice([1, 2, 4])
    train = ["steps = 4", "batch = 8", f"microbatches = {microbatches}",
             f'compute = "{draw.choice(["bf16", "fp32"])}"', f"seed = {draw.randrange(100)}"]
    optimizer = [f'rule = "{rule}"', f"learning_rate = {draw.choice([1e-3, 1e-2])}"]
    optimizer += maybe(0.2, "weight_decay = 0.1")
    has_momentum = "momentum" in row["states"]
    if not has_momentum and "momentum" in row["settings"] and (in_momentum or draw.random() < 0.7):
        optimizer.append("momentum = 0.9")
        has_momentum = True
    if in_momentum and "nesterov" in row["settings"]:
        optimizer.append("nesterov = false")
    optimizer += (maybe(0.4, "clip_norm = 1") + maybe(0.15, "percentile_clip = 5")) if clips else ["clip_norm = 0"]
    if clips and "update_clip" in row["settings"]:
        optimizer += maybe(0.3, "update_clip = 1")
    memory = [f'preset = "{preset}"'] + maybe(0.15, f"min_elements = {draw.choice([100, 1000, 10000])}")
    feedback = maybe(0.1, f'error_feedback = {draw.choice(["true", "false"])}')
    memory += feedback or maybe(0.05, "error_feedback = false", 'compensation = "int8:block128:rn"')
    if at_once or in_momentum:
        memory.append(f'accumulator = "{"none" if at_once else "momentum"}"')
    roles = ["parameter"] + ["accumulator"] * clips + ["momentum"] * has_momentum
    roles += ["variance"] * ("variance" in row["states"])
    for role in roles:
        memory += maybe(0.2, f'{role} = "{tables.draw_spec(draw, role)}"')
    sections = {"model": model, "data": data_of(reads, draw), "train": train, "optimizer": optimizer, "memory": memory,
                "checkpoint": ["every_steps = 2", "keep = 3"]}
    if clips and not row["needs_whole_tensors"]:
        sections["watch"] = maybe(0.2, "every = true")
    text = "".join("[{}]\n{}\n".format(key, "\n".join(lines)) for key, lines in sections.items())
    override = draw.choice(["exempt = true", 'parameter = "int8"'])
    text += "".join(maybe(0.15, f'[[memory.override]]\npattern = "*weight"\n{override}\n'))
    text += "".join(maybe(0.2, f'[[optimizer.group]]\npattern = "{frozen}"\nfrozen = true\n'))
    slots = draw.choice([1, microbatches]) if not in_momentum and "every = true" not in text else 1
    if slots > 1:
        text += f"[ranks]\nslots = {slots}\n"
    return text, at_once, slots


class Runs:
    def __init__(self, program, folder):
        self.program, self.folder = program, folder

    def train(self, config, out, device, threads, *more):
        (self.folder / "config.toml").write_text(config)
        command = [self.program, "train", "config.toml", "--device", device, "--threads", str(threads), "--quiet", "--out", out]
        command += more
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=600)

    def checkpoints(self, out):
        return sorted((self.folder / out / "checkpoints").glob("*/"))

    def bytes_of(self, out):
        last = self.checkpoints(out)[-1]
        return last.name, {f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in last.glob("*.safetensors")}

    def faults(self, config, at_once, slots, device):
        """Of one config: what is wrong, or the line that refuses it."""
        for out in ("first", "second"):
            shutil.rmtree(self.folder / out, ignore_errors=True)
        first = self.train(config, "first", device, 1)
        if first.returncode == 2:
            lines = [line for line in first.stderr.splitlines() if line.startswith("lpmm: ")]
            is_late = (self.folder / "first").exists()
            if len(lines) != 1 or is_late:
                return [("refused after it began: " if is_late else "not refused in one line: ") + first.stderr], None
            return [], lines[0]
        if first.returncode != 0:
            return [f"exit code {first.returncode}: {first.stderr[-500:]}"], None
        want, found = self.bytes_of("first"), []

        def compare(what, out, done):
            if done.returncode != 0 or self.bytes_of(out) != want:
                found.append(f"{what}: exit code {done.returncode}, {done.stderr[-300:]}")

        compare("two threads make other bytes", "second", self.train(config, "second", device, 2))
        shutil.rmtree(self.checkpoints("second")[-1])
        compare("a run that goes on ends otherwise", "second", self.train(config, "second", device, 1, "--resume"))
        if slots > 1:
            shutil.rmtree(self.folder / "second")
            compare("ranks make other bytes", "second", self.train(config, "second", device, 2, "--ranks", str(slots)))
            shutil.rmtree(self.checkpoints("second")[-1])
            compare("two ranks go on otherwise", "second",
                    self.train(config, "second", device, 1, "--resume", "--ranks", "2"))
        if at_once:
            shutil.rmtree(self.folder / "second")
            in_fp32 = config.replace('accumulator = "none"', 'accumulator = "fp32"')
            compare("an accumulator in fp32 makes other bytes", "second", self.train(in_fp32, "second", device, 1))
        return found, None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    draw, refused, bad = random.Random(options.seed), collections.Counter(), 0
    with tempfile.TemporaryDirectory() as folder:
        write_data(Path(folder), draw)
        program = str(Path(options.program).resolve())
        runs, tables = Runs(program, Path(folder)), Tables(program)
        for i in range(options.runs):
            config, at_once, slots = draw_config(draw, tables)
            device = draw.choice(["cpu", "cpu", "cpu", "cuda-emulated"])
            faults, refusal = runs.faults(config, at_once, slots, device)
            if refusal is not None:
                refused[re.sub(r"config\.toml(:\d+)?: |[\d.]+", "", refusal)[:100]] += 1
            for fault in faults:
                bad += 1
                print(f"run {i} on {device}: {fault}\n{config}")
            if sys.stderr.isatty():
                print(f"\r{i + 1}/{options.runs}", end="", file=sys.stderr)
    for line, count in refused.most_common():
        print(f"refused {count}x: {line}")
    print(f"{options.runs} runs: {sum(refused.values())} refused, {bad} faults")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
