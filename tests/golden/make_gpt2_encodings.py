#!/usr/bin/env python3
"""Writes gpt2_encodings.json: words and ids of texts, as OpenAI's GPT-2 encoder gives them.

Needs the `regex` module (Debian: apt-get install python3-regex) and GPT-2's encoder.json and vocab.bpe:
  /usr/bin/python3 tests/golden/make_gpt2_encodings.py FOLDER
Made with regex 2022.10.31, Unicode 15.0, and Python 3.11, Unicode 14.0. Only characters that both have
assigned, or that are never assigned, are drawn: any later Unicode has them in the same class.
"""
import json
import os
import random
import sys
import unicodedata

import regex

WHITE_SPACE = [*range(9, 14), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F,
               0x3000]
# \s, spelled so that it is Unicode's White_Space whatever the module takes \s for.
S = "".join("\\u%04X" % c for c in WHITE_SPACE)
LETTER, NUMBER = regex.compile(r"\p{L}"), regex.compile(r"\p{N}")
WORDS = regex.compile(rf"'s|'t|'re|'ve|'m|'ll|'d| ?\p{{L}}+| ?\p{{N}}+| ?[^{S}\p{{L}}\p{{N}}]+|[{S}]+(?![^{S}])|[{S}]+")


def bytes_to_unicode():
    plain = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [b for b in range(256) if b not in plain]
    return {**{b: chr(b) for b in plain}, **{b: chr(256 + n) for n, b in enumerate(rest)}}


class Encoder:
    def __init__(self, folder):
        with open(os.path.join(folder, "encoder.json"), encoding="utf-8") as f:
            self.ids = json.load(f)
        with open(os.path.join(folder, "vocab.bpe"), encoding="utf-8") as f:
            merges = f.read().split("\n")[1:-1]
        self.ranks = {tuple(m.split()): i for i, m in enumerate(merges)}
        self.spell = bytes_to_unicode()

    def merge(self, word):
        """The tokens of a word: again and again, every occurrence of the pair of lowest rank becomes one."""
        while len(word) > 1:
            pair = min(zip(word, word[1:]), key=lambda p: self.ranks.get(p, len(self.ranks)))
            if pair not in self.ranks:
                break
            merged, i = [], 0
            while i < len(word):
                if tuple(word[i:i + 2]) == pair:
                    merged.append(word[i] + word[i + 1])
                    i += 2
                else:
                    merged.append(word[i])
                    i += 1
            word = merged
        return word

    def encode(self, text):
        """Bytes of each word, and the ids of all."""
        words = [w.encode() for w in WORDS.findall(text)]
        assert b"".join(words) == text.encode()
        return [len(w) for w in words], [self.ids[t] for w in words for t in self.merge([self.spell[b] for b in w])]


def kind(c):
    """Class of a code point; None where versions of Unicode may differ, or UTF-8 has none."""
    s = chr(c)
    if 0xD800 <= c < 0xE000:
        return None
    if c in WHITE_SPACE:
        return "space"
    never = 0xFDD0 <= c < 0xFDF0 or c & 0xFFFE == 0xFFFE
    category = unicodedata.category(s)
    says = "L" if LETTER.match(s) else "N" if NUMBER.match(s) else "O"
    if (category == "Cn" and not never) or says != (category[0] if category[0] in "LN" else "O"):
        return None
    return says


