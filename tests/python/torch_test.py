"""What people do with an optimizer of torch's: each works, or is refused in one sentence."""
import copy
import io
import math
import os
import pathlib
import pickle
import runpy
import sys
import threading
import warnings

import pytest

import lpmm

torch = pytest.importorskip("torch", reason="no torch here: the optimizers are not tested")
F = torch.nn.functional
torch.set_num_threads(1)  # threads that wait for work take longer than these models
warnings.filterwarnings("ignore")


def net(dtype=torch.float32):
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Embedding(40, 64), torch.nn.Linear(64, 96), torch.nn.Tanh(), torch.nn.Linear(96, 40)).to(dtype)


IDS = torch.arange(40).repeat(8)
NEXT = (IDS * 7 + 3) % 40


def loss_of(model):
    return F.cross_entropy(model(IDS).float(), NEXT)


def prepared(level, model=None, kind="AdamW", **arguments):
    model = model or net()
    optimizer = getattr(lpmm, kind)(model.parameters(), **{"lr": 0.01, **arguments})
    if level >= 2:
        optimizer.fold_gradients()
    if level >= 3:
        lpmm.pack(model, optimizer)
    return model, optimizer


def train(model, optimizer, steps=30, parts=1):
    for _ in range(steps):
        optimizer.zero_grad()
        for _ in range(parts):
            (loss_of(model) / parts).backward()
        optimizer.step()
    return loss_of(model).item()


def content(model, optimizer):
    def data(x):
        return data(x.memory.codes) + data(x.memory.steps) if isinstance(x, lpmm.PackedParameter) else (
            x.detach().contiguous().view(torch.uint8).numpy().tobytes() if x.dim() else repr(x.item()).encode())

    return b"".join([data(p) for p in model.parameters()] +
                    [data(v) for p in model.parameters() for v in optimizer.state.get(p, {}).values()])


levels = pytest.mark.parametrize("level", [1, 2, 3])


@levels
@pytest.mark.parametrize("preset", ["lpmm", "lpmm-min", "lpmm-nano"])
def test_training_ends_where_torchs_does(level, preset):
    reference = net()
    want = train(reference, torch.optim.AdamW(reference.parameters(), lr=0.01))
    assert abs(train(*prepared(level, preset=preset), parts=2) - want) < 0.05


@levels
def test_torchs_clipping_cuts_the_norm_that_it_cuts_elsewhere(level):
    reference, (model, optimizer) = net(), prepared(level, preset="lpmm")
    for _ in range(16):
        (loss_of(reference) / 16).backward()
        (loss_of(model) / 16).backward()
    want = torch.nn.utils.clip_grad_norm_(reference.parameters(), 0.01)
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)
    assert abs(norm / want - 1) < (1e-6 if level == 1 else 0.001)
    assert abs(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0) - 0.01) < 1e-5


@levels
def test_clip_norm_does_what_torchs_clipping_does(level):
    (a, by_itself), (b, by_torch) = prepared(level, kind="SGD", clip_norm=0.01), prepared(level, kind="SGD")
    for _ in range(3):
        for model, optimizer in ((a, by_itself), (b, by_torch)):
            optimizer.zero_grad()
            loss_of(model).backward()
        norm = torch.nn.utils.clip_grad_norm_(b.parameters(), 0.01)
        by_itself.step()
        by_torch.step()
        assert abs(by_itself.last_gradient_norm / norm - 1) < 1e-4
    assert abs(loss_of(a) - loss_of(b)) < 1e-4


@levels
def test_grad_scaler_unscales_and_skips(level):
    model, optimizer = prepared(level)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=1000)
    first = loss_of(model).item()
    for step in range(20):
        optimizer.zero_grad()
        scaler.scale(loss_of(model) * (torch.inf if step == 10 else 1)).backward()
        before = content(model, optimizer)
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        if step == 10:
            assert content(model, optimizer) == before and scaler.get_scale() == 2.0**9
    assert loss_of(model).item() < first / 2


