"""What the package stores after steps is, byte for byte, what ModelMemory stores (reference.cpp makes that). LPMM_DEVICE=cuda has
the package take a GPU."""
import os
import pathlib
import subprocess

import numpy
import pytest

import lpmm

torch = pytest.importorskip("torch", reason="no torch here: the optimizers are not tested")
REFERENCE = pathlib.Path(os.environ.get("LPMM_BUILD", pathlib.Path(lpmm.__file__).parents[2])) / "lpmm_python_reference"
if not REFERENCE.exists():
    pytest.skip(f"{REFERENCE} was not built: cmake -DLPMM_PYTHON=ON -DLPMM_TESTS=ON", allow_module_level=True)

STEPS, DEVICE = 20, os.environ.get("LPMM_DEVICE", "cpu")
CLASSES = [c for c in (getattr(lpmm, n) for n in lpmm.__all__) if isinstance(c, type) and getattr(c, "rule", "")]
MORE = {"sgd": {"momentum": 0.9, "nesterov": True}, "rmsprop": {"momentum": 0.9, "centered": True}, "adafactor": {"beta1": 0.9},
        "ademamix": {"t_alpha": 10, "t_beta3": 10}}


def data(shape, preset, microbatches):
    """Weights and gradients; numbers that bf16 has, where the framework's parameter is one."""
    random = numpy.random.default_rng(1)
    weights = (random.standard_normal(shape) * 0.1).astype(numpy.float32)
    gradients = random.standard_normal((STEPS * microbatches, *shape)).astype(numpy.float32)
    if preset != "flash":
        return weights, gradients
    return tuple((x.view(numpy.uint32) & 0xFFFF0000).view(numpy.float32) for x in (weights, gradients))


def expected(optimizer, preset, shape, microbatches, weights, gradients):
    group = optimizer.param_groups[0]
    rows = [0, *shape] if len(shape) == 1 else shape
    words = [optimizer.rule, preset, *rows, STEPS, microbatches, group["lr"], group["weight_decay"], optimizer.clip_norm]
    words += [f"{k}={v!r}" for k, v in optimizer._settings(group).items()]
    return subprocess.run([REFERENCE, *map(str, words)], input=weights.tobytes() + gradients.tobytes(), stdout=subprocess.PIPE,
                          check=True).stdout


def stored(p, state):
    """In the order of roles: parameter, states, compensation, values of rows and columns."""
    packed = isinstance(p, lpmm.PackedParameter)
    tensors = [p.memory.codes, p.memory.steps] if packed else [p.detach()]
    for role in ("momentum", "variance", "slow_momentum", "compensation", "row_variance", "column_variance"):
        tensors += [state[k] for k in (role, role + "_steps") if k in state]
    return b"".join(t.contiguous().view(torch.uint8).cpu().numpy().tobytes() for t in tensors if t.numel())


def trained(kind, preset, microbatches, clip_norm, weights, gradients):
    model = torch.nn.Linear(1, 1, bias=False)
    model.weight = torch.nn.Parameter(torch.from_numpy(weights.copy()).to(DEVICE, torch.bfloat16 if preset == "flash" else torch.float32))
    optimizer = kind([model.weight], lr=0.01, preset=preset, seed=7, clip_norm=clip_norm, **MORE.get(kind.rule, {}))
    optimizer.fold_gradients()
    if preset.startswith("lpmm") and len(weights.shape) > 1:
        assert lpmm.pack(model, optimizer) == ["weight"]
    for s in range(STEPS):
        for g in gradients[s * microbatches:(s + 1) * microbatches]:
            (model.weight.float() * torch.from_numpy(g).to(DEVICE)).sum().div(microbatches).backward()
        optimizer.step()
        optimizer.zero_grad()
    return model.weight, optimizer


def test_every_rule_has_a_class():
    assert sorted(c.rule for c in CLASSES) == sorted(lpmm._lpmm.rules())


# With several microbatches the two norms have different errors, so that case is never clipped.
@pytest.mark.parametrize("shape,microbatches,clip_norm", [((24, 200), 2, 1e9), ((24, 200), 1, 0.5), ((300,), 1, 0.5)])
@pytest.mark.parametrize("preset", lpmm.presets())
@pytest.mark.parametrize("kind", CLASSES, ids=lambda c: c.__name__)
def test_stores_what_model_memory_stores(kind, preset, shape, microbatches, clip_norm):
    if preset == "flash" and len(shape) == 1:
        pytest.skip("ModelMemory keeps vectors in fp32, and here they are bf16")
    weights, gradients = data(shape, preset, microbatches)
    p, optimizer = trained(kind, preset, microbatches, clip_norm, weights, gradients)
    want = expected(optimizer, preset, shape, microbatches, weights, gradients)
    have = stored(p, optimizer.state[p])
    assert len(have) == len(want)
    assert sum(a != b for a, b in zip(have, want)) == 0
