#!/usr/bin/env python3
"""Do the publishers' libraries take what `lpmm export --hf` writes? For each family: their model with drawn weights and a tokenizer
of its kind, saved by them, imported and exported, loaded by them again (strictly: no tensor missing, left over or of another shape);
then trained here for a step, exported and loaded once more. Compared are

    logits  of the export, with those of the model that was imported
    step    after the step: the library's answers (logits, probabilities, vectors, or the loss) with those of lpmm
    ids     of 120 odd texts, read by the tokenizer before and behind, and by lpmm: texts that differ
    chat    what a dialogue becomes by its template
    pixels  of a picture, prepared as the export's files say
    keys    of config.json: those that are lost or changed without a word of the import

    pip install torch torchvision timm transformers safetensors sentence-transformers pillow
    python3 experiments/zoo/exports.py build/lpmm [--only NAME]...

Where a library is absent, its models are skipped, and this is said. Exits with 1 where one does not load, or differs, and
with 77 where there is no PyTorch or no transformers."""
import argparse
import json
import math
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import torch
    import transformers as t
    from safetensors.torch import load_file, save_file
except ImportError as absent:
    print(f"skipped: {absent}")
    sys.exit(77)
import made_tokenizers as made


def optional(name):
    try:
        return __import__(name)
    except ImportError:
        return None


timm, torchvision, sentence_transformers = map(optional, ("timm", "torchvision", "sentence_transformers"))
SMALL = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48)
ENCODER = dict(SMALL, max_position_embeddings=64, pad_token_id=0)
ROBERTA = dict(SMALL, max_position_embeddings=66, type_vocab_size=1, pad_token_id=1, bos_token_id=0, eos_token_id=2)
MPNET = dict(SMALL, max_position_embeddings=66, layer_norm_eps=1e-5, pad_token_id=1, bos_token_id=0, eos_token_id=2)
DISTILLED = dict(dim=32, n_layers=2, n_heads=4, hidden_dim=48, max_position_embeddings=64)
LLAMA = dict(SMALL, num_key_value_heads=2, max_position_embeddings=64, attention_dropout=0.1, pad_token_id=None)
SCALED = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32)
IS_NEW = int(t.__version__.split(".")[0]) >= 5
MODERN = dict(SMALL, num_hidden_layers=4, local_attention=8, max_position_embeddings=64, pad_token_id=1, bos_token_id=0, eos_token_id=0,
              cls_token_id=0, sep_token_id=0)
NAMES = {0: "bad", 1: "so so", 2: "good"}
TAGS = {0: "B-X", 1: "I-X", 2: "O"}


def named(names):
    return dict(num_labels=3, id2label=names, label2id={name: i for i, name in names.items()})


TOLERANCE = 3e-6
DIALOGUE = [{"role": "user", "content": " What is 2 + 2?\n"}, {"role": "assistant", "content": "4 <|im_end|> é"}]


def rotary(base, scaling):
    return dict(rope_parameters=dict(scaling, rope_theta=base)) if IS_NEW else dict(rope_theta=base, rope_scaling=scaling)


def gemma3(tokens, **more):
    sizes = dict(LLAMA, num_hidden_layers=7, num_key_value_heads=1, pad_token_id=0)
    return t.Gemma3ForCausalLM(t.Gemma3TextConfig(vocab_size=tokens, **sizes, head_dim=16, sliding_window=7, **more))


def scaled_gemma():
    scaling = dict(rope_type="linear", factor=8.0)
    if IS_NEW:
        return dict(rope_parameters=dict(full_attention=dict(scaling, rope_theta=1e6), sliding_attention=dict(rope_type="default", rope_theta=1e4)))
    return dict(rope_scaling=scaling)


def bert(lower, made_by, *files):
    return lambda folder: made.words(folder, lower, made_by, *files)