@levels
def test_a_step_that_is_not_finite_changes_no_byte(level):
    model, optimizer = prepared(level)
    train(model, optimizer, 3)
    before = content(model, optimizer)
    optimizer.zero_grad()
    (loss_of(model) * torch.nan).backward()
    optimizer.step()
    assert optimizer.skipped_steps == 1 and content(model, optimizer) == before
    train(model, optimizer, 2)
    assert content(model, optimizer) != before
    optimizer.on_nonfinite = "raise"
    (loss_of(model) * torch.inf).backward()
    with pytest.raises(lpmm.NonFiniteGradient):
        optimizer.step()


@levels
def test_saved_and_loaded_training_goes_on_to_the_bit(level):
    model, optimizer = prepared(level, clip_norm=1.0)
    train(model, optimizer, 3)
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    train(model, optimizer, 3)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    other, again = prepared(level, clip_norm=1.0)
    other.load_state_dict(saved["model"])
    again.load_state_dict(saved["optimizer"])
    assert again.state_dict()["param_groups"] == saved["optimizer"]["param_groups"]
    train(other, again, 3)
    assert content(other, again) == content(model, optimizer)


@levels
@pytest.mark.parametrize("copier", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))], ids=["deepcopy", "pickle"])
def test_copies_go_on_to_the_bit(level, copier):
    model, optimizer = prepared(level)
    train(model, optimizer, 3)
    optimizer.zero_grad()
    other, again = copier((model, optimizer))
    assert again.torch_state_dict()["state"].keys() == optimizer.state_dict()["state"].keys()
    train(model, optimizer, 2)
    train(other, again, 2)
    assert content(other, again) == content(model, optimizer)
    assert all(x is y for x, y in zip((p for g in again.param_groups for p in g["params"]), other.parameters()))


def test_torchs_states_come_in_and_go_out():
    model = net()
    theirs = torch.optim.AdamW(model.parameters(), lr=0.01)
    train(model, theirs, 5)
    ours = lpmm.AdamW(model.parameters(), lr=0.01, preset="fp32")
    ours.load_state_dict(theirs.state_dict())
    p = model[1].weight
    assert torch.equal(ours.state[p]["momentum"], theirs.state[p]["exp_avg"])
    back = torch.optim.AdamW(model.parameters(), lr=0.01)
    back.load_state_dict(ours.torch_state_dict() | {"param_groups": theirs.state_dict()["param_groups"]})
    assert torch.equal(back.state[p]["exp_avg_sq"], theirs.state[p]["exp_avg_sq"])
    packed = lpmm.AdamW(model.parameters(), lr=0.01)
    packed.load_state_dict(theirs.state_dict())
    error = packed.dequantized(p, "momentum") - theirs.state[p]["exp_avg"]
    assert error.abs().max() < 0.2 * theirs.state[p]["exp_avg"].abs().max()


def test_states_of_another_kind_are_refused():
    model, optimizer = prepared(1)
    train(model, optimizer, 1)
    with pytest.raises(ValueError, match="preset='lpmm-min'"):
        lpmm.AdamW(model.parameters(), preset="lpmm").load_state_dict(optimizer.state_dict())
    theirs = torch.optim.Adam(model.parameters(), amsgrad=True)
    train(model, theirs, 1)
    state = theirs.state_dict()
    with pytest.raises(ValueError, match="no amsgrad"):
        lpmm.Adam(model.parameters()).load_state_dict(state)
    state["param_groups"][0]["amsgrad"] = False
    with pytest.raises(ValueError, match="max_exp_avg_sq"):
        lpmm.Adam(model.parameters()).load_state_dict(state)


def test_muons_constants_are_named():
    p = torch.nn.Parameter(torch.ones(64, 64))
    for given in ({"eps": 1e-8}, {"ns_coefficients": (3, -4, 2)}, {"adjust_lr_fn": "none"}):
        with pytest.raises(ValueError, match=next(iter(given))):
            lpmm.Muon([p], **given)


