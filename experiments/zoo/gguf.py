#!/usr/bin/env python3
"""Whether llama.cpp runs what lpmm exports as GGUF as transformers runs the same model, and what an import of that file gives back.

    pip install xllamacpp torch transformers     # xllamacpp: llama.cpp's server as a wheel
    python3 experiments/zoo/gguf.py build/lpmm [MODEL]

MODEL is a folder or a GGUF. Without it: small models with random weights and tokenizers of their kinds, one of each kind of text
model that exports.py makes. A line for each: ids of odd texts that differ, how many greedy tokens are the same (of a file of fp32),
how far log-probabilities of the next token are apart, and tensors that differ after the file is imported again. Of MODEL also
its perplexity on 255 tokens of tinyshakespeare, where LPMM_DATA has it, in a file of bf16."""
import json
import math
import os
import sys
import tempfile
import urllib.request
from pathlib import Path

PROGRAM, MODEL = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
sys.argv = sys.argv[:1]
sys.path.insert(0, str(Path(__file__).parent))
try:
    import torch
    import transformers as t
    import xllamacpp
    from safetensors.torch import load_file
except ImportError as absent:
    print(f"skipped: {absent}")
    sys.exit(77)
import exports
import made_tokenizers as made

TOKENS, PROMPT = 64, "The packed memory of a model"
TEXTS = made.texts(10_000)


class LlamaCpp:
    """llama.cpp's server on a file."""

    def __init__(self, path):
        params = xllamacpp.CommonParams()
        params.model.path = str(path)
        params.n_ctx, params.n_parallel, params.cpuparams.n_threads = 512, 1, 2
        params.warmup, params.port = False, 0
        self.server = xllamacpp.Server(params)

    def post(self, path, body):
        request = urllib.request.Request(self.server.listening_address + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def ids(self, text):
        return self.post("/tokenize", {"content": text, "add_special": False, "parse_special": True})["tokens"]

    def greedy(self, ids, tokens):
        got = self.post("/completion", {"prompt": ids, "n_predict": tokens, "temperature": 0, "n_probs": 5, "cache_prompt": False,
                                        "return_tokens": True, "ignore_eos": True})
        return got["tokens"], got.get("completion_probabilities")


    def perplexity(self, ids, words):
        """Of all ids but the first. A request tells of one position: each token's probability is looked up in those of all words."""
        loss = 0.0
        for n in range(1, len(ids)):
            got = self.post("/completion", {"prompt": ids[:n], "n_predict": 1, "n_probs": words, "temperature": 0, "ignore_eos": True})
            loss -= next(one["logprob"] for one in got["completion_probabilities"][0]["top_logprobs"] if one["id"] == ids[n])
        return math.exp(loss / (len(ids) - 1))


def export(run, out, *words):
    return exports.run(PROGRAM, "export", run, "--out", out, *words, "--overwrite").stderr


def same_prefix(a, b):
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))


def judge(name, published, folder):
    exports.run(PROGRAM, "import", published, "--out", folder / "run", "--preset", "fp32")
    told = export(folder / "run", folder / "model.gguf", "--gguf", "--type", "fp32")
    export(folder / "run", folder / "hf", "--hf", "--type", "fp32")
    tokenizer, model = t.AutoTokenizer.from_pretrained(folder / "hf"), t.AutoModelForCausalLM.from_pretrained(folder / "hf", dtype=torch.float32)
    server = LlamaCpp(folder / "model.gguf")
    odd = [text for text in TEXTS if tokenizer.encode(text, add_special_tokens=False) != server.ids(text)]
    prompt = tokenizer.encode(PROMPT)
    count = min(TOKENS, model.config.max_position_embeddings - len(prompt))
    with torch.no_grad():
        told_next = model(torch.tensor([prompt])).logits[0].log_softmax(1)
        ours = model.generate(torch.tensor([prompt]), max_new_tokens=count, do_sample=False, eos_token_id=None, pad_token_id=0,
                              repetition_penalty=1.0)[0, len(prompt):].tolist()
    theirs, _ = server.greedy(prompt, count)
    apart = 0.0
    for n in range(1, len(prompt) + 1):
        tokens, told_by = server.greedy(prompt[:n], 1)
        if told_by and told_by[0]["id"] == tokens[0]:  # probabilities of a part of a character come with the next token
            apart = max(apart, *(abs(told_next[n - 1, one["id"]].item() - one["logprob"]) for one in told_by[0]["top_logprobs"]))
    exports.run(PROGRAM, "import", folder / "model.gguf", "--out", folder / "again", "--preset", "fp32")
    export(folder / "again", folder / "hf2", "--hf", "--type", "fp32")
    first, second = load_file(folder / "hf/model.safetensors"), load_file(folder / "hf2/model.safetensors")
    changed = [key for key in first.keys() | second.keys() if key not in first or key not in second or not torch.equal(first[key], second[key])]
    again = t.AutoTokenizer.from_pretrained(folder / "hf2")
    lost = sum(tokenizer.encode(text) != again.encode(text) for text in TEXTS)
    print(f"{name}: ids {len(odd)} of {len(TEXTS)} differ, {same_prefix(ours, theirs)} of {count} greedy tokens are the same, "
          f"log-probabilities {apart:.1e} apart; imported again: {len(changed)} tensors and {lost} texts differ"
          f"{'; ' + told.strip() if told else ''}", flush=True)
    if odd:
        print("   texts with other ids:", *(repr(text)[:40] for text in odd[:8]), flush=True)
    text = Path(os.environ.get("LPMM_DATA", "")) / "tinyshakespeare/input.txt"
    if MODEL and text.is_file():
        ids = tokenizer.encode(text.read_text()[:4000])[:256]
        export(folder / "run", folder / "half.gguf", "--gguf", "--type", "bf16")
        model = model.to(torch.bfloat16).float()
        with torch.no_grad():
            want = math.exp(model(torch.tensor([ids]), labels=torch.tensor([ids])).loss.item())
        got = LlamaCpp(folder / "half.gguf").perplexity(ids, len(tokenizer))
        print(f"{name}, bf16: perplexity {got:.4f} in llama.cpp, {want:.4f} in transformers with the same weights: {got / want - 1:+.3%}")


def main():
    with tempfile.TemporaryDirectory() as scratch:
        if MODEL:
            return judge(Path(MODEL).name, MODEL, Path(scratch))
        for name, (tokenizer, kind, make) in exports.MODELS.items():
            if kind != "text" or name in ("GPT-2, n_inner, ReLU", "Gemma 3, scaled"):  # llama.cpp has neither
                continue
            torch.manual_seed(1)
            folder = Path(scratch) / name.replace(" ", "_").replace("/", "_")
            (folder / "made").mkdir(parents=True)
            exports.drawn(make(tokenizer(folder / "made"))).save_pretrained(folder / "made")
            judge(name, folder / "made", folder)


main()
