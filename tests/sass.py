#!/usr/bin/env python3
"""What the fast CUDA kernels cost in machine code, and that it holds no arithmetic that would change bits.

usage: tests/sass.py [--build build] [--tools FOLDER] [--arch 90]

Reads the PTX and the machine code that the build keeps of the kernels of packed memory (BUILD/kernels/kept), and
prints a row per fast kernel: registers, bytes of stack, which is where registers spill, and instructions per element
where cuobjdump and nvdisasm are found (on PATH, beside nvcc, or in --tools). Fails where a kernel has a stack, more
registers than it should (128; 168 where two states or an error wait for their steps), or more instructions per
element than the limits below. Without such a build it says so, looks at sources alone, and exits with 0.

Counted is the longest way through the kernel from entry to exit, of those that store most bytes, which is what all
whole units take, divided by the 32 elements of a thread: every instruction on it, addresses, the search for the
tensor, noise, steps and unused predicated ones included, each loop once. That is what a warp issues for a unit that
needs no second turn, at most: ways that a single condition rules out for the other are added up. Left out are
subroutines (the quotient of a step whose operands are near the ends of the exponents), what diverged warps run to
meet again, second turns (a parameter's step moves), codes of a variance that are made again (its step moves: about 17
instructions per element, often), and one more turn of the search per factor of 32 tensors (about 20 instructions per
thread). The way of a decode has the slow one of steps above 2^96 at its end, 7 instructions per element that are
seldom run.

The PTX must hold no flushed or approximate operation but the named rcp.approx.ftz and rsqrt.approx.ftz, no
approximate division, and no atomics on floating-point numbers; sources take a fused multiply-add only where it is
named, for with --fmad=false the compiler makes none. Every kernel begins with begin_kernel().
Wants Python 3.8 and nothing else.
"""
import argparse
import os
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ELEMENTS = 32
SOURCES = ["fused", "fused_fold", "packed"]  # in kernels/cuda/packed
# Files that name an atomic operation, on integers, or a fused multiply-add, and how often at most.
ATOMICS = {"kernels/cuda/compute/quantiles.cu": 1, "kernels/cuda/launch.h": 1, "kernels/cuda/packed/update_body.h": 1}
NAMED = {"kernels/formats/codec.h": 1, "kernels/cuda/packed/exact.h": 4, "kernels/cuda/packed/fused_fold.h": 1}
# The sets of kernels/cpu/packed/fused.h: the presets with loops, and those that pack weights with fp32 of a framework, and with
# sums of gradients in fp32.
PACKED = ["lpmm", "lpmm-compact", "lpmm-min", "lpmm-nano"]
SETS = ["fp32", "states8", *PACKED, "nano in momentum", *(f"{p} {what}" for what in ("fp32 weights", "fp32 sums") for p in PACKED)]
# The bits of parameter, momentum, variance; longer names first.
BITS = {"lpmm-compact": (8, 8, 8), "lpmm-min": (8, 4, 4), "lpmm-nano": (7, 4, 2), "lpmm": (12, 8, 8),
        "nano in momentum": (7, 5, 0)}
# Instructions per element, for the kernels that presets use most.
LIMITS = {"adamw lpmm": 106, "adamw lpmm-compact": 100, "adamw lpmm-min": 96, "sgd lpmm": 60}
# Maps by their number in a mangled name.
MAPS = {str(i): name for i, name in enumerate(
    re.findall(r"^  k(\w+),", re.search(r"enum class Map.*?};", (ROOT / "kernels/formats/format.h").read_text(), re.S)[0], re.M))}


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


def title(symbol):
    """A kernel as a row says it, from its mangled name; None: not one of the fast ones."""
    update = re.search(r"update_unitsINS_\d+([A-Za-z]+?)ELi(\d+)ELb(\d)ELb(\d)E", symbol)
    if update:
        rule, number, feedback, usual = update.groups()
        words = ["adamw" if rule == "Adam" else rule.lower(), SETS[int(number)]]
        if feedback == "1":
            words.append("feedback")
        if usual == "0":
            words.append({"Adam": "coupled decay", "Sgd": "nesterov"}[rule])
        return " ".join(words)
    plain = re.search(r"update_plain_unitsINS_\d+([A-Za-z]+?)EE", symbol)
    if plain:
        return ("adamw" if plain.group(1) == "Adam" else plain.group(1).lower()) + " fp32"
    other = re.search(r"(fold_units|read_groups|sum_units)INS1_6Stored.*?MapE(\d+)ELh(\d+)EELi(\d+)E.*?EEEEE(Lb1|Lb0|f|t|)E([ft]?)", symbol)
    if other:
        kernel, codes, bits, block, kind, gradient = other.groups()
        what = {"Lb0": "fold", "Lb1": "fold and square sum", "f": "decode to fp32", "t": "decode to bf16", "": "square sum"}[kind]
        return f"{what} {MAPS[codes]} {bits} bits, block{block}" + " of bf16" * (gradient == "t")
    return None