@pytest.mark.parametrize("arguments,text", [
    (dict(lr=-1), "learning_rate is -1"), (dict(betas=(1.0, 0.9)), "beta1 is 1"), (dict(betas=(0.9,)), "2 numbers"),
    (dict(preset="bnb"), "bnb8"), (dict(specs={"momentum": "int9x"}), "int9x"), (dict(specs={"variance": "int8"}), "never negative"),
    (dict(amsgrad=True), "amsgrad"), (dict(differentiable=True), "differentiable"), (dict(kind="body"), "'hidden'"),
    (dict(clip_norm=-1), "clip_norm"), (dict(on_nonfinite="ignore"), "'skip'"), (dict(bf16_rounding="up"), "'rn'"),
])
def test_bad_arguments_are_named(arguments, text):
    with pytest.raises(ValueError, match=text):
        lpmm.AdamW(net().parameters(), **arguments)


def test_unknown_arguments_are_refused_and_hints_are_taken():
    with pytest.raises(TypeError, match="momentun"):
        lpmm.SGD(net().parameters(), momentun=0.9)
    lpmm.AdamW(net().parameters(), 1e-3, (0.9, 0.95), foreach=True, fused=True)


@pytest.mark.parametrize("name,settings", [
    ("Adafactor", {}), ("Adafactor", {"lr": 0.5, "beta2_decay": -0.6, "d": 2.0, "eps": (None, 0.1), "weight_decay": 0.1}),
    ("Muon", {}), ("Muon", {"adjust_lr_fn": "match_rms_adamw", "nesterov": False, "momentum": 0.8, "weight_decay": 0.0})])
def test_rules_of_matrices_step_as_torchs(name, settings):
    """Muon's orthogonal matrices are of bf16 products there, and of fp32 ones here."""
    if not hasattr(torch.optim, name):
        pytest.skip(f"this torch has no {name}")
    generator = torch.Generator().manual_seed(3)
    start = 0.1 * torch.randn(24, 40, generator=generator)
    ours, theirs = (torch.nn.Parameter(start.clone()) for _ in range(2))
    optimizers = getattr(lpmm, name)([ours], preset="fp32", **settings), getattr(torch.optim, name)([theirs], **settings)
    for _ in range(10):
        ours.grad = torch.randn(24, 40, generator=generator) * torch.rand(24, 1, generator=generator)
        theirs.grad = ours.grad.clone()
        for optimizer in optimizers:
            optimizer.step()
    assert (ours - theirs).norm() < (0.02 if name == "Muon" else 1e-4) * (theirs - start).norm()


@pytest.mark.parametrize("dtype", [torch.complex64, torch.float64])
def test_other_types_are_refused(dtype):
    with pytest.raises(ValueError, match="float32"):
        lpmm.AdamW([torch.nn.Parameter(torch.zeros(3, dtype=dtype))])


def test_other_devices_are_refused():
    with pytest.raises(RuntimeError, match="lies on meta"):
        lpmm.AdamW([torch.nn.Parameter(torch.zeros(3, device="meta"))])


def test_sparse_gradients_are_refused():
    table = torch.nn.Embedding(10, 8, sparse=True)
    optimizer = lpmm.AdamW(table.parameters())
    table(torch.tensor([1])).sum().backward()
    with pytest.raises(RuntimeError, match="sparse"):
        optimizer.step()


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_types_train(level, dtype):
    model, optimizer = prepared(level, net(dtype), eps=1e-6)
    assert train(model, optimizer, 30) < 1 and model[1].weight.dtype == dtype


def test_autocast_trains():
    for level in (1, 2, 3):
        model, optimizer = prepared(level)
        for _ in range(30):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                loss = loss_of(model)
            loss.backward()
            optimizer.step()
        assert loss_of(model) < 1


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("layout", ["transposed", "channels_last", "misaligned"])
def test_layout_changes_no_value(level, layout):
    torch.manual_seed(2)
    x = torch.randn(8, 6, 5, 5)
    base = torch.empty(x.numel() + 1)
    other = {"transposed": lambda: x.transpose(0, 3).contiguous().transpose(0, 3),
             "channels_last": lambda: x.contiguous(memory_format=torch.channels_last),
             "misaligned": lambda: base[1:].view(x.shape).copy_(x)}[layout]()
    ends = []
    for values in (x.clone(), other):
        p = torch.nn.Parameter(values)
        optimizer = lpmm.AdamW([p], lr=0.1)
        if level == 2:
            optimizer.fold_gradients()
        for _ in range(5):
            optimizer.zero_grad()
            (p * x.cos()).square().sum().backward()
            optimizer.step()
        ends.append(p.detach())
    assert torch.equal(*ends)