# name: tokenizer, task, the model of so many tokens
MODELS = {
    "GPT-2": (made.gpt2, "text", lambda n: t.GPT2LMHeadModel(t.GPT2Config(
        vocab_size=n, n_positions=64, n_embd=32, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0))),
    "GPT-2, vocab.json and merges.txt": (made.gpt2_pair, "text", lambda n: t.GPT2LMHeadModel(t.GPT2Config(
        vocab_size=n, n_positions=64, n_embd=32, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0))),
    "GPT-2, n_inner, ReLU": (made.gpt2, "text", lambda n: t.GPT2LMHeadModel(t.GPT2Config(
        vocab_size=n, n_positions=64, n_embd=32, n_layer=2, n_head=4, n_inner=48, activation_function="relu",
        bos_token_id=0, eos_token_id=0))),
    "Llama 2": (made.llama2, "text", lambda n: t.LlamaForCausalLM(t.LlamaConfig(vocab_size=n, **LLAMA))),
    "Llama 3.2 (tied, scaled rotary)": (made.llama3, "text", lambda n: t.LlamaForCausalLM(t.LlamaConfig(
        vocab_size=n, **LLAMA, tie_word_embeddings=True, bos_token_id=0, eos_token_id=[1, 2], **rotary(5e5, SCALED)))),
    "Llama, biases, YaRN": (made.llama2, "text", lambda n: t.LlamaForCausalLM(t.LlamaConfig(
        vocab_size=n, **LLAMA, attention_bias=True, mlp_bias=True,
        **rotary(1e4, dict(rope_type="yarn", factor=8.0, original_max_position_embeddings=32))))),
    "Llama, dynamic scaling": (made.llama2, "text", lambda n: t.LlamaForCausalLM(t.LlamaConfig(
        vocab_size=n, **LLAMA, **rotary(1e4, dict(rope_type="dynamic", factor=2.0))))),
    "Phi-3": (made.llama2, "text", lambda n: t.Phi3ForCausalLM(t.Phi3Config(vocab_size=n, **LLAMA, sliding_window=7, bos_token_id=1, eos_token_id=2))),
    "Phi-4-mini (LongRoPE, partial)": (made.llama2, "text", lambda n: t.Phi3ForCausalLM(t.Phi3Config(
        vocab_size=n, **LLAMA, bos_token_id=1, eos_token_id=2, partial_rotary_factor=0.75, original_max_position_embeddings=16,
        rope_scaling=dict(type="longrope", short_factor=[1.0, 1.5, 2.1], long_factor=[1.1, 3.0, 9.7])))),
    "OLMo 2": (made.gpt2, "text", lambda n: t.Olmo2ForCausalLM(t.Olmo2Config(vocab_size=n, **LLAMA, bos_token_id=0, eos_token_id=0))),
    "Granite": (made.gpt2, "text", lambda n: t.GraniteForCausalLM(t.GraniteConfig(
        vocab_size=n, **LLAMA, bos_token_id=0, eos_token_id=0, embedding_multiplier=12.0, residual_multiplier=0.22,
        attention_multiplier=0.1, logits_scaling=8.0))),
    "Gemma 3": (made.gemma, "text", lambda n: gemma3(n, query_pre_attn_scalar=16)),
    "Gemma 3, scaled": (made.gemma, "text", lambda n: gemma3(n, query_pre_attn_scalar=24, **scaled_gemma())),
    "Mistral": (made.llama2, "text", lambda n: t.MistralForCausalLM(t.MistralConfig(vocab_size=n, **LLAMA, sliding_window=16))),
    "Qwen2": (made.qwen2, "text", lambda n: t.Qwen2ForCausalLM(t.Qwen2Config(vocab_size=n, **LLAMA, bos_token_id=0, eos_token_id=2))),
    "Qwen3": (made.qwen2, "text", lambda n: t.Qwen3ForCausalLM(t.Qwen3Config(
        vocab_size=n, **LLAMA, head_dim=16, bos_token_id=0, eos_token_id=2))),
    "Qwen3-MoE": (made.qwen2, "text", lambda n: t.Qwen3MoeForCausalLM(t.Qwen3MoeConfig(
        vocab_size=n, **dict(LLAMA, num_hidden_layers=4), head_dim=16, moe_intermediate_size=24, num_experts=6, num_experts_per_tok=2,
        norm_topk_prob=True, mlp_only_layers=[1], output_router_logits=True, router_aux_loss_coef=0.02, bos_token_id=0, eos_token_id=2))),
    "SmolLM3": (made.llama3, "text", lambda n: t.SmolLM3ForCausalLM(t.SmolLM3Config(
        vocab_size=n, **dict(LLAMA, num_hidden_layers=5), bos_token_id=0, eos_token_id=1))),
    "BERT": (bert(True, "BertTokenizer"), "vectors", lambda n: t.BertModel(t.BertConfig(vocab_size=n, **ENCODER))),
    "BERT, cased, vocab.txt, classes": (bert(False, "BertTokenizer", ("vocab.txt",)), "classes", lambda n: t.BertForSequenceClassification(
        t.BertConfig(vocab_size=n, **ENCODER, **named(NAMES)))),
    "RoBERTa": (made.roberta, "vectors", lambda n: t.RobertaModel(t.RobertaConfig(vocab_size=n, **ROBERTA), add_pooling_layer=False)),
    "RoBERTa, a score": (made.roberta, "score", lambda n: t.RobertaForSequenceClassification(t.RobertaConfig(vocab_size=n, **ROBERTA, num_labels=1))),
    "DistilBERT": (bert(True, "DistilBertTokenizer"), "vectors", lambda n: t.DistilBertModel(t.DistilBertConfig(vocab_size=n, **DISTILLED))),
    "DistilBERT, classes": (bert(True, "DistilBertTokenizer"), "classes", lambda n: t.DistilBertForSequenceClassification(
        t.DistilBertConfig(vocab_size=n, **DISTILLED, **named(NAMES)))),
    "ModernBERT": (made.modernbert, "vectors", lambda n: t.ModernBertModel(t.ModernBertConfig(vocab_size=n, **MODERN))),
    "ModernBERT, classes": (made.modernbert, "classes", lambda n: t.ModernBertForSequenceClassification(t.ModernBertConfig(
        vocab_size=n, **MODERN, classifier_pooling="mean", **named(NAMES)))),
    "ModernBERT, a score": (made.modernbert, "score", lambda n: t.ModernBertForSequenceClassification(t.ModernBertConfig(
        vocab_size=n, **MODERN, num_labels=1))),
    "ModernBERT, labels of words": (made.modernbert, "words", lambda n: t.ModernBertForTokenClassification(t.ModernBertConfig(
        vocab_size=n, **MODERN, **named(TAGS)))),
    "MPNet": (made.mpnet, "vectors", lambda n: t.MPNetModel(t.MPNetConfig(vocab_size=n, **MPNET))),
    "MPNet, vocab.txt, classes": (lambda folder: made.mpnet(folder, ("vocab.txt",)), "classes", lambda n: t.MPNetForSequenceClassification(
        t.MPNetConfig(vocab_size=n, **MPNET, **named(NAMES)))),
    "MPNet, labels of words": (made.mpnet, "words", lambda n: t.MPNetForTokenClassification(t.MPNetConfig(
        vocab_size=n, **MPNET, **named(TAGS)))),
    "Llama, classes": (made.llama3, "classes", lambda n: t.LlamaForSequenceClassification(t.LlamaConfig(
        vocab_size=n, **dict(LLAMA, pad_token_id=2), bos_token_id=0, eos_token_id=1, **named(NAMES)))),
    "Mistral, a score": (made.llama3, "score", lambda n: t.MistralForSequenceClassification(t.MistralConfig(
        vocab_size=n, **dict(LLAMA, pad_token_id=2), sliding_window=16, bos_token_id=0, eos_token_id=1, num_labels=1))),
    "Qwen2, classes": (made.qwen2, "classes", lambda n: t.Qwen2ForSequenceClassification(t.Qwen2Config(
        vocab_size=n, **dict(LLAMA, pad_token_id=0), bos_token_id=0, eos_token_id=2, tie_word_embeddings=True, **named(NAMES)))),
    "Qwen3, several labels": (made.qwen2, "several", lambda n: t.Qwen3ForSequenceClassification(t.Qwen3Config(
        vocab_size=n, **dict(LLAMA, pad_token_id=0), head_dim=16, bos_token_id=0, eos_token_id=2, **named(NAMES)))),
    "Qwen3-MoE, classes": (made.qwen2, "classes", lambda n: t.Qwen3MoeForSequenceClassification(t.Qwen3MoeConfig(
        vocab_size=n, **dict(LLAMA, pad_token_id=0), moe_intermediate_size=24, num_experts=6, num_experts_per_tok=2, bos_token_id=0, eos_token_id=2,
        **named(NAMES)))),
    "Phi-3, classes": (made.llama3, "classes", lambda n: t.Phi3ForSequenceClassification(t.Phi3Config(
        vocab_size=n, **dict(LLAMA, pad_token_id=2), bos_token_id=0, eos_token_id=1, **named(NAMES)))),
    "OLMo 2, classes": (made.gpt2, "classes", lambda n: t.Olmo2ForSequenceClassification(t.Olmo2Config(
        vocab_size=n, **dict(LLAMA, pad_token_id=0), bos_token_id=0, eos_token_id=0, **named(NAMES)))),
    "SmolLM3, classes": (made.llama3, "classes", lambda n: t.SmolLM3ForSequenceClassification(t.SmolLM3Config(
        vocab_size=n, **dict(LLAMA, pad_token_id=2), bos_token_id=0, eos_token_id=1, **named(NAMES)))),
    "XLM-RoBERTa": (made.unigram, "vectors", lambda n: t.XLMRobertaModel(t.XLMRobertaConfig(vocab_size=n, **ROBERTA), add_pooling_layer=False)),
    "XLM-RoBERTa, labels of words": (made.unigram, "words", lambda n: t.XLMRobertaForTokenClassification(t.XLMRobertaConfig(
        vocab_size=n, **ROBERTA, **named(TAGS)))),
    "CamemBERT, several labels": (made.camembert, "several", lambda n: t.CamembertForSequenceClassification(t.CamembertConfig(
        vocab_size=n, **ROBERTA, **named(NAMES)))),
    "BERT, several labels": (bert(True, "BertTokenizer"), "several", lambda n: t.BertForSequenceClassification(
        t.BertConfig(vocab_size=n, **ENCODER, **named(NAMES)))),
    "BERT, labels of words": (bert(False, "BertTokenizer"), "words", lambda n: t.BertForTokenClassification(
        t.BertConfig(vocab_size=n, **ENCODER, **named(TAGS)))),
    "RoBERTa, labels of words": (made.roberta, "words", lambda n: t.RobertaForTokenClassification(
        t.RobertaConfig(vocab_size=n, **ROBERTA, **named(TAGS)))),
    "DistilBERT, labels of words": (bert(True, "DistilBertTokenizer"), "words", lambda n: t.DistilBertForTokenClassification(
        t.DistilBertConfig(vocab_size=n, **DISTILLED, **named(TAGS)))),
    "Marian": (made.marian, "pairs", lambda n: t.MarianMTModel(t.MarianConfig(
        vocab_size=n, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=64, pad_token_id=n - 1, eos_token_id=0, dropout=0.0,
        decoder_start_token_id=n - 1, forced_eos_token_id=0, activation_function="swish", scale_embedding=True))),
}
VECTORS = {  # tokenizer, model, pooling
    "XLM-RoBERTa (sentence-transformers)": (made.unigram, lambda n: t.XLMRobertaModel(t.XLMRobertaConfig(vocab_size=n, **ROBERTA)), "mean"),
    "BERT (sentence-transformers)": (bert(True, "BertTokenizer"), lambda n: t.BertModel(t.BertConfig(vocab_size=n, **ENCODER)), "cls"),
    "MPNet (sentence-transformers)": (made.mpnet, lambda n: t.MPNetModel(t.MPNetConfig(vocab_size=n, **MPNET)), "mean"),
    "ModernBERT (sentence-transformers)": (made.modernbert, lambda n: t.ModernBertModel(t.ModernBertConfig(vocab_size=n, **MODERN)), "cls"),
    "Llama (sentence-transformers)": (made.llama3, lambda n: t.LlamaModel(t.LlamaConfig(
        vocab_size=n, **dict(LLAMA, pad_token_id=2), bos_token_id=0, eos_token_id=1)), "weightedmean"),
    "Qwen3 (sentence-transformers)": (made.qwen2, lambda n: t.Qwen3Model(t.Qwen3Config(
        vocab_size=n, **dict(LLAMA, pad_token_id=0), head_dim=16, bos_token_id=0, eos_token_id=2)), "lasttoken"),
}
PICTURES = {  # whose pictures and steps are those of timm's and torchvision's
    "ViT (transformers)": lambda: t.ViTForImageClassification(t.ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, image_size=64, num_labels=7)),
    "ResNet (transformers)": lambda: t.ResNetForImageClassification(t.ResNetConfig(
        embedding_size=8, hidden_sizes=[32, 64, 128, 256], depths=[1, 2, 1, 1], num_labels=7)),
}
IMAGES = {f"ResNet-{n} (torchvision)": ("torchvision", f"resnet{n}") for n in (18, 50)}
IMAGES["Wide ResNet-50 (torchvision)"] = ("torchvision", "wide_resnet50_2")
IMAGES["ResNeXt-50 (torchvision)"] = ("torchvision", "resnext50_32x4d")
IMAGES |= {name: ("timm", name) for name in ("resnet18", "resnet34", "resnet101", "resnet50d", "deit_tiny_distilled_patch16_224", "vit_small_patch14_reg4_dinov2", "vit_base_patch16_reg4_gap_256", "vit_tiny_patch16_224", "vit_small_patch16_224")}


