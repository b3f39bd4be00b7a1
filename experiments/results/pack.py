#!/usr/bin/env python3
"""Packs folders of runs beside themselves: OUT/NAME -> OUT/NAME.tar.xz. The same runs always give the same bytes.

  python3 experiments/results/pack.py experiments/results/frontier/text experiments/results/underflow/*/

An archive holds of every run its config.toml and of its log what charts, tables and pages are made of, in six digits:
of steps the loss, of lost updates what each role lost. All else (speed, memory, norms of single steps, what single
tensors lost, checkpoints) stays out.
"""
import io
import json
import lzma
import pathlib
import sys
import tarfile

MOST_BYTES = 1_000_000
ROLE_KEYS = ("share", "relative_error", "update_to_step")


def rounded(value):
    return float(f"{value:.6g}") if isinstance(value, float) else value


def some(record, keys):
    return {key: rounded(record[key]) for key in keys if key in record}


def kept(record):
    """What stays of a record; nothing: none of it."""
    if record["type"] == "step":
        return some(record, ("type", "step", "loss"))
    if record["type"] == "underflow":
        roles = {role: some(numbers, ROLE_KEYS) for role, numbers in record["roles"].items()}
        return {"type": "underflow", "step": record["step"], "roles": roles}
    return None if record["type"] == "watch" else record


def lean_log(text):
    records = (kept(json.loads(line)) for line in text.splitlines())
    return "".join(json.dumps(r, separators=(",", ":"), ensure_ascii=False) + "\n" for r in records if r)


def packed(folder):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in sorted(folder.rglob("*")):
            if "checkpoints" in path.parts or path.suffix not in (".toml", ".jsonl"):
                continue
            text = path.read_text(encoding="utf-8")
            content = (lean_log(text) if path.suffix == ".jsonl" else text).encode()
            entry = tarfile.TarInfo(str(path.relative_to(folder.parent)))
            entry.size, entry.mode, entry.mtime = len(content), 0o644, 1767225600  # 2026-01-01
            archive.addfile(entry, io.BytesIO(content))
    return lzma.compress(out.getvalue(), preset=9 | lzma.PRESET_EXTREME)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    for name in sys.argv[1:]:
        folder = pathlib.Path(name)
        if not folder.is_dir():
            sys.exit(f"pack.py: {folder}: is no folder of runs")
        archive = folder.with_name(folder.name + ".tar.xz")
        content = packed(folder)
        if len(content) > MOST_BYTES:
            sys.exit(f"pack.py: {archive}: {len(content):,} bytes, and {MOST_BYTES:,} are the most that a file here may "
                     "have: keep fewer runs, or log fewer steps")
        archive.write_bytes(content)
        print(f"{archive}: {len(content):,} bytes")


if __name__ == "__main__":
    main()
