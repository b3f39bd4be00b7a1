#!/usr/bin/env python3
"""What the fast CUDA kernels cost in machine code, and that it holds no arithmetic that would change bits.

usage: tests/sass.py [--nvcc NVCC] [--tools FOLDER] [--arch 90] [--jobs 1]

Compiles kernels/cuda/fused.cu as the build does and prints a row per kernel: registers, spilled bytes, and
instructions per element where cuobjdump and nvdisasm are found (on PATH, beside nvcc, or in --tools). Fails where a
kernel spills, has more than 128 registers, or has more instructions per element than the limit stated below. Skips
with a reason, exit code 0, where there is no nvcc; without a disassembler the counts are left out.

Counted is the longest way through the kernel from entry to exit, divided by the 32 elements of a thread: every
instruction on it, addresses, the search for the tensor, noise, steps and unused predicated ones included, each
loop once. That is what a warp issues for a unit that needs no second turn, at most: ways that a single condition
rules out for the other are added up. Left out are subroutines (the quotient of a step whose operands are near the
ends of the exponents), what diverged warps run to meet again, second turns (a sticky step of the warp's blocks
moves), and one more turn of the search per factor of 32 tensors (about 20 instructions per thread).

The PTX must hold no fused multiply-add beyond those the sources name (--fmad=false), no flushed or approximate
operation but rcp.approx.ftz and rsqrt.approx.ftz, no approximate division, and no atomics on numbers.
Wants Python 3.8 and nothing else.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FLAGS = ["-std=c++20", "--Werror=all-warnings", "--fmad=false", "-prec-div=true", "-prec-sqrt=true", "-ftz=false",
         "-Xcompiler=-Wall,-Wextra,-ffp-contract=off", f"-I{ROOT}"]
ELEMENTS = 32
MOST_REGISTERS = 128
# As kernels/cpu/packed/fused.h lists them.
SETS = ["fp32", "states8", "lpmm", "lpmm-compact", "lpmm-min", "lpmm-nano", "nano in momentum"]
# Instructions per element, for the kernels that presets use most.
LIMITS = {"adamw lpmm": 106, "adamw lpmm-compact": 100, "adamw lpmm-min": 110, "sgd lpmm": 60}


def tool(name, folders):
    for folder in folders:
        path = Path(folder) / name
        if os.access(path, os.X_OK):
            return str(path)
    return shutil.which(name)


def run(command, **more):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **more)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return done


def names(symbols):
    return dict(zip(symbols, run(["c++filt"] + symbols).stdout.splitlines()))


def title(name):
    """A kernel as a row says it: rule, preset, variant; None: not one of the fast ones."""
    found = re.search(r"update_units<lpmm::(\w+), (\d+), (\w+), (\w+)>", name)
    if found:
        rule, number, feedback, usual = found.groups()
        words = ["adamw" if rule == "Adam" else rule.lower(), SETS[int(number)]]
        if feedback == "true":
            words.append("feedback")
        if usual == "false":
            words.append("coupled decay" if rule == "Adam" else "nesterov" if rule == "Sgd" else "other")
        return " ".join(words)
    return None


def resources(log):
    """Registers and spilled bytes by symbol, from ptxas -v."""
    rows, symbol, spilled = {}, None, 0
    for line in log.splitlines():
        found = re.search(r"Compiling entry function '(\w+)'", line)
        if found:
            symbol, spilled = found.group(1), 0
        found = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line)
        if found:
            spilled = sum(int(x) for x in found.groups())
        found = re.search(r"Used (\d+) registers", line)
        if found and symbol:
            rows[symbol] = (int(found.group(1)), spilled)
            symbol = None
    return rows


def functions(sass):
    """Instructions of each function: address, text."""
    found, name = {}, None
    for line in sass.splitlines():
        head = re.search(r"Function : (\w+)", line)
        if head:
            name = head.group(1)
            found[name] = []
        code = re.match(r"\s+/\*([0-9a-f]{4,})\*/\s+(.*?);", line)
        if code and name:
            found[name].append((int(code.group(1), 16), code.group(2).strip()))
    return found


def longest_way(code):
    """Instructions on the longest way from the first one to an exit that has no call and takes no branch back."""
    place = {address: i for i, (address, _) in enumerate(code)}
    most = [None] * (len(code) + 1)
    for i in range(len(code) - 1, -1, -1):
        text = code[i][1]
        predicate = re.match(r"@!?U?P\d\s+", text)
        words = text[predicate.end() if predicate else 0:].split()
        operation = words[0].split(".")[0]
        target = re.search(r"0x([0-9a-f]+)$", text)
        ways = []
        if operation == "EXIT":
            ways.append(0)
        if operation == "BRA" and ".DIV" not in words[0] and target:
            to = place.get(int(target.group(1), 16))
            if to is not None and to > i and most[to] is not None:
                ways.append(most[to])
        falls = operation not in ("EXIT", "BRA", "RET") or predicate or len(words) > 2 or ".DIV" in words[0]
        if operation in ("CALL", "RET", "BPT"):
            falls = False
        if falls and i + 1 < len(code) and most[i + 1] is not None:
            ways.append(most[i + 1])
        if ways:
            most[i] = 1 + max(ways)
    return most[0]


def lint(ptx, named_fmas):
    """What should not be in the PTX, as lines."""
    wrong = []
    for number, line in enumerate(ptx.splitlines(), 1):
        code = line.strip()
        if re.search(r"\.ftz|\.approx", code) and not re.match(r"(rcp|rsqrt)\.approx\.ftz\.f32", code):
            wrong.append(f"PTX line {number}: {code}")
        if re.search(r"\bdiv\.full|\b(atom|red)\S*\.f(16|32|64)", code):
            wrong.append(f"PTX line {number}: {code}")
        if re.match(r"fma\.r[nzmp]\.f32", code) and not named_fmas:
            wrong.append(f"PTX line {number}: {code}")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nvcc", default=tool("nvcc", ["/usr/local/cuda/bin"]))
    parser.add_argument("--tools", default="")
    parser.add_argument("--arch", default="90")
    args = parser.parse_args()
    if not args.nvcc:
        print("skipped: no nvcc")
        return 0
    folders = [args.tools] if args.tools else []
    folders.append(str(Path(args.nvcc).parent))
    cuobjdump, nvdisasm = tool("cuobjdump", folders), tool("nvdisasm", folders)
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        cubin, ptx = Path(folder) / "fused.cubin", Path(folder) / "fused.ptx"
        source = str(ROOT / "kernels/cuda/fused.cu")
        log = run([args.nvcc, f"-arch=sm_{args.arch}", "-cubin", "-Xptxas=-v", *FLAGS, source, "-o", str(cubin)]).stderr
        run([args.nvcc, f"-arch=compute_{args.arch}", "-ptx", *FLAGS, source, "-o", str(ptx)])
        wrong += lint(ptx.read_text(), named_fmas=True)
        code = {}
        if cuobjdump and nvdisasm:
            path = os.pathsep.join([str(Path(nvdisasm).parent), os.environ.get("PATH", "")])
            code = functions(run([cuobjdump, "-sass", str(cubin)], env={**os.environ, "PATH": path}).stdout)
    rows = resources(log)
    print(f"{'kernel':42} {'registers':>9} {'spilled':>7} {'instructions per element':>24}   sm_{args.arch}")
    for symbol, name in sorted(names(list(rows)).items(), key=lambda item: title(item[1]) or ""):
        row = title(name)
        if row is None:
            continue
        registers, spilled = rows[symbol]
        way = longest_way(code[symbol]) if symbol in code else None
        per_element = way / ELEMENTS if way else None
        print(f"{row:42} {registers:9} {spilled:7} {per_element or float('nan'):24.1f}")
        if spilled or registers > MOST_REGISTERS:
            wrong.append(f"{row}: {registers} registers, {spilled} bytes of stack")
        if per_element and per_element > LIMITS.get(row, float("inf")):
            wrong.append(f"{row}: {per_element:.1f} instructions per element, at most {LIMITS[row]}")
    if not code:
        print("instructions not counted: no cuobjdump and nvdisasm")
    print("\n".join(wrong) if wrong else "no spills, no more than stated, no arithmetic but the named")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