def test_empty_and_scalar_parameters_and_unused_ones():
    ps = [torch.nn.Parameter(torch.ones(s)) for s in ((0, 4), (), (3,))]
    optimizer = lpmm.AdamW(ps, lr=0.1).fold_gradients()
    (ps[0].sum() + ps[1] * 2).backward()
    optimizer.step()
    assert abs(ps[1].item() - 0.899) < 1e-3 and torch.equal(ps[2].detach(), torch.ones(3)) and ps[2] not in optimizer.state


def test_groups_have_storage_of_their_own():
    model = net()
    optimizer = lpmm.AdamW([{"params": model[0].parameters(), "specs": {"variance": "fp32"}},
                            {"params": model[1].parameters(), "preset": "lpmm", "weight_decay": 0.0}], min_elements=100)
    optimizer.add_param_group({"params": model[3].parameters(), "lr": 0.1, "min_elements": 10**6})
    train(model, optimizer, 2)
    assert optimizer.state[model[0].weight]["variance"].dtype == torch.float32
    assert optimizer.state[model[1].weight]["variance"].dtype == torch.uint8
    assert optimizer.state[model[3].weight]["momentum"].dtype == torch.float32
    optimizer.param_groups[0]["preset"] = "lpmm-nano"
    with pytest.raises(ValueError, match="after the first step"):
        train(model, optimizer, 1)


@levels
@pytest.mark.parametrize("name", ["OneCycleLR", "CosineAnnealingLR", "LambdaLR", "ReduceLROnPlateau"])
def test_schedulers_move_the_rate(level, name):
    model, optimizer = prepared(level)
    schedulers = torch.optim.lr_scheduler
    scheduler = {"OneCycleLR": lambda: schedulers.OneCycleLR(optimizer, 0.01, total_steps=30),
                 "CosineAnnealingLR": lambda: schedulers.CosineAnnealingLR(optimizer, 30),
                 "LambdaLR": lambda: schedulers.LambdaLR(optimizer, lambda s: min(1, s / 5)),
                 "ReduceLROnPlateau": lambda: schedulers.ReduceLROnPlateau(optimizer)}[name]()
    for _ in range(25):
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        optimizer.step()
        scheduler.step(*([loss] if name == "ReduceLROnPlateau" else []))
    assert loss_of(model) < 1.5


def test_a_rate_may_be_a_tensor_and_maximize_turns_the_step():
    p, q = torch.nn.Parameter(torch.ones(300)), torch.nn.Parameter(torch.ones(300))
    for x, maximize in ((p, False), (q, True)):
        optimizer = lpmm.SGD([x], lr=torch.tensor(0.5), maximize=maximize)
        x.sum().backward()
        optimizer.step()
    assert torch.equal(p.detach(), torch.full((300,), 0.5)) and torch.equal(q.detach(), torch.full((300,), 1.5))


@levels
def test_closures_hooks_and_zero_grad_of_the_model(level):
    model, optimizer = prepared(level)
    seen = []
    optimizer.register_step_post_hook(lambda *_: seen.append(1))

    def closure():
        model.zero_grad()
        loss = loss_of(model)
        loss.backward()
        return loss

    losses = [optimizer.step(closure).item() for _ in range(20)]
    assert losses[-1] < losses[0] / 2 and len(seen) == 20
    optimizer.zero_grad(set_to_none=False)
    before = content(model, optimizer)
    if level > 1:
        optimizer.step()  # nothing was folded
        assert model[1].weight.grad.norm() == 0


