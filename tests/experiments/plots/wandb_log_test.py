#!/usr/bin/env python3
"""What experiments/plots/wandb_log.py hands over, to a module that stands in for wandb and, where the package is there, to the
package itself, offline.    python3 tests/experiments/plots/wandb_log_test.py build/lpmm"""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[3] / "experiments/plots/wandb_log.py"
STAND_IN = '''
import json, os
calls = {"log": []}
class Run:
    summary = {}
    def log(self, values, step): calls["log"].append([step, values])
    def finish(self):
        calls["summary"] = self.summary
        json.dump(calls, open(os.environ["CALLS"], "w"))
def init(**given):
    calls["init"] = given
    return Run()
'''
LOG = [
    {"type": "config", "toml": "[train]\nseed = 3\n[memory]\npreset = \"lpmm\"\n"},
    {"type": "system", "time": "2026-01-02T03:04:05Z"},
    {"type": "step", "step": 10, "loss": 1.5, "seconds": 2.0},
    {"type": "eval", "step": 10, "loss": 1.25, "losses": {"a.jsonl": 1.0}, "seconds": 9},
    {"type": "step", "step": 20, "loss": 1.0, "seconds": 4.0},
    {"type": "summary", "final_loss": 1.0, "model_memory_bytes": {"total": 7}},
]


def main():
    program = str(Path(sys.argv[1]).resolve())
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        run, modules, calls = here / "myrun", here / "modules", here / "calls.json"
        for made in (run, modules):
            made.mkdir()
        log = run / "log.jsonl"

        def send(*arguments, modules=modules, **variables):
            return subprocess.run([sys.executable, SCRIPT, program, *map(str, arguments)], capture_output=True, text=True, cwd=here,
                                  env={**os.environ, "PYTHONPATH": str(modules), "CALLS": str(calls), **variables})

        def refused(said, *arguments):
            done = send(*arguments)
            assert done.returncode != 0 and said in done.stderr, done

        refused("no such file", run)
        # One that cannot be imported: the package may be installed here.
        (modules / "wandb.py").write_text("raise ImportError('no wandb')\n")
        log.write_text("".join(json.dumps(r) + "\n" for r in LOG) + '{"type": "st')
        refused("pip install wandb", run)
        (modules / "wandb.py").write_text(STAND_IN)
        assert send(run, "--offline", "--project", "p").returncode == 0
        got = json.loads(calls.read_text())
        assert got["init"]["mode"] == "offline" and got["init"]["project"] == "p" and got["init"]["name"] == "myrun"
        assert got["init"]["config"] == {"train/seed": 3, "memory/preset": "lpmm"}
        assert got["log"] == [[10, {"seconds": 2.0, "train/loss": 1.5, "test/loss": 1.25, "test/loss/a.jsonl": 1.0}],
                              [20, {"seconds": 4.0, "train/loss": 1.0}]], got["log"]
        assert got["summary"]["final_loss"] == 1.0 and got["summary"]["model_memory_bytes/total"] == 7
        before = got["init"]["id"]
        assert send(run).returncode == 0
        got = json.loads(calls.read_text())
        assert got["init"]["id"] == before and "mode" not in got["init"]
        log.write_text('{"type": "step"}\nno record\n')
        refused("line 2 is no JSON", run)

        installed = subprocess.run([sys.executable, "-c", "import wandb"], capture_output=True, cwd=here)
        if installed.returncode:
            print("with a stand-in; the package wandb is not installed")
            return
        log.write_text("".join(json.dumps(r) + "\n" for r in LOG))
        done = send(run, modules=os.environ.get("PYTHONPATH", ""), WANDB_MODE="offline", WANDB_SILENT="true")
        assert done.returncode == 0, done
        files = list(here.glob("wandb/offline-run-*/run-*.wandb"))
        assert len(files) == 1 and b"test/loss" in files[0].read_bytes(), files
        print("with a stand-in, and with wandb offline")


main()