def texts():
    yield "Hello, world! The quick brown fox jumps over the lazy dog."
    yield "hello hello  hello   hello\nhello\n\nhello \n hello\t\thello \t\n"
    yield "I'm sure they'll say it's what we've done; you'd think they're right, wouldn't you?"
    yield "I'M SURE THEY'LL SAY IT'S 'tis 's 't 're 've 'm 'll 'd 'r 'v 'l ''s '''ll !'s 9's a's\u2019s x'sx 'llama"
    yield "'s't're've'm'll'd'S'T 's't"
    yield "3.14159 2,718 1234567890 0x1F 12ab34 a1b2 1st 2nd \u00bd \u00b2 \u2167 \u2460 \u3007"
    yield "\u0661\u0662\u0663 \u0967\u0968\u0969 \u09e7\u09e8 \u0e51\u0e52 \uff11\uff12 \U0001d7ce\U0001d7cf \u17e1 \U00010107 \u4e00"
    yield "<|endoftext|>text<|endoftext|> <|endoftext|>\n"
    yield "def f(x):\n    return {'a': x[0], \"b\": x**2}  # comment\n\n\n    pass\n"
    yield "http://www.example.com/a?b=c&d=%20#e user@example.com C:\\x\\y \u00a9\u00ae\u2122 \u20ac100 50% a_b-c"
    yield "na\u00efve caf\u00e9 cafe\u0301 \u00c5ngstr\u00f6m A\u030angstro\u0308m a\u0300\u0301\u0302b \u0301 \u0301x \u0301 1\u0301"
    yield "\u0939\u093f\u0928\u094d\u0926\u0940 \u0b95\u0bcd\u0bb7\u0bbf \u0e17\u0e35\u0e48\u0e19\u0e35\u0e48 \u1100\u1161\u11a8 \ud55c\uad6d\uc5b4"
    yield "\u65e5\u672c\u8a9e\u306e\u6587\u7ae0\u3002\u3000\u6f22\u5b57\u3068\u30ab\u30ca\uff01 \u4e2d\u6587\uff0c\u6587\u672c123 \U00020000\U0002a6d6"
    yield "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd! \u0645\u0631\u062d\u0628\u0627 \u202b\u0627\u0644\u0639\u202c \u200f\u200e \u064e\u064f"
    yield "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \U0001f44d\U0001f3fd\U0001f1e9\U0001f1ea \u2764\ufe0f 1\ufe0f\u20e3 x\U0001f600y"
    yield "\ue000\uf8ff \U000f0000\U0010fffd a\ue000b \ufdd0\ufffe\uffff\U0001fffe\U0010ffff a\uffffb 1\ufdd0"
    yield "\ufeffbyte order \u00ad soft \u200b zero \u2060 joiner \u180e old \u001c\u001d\u001e\u001f \u0000\u0001\u007f\u0080\u009f"
    yield "\u02b0\u02c6\u01c5\u0345\u2160\u2170\u24b6\u24d0\u3031\ua66e\u16ee\u3021\u0bf0\u0f33 \u203f\u2040_"
    yield "a" * 300 + " " * 40 + "b" * 37 + "\n" * 25 + "!" * 33 + "0" * 50 + " " * 10
    yield " "
    yield "\n"
    yield "'"
    yield "a"
    yield "\U0010ffff"
    # Each white space alone, between letters, doubled, after and before a space, and at the end.
    for c in WHITE_SPACE:
        w = chr(c)
        yield f"a{w}b{w}{w}c {w}d{w} e{w}1{w}!{w}{w}"


def boundaries(kinds, draw):
    """Every pair of classes, and each with spaces and quotes between, in one text a class."""
    names = ["L", "N", "O", "space"]
    for a in names:
        yield "".join(draw.choice(kinds[a]) + middle + draw.choice(kinds[b])
                      for b in names for middle in ["", " ", "  ", "'s", " 's", "'", "\n", " \n"])


def random_text(kinds, plain, draw):
    out = []
    while len(out) < 40:
        run = draw.choice([1, 1, 2, 3])
        source = draw.choice([plain, plain, kinds["L"], kinds["N"], kinds["O"], kinds["space"]])
        out += [draw.choice(source) for _ in range(run)]
    return "".join(out)


def main():
    encoder = Encoder(sys.argv[1])
    kinds = {"L": [], "N": [], "O": [], "space": []}
    for c in range(0x110000):
        if says := kind(c):
            kinds[says].append(chr(c))
    plain = [chr(c) for c in range(32, 127)] + list(" \n'") * 8
    draw = random.Random(20)
    cases = [*texts(), *boundaries(kinds, draw)]
    cases += [random_text(kinds, plain, draw) for _ in range(60)]
    # Bytes that are mostly no UTF-8, and what they become.
    damaged = []
    for _ in range(60):
        good = "".join(draw.choice(kinds[draw.choice("LNO")]) for _ in range(6)).encode()
        cut = bytearray(good)
        for _ in range(draw.randrange(1, 4)):
            cut[draw.randrange(len(cut))] = draw.choice([0xC0, 0xC1, 0xED, 0xE0, 0xF0, 0xF4, 0xFF, draw.randrange(256)])
        cut = bytes(cut[:draw.randrange(1, len(cut) + 1)])
        damaged.append({"bytes": cut.hex(), "text": cut.decode("utf-8", "replace")})
    rows = [json.dumps(dict(zip(("text", "words", "ids"), (t, *encoder.encode(t)))), separators=(",", ":")) for t in cases]
    damaged = [json.dumps(d, separators=(",", ":")) for d in damaged]
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gpt2_encodings.json")
    with open(path, "w", encoding="ascii") as f:
        f.write('{"cases":[\n' + ",\n".join(rows) + '\n],\n"damaged":[\n' + ",\n".join(damaged) + "\n]}\n")


if __name__ == "__main__":
    main()