def run(*arguments):
    done = subprocess.run([str(a) for a in arguments], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(str(a) for a in arguments)}\n{done.stderr}")
    return done


def logits_of(model, given):
    with torch.no_grad():
        told = model.eval()(given) if torch.is_tensor(given) else model.eval()(**given)
    return told if torch.is_tensor(told) else told.logits if "logits" in told else told.last_hidden_state


def apart(got, want):
    return ((got - want).abs().max() / want.abs().max()).item()


def drawn(model):
    with torch.no_grad():
        for p in model.parameters():
            if p.requires_grad:  # no two alike: biases begin at 0, weights of norms at 1. Marian's positions are a formula
                p += 0.02 * torch.randn_like(p)
        for name, b in model.named_buffers():
            if "running_" in name:  # a ResNet's
                b += 0.1 * torch.rand_like(b)
    return model


class Trip:
    """A model's way through lpmm, in a folder."""

    def __init__(self, lpmm, folder):
        self.lpmm, self.folder, self.published, self.told = lpmm, folder, folder / "published", {}
        self.published.mkdir()

    def there_and_back(self):
        self.said = run(self.lpmm, "import", self.published, "--out", self.folder / "run", "--preset", "fp32").stderr
        run(self.lpmm, "export", self.folder / "run", "--hf", "--out", self.folder / "exported")
        return self.folder / "exported"

    def step(self, *settings):
        """Trains for a step; the published folder is gone by then."""
        shutil.rmtree(self.published)
        settings += ("train.steps=1", "train.batch=4", "train.compute=fp32", "optimizer.learning_rate=0.01")
        run(self.lpmm, "train", self.folder / "run/config.toml", "--init", self.folder / "run", "--out", self.folder / "tuned",
            *(word for setting in settings for word in ("--set", setting)))
        run(self.lpmm, "export", self.folder / "tuned", "--hf", "--out", self.folder / "given")
        return self.folder / "given"

    def lost_keys(self, before):
        after = json.loads((self.folder / "exported/config.json").read_text())
        lost = []
        for key, value in flat(before):
            found = dict(flat(after)).get({"num_local_experts": "num_experts"}.get(key, key), "absent")  # read by all versions
            found = [found, found] if key.endswith("img_size") and isinstance(value, list) else found
            if found != value and f"config.json: {key}" not in self.said and not is_same_rotary(key, value, after):
                lost.append(f"{key} {value} -> {found}")
        return lost


