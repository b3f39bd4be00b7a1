#!/usr/bin/env python3
"""Measures the Python package beside other optimizers: the step, and the memory of a training step of GPT-2.

usage: PYTHONPATH=build/python python3 experiments/bench/python.py step [--threads 2] [--rounds 5] [--bf16] [--device cuda]
       PYTHONPATH=build/python python3 experiments/bench/python.py memory [--rounds 1] [--device cuda] [--python COMMAND]
       PYTHONPATH=build/python LPMM_DATA=FOLDER python3 experiments/bench/python.py losses
`step` updates tensors of GPT-2 124M's shapes, whose gradients are there, by each optimizer in turn, in one process; its
table has medians, and quotients within a round. bitsandbytes takes part where it is installed. `memory` (it needs transformers)
trains GPT-2 124M for four steps, batch 1 x 256, in a process for each level and round, and prints the largest peak of resident
memory above what imports take, and the median time of a forward, backward and step, the least of three; once more with tensors
of a megabyte outside of the heap, whose gaps glibc before 2.38 does not fill again (its memalign, which torch calls, wants more
than a freed block has); on a GPU the peak is that of torch's allocator. --python runs these processes by another interpreter, or
under another C library: "FOLDER/ld-linux-x86-64.so.2 --library-path FOLDER python3". `losses` trains a two-layer GPT-2 on the bytes of
tinyshakespeare for 200 steps, clipped to norm 1, at each level, with the batches and the start that torch gets; then it adds
the gradients of 16 microbatches and compares their norm.
"""
import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import time

import lpmm
import torch


def shapes():
    yield from [(50257, 768), (1024, 768)]
    for _ in range(12):
        yield from [(768,), (768,), (768, 2304), (2304,), (768, 768), (768,), (768,), (768,), (768, 3072), (3072,), (3072, 768), (768,)]
    yield from [(768,), (768,)]


def candidates():
    yield "torch.optim.AdamW(fused=True)", lambda ps: torch.optim.AdamW(ps, fused=True)
    try:
        import bitsandbytes
        yield "bitsandbytes.optim.AdamW8bit", bitsandbytes.optim.AdamW8bit
    except ImportError as e:
        print(f"bitsandbytes is not measured: {e}")
    for preset in ("fp32", "lpmm", "lpmm-compact", "lpmm-min", "lpmm-nano"):
        yield f'lpmm.AdamW(preset="{preset}")', lambda ps, preset=preset: lpmm.AdamW(ps, preset=preset)


def state_bits(optimizer, elements):
    tensors = [x for s in optimizer.state.values() for x in s.values() if torch.is_tensor(x) and x.numel() > 1]
    return 8 * sum(x.numel() * x.element_size() for x in tensors) / elements


def measure_step(options):
    dtype = torch.bfloat16 if options.bf16 else torch.float32
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    all_of_them = []
    for name, make in candidates():
        parameters = [torch.nn.Parameter(torch.randn(s).mul_(0.02).to(options.device, dtype)) for s in shapes()]
        all_of_them.append((name, parameters, make(parameters), []))
    gradients = [torch.randn(s).mul_(1e-3).to(options.device, dtype) for s in shapes()]
    wait = torch.cuda.synchronize if options.device == "cuda" else lambda: None
    for r in range(options.rounds + 2):  # the first two make states and warm up
        for _, parameters, optimizer, times in all_of_them:
            for p, g in zip(parameters, gradients):
                p.grad = g
            wait()
            begin = time.perf_counter()
            optimizer.step()
            wait()
            if r > 1:
                times.append(time.perf_counter() - begin)
    elements = sum(g.numel() for g in gradients)
    print(f"{elements:,} {dtype} parameters on {options.device}, {options.threads} threads, {options.rounds} rounds\n")
    print("| optimizer | ms | × torch | states, bits |\n|---|---:|---:|---:|")
    first = all_of_them[0][3]
    for name, _, optimizer, times in all_of_them:
        quotient = statistics.median(a / b for a, b in zip(times, first))
        print(f"| `{name}` | {1000 * statistics.median(times):.4g} | {quotient:.2f} | {state_bits(optimizer, elements):.1f} |")


def peak(device):
    if device == "cuda":
        return torch.cuda.max_memory_allocated() / 1e6
    with open("/proc/self/status", encoding="ascii") as status:
        return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) / 1024


