#!/usr/bin/env python3
"""Whether programs that speak OpenAI's API get from `lpmm serve` what `lpmm` computes itself.

    pip install openai "lm-eval[api]" transformers numpy
    python3 experiments/zoo/served.py build/lpmm RUN

RUN is a run of conversations, or an import of a model that has a chat template. Prints a line for each: texts and scores of the
openai package against `lpmm sample`, `lpmm logits` and `lpmm chat`; streams and two clients at once against one; what an error
looks like to it; mutated and slow requests; and lm-eval's local-completions on a task of a local file against the scores of `lpmm logits`. Parts whose
package is absent are skipped by name."""
import json
import math
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections import Counter
from pathlib import Path

import numpy as np

PROGRAM, RUN = sys.argv[1], sys.argv[2]
PROMPT, TOKENS = "The capital of France is", 24
QUESTION = "Name three colours of the rainbow."
FACTS = [("The capital of France is", [" Paris", " Rome", " Berlin"]), ("The opposite of hot is", [" cold", " green", " tall"]),
         ("Two plus two is", [" four", " nine", " one"]), ("The sun rises in the", [" east", " west", " soup"]),
         ("Water freezes into", [" ice", " sand", " gold"]), ("A baby cat is called a", [" kitten", " puppy", " calf"]),
         ("The Earth moves around the", [" sun", " moon", " sea"]), ("Bees make", [" honey", " bread", " steel"])]
failed = []


def line(name, held, figures):
    print(f"{'ok    ' if held else 'FAILED'} {name}: {figures}", flush=True)
    if not held:
        failed.append(name)


def lpmm(*words, stdin=None):
    done = subprocess.run([PROGRAM, *map(str, words)], input=stdin, capture_output=True, text=True, check=True)
    return json.loads(done.stdout) if "--json" in words else done.stdout


def log_probabilities(ids):
    """Of each token but the first, and those of the likeliest ones, from the program's own logits."""
    logits = np.array(lpmm("logits", RUN, "--ids", ",".join(map(str, ids)), "--json")["logits"], dtype=np.float64)
    logits -= logits.max(1, keepdims=True)
    rows = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    return [float(rows[i, ids[i + 1]]) for i in range(len(ids) - 1)], rows