@levels
def test_averaged_models(level):
    model, optimizer = prepared(level)
    averaged = torch.optim.swa_utils.AveragedModel(model)
    train(model, optimizer, 5)
    averaged.update_parameters(model)
    if level < 3:
        assert torch.equal(averaged.module[1].weight, model[1].weight)
    else:
        assert (averaged.module[1].weight - model[1].weight).abs().max() < 0.1


def test_tied_weights_stay_tied_and_unpack():
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(1)
            self.table, self.head = torch.nn.Embedding(40, 64), torch.nn.Linear(64, 40, bias=False)
            self.head.weight = self.table.weight
            self.table.weight.data *= 0.1

        def forward(self, ids):
            return self.head(torch.tanh(self.table(ids)))

    model = Tied()
    optimizer = lpmm.AdamW(model.parameters(), lr=0.01)
    assert lpmm.pack(model, optimizer) == ["table.weight", "head.weight"]
    first = loss_of(model).item()
    assert train(model, optimizer, 30) < first / 2
    assert model.head.weight is model.table.weight and len(list(model.parameters())) == 1
    packed = model.table.weight.dequantize()
    lpmm.unpack(model, optimizer)
    assert model.head.weight is model.table.weight and torch.equal(model.head.weight.detach(), packed)
    assert type(model.head.weight) is torch.nn.Parameter and optimizer.param_groups[0]["params"][0] is model.head.weight
    train(model, optimizer, 3)


def test_convolutions_and_checkpointing_give_the_gradients_of_floats():
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(16 * 36, 10))
    x = torch.randn(4, 3, 8, 8)
    optimizer = lpmm.AdamW(model.parameters(), preset="lpmm")
    assert lpmm.pack(model, optimizer) == ["0.weight", "3.weight"]
    floats = copy.deepcopy(model)
    lpmm.unpack(floats)
    assert torch.allclose(model(x), floats(x), atol=1e-6)
    torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False).square().sum().backward()
    floats(x).square().sum().backward()
    for i in (0, 3):
        want = floats[i].weight.grad
        assert (model[i].weight.grad - want).abs().max() < 0.02 * want.abs().max()
    assert not any(isinstance(v, lpmm.PackedParameter) for v in lpmm.float_state_dict(model).values())
    with pytest.raises(RuntimeError, match="float_state_dict"):
        model[0].weight.data_ptr()
    with pytest.raises(RuntimeError, match="unpack"):
        model.to(torch.bfloat16)


def test_weights_in_panels_give_the_gradients_of_floats_after_inference(monkeypatch):
    monkeypatch.setattr("lpmm.parameters._PANEL", 4096)
    vars(lpmm.parameters._kept).clear()
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Embedding(300, 64), torch.nn.Linear(64, 300))
    ids = torch.randint(0, 300, (50,))
    optimizer = lpmm.AdamW(model.parameters(), preset="lpmm")
    lpmm.pack(model, optimizer)
    assert len(model[0].weight.panels()) > 3
    floats = copy.deepcopy(model)
    lpmm.unpack(floats)
    with torch.inference_mode():
        assert torch.allclose(model(ids), floats(ids), atol=1e-6)
    for m in (model, floats):
        m(ids).square().sum().backward()
    for i in (0, 1):
        want = floats[i].weight.grad
        assert (model[i].weight.grad - want).abs().max() < 0.02 * want.abs().max()


def test_nothing_to_pack_is_an_error():
    model = net()
    with pytest.raises(ValueError, match="no weight was packed"):
        lpmm.pack(model, lpmm.AdamW(model.parameters(), preset="bnb8"))


@levels
def test_a_compiled_model_is_one_graph_and_trains_to_the_same_bit(level):
    ends = []
    for compiles in (False, True):
        model, optimizer = prepared(level)
        forward = torch.compile(model, backend="aot_eager", fullgraph=True) if compiles else model
        step = torch.compile(optimizer.step, backend="eager") if compiles else optimizer.step
        for _ in range(5):
            optimizer.zero_grad()
            loss_of(forward).backward()
            step()
        ends.append(content(model, optimizer))
    assert ends[0] == ends[1]


