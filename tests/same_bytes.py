#!/usr/bin/env python3
"""Whether two builds of the program make the same bytes: checkpoints of short runs of every preset, logs and
evaluations of every kind of data, a resumed run that the old program began, plans, quantized arrays.

usage: tests/same_bytes.py OLD NEW [--steps 40] [--only TEXT]
OLD and NEW are `lpmm` programs, each with experiments/configs/ of its own source two folders above. LPMM_DATA
should name the data that those configs want; a comparison that the old program cannot make counts as skipped.
Prints one line per comparison; exits 1 where one differs. Wants Python 3.8 and nothing else.
"""
import argparse
import hashlib
import json
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

PRESETS = ["fp32", "states8", "lpmm", "lpmm-compact", "lpmm-min", "lpmm-nano"]
# Name, config, what is set besides the preset.
RUNS = [
    ("resnet8", "resnet8_drawn", []),
    ("resnet8_adamw", "resnet8_drawn",
     ["optimizer.rule=adamw", "optimizer.learning_rate=1e-3", "optimizer.weight_decay=0.01"]),
    ("resnet8_adam_fp32", "resnet8_drawn",
     ["optimizer.rule=adam", "optimizer.learning_rate=1e-3", "train.compute=fp32", "optimizer.clip_norm=1"]),
    ("resnet8_nesterov", "resnet8_drawn", ["optimizer.nesterov=true", "train.microbatches=3", "train.batch=96"]),
    ("resnet8_feedback", "resnet8_drawn", ["memory.error_feedback=true"]),
    ("gpt", "gpt_tiny_embedded", []),
    ("gpt_dropout", "gpt_tiny_embedded", ["model.dropout=0.1", "model.recompute=true", "train.microbatches=2"]),
    ("gpt_sgd", "gpt_tiny_embedded",
     ["optimizer.rule=sgd", "optimizer.momentum=0.9", "optimizer.learning_rate=0.05", "optimizer.clip_norm=0"]),
    ("mlp", "mlp_100m", ["model.hidden=[64,48]", "train.batch=32", "checkpoint.final=true"]),
]
# The same of every kind of data; FOLDER is one of small sets.
KINDS = [
    ("images", "resnet8_drawn", []),
    ("text", "gpt_tiny_embedded", []),
    ("sentences", "minilm_sst2",
     ["data.set=sentences", "data.path=FOLDER", "data.tokenizer=FOLDER/vocab.txt", "model.name=bert", "model.layers=1",
      "model.heads=2", "model.embedding=16", "model.mlp_width=24", "model.context=16", "data.length=16", "train.batch=8"]),
    ("pairs", "transformer_multi30k",
     ["data.set=pairs", "data.path=FOLDER", "data.tokenizer=bytes", "model.end_token=10", "model.name=transformer",
      "model.layers=1", "model.decoder_layers=1", "model.heads=2", "model.embedding=16", "model.mlp_width=24",
      "model.context=32", "data.length=32", "train.batch=8"]),
]
TIMES = {"train_seconds", "log_bytes", "log_crc32", "computed_by"}  # parts of a checkpoint's state that are no results


def config(program, name):
    return str(program.resolve().parents[1] / "experiments" / "configs" / (name + ".toml"))


class Failed(Exception):
    def __init__(self, program, text):
        super().__init__(text)
        self.program = program