def most_registers(row):
    """That a kernel should have; more where two states, or an error and one, wait for their steps."""
    return 168 if has_states(row) == (1, 1) and any(word in row for word in ("feedback", "nano", "fp32")) else 128


def has_states(row):
    """Whether the rule of an update has a momentum, and a variance."""
    rule = row.split()[0]
    return int(rule != "adagrad"), int(rule in ("adamw", "lamb", "rmsprop", "adagrad"))


def bytes_to_store(row):
    """What a thread writes, steps aside."""
    if row.startswith("square sum"):
        return 0
    if row.startswith("decode"):
        return ELEMENTS * (4 if "fp32" in row else 2)
    if row.startswith("fold"):
        return ELEMENTS // 8 * int(re.search(r"(\d+) bits", row).group(1))
    parameter, momentum, variance = next(bits for name, bits in BITS.items() if f" {name}" in row)
    parameter = 32 if "fp32 weights" in row else parameter
    has_momentum, has_variance = has_states(row)
    if row.startswith("adagrad"):
        variance = max(variance, 4)  # it is a sum
    return ELEMENTS // 8 * (parameter + has_momentum * momentum + has_variance * variance)


def resources(cubin):
    """Registers and bytes of stack by symbol: attributes 0x2f and 0x11 of an ELF file's section .nv.info."""
    data = cubin.read_bytes()
    table, = struct.unpack_from("<Q", data, 40)
    size, count, names = struct.unpack_from("<HHH", data, 58)
    headers = [struct.unpack_from("<IIQQQQI", data, table + i * size) for i in range(count)]

    def text(section, at):
        begin = headers[section][4] + at
        return data[begin:data.index(b"\0", begin)].decode()
    sections = {text(names, header[0]): header for header in headers}
    symbols, info = sections[".symtab"], sections[".nv.info"]
    found, at = {0x2f: {}, 0x11: {}}, info[4]
    while at < info[4] + info[5]:
        kind, attribute, length = struct.unpack_from("<BBH", data, at)
        if kind == 4 and attribute in found:
            symbol, value = struct.unpack_from("<II", data, at + 4)
            found[attribute][text(symbols[6], struct.unpack_from("<I", data, symbols[4] + 24 * symbol)[0])] = value
        at += 4 + (length if kind == 4 else 0)
    return {symbol: (registers, found[0x11][symbol]) for symbol, registers in found[0x2f].items()}


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


def stored_bytes(operation):
    if operation.split(".")[0] not in ("ST", "STG"):
        return 0
    width = re.search(r"\.(?:[US])?(8|16|64|128)\b", operation)
    return int(width.group(1)) // 8 if width else 4


def longest_way(code):
    """Bytes stored and instructions on the longest way from the first one to an exit, of those that store most
    bytes: without subroutines and branches back."""
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
            ways.append((0, 0))
        # A call is a way only where it is a jump: subroutines end in RET, from where there is none.
        if operation in ("BRA", "CALL") and ".DIV" not in words[0] and target:
            to = place.get(int(target.group(1), 16))
            if to is not None and to > i and most[to] is not None:
                ways.append(most[to])
        falls = operation not in ("EXIT", "BRA", "RET") or predicate or len(words) > 2 or ".DIV" in words[0]
        if operation in ("CALL", "RET", "BPT") and not predicate:
            falls = False
        if falls and i + 1 < len(code) and most[i + 1] is not None:
            ways.append(most[i + 1])
        if ways:
            stored, length = max(ways)
            most[i] = (stored + stored_bytes(words[0]), length + 1)
    return most[0]


def lint(source, ptx):
    """What should not be in the PTX, as lines."""
    wrong = []
    for number, line in enumerate(ptx.splitlines(), 1):
        code = line.strip()
        is_named = re.match(r"(rcp|rsqrt)\.approx\.ftz\.f32 ", code)
        if (re.search(r"\.ftz|\.approx|\bdiv\.full", code) and not is_named) or re.search(
                r"\b(atom|red)\.\S*\.b?f(16|32|64)", code):
            wrong.append(f"{source}: PTX line {number}: {code}")
    return wrong


