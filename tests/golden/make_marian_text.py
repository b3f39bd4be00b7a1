#!/usr/bin/env python3
"""Makes marian_text/: a small translator of Marian's kind with random parameters and its tokenizer, two SentencePiece models
and a vocab.json, as transformers saves them, and in expected.json what they make of a few hundred texts: ids on either side
(without the end), decoded texts, and translations by generate(). The source's model is a unigram model with a few rules of
normalisation, the target's is of BPE; some pieces of theirs are left out of vocab.json.
Needs PyTorch, transformers, sentencepiece.
usage: make_marian_text.py OUTDIR"""
import contextlib
import io
import json
import random
import shutil
import sys
import tempfile
import warnings
from pathlib import Path

import sentencepiece
import torch
from transformers import MarianConfig, MarianMTModel, MarianTokenizer

warnings.simplefilter("ignore")  # there is no sacremoses, which encoding does not use
ENGLISH = """a man is riding a brown horse along the beach
two young girls are playing in the snow with a small dog
the old woman sells fresh bread and apples at the market
three children wait for the bus in front of their school
a boy in a red shirt throws the ball over the fence
she reads a long letter while the rain falls outside
people walk slowly through the narrow street of the town
my brother repaired the broken window before dinner, didn't he?
there were 12 boats and 345 birds on the lake in 1987!
"where is the station?" asked the traveller; nobody knew""".splitlines()
GERMAN = """ein Mann reitet auf einem braunen Pferd den Strand entlang
zwei junge Mädchen spielen im Schnee mit einem kleinen Hund
die alte Frau verkauft frisches Brot und Äpfel auf dem Markt
drei Kinder warten vor ihrer Schule auf den Bus
ein Junge im roten Hemd wirft den Ball über den Zaun
sie liest einen langen Brief, während es draußen regnet
Menschen gehen langsam durch die enge Straße der Stadt
mein Bruder hat das kaputte Fenster vor dem Essen repariert
1987 waren 12 Boote und 345 Vögel auf dem großen See!
„wo ist der Bahnhof?“ fragte der Reisende; niemand wußte es""".splitlines()
RULES = {"\u00a0": " ", "\u3000": " ", "\u200b": "", "\ufb01": "fi", "\u2460": "1", "\u212b": "\u00c5", "\u2019": "'", "e\u0301": "\u00e9"}
ODD = ["é", "e\u0301", "ﬁsh", "①", "\u00a0", "\u3000", "\u200b", "\u2019", "\u2581", "▁the", "\t", "\n", "  ", " ", "\u2028", "日本語", "한국", "привет", "שלום",
       "😀", "👍🏽", "\u200d", "\ufffd", "\u0001", "\x1c", "ß", "Ü", "ñ", "½", "<s>", "</s>", "<unk>", "<pad>", "</s", ">>deu<<",
       ">>xyz<<", ">>", "<<", ">>fra<< ", "<0x41>", "\\n", "...", "don't", "n't", "'s", " ,", "A"]
LENGTH = 40


def pieces(lines, kind, size, **options):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines * 3), model_writer=model, vocab_size=size,
                                             model_type=kind, num_threads=1, minloglevel=2, **options)
    return model.getvalue()


def texts(draw):
    words = " ".join(ENGLISH + GERMAN).split()
    yield from [*ENGLISH[:5], *GERMAN[:5], *ODD, "", " ", ">>deu<< a man", ">>deu<<a man", " >>deu<< a man", ">><<", ">>a >>b<< c",
                "</s>>>deu<< a man</s> ", "a</s></s>b", "a man >>deu<<", ">>deu<<", "x" * 70, "日" * 40, "a\u0301" * 20]
    for _ in range(150):
        parts = []
        for _ in range(draw.randint(1, 7)):
            pick = draw.random()
            if pick < 0.5:
                parts.append(draw.choice(words))
            elif pick < 0.75:
                parts.append(draw.choice(ODD))
            elif pick < 0.9:
                first = draw.choice([0x20, 0xA0, 0x250, 0x370, 0x5D0, 0x900, 0x1E00, 0x2000, 0x2460, 0x3040, 0xAC00, 0xFB00, 0xFF00, 0x1F600])
                parts.append("".join(chr(first + draw.randrange(96)) for _ in range(draw.randint(1, 4))))
            else:
                parts.append("".join(draw.choice("etaoinshr") for _ in range(draw.randint(2, 9))))
        yield draw.choice(["", " "]).join(parts) if draw.random() < 0.3 else " ".join(parts)


def tokenizer_in(folder):
    names = {"source.spm": pieces(ENGLISH, "unigram", 110, normalization_rule_tsv=str(rules())),
             "target.spm": pieces(GERMAN, "bpe", 160, normalization_rule_name="identity")}
    vocabulary = {"</s>": 0, "<unk>": 1}
    for name, model in names.items():
        (folder / name).write_bytes(model)
        read = sentencepiece.SentencePieceProcessor(model_proto=model)
        for i in range(3, read.get_piece_size()):
            if i % 41:
                vocabulary.setdefault(read.id_to_piece(i), len(vocabulary))
    for token in (">>deu<<", ">>fra<<", "<pad>"):
        vocabulary[token] = len(vocabulary)
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    return MarianTokenizer(*(str(folder / name) for name in ("source.spm", "target.spm", "vocab.json")), source_lang="en",
                           target_lang="de")