def call(program, *words):
    done = subprocess.run([str(program), *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(program, f"exit {done.returncode}: {done.stderr.strip()[-300:]}")
    return done.stdout


def common(old, new):
    """Both with the keys that the old one has; a key that the new one lacks is a difference."""
    if isinstance(old, dict) and isinstance(new, dict):
        pairs = {k: common(v, new.get(k)) for k, v in old.items() if k not in TIMES}
        return {k: a for k, (a, _) in pairs.items()}, {k: b for k, (_, b) in pairs.items()}
    return old, new


def checkpoint(run):
    last = sorted((run / "checkpoints").glob("step_*"))[-1]
    return hashlib.sha256((last / "model.safetensors").read_bytes()).hexdigest(), \
        json.loads((last / "state.json").read_text())["run"]


def same_checkpoint(a, b):
    (bytes_a, state_a), (bytes_b, state_b) = checkpoint(a), checkpoint(b)
    state_a, state_b = common(state_a, state_b)
    if bytes_a != bytes_b:
        return False, "model.safetensors"
    return state_a == state_b, bytes_a[:12] if state_a == state_b else "state.json"


def story(run):
    """The log without what two runs of one program differ in."""
    records = []
    for line in (run / "log.jsonl").read_text().splitlines():
        record = json.loads(line)
        records.append({k: v for k, v in record.items()
                        if k not in TIMES | {"time", "seconds", "overhead_bytes", "peak_bytes", "plan_peak_bytes"}
                        and not k.endswith("_per_second") and "rss" not in k and "available" not in k})
    return records


def sets(folder):
    """Sentences of two classes and pairs of sentences, of few words."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "ab", "ba", "cd", "dc"]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    for name, count in (("train", 48), ("dev", 8)):
        said = [" ".join(words[5 + (i * 7 + k * (i % 3 + 1)) % 4] for k in range(1 + i % 5)) for i in range(count)]
        (folder / (name + ".tsv")).write_text(
            "sentence\tlabel\n" + "".join(f"{s}\t{s.count('ab') % 2}\n" for s in said))
        (folder / (name + ".en")).write_text("".join(s + "\n" for s in said))
        (folder / (name + ".de")).write_text("".join(s.upper() + "\n" for s in said))


def arrays(folder):
    values = [0.0, 1.0, -1.0, 3e-9, -7e4]
    word = 12345
    for _ in range(20000):
        word = (1664525 * word + 1013904223) % 2**32
        values.append((word / 2**31 - 1) ** 5 * 2.0 ** (word % 7))
    for name, array in (("signed", values), ("positive", [abs(v) for v in values])):
        header = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d,), }" % len(array)
        header += " " * (63 - (len(header) + 10) % 64) + "\n"
        data = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
        (folder / (name + ".npy")).write_bytes(data + struct.pack("<%df" % len(array), *array))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--only", default="", help="comparisons whose name has this text")
    given = parser.parse_args()
    programs = (given.old, given.new)
    counts = {"same": 0, "DIFFERENT": 0, "skipped": 0}

    def tell(name, verdict, detail):
        counts[verdict] += 1
        print(f"{verdict}  {name}  {detail}", flush=True)

    def compare(name, what):
        if given.only not in name:
            return
        try:
            same, detail = what()
            tell(name, "same" if same else "DIFFERENT", detail)
        except Failed as error:
            tell(name, "skipped" if error.program == given.old else "DIFFERENT", error)

    with tempfile.TemporaryDirectory() as work:
        work = Path(work)
        arrays(work)

        def train(program, out, name, preset, settings, steps):
            words = ["train", config(program, name), "--preset", preset, "--out", str(out)]
            for setting in [f"train.steps={steps}", "log.every_steps=10", *settings]:
                words += ["--set", setting]
            call(program, *words)

        for name, file, settings in RUNS:
            for preset in PRESETS:
                def trained():
                    for side, program in zip("ab", programs):
                        train(program, work / f"{name}_{preset}_{side}", file, preset, settings, given.steps)
                    return same_checkpoint(work / f"{name}_{preset}_a", work / f"{name}_{preset}_b")
                if preset == "lpmm-nano" and "memory.error_feedback=true" in settings:
                    continue  # as it is by default
                compare(f"train {name} {preset}", trained)

        sets(work)
        for name, file, settings in KINDS:
            def told():
                found = []
                for side, program in zip("ab", programs):
                    run = work / f"kind_{name}_{side}"
                    words = [s.replace("FOLDER", str(work)) for s in settings]
                    train(program, run, file, "lpmm", words, 12)
                    answer = json.loads(call(program, "eval", str(run), "--json"))
                    del answer["checkpoint"]
                    words = [w for s in ["train.steps=12", *words] for w in ("--set", s)]
                    planned = json.loads(call(program, "plan", config(program, file), *words, "--json"))
                    found.append({"log": story(run), "eval": answer, "plan": planned,
                                  "config": (run / "config.toml").read_text()})
                same, detail = same_checkpoint(work / f"kind_{name}_a", work / f"kind_{name}_b")
                other = [key for key in found[0] if common(found[0][key], found[1][key])[0] !=
                         common(found[0][key], found[1][key])[1]]
                return same and not other, " ".join([detail, *other])
            compare(f"kind {name}", told)

        for name, file in (("resnet8", "resnet8_drawn"), ("gpt", "gpt_tiny_embedded")):
            for preset in ("lpmm", "lpmm-nano"):
                def resumed():
                    half, whole = work / f"half_{name}_{preset}", work / f"whole_{name}_{preset}"
                    every = [f"checkpoint.every_steps={given.steps // 2}", "checkpoint.keep=0"]
                    train(given.old, whole, file, preset, every, given.steps)
                    train(given.old, half, file, preset, every, given.steps)
                    for kept in sorted((half / "checkpoints").glob("step_*"))[1:]:
                        for part in kept.iterdir():
                            part.unlink()
                        kept.rmdir()
                    call(given.new, "train", str(half / "config.toml"), "--resume", "--out", str(half))
                    return same_checkpoint(whole, half)
                compare(f"resume {name} {preset}", resumed)

        for file in sorted((given.old.resolve().parents[1] / "experiments" / "configs").glob("*.toml")):
            for preset in PRESETS:
                def planned():
                    words = [["plan", config(p, file.stem), "--preset", preset, "--json", "--threads", "2"] for p in programs]
                    plans = [json.loads(call(p, *w)) for p, w in zip(programs, words)]
                    old, new = common(*plans)
                    return old == new, old.get("peak_bytes", "") if old == new else f"{old} {new}"
                compare(f"plan {file.stem} {preset}", planned)

        formats = json.loads(call(given.old, "info", "--json"))["formats"]
        for i, format in enumerate(formats):
            if format["name"] == "ulp8":
                continue  # a part of a parameter's rounding: no array is stored as that
            spec = format["name"] + [":block64", ":block128", ":block256"][i % 3] * ("smallest" in format)
            unsigned = not format["signed"]
            for rounding in (("",) if spec == "fp32" else (":rn", ":sr", ":qr")):
                def quantized():
                    found = []
                    for side, program in zip("ab", programs):
                        codes, decoded = work / f"codes_{side}.npy", work / f"decoded_{side}.npy"
                        told = call(program, "quantize", str(work / ("positive.npy" if unsigned else "signed.npy")),
                                    "--spec", spec + rounding, "--codes", str(codes), "--decoded", str(decoded), "--json")
                        found.append((json.loads(told), codes.read_bytes(), decoded.read_bytes()))
                    old, new = common(found[0][0], found[1][0])
                    same = old == new and found[0][1:] == found[1][1:]
                    return same, hashlib.sha256(found[0][1]).hexdigest()[:12]
                compare(f"quantize {spec}{rounding}", quantized)
    print(", ".join(f"{number} {verdict}" for verdict, number in counts.items()))
    return 1 if counts["DIFFERENT"] or not counts["same"] else 0


if __name__ == "__main__":
    sys.exit(main())
