"""States, groups and arguments of optimizers: what comes in comes in whole, and an error changes nothing."""
import copy

import pytest

import lpmm

torch = pytest.importorskip("torch", reason="no torch here: states of optimizers are not tested")
torch.set_num_threads(1)


def trained(kind="AdamW", shapes=((64, 96), (300,)), steps=3, **arguments):
    generator = torch.Generator().manual_seed(1)
    ps = [torch.nn.Parameter(torch.randn(s, generator=generator)) for s in shapes]
    optimizer = getattr(lpmm, kind)(ps, **arguments)
    for _ in range(steps):
        for p in ps:
            p.grad = torch.randn(p.shape, generator=generator)
        optimizer.step()
    return ps, optimizer


@pytest.mark.parametrize("kind", ["AdEMAMix", "AdamMini", "AdamWFactored", "Adafactor", "Muon", "SGD", "RMSprop"])
def test_every_state_goes_out_in_fp32_and_comes_back(kind):
    """AdEMAMix had left its slow momentum behind, Muon the variance of vectors, and those of rows and columns all."""
    arguments = {"momentum": 0.9} if kind in ("SGD", "RMSprop") else {}
    ps, optimizer = trained(kind, preset="fp32", **arguments)
    again = getattr(lpmm, kind)(ps, preset="fp32", **arguments)
    again.load_state_dict(optimizer.torch_state_dict())
    for p in ps:
        assert again.state[p].keys() == optimizer.state[p].keys()
        assert all(torch.equal(again.state[p][k], v) for k, v in optimizer.state[p].items())
    packed = getattr(lpmm, kind)(ps, preset="lpmm", **arguments)
    packed.load_state_dict(optimizer.torch_state_dict())
    assert all(v.abs().sum() > 0 for p in ps for v in packed.state[p].values())


@pytest.mark.parametrize("change,text", [
    (lambda s: s["state"][0].pop("momentum_steps"), "lacks momentum_steps"), (lambda s: s["state"][0].pop("step"), "lacks step"),
    (lambda s: s["state"][1].pop("variance"), "lacks variance"), (lambda s: s["state"][1].update(momentum=torch.ones(7)), "has shape"),
    (lambda s: s["state"][0].update(momentum=torch.ones(7, dtype=torch.uint8)), "uint8 of shape"),
    (lambda s: s["state"][0]["step"].fill_(-5), "number of steps"), (lambda s: s["state"][1]["step"].fill_(float("nan")), "number of steps"),
    (lambda s: s["state"][0]["step"].fill_(1.5), "number of steps"), (lambda s: s["state"][0].update(step=2**24), "below 2\\^24"),
    (lambda s: s["state"][0].update(step="a"), "no tensor"), (lambda s: s["state"][1]["variance"].neg_(), "below 0"),
    (lambda s: s["state"][1]["momentum"].fill_(float("nan")), "is NaN"), (lambda s: s["state"][1]["momentum"].fill_(1e38), "2\\^120"),
    (lambda s: s["state"][1].update(extra=torch.tensor(float("nan"))), "'extra' is none of"),
    (lambda s: s["state"].update({"0": s["state"].pop(0)}), "a state of '0'"), (lambda s: s.pop("state"), "has 'param_groups'"),
    (lambda s: s.pop("param_groups"), "has 'state'"), (lambda s: s["param_groups"][0].pop("params"), "and these 'params'"),
    (lambda s: s["param_groups"][0].update(amsgrad=True), "no amsgrad"), (lambda s: s["param_groups"][0].update(lr=None), "lr is None"),
    (lambda s: s["param_groups"][0].update(betas=.9), "betas is 0.9"), (lambda s: s["param_groups"][0].update(last_lr="x"), "last_lr"),
    (lambda s: s["param_groups"][0].update(seed=-3), "seed is -3"), (lambda s: s["param_groups"][0].update(bf16_rounding="up"), "'up'"),
    (lambda s: s["param_groups"][0]["params"].pop(), r"groups of \[1\] parameters")])
