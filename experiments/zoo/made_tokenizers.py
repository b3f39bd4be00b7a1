"""Tokenizers of each publisher's kind, trained on a few lines and written as they are on the hub, and a hundred odd texts to
read with them. Used by exports.py."""
import json
import random
import shutil
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

GOLDEN = Path(__file__).resolve().parents[2] / "tests/golden"
LINES = [line for line in (Path(__file__).resolve().parents[2] / "README.md").read_text().splitlines() if line]
TEMPLATE = ("{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] | trim + '<|im_end|>\\n' }}{% endfor %}"
            "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN = LLAMA3.replace("{1,3}", "")
ODD = ["", " ", "  ", "a", " a", "a ", "\n", "\n\n", "\r\n", "\t", "a\tb", "a\u00a0b", "a\u3000b", "a\u200bb", "\u2028", "\ufeffa", "\x01", "\x1c",
       "a\x7fb", "\ufffd", "é", "e\u0301", "e\u0301\u0323", "ﬁsh", "①", "½", "ß", "İ", "ı", "Ü", "ñandú", "ǅ", "Ω", "Å", "µ", "日本語", "日 本", "한국어", "ᄒ\u1161\u11ab",
       "привет", "שלום", "السلام", "नमस्ते", "ไทย", "😀", "👍🏽", "👨\u200d👩\u200d👧", "🇩🇪", "\u202eabc", "don't", "DON'T", "we'll", "n't", " 's", "it ' s", "...",
       "…", "--", "—", "a,b", "a , b", "$5.00", "1234567890", "3.14159", "1,000", "0x1F", "२३", "https://a.b/c?d=e&f", "a@b.c", "#x", "C++", "x = y**2;",
       "<s>", "</s>", "<unk>", "<pad>", "[CLS]", "[SEP]a[PAD]", "[MASK]", " [MASK] ", "<mask>", "a <mask> b", "<|endoftext|>", "<|im_start|>user", "<new>", "a<new>b",
       "<0x41>", "▁the", "Ġthe", "##ing", "\\n", "\"q\"", "`c`", "{a: [1]}", "\u2581", "x" * 130, "日" * 60, "a\u0301" * 30, "ab " * 40, "\u00ad"]


def texts(count=120):
    draw = random.Random(1)
    words = " ".join(LINES).split()
    out = list(ODD)
    while len(out) < count:
        out.append(draw.choice(["", " "]).join(draw.choice([draw.choice(words), draw.choice(ODD)]) for _ in range(draw.randint(2, 8))))
    return out


def of_bytes(split=None, normalizer=None, prefix=False, names=("<|endoftext|>",)):
    tokenizer = Tokenizer(models.BPE())
    if normalizer:
        tokenizer.normalizer = normalizer
    by_bytes = pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=split is None)
    tokenizer.pre_tokenizer = by_bytes if split is None else pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(split), "isolated"), by_bytes])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(LINES, trainers.BpeTrainer(vocab_size=420, special_tokens=list(names), show_progress=False,
                                                             initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return tokenizer


def of_pieces():
    """As Llama 2's and Mistral's, with bytes for what has no piece."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tokenizer.train_from_iterator(LINES, trainers.BpeTrainer(
        vocab_size=520, show_progress=False, special_tokens=["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256))]))
    document = json.loads(tokenizer.to_str())
    document["added_tokens"] = document["added_tokens"][:3]  # bytes are pieces
    tokenizer = Tokenizer.from_str(json.dumps(document))
    begin = tokenizer.token_to_id("<s>")
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A", "<s> $A <s> $B", [("<s>", begin)])
    return tokenizer


def of_pieces_alone():
    """As Gemma's: no space is put before a text, runs of line ends and of spaces are tokens of their own."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.train_from_iterator(LINES, trainers.BpeTrainer(
        vocab_size=520, show_progress=False, special_tokens=["<pad>", "<eos>", "<bos>", "<unk>", *(f"<0x{b:02X}>" for b in range(256))]))
    document = json.loads(tokenizer.to_str())
    document["added_tokens"] = document["added_tokens"][:4]  # bytes are pieces
    tokenizer = Tokenizer.from_str(json.dumps(document))
    tokenizer.add_tokens([AddedToken(text, normalized=False, special=False) for text in ("\n\n", "\n\n\n", "▁▁", "▁▁▁", "<table>")])
    tokenizer.post_processor = processors.TemplateProcessing("<bos> $A", "<bos> $A <bos> $B", [("<bos>", tokenizer.token_to_id("<bos>"))])
    return tokenizer