def flat(config, before=""):
    for key, value in config.items():
        if isinstance(value, dict) and value and key not in ("id2label", "label2id"):
            yield from flat(value, f"{before}{key}.")
        else:
            yield before + key, value


def is_same_rotary(key, value, after):
    """transformers 5 wrote rope_parameters for rope_theta and rope_scaling, and reads both."""
    name = key.removeprefix("rope_parameters.")
    if name.startswith("sliding_attention."):  # a Gemma 3's, which is not scaled
        return value == (after.get("rope_local_base_freq") if name.endswith("rope_theta") else "default")
    if key == "_sliding_window_pattern":  # which transformers 5 has beside layer_types
        return value == after.get("sliding_window_pattern")
    name = name.removeprefix("full_attention.")
    scaling = after.get("rope_scaling") or {}
    there = {"rope_type": scaling.get("type", "default"), "partial_rotary_factor": after.get("partial_rotary_factor", 1.0),
             "original_max_position_embeddings": after.get("original_max_position_embeddings"), **scaling, "rope_theta": after.get("rope_theta")}
    return name != key and there.get(name) == value


def load(model, folder):
    options = {"add_pooling_layer": False} if type(model) in (t.RobertaModel, t.XLMRobertaModel) else {}
    back, found = type(model).from_pretrained(folder, output_loading_info=True, **options)
    return back, [f"{what} {sorted(map(str, names))}" for what, names in found.items() if names]