def test_a_state_that_is_refused_changes_nothing(change, text):
    ps, optimizer = trained(lr=0.5)
    states = copy.deepcopy(optimizer.state_dict())
    bad = copy.deepcopy(states)
    bad["param_groups"][0]["lr"] = 7.0
    bad["param_groups"][0]["betas"] = (0.0, 0.9)
    change(bad)
    with pytest.raises(TypeError if text in ("no tensor", "lr is None", "last_lr") else ValueError, match=text):
        optimizer.load_state_dict(bad)
    after = optimizer.state_dict()
    assert after["param_groups"] == states["param_groups"]
    assert all(torch.equal(v, after["state"][i][k]) for i in (0, 1) for k, v in states["state"][i].items())
    ps[0].grad = torch.ones_like(ps[0])
    optimizer.step()


@pytest.mark.parametrize("preset", lpmm.presets())
def test_what_a_preset_stores_comes_back(preset):
    """Steps of a format may be any bits: those of log02 look like numbers below 0."""
    ps, optimizer = trained(preset=preset)
    again = lpmm.AdamW(ps, preset=preset)
    again.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert all(torch.equal(again.state[p][k], v) for p in ps for k, v in optimizer.state[p].items())


def test_momentum_alone_needs_no_number_of_steps():
    """torch's SGD and Muon keep none, nor do packages with Lion."""
    for kind, name in (("SGD", "momentum_buffer"), ("Muon", "momentum_buffer"), ("Lion", "exp_avg")):
        ps, optimizer = trained(kind, shapes=((64, 96),), **({"momentum": 0.9} if kind == "SGD" else {}))
        given = optimizer.torch_state_dict()
        given["state"] = {0: {name: torch.ones(64, 96)}}
        optimizer.load_state_dict(given)
        assert (optimizer.dequantized(ps[0], "momentum") - 1).abs().max() < 0.1


def test_hooks_of_loading_see_the_states():
    ps, optimizer = trained()
    seen = []

    def before(_, given):
        return {**given, "state": {i: {**s, "step": torch.tensor(77.0)} for i, s in given["state"].items()}}

    def in_place(_, given):
        given["param_groups"] = [{**g, "lr": 0.25} for g in given["param_groups"]]

    optimizer.register_load_state_dict_pre_hook(before)
    optimizer.register_load_state_dict_pre_hook(in_place, prepend=True)
    optimizer.register_load_state_dict_post_hook(lambda of: seen.append(len(of.state)))
    optimizer.load_state_dict(optimizer.state_dict())
    assert optimizer.state[ps[0]]["step"] == 77 and optimizer.param_groups[0]["lr"] == 0.25 and seen == [2]


def test_gradients_that_are_applied_at_once_follow_a_loaded_group():
    ps, optimizer = trained(weight_decay=0.0)
    optimizer.zero_grad()
    optimizer.fold_gradients(accumulator="none").load_state_dict(optimizer.state_dict())
    optimizer.param_groups[0]["lr"] = 0.0
    before = ps[0].detach().clone()
    ps[0].sum().backward()
    assert torch.equal(ps[0].detach(), before)


def test_names_of_parameters_stay():
    model = torch.nn.Linear(64, 64)
    optimizer = lpmm.AdamW(model.named_parameters())
    optimizer.load_state_dict(optimizer.state_dict())
    lpmm.pack(model, optimizer)
    assert optimizer.param_groups[0]["param_names"] == ["weight", "bias"]


@pytest.mark.parametrize("group,text", [
    ({"bf16_rounding": "up"}, "'rn'"), ({"preset": "none"}, "unknown preset"), ({"lr": -1}, "learning_rate"), ({"amsgrad": True}, "amsgrad"),
    ({"clip_norm": 1.0}, "for all groups"), ({"on_nonfinite": "raise"}, "for all groups"), ({"seed": -1}, "seed is -1"),
    ({"seed": 2**64}, "2\\^64 - 1"), ({"seed": "a"}, "seed is 'a'"), ({"min_elements": 1e3}, "whole number"), ({"specs": "int8"}, "specs"),
    ({"specs": {"momentum": 8}}, "specs"), ({"preset": None}, "preset"), ({"lr": None}, "lr"), ({"weight_decay": None}, "weight_decay"),
    ({"betas": 0.9}, "betas is 0.9"), ({"min_elements": -1}, "from 0 on"), ({"maximize": "no"}, "True or False")])
