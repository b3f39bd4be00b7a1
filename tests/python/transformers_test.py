"""transformers and accelerate with lpmm's optimizers."""
import pathlib
import runpy
import sys

import pytest

import lpmm

torch = pytest.importorskip("torch", reason="no torch here: the optimizers are not tested")
transformers = pytest.importorskip("transformers", reason="no transformers here: its Trainer and models are not tested")
accelerate = pytest.importorskip("accelerate", reason="no accelerate here: it is not tested, nor transformers' Trainer")
torch.set_num_threads(1)
levels = pytest.mark.parametrize("level", [1, 2, 3])


def prepared(level, **arguments):
    torch.manual_seed(1)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=48, n_positions=16, n_embd=64, n_layer=2, n_head=2, use_cache=False, bos_token_id=0, eos_token_id=0,
        resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))
    optimizer = lpmm.AdamW(model.parameters(), **{"lr": 1e-3, **arguments})
    if level >= 2:
        optimizer.fold_gradients()
    if level >= 3:
        lpmm.pack(model, optimizer)
    return model, optimizer


IDS = (torch.arange(8).unsqueeze(1) * 5 + 3 * torch.arange(16)) % 48


@levels
def test_the_trainer_example_runs(level, capsys, monkeypatch):
    path = pathlib.Path(__file__).parents[2] / "lpmm/python/examples/trainer.py"
    monkeypatch.setattr(sys, "argv", [str(path), "--level", str(level)])
    runpy.run_path(str(path), run_name="__main__")
    last = capsys.readouterr().out.strip().splitlines()[-1]
    assert float(last.split(": ")[1].split(" %")[0]) > 95


@levels
def test_accelerate_accumulates_clips_and_saves(level, tmp_path):
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
    model, optimizer = prepared(level)
    model, optimizer = accelerator.prepare(model, optimizer)
    losses = []
    for _ in range(30):
        with accelerator.accumulate(model):
            loss = model(input_ids=IDS, labels=IDS).loss
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
    assert losses[-1] < losses[0] - 0.5
    torch.save(accelerator.get_state_dict(model), tmp_path / "model.pt")
    again, _ = prepared(level)
    again.load_state_dict(torch.load(tmp_path / "model.pt", weights_only=True))
    assert abs(again(input_ids=IDS, labels=IDS).loss - model(input_ids=IDS, labels=IDS).loss) < 1e-6


def test_conv1d_is_packed_and_save_pretrained_gives_floats(tmp_path):
    model, optimizer = prepared(3)
    assert isinstance(model.transformer.h[0].mlp.c_fc.weight, lpmm.PackedParameter)
    for _ in range(2):
        optimizer.zero_grad()
        loss = model(input_ids=IDS, labels=IDS).loss
        loss.backward()
        optimizer.step()
    assert model.lm_head.weight is model.transformer.wte.weight
    with pytest.raises(RuntimeError, match="float_state_dict"):
        model.save_pretrained(tmp_path)
    model.save_pretrained(tmp_path, state_dict=lpmm.float_state_dict(model))
    again = transformers.GPT2LMHeadModel.from_pretrained(tmp_path)
    assert torch.equal(again.transformer.h[0].mlp.c_fc.weight, model.transformer.h[0].mlp.c_fc.weight.dequantize())
    assert abs(again(input_ids=IDS, labels=IDS).loss - model(input_ids=IDS, labels=IDS).loss) < 1e-5


def test_gradient_checkpointing_changes_no_loss():
    ends = []
    for checkpointing in (False, True):
        model, optimizer = prepared(3)
        if checkpointing:
            model.gradient_checkpointing_enable()
        model.train()
        for _ in range(3):
            optimizer.zero_grad()
            loss = model(input_ids=IDS, labels=IDS).loss
            loss.backward()
            optimizer.step()
        ends.append(loss.item())
    assert abs(ends[0] - ends[1]) < 1e-5


def test_sixteen_folded_microbatches_have_torchs_norm():
    want, (model, optimizer) = None, prepared(2, preset="lpmm")
    reference, _ = prepared(1)
    for part in range(16):
        ids = (IDS + part) % 48
        for m in (reference, model):
            (m(input_ids=ids, labels=ids).loss / 16).backward()
    want = torch.nn.utils.clip_grad_norm_(reference.parameters(), 1.0)
    assert abs(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0) / want - 1) < 1e-3