def rules():
    spelled = lambda text: " ".join(f"{ord(c):X}" for c in text)
    path = Path("rules.tsv")  # a name that the model keeps
    path.write_text("".join(f"{spelled(a)}\t{spelled(b)}\n" for a, b in RULES.items()))
    return path


def model_of(vocabulary, end, start):
    torch.manual_seed(4)
    model = MarianMTModel(MarianConfig(
        vocab_size=vocabulary, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=20, decoder_ffn_dim=20, max_position_embeddings=LENGTH,
        activation_function="swish", scale_embedding=True, dropout=0.0, attention_dropout=0.0, pad_token_id=start,
        decoder_start_token_id=start, eos_token_id=end, forced_eos_token_id=end, bad_words_ids=[[start]])).eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "embed_positions" not in name:
                size = 0.3 if "shared" in name or "bias" in name else 0.8
                p.copy_(size * torch.randn(p.shape) + (1 if "layer_norm.weight" in name else 0))
        model.final_logits_bias[0, end] += 2.5
    return model


def variants(config, size):
    """Files beside in place of tokenizer_config.json, and what the texts are about."""
    bare = {"source_lang": "en", "target_lang": "de"}
    flags = {"lstrip": False, "rstrip": False, "single_word": False, "normalized": False}
    yield {}, ["a man</s> is"]
    yield {"tokenizer_config.json": {**config, "clean_up_tokenization_spaces": True}}, ["wo ist , der 's ' Hund ! wo ?"]
    yield {"tokenizer_config.json": bare, "special_tokens_map.json": {
        "eos_token": {"content": "</s>", **flags, "lstrip": True, "rstrip": True}, "unk_token": "<unk>",
        "additional_special_tokens": [">>fra<<"]}}, ["a </s> </s> b", "a\t</s>\t der", "a >>fra<< b >>deu<< c"]
    yield {"tokenizer_config.json": {**bare, "additional_special_tokens": ["▁der", {"content": ">>deu<<", **flags, "__type": "AddedToken"}],
                                     "bos_token": "e"}}, ["the e >>deu<< ▁der Bus", ">>deu<<der"]
    added = {**config["added_tokens_decoder"], "0": {"content": "</s>", **flags, "lstrip": True, "special": True}, str(size): {"content": "new", **flags, "special": True},
             str(size + 1): {"content": "newer", **flags, "rstrip": True, "special": False}}
    yield {"tokenizer_config.json": {**config, "added_tokens_decoder": added, "extra_special_tokens": ["new"]},
           "added_tokens.json": {"nothing": 1}}, ["a new newer  e", "newernew ist", "der\t</s>\tist newer\t new\tist"]


def read_by(tokenizer, texts):
    """Ids of the source and the target, and the texts of the latter."""
    target = [tokenizer(text_target=text)["input_ids"][:-1] for text in texts]
    return {"texts": texts, "source": [tokenizer(text)["input_ids"][:-1] for text in texts], "target": target,
            "decoded": [tokenizer.decode(ids, skip_special_tokens=True) for ids in target]}


def read_variants(folder, size):
    config = json.loads((folder / "tokenizer_config.json").read_text())
    for files, texts in variants(config, size):
        with tempfile.TemporaryDirectory() as scratch:
            for name in ("source.spm", "target.spm", "vocab.json"):
                shutil.copy(folder / name, scratch)
            for name, content in files.items():
                (Path(scratch) / name).write_text(json.dumps(content))
            yield {"files": files, **read_by(MarianTokenizer.from_pretrained(scratch), texts)}


def main(folder):
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, contextlib.chdir(scratch):
        tokenizer = tokenizer_in(Path(scratch))
        tokenizer.save_pretrained(folder)
    tokenizer = MarianTokenizer.from_pretrained(folder)
    model = model_of(len(tokenizer), tokenizer.eos_token_id, tokenizer.pad_token_id)
    model.save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)
    (folder / "generation_config.json").unlink(missing_ok=True)
    draw = random.Random(5)
    every = list(dict.fromkeys(texts(draw)))
    read = lambda ids: tokenizer.decode(ids, skip_special_tokens=True)
    drawn = [[draw.randrange(len(tokenizer)) for _ in range(draw.randint(0, 12))] for _ in range(60)]
    translations = []
    for text in [*ENGLISH, ">>deu<< a man", "</s> the 日本 dog\u00a0and ﬁsh", "ß <unk> apples"]:
        given = tokenizer(text, return_tensors="pt")
        assert given["input_ids"].shape[1] <= LENGTH, text
        found = model.generate(**given, num_beams=5, length_penalty=1.0, max_length=20, early_stopping=False, do_sample=False)
        translations.append([text, read(found[0].tolist())])
    out = {**read_by(tokenizer, every), "drawn": [[ids, read(ids)] for ids in drawn], "translations": translations,
           "variants": list(read_variants(folder, len(tokenizer)))}
    (folder / "expected.json").write_text(json.dumps(out, separators=(",", ":")) + "\n")
    print(len(every), "texts,", len(tokenizer), "tokens;", *translations, sep="\n")


main(Path(sys.argv[1]).resolve() / "marian_text")
