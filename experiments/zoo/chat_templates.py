"""Checks chat templates against transformers, by `lpmm data show`: a row for each template.

usage: python3 chat_templates.py LPMM --templates DIR [--count 200] [--seed 1] [--masks 1000]

DIR holds *.jinja, as published models carry them. Of each, drawn conversations (tools, calls, thoughts, odd texts) are rendered
by transformers and by lpmm: the texts are equal, or both refuse. For templates in which answers can be marked, token ids and
masks are compared with apply_chat_template(return_assistant_tokens_mask=True), with marks and, without them, by prefixes;
and with the labels of TRL's collator, where TRL is installed. Needs transformers 5.24 and jinja2 3.1.6.
"""
import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from transformers import PreTrainedTokenizerFast
from transformers.utils import chat_template_utils

import made_tokenizers

ODD = ["it's \"quoted\" {x} {{ y }} {% z %}", "日本語 😀 é", "a\tb\r\nc", "\u2028x\u00a0", "<|im_end|>", "</think>", "x" * 50, "\\n \\ \x7f\x01", "ß İ", "1.0", "  hi\n\n",
       "<tool_response>a</tool_response>", "<think>\nhm\n</think>\n\nyes", "a<channel|>b<|channel>c", "\n", "#x", "don't", "👨\u200d👩\u200d👧"]
WORDS = "hello what is this the weather in Paris ? , memory step 42".split()
# In these templates an answer, and what ends it, can be put into a generation block: what is replaced, and by what.
MARKED = {
    "phi_4": None,  # has one
    "chatml": ("{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}",
               "{{'<|im_start|>' + message['role'] + '\n'}}{% if message['role'] == 'assistant' %}{% generation %}{{ message['content'] + '<|im_end|>' + '\n' }}{% endgeneration %}"
               "{% else %}{{ message['content'] + '<|im_end|>' + '\n' }}{% endif %}"),
    "alpaca": ("{{ '### Response:\n' + message['content'] + eos_token }}", "{{ '### Response:\n' }}{% generation %}{{ message['content'] + eos_token }}{% endgeneration %}"),
    "deepseek_v2": ("{{ '<｜Assistant｜>' + message['content'] + eos_token }}", "{{ '<｜Assistant｜>' }}{% generation %}{{ message['content'] + eos_token }}{% endgeneration %}"),
    "cohere": ("<|CHATBOT_TOKEN|>'  + content.strip() + '<|END_OF_TURN_TOKEN|>' }}", "<|CHATBOT_TOKEN|>' }}{% generation %}{{ content.strip() + '<|END_OF_TURN_TOKEN|>' }}{% endgeneration %}"),
    "phi_3": ("{{message['content'] + '<|end|>' + '\n'}}{% endif %}{% endfor %}", "{% generation %}{{message['content'] + '<|end|>' + '\n'}}{% endgeneration %}{% endif %}{% endfor %}"),
    "nemotron_h": ("{{- '<|im_start|>assistant\\n' + message.content + '<|im_end|>\\n' }}", "{{- '<|im_start|>assistant\\n' }}{% generation %}{{ message.content + '<|im_end|>\\n' }}{% endgeneration %}"),
    "mistral_v1": ("{{- ' ' + content + eos_token }}", "{% generation %}{{- ' ' + content + eos_token }}{% endgeneration %}"),
}
TOKENIZERS = ("llama2", "llama3", "qwen2", "gpt2")


def text(r):
    return " ".join(r.choice([r.choice(WORDS), r.choice(WORDS), r.choice(ODD)]) for _ in range(r.randint(1, 8)))


def value(r, depth=0):
    kinds = [lambda: None, lambda: r.random() < 0.5, lambda: r.randint(-5, 10 ** r.randint(1, 12)), lambda: r.choice([0.5, 1.0, 1e-7, 1e16, -2.25]), lambda: text(r),
             lambda: [value(r, depth + 1) for _ in range(r.randint(0, 3))], lambda: {k: value(r, depth + 1) for k in r.sample(["a", "B", "ü", "items", 'q"'], r.randint(0, 3))}]
    return r.choice(kinds if depth < 3 else kinds[:5])()


def tool(r):
    properties = {name: {"type": r.choice(["string", "integer", "array", "object"]), "description": text(r), **({"enum": ["a", "b"]} if r.random() < 0.3 else {})}
                  for name in r.sample(["city", "Unit", "days"], r.randint(0, 3))}
    return {"type": "function", "function": {"name": r.choice(["get_weather", "find"]), "description": text(r),
                                             "parameters": {"type": "object", "properties": properties, "required": list(properties)[:1]}}}


def conversation(r, plain=False):
    messages = [{"role": "system", "content": text(r)}] if r.random() < 0.4 else []
    for _ in range(r.randint(1, 3)):
        messages.append({"role": "user", "content": text(r)})
        if not plain and r.random() < 0.25:
            name = "".join(r.choice("abc123XYZ") for _ in range(9))
            calls = [{"id": name, "type": "function", "function": {"name": "find", "arguments": {"q": value(r)}}} for _ in range(r.randint(1, 2))]
            messages.append({"role": "assistant", "content": r.choice(["", text(r)]), "tool_calls": calls})
            messages.append({"role": "tool", "name": "find", "tool_call_id": name, "content": text(r)})
        messages.append({"role": "assistant", "content": text(r)})
        if not plain and r.random() < 0.2:
            messages[-1]["reasoning_content"] = text(r)
    row = {"messages": messages}
    if not plain and r.random() < 0.3:
        row["tools"] = [tool(r) for _ in range(r.randint(1, 2))]
    return row