def given_to(model):
    ids = torch.arange(2 * 24).reshape(2, 24) * 7 % 190 + 3
    return dict(input_ids=ids, decoder_input_ids=ids[:, :9]) if model.config.is_encoder_decoder else dict(input_ids=ids)


def ids_here(trip, text):
    """By lpmm, without what is put around a text."""
    (trip.folder / "one.txt").write_text(text, newline="")
    kept = trip.folder / "run/model_files"
    file = next((kept / n for n in ("tokenizer.json", "vocab.txt", "vocab.json") if (kept / n).exists()), kept)
    if (kept / "source.spm").exists():
        file = kept
    run(trip.lpmm, "data", "tokenize", "--tokenizer", file, trip.folder / "one.txt", trip.folder / "one.tokens", "--overwrite")
    data = (trip.folder / "one.tokens").read_bytes()
    start, count = (32 + struct.unpack_from("<I", data, 12)[0] + 63) // 64 * 64, struct.unpack_from("<Q", data, 24)[0]
    return list(struct.unpack_from(f"<{count}H", data, start))


def compare_texts(trip, before, behind, is_marian):
    texts = made.texts()
    differ = sum(before(a)["input_ids"] != behind(a)["input_ids"] for a in texts)
    differ += sum(before(a, "b c")["input_ids"] != behind(a, "b c")["input_ids"] for a in texts[:20])
    # transformers 5 makes a LlamaTokenizer from the vocabulary alone, by rules of its own; lpmm goes by tokenizer.json.
    file = trip.folder / "exported/tokenizer.json"
    from tokenizers import Tokenizer
    theirs = Tokenizer.from_file(str(file)) if file.exists() else None
    inside = lambda text: (theirs.encode(text, add_special_tokens=False).ids if theirs else
                           behind(text)["input_ids"][:-1] if is_marian else behind(text, add_special_tokens=False)["input_ids"])
    here = sum(ids_here(trip, a) != inside(a) for a in texts if inside(a))
    trip.told["ids"] = f"{differ}, {here}"
    if before.chat_template or behind.chat_template:
        shown = [x.apply_chat_template(DIALOGUE, tokenize=False, add_generation_prompt=True) for x in (before, behind)]
        trip.told["chat"] = "same" if shown[0] == shown[1] else "DIFFERS"
    names = [(x.all_special_tokens, x.model_max_length, x.padding_side) for x in (before, behind)]
    return differ + here == 0 and trip.told.get("chat") != "DIFFERS" and names[0] == names[1]


