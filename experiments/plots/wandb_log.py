#!/usr/bin/env python3
"""Sends the log of a run to Weights & Biases, under the names that `lpmm plot --tensorboard` gives: train/loss, test/loss, and so on.

    pip install wandb
    python3 experiments/plots/wandb_log.py build/lpmm RUN [--project lpmm] [--name NAME] [--offline]

RUN is a run's folder, whose log.jsonl may still grow: each call sends all of it, as a run of the same id (--id, else made from the
folder and the time the run began), so that a later call takes the place of an earlier one. --offline, or WANDB_MODE=offline, writes
to the folder wandb/ and sends nothing; `wandb sync` sends that later. The configuration is config.toml, key by key; the summary is
the run's last record."""
import argparse
import csv
import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path


def records_of(log):
    """The records of a log; a last line that is not whole yet is left out."""
    out = []
    for number, line in enumerate(log.read_text(encoding="utf-8").splitlines(keepends=True), 1):
        if not line.endswith("\n"):
            break
        try:
            out.append(json.loads(line))
        except ValueError as why:
            sys.exit(f"{log}: line {number} is no JSON ({why}): this is no log of a run, or damaged")
    if not out:
        sys.exit(f"{log}: has no records yet")
    return out


def steps_of(program, log):
    """[(step, {tag: value})] in order, as lpmm names and reads them."""
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder, "scalars.csv")
        done = subprocess.run([program, "plot", str(log), "--label", "run", "--csv", str(table)], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{program} does not read {log}: {done.stderr.strip()}")
        steps = {}
        with open(table, newline="", encoding="utf-8") as rows:
            for row in csv.DictReader(rows):
                values = steps.setdefault(int(row["step"]), {"seconds": float(row["seconds"])})
                values[row["tag"]] = float(row["value"])
    return sorted(steps.items())


def flat(record, before=""):
    """Numbers and words of a record, {"a": {"b": 1}} as {"a/b": 1}."""
    out = {}
    for key, value in record.items():
        if isinstance(value, dict):
            out.update(flat(value, before + key + "/"))
        elif isinstance(value, (int, float, str, bool)):
            out[before + key] = value
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="build/lpmm, or lpmm where it is installed")
    parser.add_argument("run", type=Path, help="the folder of a run")
    parser.add_argument("--project", default="lpmm")
    parser.add_argument("--entity", help="the user or team it belongs to")
    parser.add_argument("--name", help="what it is called (default: the folder's name)")
    parser.add_argument("--id", help="of the run there (default: made of the folder and of when the run began)")
    parser.add_argument("--offline", action="store_true", help="write to wandb/ and send nothing")
    o = parser.parse_args()
    log = o.run / "log.jsonl" if o.run.is_dir() else o.run
    if not log.is_file():
        sys.exit(f"{log}: there is no such file; name the folder of a run")
    try:
        import tomllib  # of Python 3.11
        import wandb
    except ImportError as why:
        sys.exit(f"{why}: it takes Python 3.11 or later and the package wandb (pip install wandb)")
    folder = log.resolve().parent
    records = records_of(log)
    began = next((r["time"] for r in records if r.get("type") == "system" and "time" in r), "")
    of_run = next((r["toml"] for r in records if r.get("type") == "config" and "toml" in r), "")
    settings = {} if not of_run else flat(tomllib.loads(of_run))
    steps = steps_of(o.program, log)
    # Without --offline the variable WANDB_MODE decides.
    more = {"mode": "offline"} if o.offline else {}
    run = wandb.init(project=o.project, entity=o.entity, name=o.name or folder.name, config=settings, dir=str(Path.cwd()),
                     id=o.id or hashlib.sha256(f"{folder}\n{began}".encode()).hexdigest()[:16], **more)
    for step, values in steps:
        run.log(values, step=step)
    if records[-1].get("type") == "summary":
        run.summary.update(flat(records[-1]))
    run.finish()
    print(f"{len(steps)} steps of {log}")


if __name__ == "__main__":
    main()
