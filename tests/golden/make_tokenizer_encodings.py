"""Writes tests/golden/tokenizer_encodings.json: small tokenizers as the `tokenizers` package reads them, with
the ids and texts that it makes.

Needs: pip install tokenizers sentencepiece (0.22, 0.2 or newer).
usage: python3 make_tokenizer_encodings.py

Three tokenizers are trained on a few sentences. The rest are those with members replaced (of "model": its
members), so that each kind of part is there once at least. Decoded texts and pairs are stored where a decoder
or a template differs, and of the texts those that a part is about.
"""
import io
import json
import pathlib

import sentencepiece
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

SENTENCES = [
    "the quick brown fox jumps over the lazy dog, and the dog sleeps on.",
    "she said: it's the 2nd time that they're here; we'll see 1234 more.",
    "a lower newest widest thing is the newest thing in the lower town",
    "Une élève très naïve a reçu la première note à l'école.",
]
TEXTS = [
    "the quick newest fox",
    "The Élève naïve isn't LOWER than e\u0301le\u0300ve; it's 12345 times 2nd İ!",
    "  two  spaces,\ttabs\r\n\nand line ends \n ",
    "日本語 and \u4e2d\u6587 the 東京 한국어 привет \u0001\ufffd\u200d",
    "emoji 😀👍🏽 ﬁne ①² ﬀ Å Å ½ \u00a0x\u3000y",
    "<s>the</s> <mask> lower<mask>  dog maskmask mask Mask é<pad>",
    "a-b_c (d) [e] {f}... don't; they've 3.14 ▁under▁score",
    "",
    " ",
    "thethethe loweredest",
]
PAIRS = [
    ["the quick brown fox", "the lazy dog sleeps", 0],
    ["the quick brown fox jumps", "over", 9],
    ["over", "the quick brown fox jumps over the lazy dog", 12],
    ["the quick brown fox jumps over it", "the lazy dog sleeps on and on", 11],
    ["the quick brown fox", None, 6],
    ["the quick brown fox", None, 0],
]
ABOUT = {"split": [6], "punctuation": [6], "white": [2, 6], "NF": [4], "replace": [1, 2], "added": [5, 9],
         "merges": [9], "line": [2], "roberta": [0, 8, 6], "smollm": [1], "llama3": [1, 2], "byte": [4], "metaspace": [2, 5, 6, 8]}
SPECIAL = ["<s>", "</s>", "<pad>", "<unk>", "<mask>"]


def added(content, id, **options):
    token = {"id": id, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
             "normalized": False, "special": True}
    return {**token, **options}


def trained(model, pre_tokenizer, trainer, prepare=None, **parts):
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizer
    if prepare:
        tokenizer.normalizer = prepare
    for name, part in parts.items():
        setattr(tokenizer, name, part)
    tokenizer.train_from_iterator(SENTENCES * 3, trainer)
    return json.loads(tokenizer.to_str())


def bases():
    bytes_ = trained(
        models.BPE(), pre_tokenizers.ByteLevel(add_prefix_space=False),
        trainers.BpeTrainer(vocab_size=320, special_tokens=SPECIAL, show_progress=False,
                            initial_alphabet=pre_tokenizers.ByteLevel.alphabet()),
        decoder=decoders.ByteLevel())
    pieces = trained(
        models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True),
        pre_tokenizers.Metaspace(),
        trainers.BpeTrainer(vocab_size=130, special_tokens=SPECIAL[:4] + [f"<0x{b:02X}>" for b in
                            (*range(32), *range(128, 192), 0xC3, 0xE3, 0xE4, 0xE6, 0xE7, 0xE8, 0xF0)],
                            show_progress=False))
    pieces["added_tokens"] = [t for t in pieces["added_tokens"] if not t["content"].startswith("<0x")]
    words = trained(
        models.WordPiece(unk_token="[UNK]"), pre_tokenizers.BertPreTokenizer(),
        trainers.WordPieceTrainer(vocab_size=120, show_progress=False,
                                  special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]),
        prepare=normalizers.BertNormalizer(), decoder=decoders.WordPiece())
    words["post_processor"] = {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]}
    return {"bytes": bytes_, "pieces": pieces, "words": words}


LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
          r"\s*[\r\n]+|\s+(?!\S)|\s+")


def sequence(*parts):
    return {"type": "Sequence", "pretokenizers": list(parts)}


def byte_level(**options):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True, **options}


def split(pattern, behavior, invert=False):
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}


def template(single, pair, ids):
    def items(text):
        for word in text.split():
            name, _, type_id = word.partition(":")
            kind = "Sequence" if name in "AB" else "SpecialToken"
            yield {kind: {"id": name, "type_id": int(type_id or 0)}}
    tokens = {name: {"id": name, "ids": [i], "tokens": [name]} for name, i in ids.items()}
    return {"type": "TemplateProcessing", "single": list(items(single)), "pair": list(items(pair)),
            "special_tokens": tokens}


def variants(base):
    whole = byte_level(use_regex=False)
    n = len(base["bytes"]["model"]["vocab"])
    yield "gpt2", "bytes", {}
    yield "roberta", "bytes", {
        "pre_tokenizer": byte_level(add_prefix_space=True),
        "post_processor": {"type": "RobertaProcessing", "sep": ["</s>", 1], "cls": ["<s>", 0],
                           "trim_offsets": True, "add_prefix_space": True}}
    yield "smollm", "bytes", {"pre_tokenizer": sequence({"type": "Digits", "individual_digits": True}, byte_level())}
    yield "llama3", "bytes", {
        "pre_tokenizer": sequence(split({"Regex": LLAMA3}, "Isolated"), whole),
        "model": {"ignore_merges": True, "merges": [m if isinstance(m, list) else m.split(" ")
                                                    for m in base["bytes"]["model"]["merges"]]},
        "post_processor": {"type": "Sequence", "processors": [
            byte_level(), template("<s> A", "<s> A <s>:1 B:1", {"<s>": 0})]}}
    yield "merges in one text", "bytes", {
        "model": {"merges": [m if isinstance(m, str) else " ".join(m) for m in base["bytes"]["model"]["merges"]]}}
    for behavior in ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]:
        yield f"split {behavior}", "bytes", {
            "pre_tokenizer": sequence(split({"String": "e"}, behavior), split({"Regex": r"\d|t+h"}, behavior), whole)}
    for behavior in ["Removed", "MergedWithPrevious", "Contiguous"]:
        yield f"split inverted {behavior}", "bytes", {
            "pre_tokenizer": sequence(split({"Regex": r"\w+|[^\w\s]"}, behavior, True), whole)}
    yield "punctuation", "bytes", {
        "pre_tokenizer": sequence({"type": "Punctuation", "behavior": "MergedWithPrevious"},
                                  {"type": "Digits", "individual_digits": False}, whole)}
    yield "white space", "bytes", {
        "pre_tokenizer": sequence({"type": "Whitespace"}, whole),
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "StripAccents"}]}}
    yield "white space split", "bytes", {
        "pre_tokenizer": sequence({"type": "WhitespaceSplit"}, {"type": "CharDelimiterSplit", "delimiter": "-"}, whole),
        "normalizer": {"type": "Strip", "strip_left": True, "strip_right": True}}
    for form in ["NFC", "NFKC", "NFKD"]:
        yield form, "bytes", {"normalizer": {"type": form}}
    yield "replace", "bytes", {"normalizer": {"type": "Sequence", "normalizers": [
        {"type": "Lowercase"}, {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "},
        {"type": "Replace", "pattern": {"String": "the"}, "content": "a"}]}}
    yield "line starts", "bytes", {"pre_tokenizer": sequence(split({"Regex": "^ |^a|d$"}, "Removed"), whole)}
    yield "byte level normalizer", "bytes", {"normalizer": {"type": "ByteLevel"}, "pre_tokenizer": None}
    yield "added", "bytes", {
        "normalizer": {"type": "Lowercase"},
        "added_tokens": [added("<s>", 0), added("</s>", 1, rstrip=True), added("<pad>", 2, lstrip=True),
                         added("<unk>", 3), added("<mask>", 4, lstrip=True, rstrip=True),
                         added("Mask", n, special=False, normalized=True, single_word=True),
                         added("lower", n + 1, special=False, normalized=True),
                         added("lowered", n + 2, special=False, normalized=True)]}
    yield "llama", "pieces", {
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
        "pre_tokenizer": None,
        "post_processor": template("<s> A", "<s> A </s> B:1", {"<s>": 0, "</s>": 1}),
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
            {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}}
    for scheme in ["always", "first", "never"]:
        space = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": scheme != "first"}
        yield f"metaspace {scheme}", "pieces", {
            "pre_tokenizer": space, "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, space]},
            "model": {"fuse_unk": scheme == "always", "byte_fallback": scheme != "never"}}
    yield "bert", "words", {}
    yield "bert cased", "words", {
        "normalizer": {"type": "BertNormalizer", "clean_text": False, "handle_chinese_chars": False,
                       "strip_accents": None, "lowercase": False},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": False},
        "post_processor": template("[CLS] A [SEP]", "[CLS] A [SEP] B:1 [SEP]:1", {"[CLS]": 2, "[SEP]": 3})}


def pair(tokenizer, first, second, longest):
    tokenizer.no_truncation()
    if longest:
        tokenizer.enable_truncation(longest)
    found = tokenizer.encode(first, second)
    tokenizer.no_truncation()
    return [found.ids, found.type_ids]


def sentence_piece(kind):
    """A model without rules of normalisation, which take 240 kB."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES * 3), model_writer=model, vocab_size=70, model_type=kind,
        normalization_rule_name="identity", hard_vocab_limit=False, minloglevel=2)
    read = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    ids = [read.encode(text) for text in TEXTS]
    return {"type": kind, "model": model.getvalue().hex(), "ids": ids, "decoded": [read.decode(i) for i in ids]}


def main():
    base = bases()
    cases = []
    for name, of, patch in variants(base):
        tokenizer = Tokenizer.from_str(json.dumps(merged(base[of], patch)))
        texts = next((about for start, about in ABOUT.items() if name.startswith(start)), range(len(TEXTS)))
        ids = {i: tokenizer.encode(TEXTS[i], add_special_tokens=False).ids for i in texts}
        case = {"name": name, "base": of, "patch": patch, "texts": list(ids), "ids": list(ids.values())}
        if name in ("gpt2", "bert") or "decoder" in patch:
            case["decoded"] = [tokenizer.decode(i, skip_special_tokens=False) for i in ids.values()]
        if name in ("gpt2", "bert") or "post_processor" in patch:
            case["pairs"] = [pair(tokenizer, *p) for p in PAIRS]
        cases.append(case)
    out = pathlib.Path(__file__).with_name("tokenizer_encodings.json")
    text = json.dumps({"texts": TEXTS, "pairs": PAIRS, "bases": base,
                       "sentencepiece": [sentence_piece(kind) for kind in ("bpe", "unigram")], "cases": cases}, ensure_ascii=False,
                      separators=(",", ":"))
    out.write_text(text.replace('{"name"', '\n{"name"').replace('"bases"', '\n"bases"') + "\n", encoding="utf-8")


def merged(target, patch):
    target = dict(target)
    for key, value in patch.items():
        if isinstance(value, dict) and isinstance(target.get(key), dict) and key == "model":
            target[key] = {**target[key], **value}
        else:
            target[key] = value
    return target


if __name__ == "__main__":
    main()