def test_a_compiled_convolution_is_one_graph():
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(16 * 36, 10))
    lpmm.pack(model, lpmm.AdamW(model.parameters(), preset="lpmm"))
    x, gradients = torch.randn(4, 3, 8, 8), []
    for forward in (model, torch.compile(model, backend="aot_eager", fullgraph=True)):
        model.zero_grad()
        forward(x).square().sum().backward()
        gradients.append(model[0].weight.grad.clone())
    assert (gradients[0] - gradients[1]).abs().max() < 0.02 * gradients[0].abs().max()


def test_gradients_that_are_applied_at_once_give_the_bits_of_a_step():
    ends = []
    for at_once in (False, True):
        model, optimizer = prepared(1)
        if at_once:
            optimizer.fold_gradients(accumulator="none")
        for _ in range(5):
            optimizer.zero_grad()
            loss_of(model).backward()
            assert not at_once or optimizer.memory()["gradients"] == 0
            optimizer.step()
        ends.append(content(model, optimizer))
    assert ends[0] == ends[1]
    loss_of(model).backward()
    with pytest.raises(RuntimeError, match="one backward a step"):
        loss_of(model).backward()
    with pytest.raises(RuntimeError, match="not clipped"):
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    with pytest.raises(ValueError, match="packed weights"):
        lpmm.pack(model, optimizer)
    before = content(*(other := prepared(1)))
    other[1].fold_gradients(accumulator="none")
    (loss_of(other[0]) * torch.nan).backward()
    assert other[1].skipped_steps == 5 and content(*other) == before
    with pytest.raises(ValueError, match="clip_norm"):
        lpmm.AdamW(model.parameters(), clip_norm=1.0).fold_gradients(accumulator="none")


def test_a_second_term_makes_small_steps_count():
    ends = []
    for specs in (None, {"parameter": "bf16:rn", "compensation": "ulp8"}):
        p = torch.nn.Parameter(torch.ones(4, 300, dtype=torch.bfloat16))
        optimizer = lpmm.SGD([p], lr=1e-4, specs=specs, bf16_rounding="rn")
        for _ in range(200):
            p.grad = torch.ones_like(p)
            optimizer.step()
        ends.append(p.detach().float().mean().item())
    assert ends[0] == 1.0 and abs(ends[1] - 0.98) < 4e-3