class Server:
    def __enter__(self):
        self.process = subprocess.Popen([PROGRAM, "serve", RUN, "--port", "0", "--name", "judged"], stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().split()[0]
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        line("Ctrl-C ends the server", self.process.wait() == 0, f"exit code {self.process.returncode}")


def judge_openai(url):
    try:
        import openai
    except ImportError as absent:
        print(f"skipped: the openai package: {absent}")
        return
    client = openai.OpenAI(base_url=url, api_key="none", max_retries=0)
    line("openai: models", [m.id for m in client.models.list()] == ["judged"], openai.__version__)
    own = lpmm("sample", RUN, "--prompt", PROMPT, "--tokens", TOKENS, "--temperature", 0, "--json")
    ask = dict(model="judged", prompt=PROMPT, max_tokens=TOKENS, temperature=0)
    text = client.completions.create(**ask).choices[0].text
    line("openai: a completion is `lpmm sample`'s", text == own["text"], repr(own["text"]))
    scores = client.completions.create(model="judged", prompt=own["ids"], max_tokens=0, logprobs=5, echo=True).choices[0].logprobs
    expected, rows = log_probabilities(own["ids"])
    apart = max(abs(a - b) for a, b in zip(scores.token_logprobs[1:], expected))
    best = max(abs(max(top.values()) - rows[i].max()) for i, top in enumerate(scores.top_logprobs[1:]))
    line("openai: echo and logprobs are `lpmm logits`'", len(scores.tokens) == len(own["ids"]) and apart < 1e-5 and best < 1e-5,
         f"{len(expected)} tokens, {apart:.2e} and {best:.2e} apart at most")
    streamed = "".join(part.choices[0].text for part in client.completions.create(**ask, stream=True))
    line("openai: a streamed completion", streamed == text, f"{len(streamed)} characters")
    drawn = [client.completions.create(**{**ask, "temperature": 1}, top_p=0.9, seed=s, stop=["\n"]).choices[0].text for s in (1, 1, 2)]
    line("openai: seeds", drawn[0] == drawn[1] and "\n" not in "".join(drawn), f"{drawn[0]!r}, another seed {drawn[2]!r}")
    judge_chats(client, openai)


def judge_chats(client, openai):
    ask = dict(model="judged", messages=[{"role": "user", "content": QUESTION}], max_tokens=40, temperature=0)
    own = lpmm("chat", RUN, "--temperature", 0, "--tokens", 40, "--json", stdin=QUESTION + "\n")["messages"][-1]["content"]
    got = client.chat.completions.create(**ask, logprobs=True, top_logprobs=3).choices[0]
    line("openai: a chat is `lpmm chat`'s", got.message.content == own, repr(own))
    text = b"".join(bytes(token.bytes) for token in got.logprobs.content).decode(errors="replace")
    line("openai: its tokens are its text", text == own, f"{len(got.logprobs.content)} tokens, "
         f"probability of all {math.exp(sum(token.logprob for token in got.logprobs.content)):.2e}")
    answers = [None] * 4

    def stream(i):
        parts = client.chat.completions.create(**ask, stream=True, stream_options={"include_usage": True})
        answers[i] = "".join(part.choices[0].delta.content or "" for part in parts if part.choices)

    threads = [threading.Thread(target=stream, args=(i,)) for i in range(len(answers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    line("openai: four streams at once", answers == [own] * 4, "each as one alone")
    told = []
    for wrong in ({"temperature": -1}, {"n": 2}, {"model": "other"}, {"extra_body": {"grammar": "x"}}):
        try:
            client.chat.completions.create(**{**ask, **wrong})
        except openai.APIStatusError as error:
            told.append(f"{error.status_code} {error.body['message']}")
    line("openai: errors", len(told) == 4, "; ".join(told))


def judge_lm_eval(url):
    try:
        import lm_eval
        from lm_eval.tasks import TaskManager
        import transformers
    except ImportError as absent:
        print(f"skipped: lm-eval: {absent}")
        return
    os.environ["HF_HUB_OFFLINE"] = os.environ["HF_DATASETS_OFFLINE"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        subprocess.run([PROGRAM, "export", RUN, "--hf", "--out", folder / "hf"], check=True, capture_output=True)
        rows = [{"question": q, "choices": c, "answer": 0} for q, c in FACTS]
        (folder / "facts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (folder / "facts.yaml").write_text(f"""task: facts
dataset_path: json
dataset_kwargs:
  data_files: {{test: {folder}/facts.jsonl}}
test_split: test
output_type: multiple_choice
doc_to_text: question
doc_to_choice: choices
doc_to_target: answer
target_delimiter: ""
metric_list:
  - metric: acc
""")
        model = dict(model="judged", base_url=url + "/completions", tokenizer=str(folder / "hf"), tokenizer_backend="huggingface",
                     tokenized_requests=True, num_concurrent=2, max_length=512)
        got = lm_eval.simple_evaluate(model="local-completions", model_args=model, tasks=["facts"], log_samples=True, bootstrap_iters=0,
                                      task_manager=TaskManager(include_path=str(folder)))
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "hf")
        apart, right = 0.0, 0
        for sample in got["samples"]["facts"]:
            question, choices = sample["doc"]["question"], sample["doc"]["choices"]
            own = []
            for choice in choices:
                before = tokenizer(question, add_special_tokens=False)["input_ids"]
                ids = tokenizer(question + choice, add_special_tokens=False)["input_ids"]
                own.append(sum(log_probabilities(ids)[0][len(before) - 1:]))
            theirs = [float(one[0][0]) for one in sample["resps"]]
            apart = max(apart, *(abs(a - b) for a, b in zip(own, theirs)))
            right += int(np.argmax(own) == 0)
        accuracy = got["results"]["facts"]["acc,none"]
        line("lm-eval: local-completions on a local task", apart < 1e-4 and abs(accuracy - right / len(FACTS)) < 1e-9,
             f"lm-eval {lm_eval.__version__}, accuracy {accuracy:.3f}, by `lpmm logits` {right / len(FACTS):.3f}; "
             f"log-likelihoods of {3 * len(FACTS)} answers {apart:.2e} apart at most")


def judge_hostile(url):
    host, port = url.split("/")[2].split(":")
    draws = random.Random(3)
    body = json.dumps({"prompt": ["a", [1, 2]], "max_tokens": 1, "stop": ["x"], "logprobs": 2, "echo": True, "stream": True}).encode()
    whole = (b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)) + body
    chunks = (b"POST /v1/chat/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Type: application/json\r\n\r\n"
              b'10\r\n{"messages": [{"\r\n5;x=y\r\nrole"\r\n0\r\nT: 1\r\n\r\n')
    ask = urllib.request.Request(url + "/completions", json.dumps({"prompt": PROMPT, "max_tokens": 4, "temperature": 0}).encode(),
                                 {"Content-Type": "application/json"})
    before = json.load(urllib.request.urlopen(ask))["choices"]
    slow = [socket.create_connection((host, int(port))) for _ in range(20)]
    for one in slow:
        one.sendall(whole[:40])
    statuses = Counter()
    for _ in range(2000):
        message = bytearray(draws.choice([whole, chunks]))
        for _ in range(draws.randint(1, 6)):
            at, kind = draws.randrange(len(message)), draws.random()
            if kind < 0.5:
                message[at] = draws.randrange(256)
            elif kind < 0.7:
                del message[at:at + draws.randint(1, 30)]
            elif kind < 0.9:
                message[at:at] = draws.randbytes(draws.randint(1, 20))
            else:
                del message[at + 1:]
            message = message or bytearray(b"G")
        with socket.create_connection((host, int(port))) as client:
            client.sendall(message)
            if draws.random() < 0.5:
                continue  # goes away
            client.shutdown(socket.SHUT_WR)
            statuses[client.recv(100)[9:12].decode() or "closed"] += 1
    after = json.load(urllib.request.urlopen(ask))["choices"]
    line("2,000 mutated requests and 20 clients that stop in the midst of one", before == after,
         f"the answer after them is the one before; statuses {dict(statuses.most_common())}")


with Server() as server:
    judge_openai(server.url)
    judge_hostile(server.url)
    judge_lm_eval(server.url)
sys.exit(1 if failed else 0)