def sentences(folder, kind):
    folder.mkdir()
    if kind == "several":
        rows = [{"text": made.LINES[i], "labels": [NAMES[c] for c in range(3) if i >> c & 1]} for i in range(8)]
        for name in ("train", "dev"):
            (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return
    if kind == "words":
        lines = "".join("".join(f"{word} {TAGS[j % 3]}\n" for j, word in enumerate(made.LINES[i].split()[:9])) + "\n" for i in range(8))
        for name in ("train", "dev"):
            (folder / f"{name}.conll").write_text(lines)
        return
    answers = [i / 4 if kind == "score" else NAMES[i % 3] for i in range(8)]
    lines = [f"{made.LINES[i].replace(chr(9), ' ')}\t{made.LINES[i + 8].replace(chr(9), ' ')}\t{answers[i]}" for i in range(8)]
    head = f"sentence1\tsentence2\t{'score' if kind == 'score' else 'label'}"
    for name in ("train", "dev"):
        (folder / f"{name}.tsv").write_text("\n".join([head, *lines]) + "\n")


def step_of_text(trip, model):
    (trip.folder / "text.txt").write_text("\n".join(made.LINES * 4))
    back, refused = load(model, trip.step(f"data.path={trip.folder / 'text.txt'}", "data.length=16"))
    ids = given_to(model)["input_ids"][0]
    here = json.loads(run(trip.lpmm, "logits", trip.folder / "tuned", "--ids", ",".join(str(i) for i in ids.tolist()), "--json").stdout)
    return apart(torch.tensor(here["logits"]), logits_of(back, dict(input_ids=ids[None]))[0]), refused


def vectors_here(trip, run_name, lines):
    run(trip.lpmm, "embed", trip.folder / run_name, "--file", lines, "--compute", "fp32", "--out", trip.folder / "vectors.npy")
    import numpy
    return torch.from_numpy(numpy.load(trip.folder / "vectors.npy"))


def step_of_sentences(trip, model, kind):
    """A model that only embeds is compared before, and then given a head of three classes."""
    tokenizer = t.AutoTokenizer.from_pretrained(trip.folder / "exported")
    texts = ["a gripping, funny film", "It's slow. é", made.LINES[5][:60]]
    lines = trip.folder / "lines.txt"
    lines.write_text("\n".join(texts) + "\n")
    asked = ("--file", lines, "--compute", "fp32")
    before = 0.0
    if kind == "vectors":
        means = [logits_of(model, tokenizer(a, return_tensors="pt"))[0].mean(0) for a in texts]
        before = apart(vectors_here(trip, "run", lines), torch.stack(means))
    sentences(trip.folder / "set", kind)
    given = trip.step("data.set=sentences", f"data.path={trip.folder / 'set'}", "data.length=48")
    back, found = t.AutoModelForSequenceClassification.from_pretrained(given, output_loading_info=True)
    refused = [f"{what} {sorted(map(str, names))}" for what, names in found.items() if names]
    theirs = torch.stack([logits_of(back, tokenizer(a, return_tensors="pt"))[0] for a in texts])
    answers = json.loads(run(trip.lpmm, "classify", trip.folder / "tuned", *asked, "--json").stdout)["answers"]
    if kind == "score":
        return apart(torch.tensor([[a] for a in answers]), theirs), refused
    labels = json.loads(run(trip.lpmm, "classify", trip.folder / "tuned", *asked, "--json").stdout)["labels"]
    named = labels == [back.config.id2label[i] for i in range(3)] and (kind == "vectors" or labels == [NAMES[i] for i in range(3)])
    told = apart(torch.tensor([a["probabilities"] for a in answers]), theirs.sigmoid() if kind == "several" else theirs.softmax(-1))
    if kind == "several" and back.config.problem_type != "multi_label_classification":
        refused.append(f"problem_type {back.config.problem_type}")
    return max(before, told), refused + ([] if named else [f"classes {back.config.id2label}"])


def step_of_words(trip):
    """The tags that the trained model tells, and how probable it finds them."""
    sentences(trip.folder / "set", "words")
    given = trip.step("data.set=sentences", f"data.path={trip.folder / 'set'}", "data.length=48")
    back, found = t.AutoModelForTokenClassification.from_pretrained(given, output_loading_info=True)
    refused = [f"{what} {sorted(map(str, names))}" for what, names in found.items() if names]
    tokenizer = t.AutoTokenizer.from_pretrained(trip.folder / "exported", add_prefix_space=True)
    # transformers 5 does not hear it where a tokenizer has no class of its own.
    if type(tokenizer).__name__ == "TokenizersBackend" and "ByteLevel" in str(tokenizer.backend_tokenizer.pre_tokenizer):
        tokenizer.backend_tokenizer.pre_tokenizer = made.pre_tokenizers.ByteLevel(add_prefix_space=True)
    texts = ["a gripping , funny film", "It 's slow ...", "unaffable 123 é"]
    (trip.folder / "lines.txt").write_text("\n".join(texts) + "\n")
    answers = json.loads(run(trip.lpmm, "classify", trip.folder / "tuned", "--file", trip.folder / "lines.txt", "--compute", "fp32", "--json").stdout)
    worst = 0.0
    for text, told in zip(texts, answers["answers"]):
        given = tokenizer(text.split(), is_split_into_words=True, return_tensors="pt")
        firsts = [given.word_ids().index(w) for w in range(len(text.split()))]
        probable, best = logits_of(back, given)[0][firsts].softmax(-1).max(-1)
        refused += [] if told["labels"] == [back.config.id2label[i] for i in best.tolist()] else [f"tags of {text}"]
        worst = max(worst, apart(torch.tensor(told["probabilities"]), probable))
    return worst, refused


def step_of_pairs(trip, model):
    (trip.folder / "set").mkdir()
    pairs = {"en": ["the man walks", "a dog plays in the snow"] * 4, "de": ["der Mann geht", "ein Hund spielt im Schnee"] * 4}
    for name in ("train", "dev", "test"):
        for language, lines in pairs.items():
            (trip.folder / "set" / f"{name}.{language}").write_text("\n".join(lines) + "\n")
    back, refused = load(model, trip.step("data.set=pairs", f"data.path={trip.folder / 'set'}", "data.length=32", "data.bleu=false"))
    here = json.loads(run(trip.lpmm, "eval", trip.folder / "tuned", "--json").stdout)["test_loss"]
    tokenizer = t.AutoTokenizer.from_pretrained(trip.folder / "given")
    total = count = 0
    for a, b in zip(*pairs.values()):
        labels = tokenizer(text_target=b, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            total += back.eval()(**tokenizer(a, return_tensors="pt"), labels=labels).loss.item() * labels.numel()
        count += labels.numel()
    return abs(here - total / count) / here, refused


def of_transformers(trip, tokenizer, kind, make):
    model = drawn(make(tokenizer(trip.published)))
    model.save_pretrained(trip.published)
    (trip.published / "generation_config.json").write_text(json.dumps({"temperature": 0.6, "do_sample": True, "top_p": 0.9}))
    config = json.loads((trip.published / "config.json").read_text())
    config |= {"use_cache": False, "key_of_nobody": {"a": [1]}, "problem_type": {"score": "regression", "classes": "single_label_classification",
                                                                                  "several": "multi_label_classification"}.get(kind)}
    for rotary_key in ("rope_parameters", "rope_scaling"):
        if isinstance(config.get(rotary_key), dict):
            inside = config[rotary_key]["full_attention"] if config["model_type"] == "modernbert" else config[rotary_key]
            if IS_NEW or inside.get("type") != "longrope":  # which has three keys and no others before version 5
                inside["key_inside"] = [1]
    (trip.published / "config.json").write_text(json.dumps(config))
    back, refused = load(model, trip.there_and_back())
    given = given_to(model)
    trip.told["logits"] = apart(logits_of(back, given), logits_of(model, given))
    tokenizers = [t.AutoTokenizer.from_pretrained(folder) for folder in (trip.published, trip.folder / "exported")]
    good = compare_texts(trip, *tokenizers, kind == "pairs")
    trip.told["keys"] = trip.lost_keys(config)
    generation = json.loads((trip.folder / "exported/generation_config.json").read_text())
    trip.told["step"], more = (step_of_text(trip, model) if kind == "text" else step_of_pairs(trip, model) if kind == "pairs" else
                               step_of_words(trip) if kind == "words" else
                               step_of_sentences(trip, model, kind))
    return good and generation["top_p"] == 0.9, refused + more


def pictures(folder):
    from PIL import Image
    for split in ("train", "test"):
        for i in range(8):
            (folder / split / "abcd"[i % 4]).mkdir(parents=True, exist_ok=True)
            pixels = (torch.rand(224, 224, 3) * 255).to(torch.uint8).numpy()
            Image.fromarray(pixels).save(folder / split / "abcd"[i % 4] / f"{i}.png")


def of_images(trip, library, name):
    """The loss of a set of pictures: the library's, of pictures prepared as the export's files say, with that of lpmm."""
    from PIL import Image
    size = dict(img_size=224) if "_reg" in name else {}
    make = getattr(torchvision.models, name) if library == "torchvision" else lambda num_classes: timm.create_model(name, num_classes=num_classes, **size)
    model = drawn(make(num_classes=4))
    config = {}
    if library == "timm":
        own = dict(mean=(0.1, 0.2, 0.3), std=(0.4, 0.5, 0.6), crop_pct=0.9, interpolation="bilinear", label_names=list("abcd"), num_classes=4)
        timm.models.save_for_hf(model, trip.published, model_config=own, model_args=size, safe_serialization=True)
        config = json.loads((trip.published / "config.json").read_text())
        for pickle in trip.published.glob("*.bin"):
            pickle.unlink()
    else:
        save_file(model.state_dict(), trip.published / "model.safetensors")
    exported = trip.there_and_back()
    back = make(num_classes=4)
    if library == "timm":
        back = timm.create_model(f"local-dir:{exported}", pretrained=True)
    back.load_state_dict(load_file(exported / "model.safetensors"), strict=True)
    trip.told["logits"] = apart(logits_of(back, given := torch.randn(2, 3, 224, 224)), logits_of(model, given))
    trip.told["keys"] = trip.lost_keys(config)
    pictures(trip.folder / "photos")
    run(trip.lpmm, "data", "pack-images", trip.folder / "photos", trip.folder / "photos.images", "--size", 224)
    picture = Image.open(trip.folder / "photos/test/a/0.png")
    good = True
    if timm and library == "timm":
        before = timm.create_model(f"local-dir:{trip.published}", pretrained=True)
        shown = [timm.data.create_transform(**timm.data.resolve_model_data_config(m))(picture.resize((260, 230))) for m in (before, back)]
        good = torch.equal(*shown)
        trip.told["pixels"] = "same" if good else "DIFFER"
    given = trip.step("data.set=images", f"data.path={trip.folder / 'photos.images'}", "data.augment=false", "train.eval_every_epochs=0")
    back.load_state_dict(load_file(given / "model.safetensors"), strict=True)
    if library == "timm":
        said = timm.data.resolve_model_data_config(timm.create_model(f"local-dir:{given}", pretrained=True))
    else:
        said = json.loads((given / "preprocessor_config.json").read_text())
    mean, deviation = (torch.tensor(said.get(key, said.get(f"image_{key}")))[:, None, None] for key in ("mean", "std"))
    total = 0.0
    for path in sorted((trip.folder / "photos/test").rglob("*.png")):
        pixels = torch.tensor(list(Image.open(path).convert("RGB").tobytes()), dtype=torch.float32).reshape(224, 224, 3).permute(2, 0, 1) / 255
        own = (pixels - mean) / deviation
        logits = logits_of(back, own[None])
        total += torch.nn.functional.cross_entropy(logits, torch.tensor(["abcd".index(path.parent.name)])).item() / 8
    here = json.loads(run(trip.lpmm, "eval", trip.folder / "tuned", "--json").stdout)["test_loss"]
    trip.told["step"] = abs(here - total) / here
    return good, []


def of_pictures(trip, make):
    model = drawn(make())
    model.save_pretrained(trip.published)
    back, refused = load(model, trip.there_and_back())
    given = dict(pixel_values=torch.randn(2, 3, 64, 64))
    trip.told["logits"] = apart(logits_of(back, given), logits_of(model, given))
    trip.told["keys"] = trip.lost_keys(json.loads((trip.published / "config.json").read_text()))
    return True, refused


def of_vectors(trip, tokenizer, make, mode):
    """sentence-transformers, with length 1."""
    import sentence_transformers as s
    from sentence_transformers import models
    inner = trip.folder / "inner"
    inner.mkdir()
    model = drawn(make(tokenizer(inner)))
    model.save_pretrained(inner)
    (inner / "chat_template.jinja").unlink(missing_ok=True)  # else sentence-transformers puts texts into it
    word = models.Transformer(str(inner), max_seq_length=32)
    word.tokenizer.pad_token = word.tokenizer.pad_token or word.tokenizer.eos_token
    before = s.SentenceTransformer(modules=[word, models.Pooling(32, pooling_mode=mode), models.Normalize()], device="cpu")
    before.save(str(trip.published))
    config = json.loads((trip.published / "config.json").read_text())
    texts = [text for text in made.texts() if text.strip() and "\n" not in text and "\r" not in text and "\t" not in text][:40]
    want = torch.from_numpy(before.encode(texts))
    behind = s.SentenceTransformer(str(trip.there_and_back()), device="cpu")
    trip.told["logits"] = apart(torch.from_numpy(behind.encode(texts)), want)
    trip.told["keys"] = trip.lost_keys(config)
    good = behind.max_seq_length == before.max_seq_length
    (trip.folder / "lines.txt").write_text("\n".join(texts) + "\n")
    trip.told["step"] = max(apart(vectors_here(trip, "run", trip.folder / "lines.txt"), want), step_of_sentences(trip, model, "classes")[0])
    return good, []


def all_trips():
    for name, (tokenizer, kind, make) in MODELS.items():
        absent = "sentencepiece is absent" if kind == "pairs" and optional("sentencepiece") is None else ""
        yield name, absent, lambda trip, row=(tokenizer, kind, make): of_transformers(trip, *row)
    for name, row in VECTORS.items():
        yield name, "" if sentence_transformers else "sentence-transformers is absent", lambda trip, row=row: of_vectors(trip, *row)
    for name, make in PICTURES.items():
        yield name, "", lambda trip, row=make: of_pictures(trip, row)
    for name, (library, of) in IMAGES.items():
        yield name, "" if globals()[library] else f"{library} is absent", lambda trip, row=(library, of): of_images(trip, *row)


def show(name, told, verdict):
    number = lambda key: f"{told[key]:.0e}" if key in told else "-"
    print(f"{name:34} {number('logits'):>7} {number('step'):>7} {told.get('ids', '-'):>7} {told.get('chat', '-'):>8} {told.get('pixels', '-'):>7}   {verdict}", flush=True)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("lpmm", help="the program")
    options.add_argument("--only", action="append", help="models with this in their names; more than once for more")
    asked = options.parse_args()
    t.utils.logging.set_verbosity_error()
    t.utils.logging.disable_progress_bar()
    versions = [f"{m.__name__} {m.__version__}" for m in (torch, t, timm, torchvision, sentence_transformers) if m]
    print(", ".join(versions))
    print(f"{'':34} {'logits':>7} {'step':>7} {'ids':>7} {'chat':>8} {'pixels':>7}")
    bad = 0
    for name, absent, go in all_trips():
        if asked.only and not any(word in name for word in asked.only):
            continue
        if absent:
            show(name, {}, f"skipped: {absent}")
            continue
        torch.manual_seed(1)
        with tempfile.TemporaryDirectory() as folder:
            trip = Trip(Path(asked.lpmm).resolve(), Path(folder))
            try:
                good, refused = go(trip)
                lost = trip.told.get("keys", [])
                far = [key for key in ("logits", "step") if key in trip.told and not trip.told[key] <= TOLERANCE * (1 if key == "logits" else 10)]
                verdict = "; ".join([*refused, *(f"lost: {key}" for key in lost), *(f"{key} differ" for key in far), *([] if good else ["differs"])])
            except Exception as e:  # the next ones are worth a try
                if getattr(e, "obj", None) is t:
                    show(name, {}, f"skipped: transformers {t.__version__} has no {e.name}")
                    continue
                verdict = f"FAILED: {e!r}"
            bad += bool(verdict)
            show(name, trip.told, verdict or "good")
    print(f"{bad} with faults" if bad else "all good")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
