"""transformers' Trainer with lpmm: a small GPT-2, made here, learns the order of a few words.

python3 trainer.py [--level 1|2|3] [--folder F]; it needs transformers and accelerate. Saves float weights that from_pretrained reads.
"""
import argparse
import tempfile

import lpmm
import torch
import transformers

parser = argparse.ArgumentParser()
parser.add_argument("--level", type=int, default=3, choices=range(1, 4))
parser.add_argument("--preset", default="lpmm-min")
parser.add_argument("--folder", help="where the trained model goes")
options = parser.parse_args()

torch.manual_seed(0)
model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
    vocab_size=64, n_positions=32, n_embd=64, n_layer=2, n_head=2, use_cache=False, bos_token_id=0, eos_token_id=0))
starts = torch.randint(0, 64, (256, 1))
sequences = (starts + 5 * torch.arange(32)) % 64  # every word is followed by the fifth after it

optimizer = lpmm.AdamW(model.parameters(), lr=3e-3, preset=options.preset)
if options.level >= 2:
    optimizer.fold_gradients()
if options.level >= 3:
    lpmm.pack(model, optimizer)

with tempfile.TemporaryDirectory() as room:
    arguments = transformers.TrainingArguments(
        output_dir=room, max_steps=60, per_device_train_batch_size=8, gradient_accumulation_steps=2, max_grad_norm=1.0,
        lr_scheduler_type="cosine", warmup_steps=5, use_cpu=True, save_strategy="no", report_to=[], disable_tqdm=True, logging_steps=20)
    trainer = transformers.Trainer(model=model, args=arguments, optimizers=(optimizer, None),
                                   train_dataset=[{"input_ids": s, "labels": s} for s in sequences])
    loss = trainer.train().training_loss
    folder = options.folder or room
    model.save_pretrained(folder, state_dict=lpmm.float_state_dict(model))
    again = transformers.GPT2LMHeadModel.from_pretrained(folder)

with torch.no_grad():
    predicted = again(input_ids=sequences[:, :-1]).logits[:, 8:].argmax(-1)
right = (predicted == sequences[:, 9:]).float().mean().item()
bits = 8 * sum(optimizer.memory().values()) / sum(p.numel() for p in model.parameters())
print(f"level {options.level}: {100 * right:.1f} % right, mean loss {loss:.2f}, {bits:.1f} bits a parameter")
