#!/usr/bin/env python3
"""Checks the syntax of each source and each header by itself. A build with unity files, as tests/run.sh makes them,
hides an include that a file lacks where a neighbour has it.

Files of the newest commits come first, and what does not begin within SECONDS is left out. A header that is the first
include of a source of its name is checked there.
usage: python3 tests/alone.py [--compilers g++,clang++] [--seconds 120] [--folder build-alone]
Exits with 1 where a file does not compile. --seconds 0 sets no limit.
--compilers clang-tidy looks for mistakes instead, but not in tests.
"""
import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ["kernels", "lpmm", "models", "theory", "experiments", "tests"]
# Highway includes its own parts once per instruction set; nvcc and libFuzzer have builds of their own.
NOT_ALONE = re.compile(r"-inl\.h$|^kernels/cuda/(?:(?:packed|compute|gpu)/|sum_tree\.h)|^tests/(?:fuzz|golden)/")
FIRST_INCLUDE = re.compile(r'^#include "(.*)"', re.M)


def configured(folder):
    """Sources of a build without unity files, and all include paths and definitions that any of them has."""
    subprocess.run(["cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", "-DLPMM_PRECOMPILE=OFF", "-DLPMM_CUDA=OFF", "-DLPMM_TESTS=ON",
                    "-DCMAKE_UNITY_BUILD=OFF"], check=True, stdout=subprocess.DEVNULL)
    files, flags = [], ["-std=c++20", f"-I{ROOT}"]
    for entry in json.loads((folder / "compile_commands.json").read_text()):
        files.append(os.path.relpath(entry["file"], ROOT))
        words = shlex.split(entry["command"])
        for word, after in zip(words, words[1:]):
            flag = [word, after] if word == "-isystem" else [word] if re.match("-[ID].", word) else []
            if flag and " ".join(flag) not in " ".join(flags):
                flags += flag
    return files, flags


def headers_to_check(sources):
    seen_first = {include.group(1) for source in sources
                  if (include := FIRST_INCLUDE.search((ROOT / source).read_text()))}
    headers = (str(header.relative_to(ROOT)) for top in FOLDERS for header in (ROOT / top).rglob("*.h"))
    return [header for header in headers if header not in seen_first]


def newest_first(files):
    """Those that are not committed, then by their last commit; by name where git does not know."""
    def lines(*command):
        done = subprocess.run(["git", "-C", ROOT, *command], capture_output=True, text=True, check=False)
        return done.stdout.splitlines()
    names = []
    if shutil.which("git") and (ROOT / ".git").exists():
        names = [line[3:] for line in lines("status", "--porcelain")]
        names += lines("log", "-n", "200", "--format=", "--name-only")
    place = {name: i for i, name in reversed(list(enumerate(names)))}
    return sorted(files, key=lambda file: (place.get(file, len(names)), file))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compilers", default=",".join(c for c in ("g++", "clang++") if shutil.which(c)), help="separated by commas")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--folder", default="build-alone")
    args = parser.parse_args()
    end = time.monotonic() + args.seconds if args.seconds > 0 else float("inf")
    folder = (ROOT / args.folder).resolve()
    sources, flags = configured(folder)
    is_tidy = args.compilers == "clang-tidy"
    files = [file for file in sources + headers_to_check(sources)
             if not NOT_ALONE.search(file) and not (is_tidy and file.startswith("tests/"))]

    def errors(file, compiler):
        """None: not begun in time."""
        if time.monotonic() > end:
            return None
        command = ([compiler, "-quiet", ROOT / file, "--", "-w", *flags, "-x", "c++"] if is_tidy else
                   [compiler, "-fsyntax-only", "-w", *flags, "-x", "c++", ROOT / file])
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return "" if done.returncode == 0 else done.stdout + done.stderr or f"exit code {done.returncode}"

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        found = {(file, compiler): pool.submit(errors, file, compiler)
                 for file in newest_first(files) for compiler in args.compilers.split(",")}
    found = {key: future.result() for key, future in found.items()}
    for (file, compiler), text in found.items():
        if text:
            what = "has findings of clang-tidy:" if is_tidy else f"does not compile by itself with {compiler}; does it include all that it names?"
            print(f"{file} {what}\n{text[:1500]}")
    checked = {file for (file, _), text in found.items() if text is not None}
    print(f"{len(checked)} of {len(files)} files checked by themselves ({args.compilers}), newest commits first")
    return 1 if not checked or any(found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
