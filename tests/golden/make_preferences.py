#!/usr/bin/env python3
"""Makes preferences.safetensors: what TRL's DPOTrainer says of pairs of answers, with the models llama_tiny/ and gpt2_wide_tiny/ beside
this file: the loss and the gradients of every tensor. The reference of each pair is of the same model with other values. Three losses:
"sigmoid" with beta 0.3; "smoothed", the same with a label smoothing of 0.2, which TRL has as "aot" (of one pair that is the same, so the
pairs are passed one by one); "mean" with beta 2, TRL's "sigmoid_norm". Needs PyTorch, transformers and TRL.
usage: make_preferences.py OUTDIR"""
import copy
import sys
import tempfile
from pathlib import Path

import torch
from datasets import Dataset
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast
from trl import DPOConfig, DPOTrainer

LOSSES = {"sigmoid": ("sigmoid", 0.3, 0.0), "smoothed": ("aot", 0.3, 0.2), "mean": ("sigmoid_norm", 2.0, 0.0)}
LENGTHS = [(3, 5, 2), (6, 1, 7), (2, 4, 4)]  # tokens of the prompt, the chosen answer, the rejected one, without its end


def numbers(count):
    return " ".join(str(int(i)) for i in torch.randint(1, 61, (count,)))


here = Path(__file__).parent
torch.manual_seed(3)
rows = [{"prompt": numbers(p), "chosen": " " + numbers(c), "rejected": " " + numbers(r)} for p, c, r in LENGTHS]
words = Tokenizer(models.WordLevel({str(i): i for i in range(61)}, unk_token="0"))
words.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, eos_token="0", pad_token="0", unk_token="0")
out = {}
for name in ("llama_tiny", "gpt2_wide_tiny"):
    model = AutoModelForCausalLM.from_pretrained(here / name, attn_implementation="eager", dtype=torch.float32)
    reference = copy.deepcopy(model)
    with torch.no_grad():
        for p in reference.parameters():
            p.add_(0.03 * torch.randn(p.shape))
    for what, (kind, beta, smoothing) in LOSSES.items():
        with tempfile.TemporaryDirectory() as folder:
            args = DPOConfig(output_dir=folder, beta=beta, label_smoothing=smoothing, loss_type=[kind], use_cpu=True, report_to="none",
                             per_device_train_batch_size=3, gradient_checkpointing=False, bf16=False, max_length=None, disable_dropout=True)
            trainer = DPOTrainer(model=model, ref_model=reference, args=args, train_dataset=Dataset.from_list(rows), processing_class=tokenizer)
        examples = list(trainer.train_dataset)
        model.zero_grad()
        loss = 0
        for group in ([[e] for e in examples] if kind == "aot" else [examples]):
            batch = trainer.data_collator(group)
            part = trainer.compute_loss(model, batch) * len(group) / len(examples)
            part.backward()
            loss += part.item()
        out[f"{name}.{what}.loss"] = torch.tensor([loss])
        for tensor, p in model.named_parameters():
            grad = p.grad.T if ".c_" in tensor and p.dim() == 2 else p.grad
            out[f"{name}.{what}.{tensor.removeprefix('transformer.')}"] = grad.detach().clone().contiguous()
    with torch.no_grad():
        said = []
        for i, e in enumerate(examples):
            for which in ("chosen", "rejected"):
                ids = torch.tensor([e["prompt_ids"] + e[f"{which}_ids"]])
                logp = reference(ids).logits.log_softmax(-1)[0, :-1].gather(1, ids[0, 1:, None])[:, 0]
                said.append(logp[len(e["prompt_ids"]) - 1:].sum())
                out[f"{i}.{which}"] = ids[0].int()
            out[f"{i}.prompt"] = torch.tensor([len(e["prompt_ids"])], dtype=torch.int32)
    out[f"{name}.reference"] = torch.stack(said)  # of each pair, the chosen answer and the rejected one
save_file(out, Path(sys.argv[1]) / "preferences.safetensors")
