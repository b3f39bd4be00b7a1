#!/usr/bin/env python3
"""The translator of experiments/configs/transformer_multi30k.toml in PyTorch, fp32, with the same recipe.

The same files, pieces, network, batches of like lengths, loss and schedule as lpmm's, drawn with other random numbers;
reads $LPMM_DATA. On a GPU a step is a CUDA graph for each length, without which the host is waited for. Translates the
test set with transformers' Marian, which takes the same tensors. One JSON line per five epochs; the last holds BLEU.
"""
import argparse
import gzip
import json
import math
import os
import pathlib
import random
import time

import sacrebleu
import sentencepiece
import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import MarianConfig, MarianMTModel

LAYERS, HEADS, WIDTH, HIDDEN, DROPOUT, SMOOTHING = 4, 4, 128, 256, 0.15, 0.1
BATCH, RATE, WARM_UP, LENGTHS = 128, 3e-3, 1500, (8, 16, 24, 32, 48, 72, 96)
END, IGNORED = 2, -100  # SentencePiece's end of a sentence, which a translation begins with, too


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x, source, mask=None):
        q, k, v = (p(y).unflatten(-1, (HEADS, -1)).transpose(1, 2)
                   for p, y in ((self.q_proj, x), (self.k_proj, source), (self.v_proj, source)))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
        return self.out_proj(y.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, is_decoder):
        super().__init__()
        self.self_attn, self.self_attn_layer_norm = Attention(), nn.LayerNorm(WIDTH)
        if is_decoder:
            self.encoder_attn, self.encoder_attn_layer_norm = Attention(), nn.LayerNorm(WIDTH)
        self.fc1, self.fc2, self.final_layer_norm = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x, mask, source=None):
        drop = lambda y: F.dropout(y, DROPOUT, self.training)
        x = self.self_attn_layer_norm(x + drop(self.self_attn(x, x, mask if source is None else None)))
        if source is not None:
            x = self.encoder_attn_layer_norm(x + drop(self.encoder_attn(x, source, mask)))
        return self.final_layer_norm(x + drop(self.fc2(F.relu(self.fc1(x)))))


class Side(nn.Module):
    def __init__(self, is_decoder):
        super().__init__()
        self.layers = nn.ModuleList(Layer(is_decoder) for _ in range(LAYERS))


class Translator(nn.Module):
    """Its tensors have the names of Marian's below "model."."""
    def __init__(self, vocabulary, positions):
        super().__init__()
        self.shared, self.encoder, self.decoder = nn.Embedding(vocabulary, WIDTH), Side(False), Side(True)
        self.final_logits_bias = nn.Parameter(torch.zeros(vocabulary))
        self.register_buffer("positions", positions, persistent=False)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.xavier_normal_(p)
        for name, p in self.named_parameters():
            if name.endswith(".bias"):
                nn.init.zeros_(p)
        nn.init.normal_(self.shared.weight, std=WIDTH ** -0.5)

    def embed(self, ids):
        x = self.shared(ids) * math.sqrt(WIDTH) + self.positions[:ids.shape[1]]
        return F.dropout(x, DROPOUT, self.training)

    def loss(self, source, lengths, tokens, labels):
        mask = (torch.arange(source.shape[1], device=source.device) < lengths[:, None])[:, None, None, :]
        x = self.embed(source)
        for layer in self.encoder.layers:
            x = layer(x, mask)
        y = self.embed(tokens)
        for layer in self.decoder.layers:
            y = layer(y, mask, x)
        logits = F.linear(y, self.shared.weight, self.final_logits_bias)
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED, label_smoothing=SMOOTHING)


def lines_of(name):
    path = pathlib.Path(os.environ["LPMM_DATA"]) / "multi30k" / name
    with open(path, encoding="utf-8") if path.exists() else gzip.open(f"{path}.gz", "rt", encoding="utf-8") as file:
        return [line.strip() for line in file]


def filled(examples, length):
    """Source, its lengths, tokens and labels of a batch."""
    def tensor(rows, fill):
        return torch.tensor([row + [fill] * (length - len(row)) for row in rows])

    source, tokens = tensor([a for a, _ in examples], END), tensor([[END] + b[:-1] for _, b in examples], END)
    return source, torch.tensor([len(a) for a, _ in examples]), tokens, tensor([b for _, b in examples], IGNORED)


def epoch_of(examples, draw):
    """Batches of examples that are filled up to one length; what is left over goes with the next longer ones."""
    order, rest, batches = list(examples), [], []
    draw.shuffle(order)
    for shorter, length in zip((0,) + LENGTHS, LENGTHS):
        rest += [e for e in order if shorter < max(map(len, e)) <= length]
        while len(rest) >= BATCH:
            batches.append((rest[:BATCH], length))
            rest = rest[BATCH:]
    draw.shuffle(batches)
    return batches


