"""On a GPU all that the package makes lies there, and Python does not wait for it. There is no GPU here: torch's fake tensors
know their device and have no values, so that to mix devices, or to read a value, is an error. The kernels are stand-ins that
look at where they are called; their own bytes are tested on the emulated GPU (tests/run.sh)."""
import pytest

import lpmm

torch = pytest.importorskip("torch", reason="no torch here: the optimizers are not tested")
import lpmm.parameters  # noqa: E402  it looks up functions of torch's, which the stand-ins replace
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

PLACE = 0, 64  # the GPU's number and its stream
IDS = torch.arange(40)


class OnGpu(TorchDispatchMode):
    """What is made on a GPU is fake, and stays fake."""

    def __init__(self):
        super().__init__()
        self.fake = FakeTensorMode(allow_non_fake_inputs=True)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        tensors = torch.utils._pytree.tree_leaves((args, kwargs))
        for x in tensors:
            if isinstance(x, (lpmm.PackedParameter, lpmm.PackedGradient)):
                with self:  # what they do is seen too
                    return x.__torch_dispatch__(func, types, args, kwargs)
        device = kwargs.get("device") or "cpu"
        if torch.device(device).type == "cuda" or any(isinstance(x, FakeTensor) for x in tensors):
            with self.fake:
                return func(*args, **kwargs)
        return func(*args, **kwargs)


class Calls(list):
    """The kernels that were called, and whether they found their tensors on the GPU."""

    def kernel(self, name, answer):
        def call(place, *args):
            assert place == PLACE, name
            self.append(name)
            return answer(*args)
        return call


@pytest.fixture
def calls(monkeypatch):
    calls = Calls()

    def data_ptr(x):
        assert x.device.type == "cuda", f"a kernel would read {x.device}"
        return 4096

    class SquareSum:
        fold = lambda self, place, *args: calls.kernel("fold", lambda *_: None)(place, *args)  # noqa: E731
        value = lambda self: calls.append("value") or 4.0  # noqa: E731
        clear = lambda self: None  # noqa: E731

    class Updates:
        def __init__(self):
            self.count = 0

        def add(self, *args):
            self.count += 1

        def workspace_bytes(self, place):
            return 64

        def run(self, place, workspace):
            assert place == PLACE and workspace
            calls.append(("update", self.count))
            return []

    for name, answer in {"encode": lambda *_: True, "decode": lambda *_: None, "decode_rows": lambda *_: None, "clear": lambda *_: None,
                         "square_sums": lambda gradients: [1.0] * len(gradients), "open": lambda: None}.items():
        monkeypatch.setattr(lpmm._lpmm, name, calls.kernel(name, answer))
    monkeypatch.setattr(lpmm._lpmm, "SquareSum", SquareSum)
    monkeypatch.setattr(lpmm._lpmm, "Updates", Updates)
    monkeypatch.setattr(torch.Tensor, "data_ptr", data_ptr)
    monkeypatch.setattr(torch.cuda, "_lazy_init", lambda: None)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: type("Stream", (), {"cuda_stream": PLACE[1]}))
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    with OnGpu():
        yield calls


def net(dtype=torch.float32):
    like = {"dtype": dtype, "device": "cuda"}
    return torch.nn.Sequential(torch.nn.Embedding(40, 64, **like), torch.nn.Linear(64, 96, **like), torch.nn.Linear(96, 40, **like))


def give_gradients(model):
    for p in model.parameters():
        if isinstance(p, lpmm.PackedParameter):
            p.take_gradient(torch.ones(p.shape, device="cuda"), 0)
        else:
            p.grad.add_(torch.ones_like(p)) if isinstance(p.grad, lpmm.PackedGradient) else setattr(p, "grad", torch.ones_like(p))


def all_on_gpu(optimizer):
    return all(x.device.type == "cuda" for state in optimizer.state.values() for k, x in state.items() if k != "step")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", ["AdamW", "Lion", "Adafactor", "Muon"])