def of_words(lower, names=("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")):
    names = list(names)
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lower)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.train_from_iterator(LINES, trainers.WordPieceTrainer(vocab_size=400, special_tokens=names, show_progress=False))
    if "[CLS]" in names:
        tokenizer.post_processor = around(tokenizer)
    return tokenizer


def around(tokenizer, kind=1):
    cls, sep = (tokenizer.token_to_id(name) for name in ("[CLS]", "[SEP]"))
    pair = f"[CLS] $A [SEP] $B:{kind} [SEP]:{kind}"
    return processors.TemplateProcessing("[CLS] $A [SEP]", pair, [("[CLS]", cls), ("[SEP]", sep)])


def written(folder, tokenizer, made_by, settings, added=(), files=("tokenizer.json",), chat=False):
    """As on the hub, before transformers 5; returns how many tokens there are."""
    tokenizer.add_tokens([AddedToken(name, normalized=False) for name in added])
    flags = ("content", "lstrip", "rstrip", "single_word", "normalized", "special")
    decoder = {str(id): {flag: getattr(t, flag) for flag in flags} for id, t in sorted(tokenizer.get_added_tokens_decoder().items())}
    if "tokenizer.json" in files:
        tokenizer.save(str(folder / "tokenizer.json"))
    model = json.loads(tokenizer.to_str())["model"]
    if "vocab.json" in files:
        (folder / "vocab.json").write_text(json.dumps(model["vocab"], ensure_ascii=False))
        (folder / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{' '.join(m)}\n" for m in model["merges"]))
    if "vocab.txt" in files:
        (folder / "vocab.txt").write_text("".join(f"{t}\n" for t, _ in sorted(model["vocab"].items(), key=lambda item: item[1])))
    config = {"tokenizer_class": made_by, "added_tokens_decoder": decoder, "model_max_length": 48, "clean_up_tokenization_spaces": False, **settings}
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2))
    (folder / "special_tokens_map.json").write_text(json.dumps({k: v for k, v in settings.items() if k.endswith("_token") and isinstance(v, str)}))
    if chat:
        (folder / "chat_template.jinja").write_text(TEMPLATE)
    return max(tokenizer.get_vocab().values()) + 1


def gpt2(folder):
    end = "<|endoftext|>"
    return written(folder, of_bytes(), "GPT2Tokenizer", {"bos_token": end, "eos_token": end, "unk_token": end}, ["<new>"])


def gpt2_pair(folder):
    end = "<|endoftext|>"
    return written(folder, of_bytes(), "GPT2Tokenizer", {"bos_token": end, "eos_token": end, "unk_token": end}, files=("vocab.json",))


def llama2(folder):
    return written(folder, of_pieces(), "LlamaTokenizer", {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "add_bos_token": True,
                                                           "add_eos_token": False, "legacy": False}, ["<|im_start|>", "<|im_end|>"], chat=True)


def gemma(folder):
    return written(folder, of_pieces_alone(), "GemmaTokenizer", {"bos_token": "<bos>", "eos_token": "<eos>", "unk_token": "<unk>", "pad_token": "<pad>",
                                                                 "add_bos_token": True, "add_eos_token": False}, ["<im_start>", "<im_end>"], chat=True)


def llama3(folder):
    names = ("<|begin_of_text|>", "<|end_of_text|>")
    tokenizer = of_bytes(LLAMA3, names=names)
    begin = tokenizer.token_to_id(names[0])
    tokenizer.post_processor = processors.TemplateProcessing(f"{names[0]} $A", f"{names[0]} $A {names[0]} $B", [(names[0], begin)])
    return written(folder, tokenizer, "PreTrainedTokenizerFast", {"bos_token": names[0], "eos_token": names[1]}, ["<|im_start|>", "<|im_end|>"], chat=True)