@pytest.mark.parametrize("when", [0, 1])
def test_a_second_term_follows_a_model_that_is_converted(when):
    p = torch.nn.Linear(300, 4, bias=False)
    torch.nn.init.ones_(p.weight)
    optimizer = lpmm.SGD(p.parameters(), lr=1e-4, specs={"parameter": "bf16:rn", "compensation": "ulp8"}).fold_gradients()
    for step in range(200):
        if step == when:
            p.bfloat16()
        p(torch.ones(1, 300, dtype=p.weight.dtype)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    assert ("compensation" in optimizer.state[p.weight]) == (when == 0)  # else bf16_rounding
    assert abs(p.weight.detach().float().mean().item() - 0.98) < 4e-3


def test_threads_change_no_bit():
    ends = []
    for threads in (1, 3):
        lpmm.set_threads(threads)
        model, optimizer = prepared(3)
        train(model, optimizer, 3)
        ends.append(content(model, optimizer))
    lpmm.set_threads(0)
    assert ends[0] == ends[1]


def test_four_threads_and_a_child_process_train():
    want, got = train(*prepared(2), 5), [0.0] * 4

    def work(i):
        got[i] = train(models[i], optimizers[i], 5)

    models, optimizers = zip(*(prepared(2) for _ in range(4)))
    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all(abs(x - want) < 1e-4 for x in got)
    model, optimizer = prepared(2)
    loss_of(model).backward()
    child = os.fork()
    if child == 0:
        optimizer.step()
        os._exit(0 if torch.isfinite(model[1].weight).all() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("microbatches", range(2))
def test_a_part_of_a_gradient_is_refused(microbatches, monkeypatch):
    """Backward ends between two panels of a weight."""
    monkeypatch.setattr(lpmm.parameters, "_PANEL", 4096)
    model = torch.nn.Sequential(torch.nn.Linear(64, 300))
    _, optimizer = prepared(3, model, min_elements=0)
    for _ in range(microbatches):
        model(torch.ones(2, 64)).sum().backward()
    fold, calls = lpmm.PackedGradient.fold, []

    def fails_at_the_second(self, g, first=0):
        calls.append(first)
        if len(calls) == 2:
            raise MemoryError("as if there was none")
        fold(self, g, first)

    monkeypatch.setattr(lpmm.PackedGradient, "fold", fails_at_the_second)
    with pytest.raises(MemoryError):
        model(torch.ones(2, 64)).sum().backward()
    monkeypatch.setattr(lpmm.PackedGradient, "fold", fold)
    with pytest.raises(RuntimeError, match="part of a gradient"):
        optimizer.step()
    optimizer.zero_grad()
    model(torch.ones(2, 64)).sum().backward()
    assert abs(float(model[0].weight.grad.norm()) - math.sqrt(64 * 300 * 4)) < 1
    optimizer.step()


def test_a_gradient_that_ended_early_is_not_gone_on_with(monkeypatch):
    """Memory ran out between the panels of a weight, and backward is called once more."""
    monkeypatch.setattr("lpmm.parameters._PANEL", 4096)
    model = torch.nn.Linear(64, 256, bias=False)
    lpmm.pack(model, lpmm.AdamW(model.parameters()))
    x, take = torch.ones(2, 64), type(model.weight).take_gradient

    def fail(self, part, first):
        if first:
            raise torch.OutOfMemoryError
        take(self, part, first)

    with monkeypatch.context() as m:
        m.setattr(type(model.weight), "take_gradient", fail)
        with pytest.raises(torch.OutOfMemoryError):
            model(x).sum().backward()
    with pytest.raises(RuntimeError, match="ended early; call zero_grad"):
        model(x).sum().backward()
    model.weight.grad.zero_()
    model(x).sum().backward()
    assert abs(float(model.weight.grad.norm()) - 256) < 1


@pytest.mark.parametrize("level", [1, 2, 3])
def test_a_step_between_forward_and_backward_is_said(level):
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64))
    optimizer = lpmm.AdamW(model.parameters(), lr=0.1)
    if level > 1:
        optimizer.fold_gradients()
    if level > 2:
        lpmm.pack(model, optimizer)
    x = torch.randn(4, 64, requires_grad=True)
    model(x).sum().backward()
    y = model(x).sum()
    optimizer.step()
    with pytest.raises(RuntimeError, match="written to between|modified by an inplace"):
        y.backward()


def test_a_packed_weight_stays_as_it_was_where_a_value_is_refused():
    model = torch.nn.Linear(64, 64, bias=False)
    lpmm.pack(model, lpmm.AdamW(model.parameters()))
    before, bad = model.weight.dequantize(), torch.ones(64, 64)
    bad[3, 5] = float("nan")
    with torch.no_grad(), pytest.raises(ValueError, match="cannot be packed"):
        model.weight.copy_(bad)
    assert torch.equal(before, model.weight.dequantize())


def test_an_overflow_of_weights_is_an_error_that_says_so():
    p = torch.nn.Parameter(torch.ones(300))
    optimizer = lpmm.SGD([p], lr=1e30)
    (p * 1e30).sum().backward()
    with pytest.raises(RuntimeError, match="lost"):
        optimizer.step()


def test_memory_counts_what_there_is():
    model, optimizer = prepared(3)
    train(model, optimizer, 1)
    got, elements = optimizer.memory(), sum(p.numel() for p in model.parameters())
    assert 8 * (got["parameters"] + got["gradients"] + got["states"]) / elements < 24


@pytest.mark.parametrize("level", range(4))
def test_the_example_runs(level, capsys, monkeypatch):
    path = pathlib.Path(__file__).parents[2] / "lpmm/python/examples/loop.py"
    monkeypatch.setattr(sys, "argv", [str(path), "--level", str(level)])
    runpy.run_path(str(path), run_name="__main__")
    right = float(capsys.readouterr().out.split(": ")[1].split(" %")[0])
    assert right > 95