def train_gpt2(level, preset, device):
    import transformers
    torch.manual_seed(0)
    torch.set_num_threads(2)
    kind, _ = transformers.GPT2LMHeadModel, lpmm.AdamW  # both packages import these where they are asked for
    imports = peak(device)
    model = kind(transformers.GPT2Config(use_cache=False)).to(device)
    model.train(False)  # no dropout: losses can be compared
    if level == 0:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    else:
        optimizer = lpmm.AdamW(model.parameters(), lr=1e-4, preset=preset)
    if level == 2:
        optimizer.fold_gradients()
    if level == 3:
        lpmm.pack(model, optimizer)
    ids = torch.randint(0, 50257, (1, 256), device=device)
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    else:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as peaks:
            peaks.write("5")
    times, losses = [], []
    for _ in range(4):
        begin = time.perf_counter()
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(f"{loss.item():.3f}")  # waits for a GPU
        times.append(time.perf_counter() - begin)
    json.dump({"peak": peak(device), "imports": imports, "step": min(times[1:]), "losses": " ".join(losses),
               "libc": os.confstr("CS_GNU_LIBC_VERSION")}, sys.stdout)


def measure_memory(options):
    levels = ((0, ""), (1, "lpmm-min"), (2, "lpmm-min"), (3, "lpmm-min"), (3, "lpmm-nano"))
    for heap in ({}, {"MALLOC_MMAP_THRESHOLD_": str(1 << 20)})[:1 if options.device == "cuda" else 2]:
        runs = {of: [] for of in levels}
        for _ in range(options.rounds):
            for level, preset in levels:
                done = subprocess.run([*shlex.split(options.python), "-W", "ignore", __file__, "one", str(level), preset, options.device], check=True,
                                      stdout=subprocess.PIPE, env=os.environ | heap)
                runs[level, preset].append(json.loads(done.stdout))
        print(f"\n{runs[levels[0]][0]['libc']}, {' '.join(map('='.join, heap.items())) or 'no variable set'}, {options.rounds} rounds:\n")
        print("| | peak, MB | less imports | of torch's | step, s | of torch's | losses |\n|---|---:|---:|---:|---:|---:|---|")
        torchs = runs[levels[0]]
        for (level, preset), own in runs.items():
            most = max(r["peak"] - r["imports"] for r in own)
            quotients = most / max(r["peak"] - r["imports"] for r in torchs), statistics.median(a["step"] / b["step"] for a, b in zip(own, torchs))
            print(f"| {f'level {level}, `{preset}`' if level else 'torch fused'} | {max(r['peak'] for r in own):.0f} | {most:.0f} | {quotients[0]:.2f} | "
                  f"{statistics.median(r['step'] for r in own):.3g} | {quotients[1]:.2f} | {own[0]['losses']} |", flush=True)


def small_gpt2(level, preset):
    import transformers
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=256, n_positions=64, n_embd=128, n_layer=2, n_head=4, use_cache=False, bos_token_id=0, eos_token_id=0,
        resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))
    if level == 0:
        return model, torch.optim.AdamW(model.parameters(), lr=1e-3)
    optimizer = lpmm.AdamW(model.parameters(), lr=1e-3, preset=preset)
    if level == 2:
        optimizer.fold_gradients()
    if level == 3:
        lpmm.pack(model, optimizer)
    return model, optimizer


def measure_losses():
    with open(os.path.join(os.environ["LPMM_DATA"], "tinyshakespeare", "input.txt"), "rb") as text:
        data = torch.frombuffer(bytearray(text.read()), dtype=torch.uint8).long()
    torch.manual_seed(1)
    batches = [torch.stack([data[i:i + 64] for i in torch.randint(0, len(data) - 64, (16,))]) for _ in range(200)]
    print("| | loss, mean of the last 20 steps | less torch's | norm of 16 microbatches | over torch's |\n|---|---:|---:|---:|---:|")
    first = None
    for level, preset in ((0, ""), *((n, p) for p in ("lpmm", "lpmm-min") for n in (1, 2, 3))):
        model, optimizer = small_gpt2(level, preset)
        losses = []
        for ids in batches:
            loss = model(input_ids=ids, labels=ids).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
        model, optimizer = small_gpt2(level, preset)
        for ids in batches[:16]:
            (model(input_ids=ids, labels=ids).loss / 16).backward()
        got = statistics.mean(losses[-20:]), float(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0))
        first = first or got
        name = "torch" if level == 0 else f"level {level}, `{preset}`"
        print(f"| {name} | {got[0]:.4f} | {got[0] - first[0]:+.4f} | {got[1]:.5f} | {got[1] / first[1]:.5f} |", flush=True)


def main():
    if sys.argv[1:2] == ["one"]:
        return train_gpt2(int(sys.argv[2]), *sys.argv[3:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["step", "memory", "losses"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, help="of step (5) and memory (1)")
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="of step and memory")
    parser.add_argument("--python", default=sys.executable, metavar="COMMAND", help="that runs the processes of memory")
    options = parser.parse_args()
    options.rounds = options.rounds or (5 if options.what == "step" else 1)
    return {"step": lambda: measure_step(options), "memory": lambda: measure_memory(options), "losses": measure_losses}[options.what]()


if __name__ == "__main__":
    main()
