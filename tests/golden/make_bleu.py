#!/usr/bin/env python3
"""Makes bleu.json: small corpora with what sacreBLEU gives them by default (13a, exponential smoothing), and how 13a splits some
lines. Needs sacrebleu.
usage: make_bleu.py OUTDIR"""
import json
import random
import sys
from pathlib import Path

import sacrebleu
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

lines = ["Ein Mann fährt, am 3.5. um 10:30 Uhr, mit 1,000.50 € los.", "\"Was?\" - sagte sie... (leise) [nichts] {x}; a/b & c <d> #e",
         "Zwei junge Männer,die im Freien arbeiten .", "100-mal, 5-6 und A-B; 3.,4 .5 ,6 7. 8,", "&quot;Ja&quot; &amp;lt; &lt;b&gt; ~`^_|@$%*+=",
         "Straße\u00a0mit  Umlauten: äöü,ß.Ende", "", "日本語、です。. x", "a..b,,c 1..2 ,,", "It's the man's dogs' 'toy'."]
words = "ein Mann eine Frau fährt auf dem Rad , der Hund rennt über die Wiese . und zwei Kinder spielen im Wasser !".split()
random.seed(1)


def corpus(count, noise):
    told, there = [], []
    for _ in range(count):
        line = [random.choice(words) for _ in range(random.randint(1, 14))]
        there.append(" ".join(line))
        told.append(" ".join(w if random.random() > noise else random.choice(words) for w in line if random.random() > noise / 4))
    return told, there


corpora = [corpus(20, 0.1), corpus(20, 0.5), corpus(3, 0.7), corpus(1, 0.9), (lines, lines), (["ein"], ["ein Hund rennt"]), (["x y"], ["ein Hund"]),
           (["ein Mann fährt Rad im Wasser"], ["Rad Mann im ein fährt Wasser"]), (["", "ein Hund rennt im Wasser ."], ["eine Frau", "ein Hund rennt im Wasser !"])]
Path(sys.argv[1], "bleu.json").write_text(json.dumps({
    "lines": [{"line": line, "tokens": Tokenizer13a()(line).split()} for line in lines],
    "corpora": [{"told": t, "is": i, "bleu": sacrebleu.corpus_bleu(t, [i]).score} for t, i in corpora]}, ensure_ascii=False, indent=1) + "\n")
print([sacrebleu.corpus_bleu(t, [i]).score for t, i in corpora])