def test_a_group_that_is_refused_is_not_there(group, text):
    _, optimizer = trained()
    with pytest.raises((ValueError, TypeError), match=text) as e:
        optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(3))], **group})
    assert len(optimizer.param_groups) == 1 and "incompatible function arguments" not in str(e.value)


@pytest.mark.parametrize("written,text", [
    ({"seed": -1}, "seed is -1"), ({"bf16_rounding": "up"}, "'rn'"), ({"lr": float("nan")}, "learning_rate"), ({"last_lr": None}, "last_lr"),
    ({"maximize": torch.ones(2)}, "True or False"), ({"betas": (.9, 2.)}, "beta2"), ({"clip_norm": 1.0}, "for all groups")])
def test_what_is_written_to_a_group_is_checked_before_a_step_changes_anything(written, text):
    ps, optimizer = trained()
    optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(64))]})
    optimizer.param_groups[1]["params"][0].grad = torch.ones(64)
    optimizer.step()
    optimizer.param_groups[1].update(written)
    before = [p.clone() for p in ps], copy.deepcopy(optimizer.state_dict()["state"])
    with pytest.raises(TypeError if "last_lr" in written else ValueError, match=text):
        optimizer.step()
    assert all(map(torch.equal, ps, before[0]))
    assert all(torch.equal(v, optimizer.state[ps[i]][k]) for i in (0, 1) for k, v in before[1][i].items())


@pytest.mark.parametrize("clip_norm", ["1", -1.0, float("nan"), float("inf")])
def test_a_norm_to_clip_to_is_a_number(clip_norm):
    with pytest.raises(ValueError, match="clip_norm is"):
        trained(clip_norm=clip_norm)


def test_no_clipping_may_be_none():
    assert trained(clip_norm=None)[1].last_gradient_norm is None


def test_a_rate_that_decays_to_nothing_is_0():
    ps, optimizer = trained(lr=1e-3, steps=1)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 1e-9)
    for _ in range(5):
        optimizer.step()
        before = ps[0].detach().clone()
        scheduler.step()
    optimizer.step()
    assert 0 < optimizer.param_groups[0]["lr"] < 1e-30 and torch.equal(before, ps[0].detach())


def test_a_parameter_that_changes_its_shape_is_named():
    for shape in ((64, 90), (64, 128)):
        ps, optimizer = trained()
        ps[0].grad = None
        ps[0].data = torch.ones(shape)
        ps[0].grad = torch.ones(shape)
        with pytest.raises(ValueError, match="parameter 0: its shape"):
            optimizer.step()
    ps, optimizer = trained(steps=0)
    optimizer.fold_gradients()
    ps[0].grad = None
    ps[0].data = torch.ones(64, 128)
    with pytest.raises(RuntimeError, match="make a new one"):
        ps[0].sum().backward()


def test_states_that_there_are_not_are_named():
    ps, optimizer = trained()
    for p, role in ((ps[0], "slow"), (torch.ones(3), "momentum")):
        with pytest.raises(ValueError, match="no state"):
            optimizer.dequantized(p, role)


def test_a_step_does_not_follow_torchs_default_device():
    torch.set_default_device("meta")
    try:
        p = torch.nn.Parameter(torch.ones(300, 300, device="cpu"))
        optimizer = lpmm.AdamW([p], lr=0.1).fold_gradients()
        p.sum().backward()
        optimizer.step()
    finally:
        torch.set_default_device(None)
    assert optimizer.state[p]["step"] == 1 and torch.allclose(p, torch.full((300, 300), 0.899), atol=1e-3)