class Trainer:
    def __init__(self, model, device):
        self.model, self.is_cuda = model, device == "cuda"
        self.rate = torch.tensor(0.0, device=device)
        self.optimizer = torch.optim.Adam(model.parameters(), lr=self.rate if self.is_cuda else 0.0, betas=(0.9, 0.98),
                                          eps=1e-9, capturable=self.is_cuda)
        self.sum, self.graphs, self.device = torch.zeros((), device=device), {}, device

    def compute(self, batch):
        self.optimizer.zero_grad(set_to_none=False)
        loss = self.model.loss(*batch)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.sum += loss.detach()

    def capture(self, length):
        """A graph of a step at rate 0, whose batches come into the tensors it reads."""
        batch = [torch.full((BATCH,), length, device=self.device) if i == 1 else
                 torch.full((BATCH, length), END, device=self.device) for i in range(4)]
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.compute(batch)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.compute(batch)
        self.graphs[length] = graph, batch

    def prepare(self):
        """Graphs of all lengths; the optimizer then forgets what their making has left."""
        self.rate.zero_()
        for length in LENGTHS if self.is_cuda else ():
            self.capture(length)
        for state in self.optimizer.state.values():
            for value in state.values():
                value.zero_()
        self.sum.zero_()

    def step(self, batch, rate):
        if not self.is_cuda:
            self.optimizer.param_groups[0]["lr"] = rate
            return self.compute(batch)
        self.rate.fill_(rate)
        graph, places = self.graphs[batch[0].shape[1]]
        for place, value in zip(places, batch):
            place.copy_(value)
        graph.replay()


def bleu(model, config, pieces, device):
    marian = MarianMTModel(config)
    tensors = {f"model.{name}": p for name, p in model.state_dict().items()}
    bias = tensors.pop("model.final_logits_bias")
    state = marian.load_state_dict({**tensors, "final_logits_bias": bias[None]}, strict=False)
    derived = ("embed_tokens.weight", "embed_positions.weight", "lm_head.weight")  # the shared matrix again, and sinusoids
    assert not state.unexpected_keys and all(name.endswith(derived) for name in state.missing_keys), state
    marian.tie_weights()
    marian.to(device).eval()
    sources, out = [pieces.encode(line) + [END] for line in lines_of("test_2016_flickr.en")], []
    for first in range(0, len(sources), 250):
        some = sources[first:first + 250]
        source, lengths, *_ = filled([(s, [END]) for s in some], max(map(len, some)))
        mask = torch.arange(source.shape[1]) < lengths[:, None]
        made = marian.generate(input_ids=source.to(device), attention_mask=mask.long().to(device), num_beams=5,
                               length_penalty=1.0, max_new_tokens=3 * source.shape[1] + 10, do_sample=False)
        out += [pieces.decode([i for i in ids if i != END]) for ids in made.tolist()]
    return sacrebleu.corpus_bleu(out, [lines_of("test_2016_flickr.de")]).score


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=25)
    parser.add_argument("--batches", type=int, help="of an epoch, to try the program")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    draw = random.Random(args.seed)
    pieces = sentencepiece.SentencePieceProcessor(str(pathlib.Path(os.environ["LPMM_DATA"]) / "multi30k_8000.model"))
    assert pieces.eos_id() == END, pieces.eos_id()
    sides = [[pieces.encode(line) + [END] for line in lines_of(f"train.{language}")] for language in ("en", "de")]
    examples = list(zip(*sides, strict=True))
    vocabulary = pieces.get_piece_size()
    config = MarianConfig(vocab_size=vocabulary, d_model=WIDTH, encoder_layers=LAYERS, decoder_layers=LAYERS,
                          encoder_attention_heads=HEADS, decoder_attention_heads=HEADS, encoder_ffn_dim=HIDDEN,
                          decoder_ffn_dim=HIDDEN, activation_function="relu", scale_embedding=True,
                          max_position_embeddings=512, pad_token_id=END, eos_token_id=END, forced_eos_token_id=None,
                          decoder_start_token_id=END, bad_words_ids=None)
    positions = MarianMTModel(config).model.encoder.embed_positions.weight.detach().clone()
    model = Translator(vocabulary, positions).to(args.device)
    trainer = Trainer(model, args.device)
    trainer.prepare()
    steps = args.epochs * (len(examples) // BATCH)
    start, step = time.perf_counter(), 0
    for epoch in range(args.epochs):
        trainer.sum.zero_()
        batches = epoch_of(examples, draw)[:args.batches]
        for some, length in batches:
            progress = min(max(step - WARM_UP, 0) / max(1, steps - WARM_UP), 1)
            warm = (step + 1) / (WARM_UP + 1) if step < WARM_UP else 1
            trainer.step([t.to(args.device) for t in filled(some, length)], RATE * warm * (1 + math.cos(math.pi * progress)) / 2)
            step += 1
        if epoch % 5 == 4 or epoch == args.epochs - 1:
            print(json.dumps({"epoch": epoch, "step": step, "train_loss": trainer.sum.item() / len(batches),
                              "seconds": time.perf_counter() - start}), flush=True)
    model.eval()
    seconds = time.perf_counter() - start
    print(json.dumps({"bleu": bleu(model, config, pieces, args.device), "seed": args.seed, "train_seconds": seconds,
                      "device": args.device, "torch": torch.__version__}))


if __name__ == "__main__":
    main()