def qwen2(folder):
    tokenizer = of_bytes(QWEN, normalizers.NFC(), names=("<|endoftext|>", "<|im_start|>", "<|im_end|>"))
    return written(folder, tokenizer, "Qwen2Tokenizer", {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"},
                   ["<new>"], files=("tokenizer.json", "vocab.json"), chat=True)


def words(folder, lower, made_by, files=("tokenizer.json", "vocab.txt")):
    settings = {f"{n}_token": f"[{n.upper()}]" for n in ("unk", "sep", "pad", "cls", "mask")}
    return written(folder, of_words(lower), made_by, {**settings, "do_lower_case": lower, "strip_accents": None, "tokenize_chinese_chars": True},
                   ["<new>"] if "tokenizer.json" in files else [], files)


def roberta(folder):
    names = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
    tokenizer = of_bytes(names=names)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), True, False)
    settings = {"bos_token": "<s>", "cls_token": "<s>", "eos_token": "</s>", "sep_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>", "mask_token":
                {"__type": "AddedToken", "content": "<mask>", "lstrip": True, "rstrip": False, "single_word": False, "normalized": False}}
    document = json.loads(tokenizer.to_str())
    document["added_tokens"][-1]["lstrip"] = True
    return written(folder, Tokenizer.from_str(json.dumps(document)), "RobertaTokenizer", settings, files=("tokenizer.json", "vocab.json"))


def mpnet(folder, files=("tokenizer.json", "vocab.txt")):
    names = ("<s>", "<pad>", "</s>", "[UNK]", "<mask>")
    tokenizer = of_words(True, names)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), False, False)
    settings = {"bos_token": "<s>", "cls_token": "<s>", "eos_token": "</s>", "sep_token": "</s>", "pad_token": "<pad>", "unk_token": "[UNK]",
                "mask_token": "<mask>", "do_lower_case": True, "strip_accents": None, "tokenize_chinese_chars": True}
    return written(folder, tokenizer, "MPNetTokenizer", settings, files=files)


def modernbert(folder):
    """Of bytes, with names as BERT's behind the others, and spaces before [MASK] that belong to it."""
    tokenizer = of_bytes(normalizer=normalizers.NFC(), names=("<|padding|>", "<|endoftext|>"))
    tokenizer.add_tokens([AddedToken("  ", normalized=True), AddedToken("    ", normalized=True)])
    names = ("[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]")
    tokenizer.add_special_tokens([AddedToken(name, lstrip=name == "[MASK]", normalized=False) for name in names])
    tokenizer.post_processor = around(tokenizer, 0)
    settings = {f"{n}_token": f"[{n.upper()}]" for n in ("unk", "sep", "pad", "cls", "mask")}
    return written(folder, tokenizer, "PreTrainedTokenizerFast", {**settings, "model_input_names": ["input_ids", "attention_mask"]})


def unigram(folder, is_camembert=False):
    """As XLM-RoBERTa's and CamemBERT's: pieces of a unigram model behind a charsmap, by the numbers of fairseq."""
    charsmap = json.loads((GOLDEN / "unigram_encodings.json").read_text())["cases"][0]["file"]["normalizer"]
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.train_from_iterator(LINES, trainers.UnigramTrainer(vocab_size=300, unk_token="<unk>", special_tokens=["<unk>"], show_progress=False))
    document = json.loads(tokenizer.to_str())
    names = ["<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED", "<s>", "</s>"] if is_camembert else ["<s>", "<pad>", "</s>", "<unk>"]
    vocabulary = [[name, 0.0] for name in names] + document["model"]["vocab"][1:] + [["<mask>", 0.0]]
    document |= {"normalizer": charsmap, "model": {"type": "Unigram", "unk_id": 3, "vocab": vocabulary, "byte_fallback": False}, "added_tokens": []}
    tokenizer = Tokenizer.from_str(json.dumps(document))
    tokenizer.add_special_tokens([AddedToken(n, normalized=False, lstrip=n == "<mask>") for n in ("<s>", "<pad>", "</s>", "<unk>", "<mask>")])
    ends = [(n, tokenizer.token_to_id(n)) for n in ("<s>", "</s>")]
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A </s>", "<s> $A </s> </s> $B </s>", ends)
    settings = {"bos_token": "<s>", "cls_token": "<s>", "eos_token": "</s>", "sep_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>", "mask_token": "<mask>"}
    return written(folder, tokenizer, "PreTrainedTokenizerFast", settings)


def camembert(folder):
    return unigram(folder, True)


def marian(folder):
    for name in ("source.spm", "target.spm", "vocab.json", "tokenizer_config.json"):
        shutil.copy(GOLDEN / "marian_text" / name, folder / name)
    return len(json.loads((folder / "vocab.json").read_text()))