def test_level_1_updates_all_tensors_in_one_call(calls, kind, dtype):
    model = net(dtype)
    optimizer = getattr(lpmm, kind)(model.parameters(), clip_norm=1.0)
    give_gradients(model)
    optimizer.step()
    assert all_on_gpu(optimizer)
    assert calls.count("square_sums") == 1 and calls[-1] == ("update", 5)


def test_level_2_reads_sums_in_the_step_alone(calls):
    model = net()
    optimizer = lpmm.AdamW(model.parameters())
    optimizer.fold_gradients()
    for _ in range(3):
        give_gradients(model)
    assert calls.count("fold") == 3 * 3 and "value" not in calls  # of two biases the sums are fp32
    optimizer.step()
    assert "value" in calls and calls[-1] == ("update", 5)
    optimizer.zero_grad()
    assert all(p.grad.memory.codes.is_cuda for p in optimizer._sums)


def test_level_3_computes_where_the_codes_are(calls):
    model = net(torch.bfloat16)
    optimizer = lpmm.AdamW(model.parameters())
    assert lpmm.pack(model, optimizer) == ["0.weight", "1.weight", "2.weight"]
    ids, made = IDS.to("cuda"), [model(IDS.to("cuda"))]

    def real(operator, *args):  # of fake tensors torch asks for the shape alone
        made.append(operator._init_fn(*args))
        return made[-1]

    for layer in (1, 2):
        weight, like = model[layer].weight, {"dtype": torch.bfloat16, "device": "cuda"}
        x = torch.ones(40, weight.shape[1], **like)
        y = real(lpmm.parameters._linear, x, weight.key, weight.anchor, weight.shape[0], False)
        made.extend(real(lpmm.parameters._linear_backward, torch.ones_like(y), x, weight.key, False, True, True))
        model[layer].bias.grad.add_(torch.ones_like(model[layer].bias))
    x = real(lpmm.parameters._embedding, ids, model[0].weight.key, model[0].weight.anchor, model[0].weight.shape[1], -1)
    real(lpmm.parameters._embedding_backward, torch.ones_like(x), ids, model[0].weight.key, 3)
    assert all(y.device.type == "cuda" for y in made if torch.is_tensor(y))
    optimizer.step()
    assert calls[-1] == ("update", 5)
    assert all(v.device.type == "cuda" for v in lpmm.float_state_dict(model).values())
    with pytest.raises(RuntimeError, match="on cuda:0 stays so"):
        model.to("cpu")


def test_states_of_torch_are_encoded_there(calls, monkeypatch):
    monkeypatch.setattr("lpmm.optimizer.are_between", lambda *_: True)  # fake ones have no values
    model = net()
    theirs, optimizer = torch.optim.AdamW(model.parameters()), lpmm.AdamW(model.parameters())
    for p in model.parameters():
        theirs.state[p] = {"step": torch.tensor(1.0), "exp_avg": torch.ones_like(p), "exp_avg_sq": torch.ones_like(p)}
    optimizer.load_state_dict(theirs.state_dict())
    assert calls.count("encode") == 10 and all_on_gpu(optimizer)
    assert optimizer.torch_state_dict()["state"][0]["exp_avg"].device.type == "cuda"


def test_tensors_of_two_places_are_refused(calls):
    model = net()
    optimizer = lpmm.AdamW(model.parameters())
    give_gradients(model)
    optimizer.step()
    optimizer.state[model[1].weight]["momentum"] = torch.zeros(96 * 32, dtype=torch.uint8)
    with pytest.raises(RuntimeError, match="its momentum on cpu"):
        optimizer.step()
    optimizer.zero_grad()
    lpmm.pack(model, lpmm.AdamW(model.parameters()))
    weight = model[0].weight
    with pytest.raises(RuntimeError, match="ids lie on cpu"):
        lpmm.parameters._embedding._init_fn(IDS, weight.key, weight.anchor, weight.shape[1], -1)


def test_a_graph_that_is_captured_is_refused(calls, monkeypatch):
    model = net()
    optimizer = lpmm.AdamW(model.parameters())
    give_gradients(model)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    with pytest.raises(RuntimeError, match="CUDA graph"):
        optimizer.step()