def unnamed(paths, pattern, named, what):
    """Sources that have the pattern more often than is named."""
    wrong = []
    for path in sorted(paths):
        name = path.relative_to(ROOT).as_posix()
        found = len(re.findall(pattern, path.read_text()))
        if found > named.get(name, 0):
            wrong.append(f"{name}: {found} {what}, {named.get(name, 0)} are named")
    return wrong


def kernels_that_do_not_wait():
    """A kernel is launched while the one before runs: its first statement waits for that."""
    wrong = []
    for path in sorted((ROOT / "kernels" / "cuda").rglob("*.*")):
        if path.name == "emulated.cpp":
            continue
        for kernel in re.finditer(r"__global__[^;]*?\)\s*\{\s*(\S*)", path.read_text()):
            if kernel.group(1) != "begin_kernel();":
                wrong.append(f"{path.relative_to(ROOT).as_posix()}: a kernel does not begin with begin_kernel(): "
                             f"{kernel.group(0).splitlines()[0]}")
    return wrong


def unnamed_arithmetic():
    kernels = ROOT / "kernels"
    packed = [p for pattern in ("*.h", "cuda/*.*", "rules/*.*") for p in kernels.glob(pattern)]
    return (unnamed(packed, r"\bfmaf?\(|__fmaf?_\w+\(|\bmad\(", NAMED, "fused multiply-adds")
            + unnamed((kernels / "cuda").rglob("*.*"), r"\batomic\w+\(", ATOMICS, "atomic operations"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build", type=Path)
    parser.add_argument("--tools", default="")
    parser.add_argument("--arch", default="90")
    args = parser.parse_args()
    wrong, found, code = unnamed_arithmetic() + kernels_that_do_not_wait(), {}, {}
    kept = args.build / "kernels" / "kept"
    cubins = [kept / f"{source}.sm_{args.arch}.cubin" for source in SOURCES]
    if not all(cubin.exists() for cubin in cubins):
        print("\n".join(wrong) if wrong else f"skipped, but for what sources show: no machine code for {args.arch} in {kept}"
              " (nvcc makes it in a build with tests)")
        return 1 if wrong else 0
    folders = [args.tools] if args.tools else []
    folders += ["/usr/local/cuda/bin"]
    cuobjdump, nvdisasm = tool("cuobjdump", folders), tool("nvdisasm", folders)
    for source, cubin in zip(SOURCES, cubins):
        for ptx in sorted(kept.glob(f"{source}.*ptx")):
            wrong += lint(source, ptx.read_text())
        found.update(resources(cubin))
        if cuobjdump and nvdisasm:
            path = os.pathsep.join([str(Path(nvdisasm).parent), os.environ.get("PATH", "")])
            code.update(functions(run([cuobjdump, "-sass", str(cubin)], env={**os.environ, "PATH": path}).stdout))
    rows = {title(symbol): (symbol, *numbers) for symbol, numbers in found.items() if title(symbol)}
    print(f"{'kernel':44} {'registers':>9} {'stack':>6} {'instructions per element':>24}   sm_{args.arch}")
    for row, (symbol, registers, stack) in sorted(rows.items()):
        # A thread of an fp32 kernel has another number of elements, and memory is what it waits for.
        is_counted = symbol in code and not row.endswith(" fp32")
        stored, way = longest_way(code[symbol]) if is_counted else (0, None)
        per_element = way / ELEMENTS if way else None
        if way and stored < bytes_to_store(row):
            wrong.append(f"{row}: the way found stores {stored} bytes, not {bytes_to_store(row)}: it is another one")
        print(f"{row:44} {registers:9} {stack:6} {f'{per_element:.1f}' if per_element else '-':>24}")
        if stack or registers > most_registers(row):
            wrong.append(f"{row}: {registers} registers, {stack} bytes of stack")
        if per_element and per_element > LIMITS.get(row, float("inf")):
            wrong.append(f"{row}: {per_element:.1f} instructions per element, at most {LIMITS[row]}")
    for row in LIMITS:
        if row not in rows:
            wrong.append(f"{row}: no such kernel")
    if not code:
        print("instructions not counted: no cuobjdump and nvdisasm")
    print("\n".join(wrong) if wrong else "no stack, no more than stated, no arithmetic but the named")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
