#!/usr/bin/env python3
"""Writes tests/golden/unigram_encodings.json: small tokenizers with Unigram, WordLevel, Precompiled, Nmt as the
`tokenizers` package reads them, and a SentencePiece model as transformers' XLM-RoBERTa and CamemBERT number it.
Of each: checksums of the ids of strings that are drawn from odd parts (tests/lpmm/data/unigram_test.cpp draws
the same), and a few decoded texts.

Needs: pip install tokenizers sentencepiece transformers protobuf (0.22, 0.2, 5 or newer).
usage: python3 make_unigram_encodings.py
"""
import base64
import io
import json
import pathlib
import tempfile
import zlib

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import CamembertTokenizer, XLMRobertaTokenizer

SENTENCES = [
    "the quick brown fox jumps over the lazy dog, and the dog sleeps on.",
    "she said: it's the 2nd time that they're here; we'll see 1234 more.",
    "a lower newest widest thing is the newest thing in the lower town",
    "Une élève très naïve a reçu la première note à l'école. 東京 日本語 привет",
]
PARTS = ["the", " quick", "fox", " ", "  ", "\t", "\r\n", "\n", "\u00a0", "\u3000", "\u2028", "lower", "newest",
         "é", "e\u0301", "E\u0300\u0301", "\u0301", "ｑｕ", "Ａ", "①", "ﬁ", "½", "Å", "\u212b", "東京", "日", "語本",
         "привет", "한", "\u1112\u1161\u11ab", "😀", "👍🏽", "👩\u200d👩", "🇩🇪🇫", "\u200b", "\ufeff", "\u0001", "\u008f",
         "\u2581", "▁the", "\ufffd", "1234", "2nd", "'s", ".", ",", ";;", "…", "é\u0327", "\u0e01\u0e33",
         "\u0915\u094d\u0937", "<s>", "</s>", "<mask>", " <mask>", "<unk>", "<pad>", "\u0345", "a\u0308\u0323", "ſ",
         "ﷺ", "\ud7ff", "\U0010ffff", "x", "zz"]
# The rules of nmt_nfkc for the characters of PARTS alone, so that the file takes a few kB.
RULES = [("\t", " "), ("\r", " "), ("\n", " "), ("\r\n", " "), ("\u00a0", " "), ("\u3000", " "), ("\u2028", " "),
         ("e\u0301", "é"), ("E\u0300", "È"), ("ｑ", "q"), ("ｕ", "u"), ("Ａ", "A"), ("①", "1"), ("ﬁ", "fi"), ("½", "1⁄2"),
         ("\u212b", "Å"), ("\u1112\u1161", "하"), ("\u1112\u1161\u11ab", "한"), ("\u200b", " "), ("\ufeff", ""), ("\u0001", ""),
         ("\u2581", " "), ("…", "..."), ("ﷺ", "صلى"), ("a\u0308", "ä"), ("ſ", "s")]
MASK = 2**64 - 1


def strings(count):
    state = 1
    def draw(n):
        nonlocal state
        state = (state * 6364136223846793005 + 1442695040888963407) & MASK
        return (state >> 33) % n
    return ["".join(PARTS[draw(len(PARTS))] for _ in range(draw(14))) for _ in range(count)]


def spm(vocabulary):
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as rules:
        for source, target in RULES:
            rules.write("\t".join(" ".join(f"{ord(c):X}" for c in text) for text in (source, target)) + "\n")
        rules.flush()
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(SENTENCES * 3), model_writer=model, vocab_size=vocabulary, model_type="unigram",
            normalization_rule_tsv=rules.name, hard_vocab_limit=False, minloglevel=2)
    read = sentencepiece_model_pb2.ModelProto.FromString(model.getvalue())
    return model.getvalue(), read.normalizer_spec.precompiled_charsmap


def trained(charsmap):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.Precompiled(charsmap), normalizers.Replace("  ", " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer.train_from_iterator(SENTENCES * 3, trainers.UnigramTrainer(
        vocab_size=130, special_tokens=special, unk_token="<unk>", show_progress=False))
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    return json.loads(tokenizer.to_str())


def check(encode, count):
    return [f"{zlib.crc32(','.join(map(str, encode(text))).encode()):08x}" for text in strings(count)]


def case(name, file, count):
    tokenizer = Tokenizer.from_str(json.dumps(file))
    encode = lambda text: tokenizer.encode(text, add_special_tokens=False).ids
    ids = encode(SENTENCES[3])
    return {"name": name, "file": file, "ids": check(encode, count),
            "text": SENTENCES[3], "decoded": tokenizer.decode(ids, skip_special_tokens=False)}


def main():
    model, charsmap = spm(110)
    unigram = trained(charsmap)
    bytes_ = json.loads(json.dumps(unigram))
    bytes_["model"]["byte_fallback"] = True
    bytes_["model"]["vocab"] += [[f"<0x{b:02X}>", -9.5] for b in (*range(1, 32), *range(0x80, 0xC0), 0xC2, 0xE2, 0xF0)]
    bytes_["normalizer"] = {"type": "Sequence", "normalizers": [{"type": "Nmt"}, {"type": "NFKC"}, {
        "type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]}
    bytes_["pre_tokenizer"] = None
    words = {"model": {"type": "WordLevel", "vocab": {w: i for i, w in enumerate(
        ["[UNK]", "the", "quick", "fox", "lower", "newest", "é", "<", ">", "1234", "东京", "東京", "s"])}, "unk_token": "[UNK]"},
        "normalizer": {"type": "Nmt"}, "pre_tokenizer": {"type": "Whitespace"}, "added_tokens": [], "version": "1.0",
        "truncation": None, "padding": None, "post_processor": None, "decoder": None}
    cases = [case("unigram", unigram, 1000), case("bytes", bytes_, 300), case("words", words, 100)]
    fairseq = []
    for kind, made in (("xlm-roberta", XLMRobertaTokenizer), ("camembert", CamembertTokenizer)):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "sentencepiece.bpe.model").write_bytes(model)
            (pathlib.Path(folder) / "config.json").write_text(json.dumps({"model_type": kind}))
            tokenizer = made.from_pretrained(folder)
        encode = lambda text: tokenizer.encode(text, add_special_tokens=False)
        fairseq.append({"type": kind, "ids": check(encode, 300), "pair": tokenizer("the fox", "lower").input_ids,
                        "tokens": len(tokenizer)})
    out = pathlib.Path(__file__).with_name("unigram_encodings.json")
    text = json.dumps({"parts": PARTS, "cases": cases, "model": base64.b16encode(model).decode().lower(), "fairseq": fairseq},
                      ensure_ascii=False, separators=(",", ":"))
    out.write_text(text.replace('{"name"', '\n{"name"') + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