def shown(lpmm, folder, rows, template, tokenizer, loss="answers"):
    """What lpmm makes of each row; None where it refuses one."""
    path = Path(folder, "rows.jsonl")
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    made = subprocess.run([lpmm, "data", "show", path, "--template", template, "--tokenizer", tokenizer, "--loss", loss, "--skip-broken", "--count", str(len(rows)), "--json"], capture_output=True, text=True)
    if made.returncode != 0:
        if "no row can be read" in made.stderr:
            return [None] * len(rows)
        sys.exit(made.stderr)
    out = [None] * len(rows)
    for one in json.loads(made.stdout)["conversations"]:
        out[int(one["place"].split("line ")[-1]) - 1] = one
    return out


class Fixed(chat_template_utils.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2024, 7, 26)


def theirs(tokenizer, row, template, **how):
    try:
        return tokenizer.apply_chat_template(row["messages"], tools=row.get("tools"), chat_template=template, **how)
    except Exception:
        return None


def compare_texts(lpmm, folder, path, tokenizer, files, count, seed):
    r = random.Random(seed)
    rows = [conversation(r) for _ in range(count)]
    template = path.read_text()
    counts = {"equal": 0, "both refuse": 0, "different": 0, "only lpmm refuses": 0, "only transformers refuses": 0}
    for row, one in zip(rows, shown(lpmm, folder, rows, path, files, "all")):
        text_ = theirs(tokenizer, row, template, tokenize=False)
        kind = ("both refuse" if one is None else "only transformers refuses") if text_ is None else "only lpmm refuses" if one is None else "equal" if one["text"] == text_ else "different"
        counts[kind] += 1
    print(f"{path.stem:20}" + ", ".join(f"{k} {v}" for k, v in counts.items() if v or k in ("equal", "different")), flush=True)
    return counts["different"] + counts["only lpmm refuses"] + counts["only transformers refuses"]


def collated(tokenizer, ids, mask):
    try:
        from trl.trainer.sft_trainer import DataCollatorForLanguageModeling
    except ImportError:
        return None
    labels = [token if one else -100 for token, one in zip(ids, mask)]  # as SFTTrainer prepares a row
    labels = DataCollatorForLanguageModeling(pad_token_id=0)([{"input_ids": ids, "labels": labels}])["labels"][0].tolist()
    return [int(label != -100) for label in labels]


def compare_masks(lpmm, folder, path, name, count, seed):
    files = Path(folder, name)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(files)
    r = random.Random(seed)
    rows = [conversation(r, plain=True) for _ in range(count)]
    template = path.read_text()
    marks = template
    if MARKED[path.stem]:
        old, new = MARKED[path.stem]
        assert template.count(old) == 1, path
        marks = template.replace(old, new)
    marked = Path(folder, f"{path.stem}_marked.jinja")
    marked.write_text(marks)
    plain = Path(folder, f"{path.stem}_plain.jinja")
    plain.write_text(template.replace("{% generation %}", "").replace("{% endgeneration %}", ""))
    by_marks, by_prefixes = (shown(lpmm, folder, rows, one, files) for one in (marked, plain))
    equal = different = refused = by_trl = 0
    for row, one, other in zip(rows, by_marks, by_prefixes):
        want = theirs(tokenizer, row, marks, return_assistant_tokens_mask=True, return_dict=True)
        if want is None or one is None:
            refused += want is None and one is None and other is None
            different += not (want is None and one is None and other is None)
            continue
        ids, mask = list(want["input_ids"]), [0, *want["assistant_masks"][1:]]
        labels = collated(tokenizer, ids, want["assistant_masks"])
        by_trl += labels is not None
        same = one["ids"] == ids and one["learnt"] == mask and other is not None and other["ids"] == ids and other["learnt"] == mask
        if same and (labels is None or [0, *labels[1:]] == mask):
            equal += 1
        else:
            different += 1
    trl = f", {by_trl} with TRL's labels" if by_trl else ""
    print(f"{path.stem:16} {name:8} equal {equal}, both refuse {refused}, different {different}{trl}", flush=True)
    return different


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lpmm")
    parser.add_argument("--templates", type=Path, required=True)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--masks", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    chat_template_utils.datetime = Fixed
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in TOKENIZERS:
            Path(folder, name).mkdir()
            getattr(made_tokenizers, name)(Path(folder, name))
        files = Path(folder, "llama2")
        tokenizer = PreTrainedTokenizerFast.from_pretrained(files)  # as its file says, where LlamaTokenizer would change it
        paths = sorted(given.templates.glob("*.jinja"))
        print(f"texts of {given.count} conversations, seed {given.seed}")
        for path in paths:
            bad += compare_texts(given.lpmm, folder, path, tokenizer, files, given.count, given.seed)
        print(f"ids and masks of {given.masks} conversations, by marks and by prefixes")
        for at, path in enumerate(path for path in paths if path.stem in MARKED):
            bad += compare_masks(given.lpmm, folder, path, TOKENIZERS[at % len(TOKENIZERS)], given.masks, given.seed)
    print(f"{bad} differences")
    return bad > 0


sys.exit(main())
