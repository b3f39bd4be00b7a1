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
    (lambda s: s["state"][0]["step"].fill_(1.5), "number of steps"), (lambda s: s["state"][0].update(step=2**24 + 2), "up to 2\\^24"),
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


def test_values_of_codes_are_checked_where_a_state_comes_in():
    """Steps are no values: those of log formats are bits. What they make with the codes is."""
    ps, optimizer = trained()
    bad = copy.deepcopy(optimizer.state_dict())
    bad["state"][0]["momentum_steps"].fill_(float("nan"))
    with pytest.raises(ValueError, match="'momentum' is NaN"):
        optimizer.load_state_dict(bad)


def test_what_torch_takes_comes_in():
    ps, optimizer = trained()
    states = optimizer.state_dict()
    states["state"][0].update(step=torch.tensor([2.0**24]), unused=torch.tensor(False), zeros=torch.zeros(3, dtype=torch.float8_e5m2))
    states["state"]["of the model"] = 1
    optimizer.load_state_dict({**states, "param_groups": tuple({**g, "specs": {}} for g in states["param_groups"])})
    assert optimizer.state[ps[0]]["step"] == 2**24 and optimizer.state[ps[0]]["step"].shape == ()


@pytest.mark.parametrize("state,text", [({0: {"d": {"a": 1}}}, "'d' is no tensor"), ({0: {"ls": ["a"]}}, "'ls' is no tensor"),
                                        ({0: 1}, "must be a dictionary"), ({0: {"flag": torch.tensor(True)}}, "'flag' is none of")])
def test_states_that_are_none_are_named(state, text):
    _, optimizer = trained()
    with pytest.raises((TypeError, ValueError), match=text):
        optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
    with pytest.raises(ValueError, match="'params'"):
        optimizer.load_state_dict({"state": {}, "param_groups": [1]})


def test_settings_that_are_no_numbers_are_named():
    for kind, arguments in (("AdamW", {"eps": "x"}), ("AdamW", {"betas": (None, .9)}), ("Adafactor", {"beta2_decay": None}),
                            ("Adafactor", {"eps": 1e-3})):
        with pytest.raises((TypeError, ValueError), match=next(iter(arguments))):
            trained(kind, **arguments)


def test_groups_of_muon_come_back_from_lists():
    _, optimizer = trained("Muon", ns_coefficients=[3.4445, -4.775, 2.0315])
    groups = [{**g, "ns_coefficients": list(g["ns_coefficients"]), "betas": list(g["betas"])} for g in optimizer.state_dict()["param_groups"]]
    optimizer.load_state_dict({**optimizer.state_dict(), "param_groups": groups})
    with pytest.raises(ValueError, match="ns_coefficients"):
        trained("Muon", ns_coefficients=[3.4445, -4.775, 2.0])


def test_adam_does_not_take_the_decay_of_adamw():
    p = torch.nn.Parameter(torch.ones(8, 8))
    p.grad = torch.ones(8, 8)
    theirs = torch.optim.AdamW([p], weight_decay=0.1)
    theirs.step()
    with pytest.raises(ValueError, match="take lpmm.AdamW"):
        lpmm.Adam([p]).load_state_dict(theirs.state_dict())
    lpmm.AdamW([p]).load_state_dict(theirs.state_dict())


@pytest.mark.parametrize("kind,written", [("SGD", {"dampening": 0.1}), ("SGD", {"nesterov": True}), ("AdamW", {"update_clip": 1.0}),
                                          ("Adagrad", {"lr_decay": 0.1})])
def test_a_setting_that_no_state_hangs_on_may_change(kind, written):
    ps, optimizer = trained(kind, **({"momentum": 0.9} if kind == "SGD" else {}))
    optimizer.param_groups[0].update(written)
    before = [p.detach().clone() for p in ps]
    optimizer.step()
    assert not any(map(torch.equal, ps, before))


@pytest.mark.parametrize("written", [{"preset": "fp32"}, {"min_elements": 1 << 30}, {"specs": {"accumulator": "int8:block128:sr"}}])
def test_storage_does_not_change_once_gradients_fold(written):
    p = torch.nn.Parameter(torch.zeros(64, 64))
    optimizer = lpmm.SGD([p], lr=1.0).fold_gradients()
    optimizer.param_groups[0].update(written)
    p.sum().backward()
    with pytest.raises(ValueError, match="after fold_gradients"):
        optimizer.step()
    assert not p.detach().any()


def test_a_rate_that_a_schedule_ends_below_0_is_0():
    ps, optimizer = trained(lr=0.1, steps=1)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1 / 3, 0.0, 10)
    for _ in range(12):
        scheduler.step()
        before = ps[0].detach().clone()
        optimizer.step()
    assert optimizer.param_groups[0]["lr"] <= 0 and torch.equal(before, ps[0].detach())
    optimizer.param_groups[0]["lr"] = -1e-3
    with pytest.raises(ValueError, match="learning_rate"):
        optimizer.step()


def test_a_rate_of_text_is_a_number_in_a_step_too():
    ps, optimizer = trained()
    optimizer.param_groups[0].update(last_lr="0.001", lr="0.001")
    optimizer.step()
    assert optimizer.state[ps[0]]["step"] == 4


def test_a_step_that_is_refused_midway_counts_for_nobody():
    ps, optimizer = trained()
    optimizer.state[ps[1]]["momentum"] = optimizer.state[ps[1]]["momentum"].to("meta")
    before = [p.detach().clone() for p in ps]
    with pytest.raises(RuntimeError, match="its momentum on meta"):
        optimizer.step()
    assert [int(optimizer.state[p]["step"]) for p in ps] == [3, 3] and all(map(torch.equal, ps, before))


def test_a_gradient_that_was_refused_may_come_again():
    p = torch.nn.Parameter(torch.ones(64, 64))
    optimizer = lpmm.AdamW([p]).fold_gradients(accumulator="none")
    optimizer.param_groups[0]["lr"] = float("nan")
    with pytest.raises(ValueError, match="learning_rate"):
        p.sum().backward()
    optimizer.param_groups[0]["lr"] = 1e-3
    optimizer.zero_grad()
    p.sum().backward()
    assert optimizer.state[p]["step"] == 1 and (p.detach() < 1).all()
