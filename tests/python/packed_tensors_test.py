"""What people do with tensors that are packed: it works, or is refused, and never goes wrong in silence."""
import copy
import weakref

import numpy
import pytest

import lpmm

torch = pytest.importorskip("torch", reason="no torch here: packed tensors are not tested")
F = torch.nn.functional
torch.set_num_threads(1)
levels = pytest.mark.parametrize("level", [2, 3])
IDS = torch.arange(40)


def prepared(level, preset="lpmm", **arguments):
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Embedding(40, 64), torch.nn.Linear(64, 96), torch.nn.Tanh(), torch.nn.Linear(96, 40))
    optimizer = lpmm.AdamW(model.parameters(), **{"lr": 1e-3, "preset": preset, **arguments})
    if level == 2:
        optimizer.fold_gradients()
    if level == 3:
        lpmm.pack(model, optimizer)
    return model, optimizer


def loss_of(model):
    return F.cross_entropy(model(IDS), (IDS * 7 + 3) % 40)


def floats_of(model):
    return lpmm.unpack(copy.deepcopy(model))


# ---- gradients
@levels
def test_reading_a_gradient_leaves_it_as_it_is(level):
    model, _ = prepared(level)
    loss_of(model).backward()
    g = model[1].weight.grad
    want = g.dequantize()
    assert torch.equal(g + 1, want + 1) and torch.equal(1 + g, want + 1) and torch.equal(torch.add(g, g, alpha=-1), 0 * want)
    assert torch.equal(g[3], want[3]) and torch.equal(g.view(-1), want.view(-1)) and torch.equal(g.data.t(), want.t())
    assert (g.numpy() == want.numpy()).all() and g.tolist() == want.tolist()
    assert torch.equal(g.dequantize(), want)


@levels
@pytest.mark.parametrize("write", [
    lambda g: g.__setitem__(slice(0, 9), 0), lambda g: g[3].zero_(), lambda g: g[:9].mul_(2), lambda g: g.data[3].zero_(),
    lambda g: g.view(-1).zero_(), lambda g: g.flatten().neg_(), lambda g: g.share_memory_(),
    lambda g: g.t().zero_(), lambda g: g.diagonal().zero_(), lambda g: g.narrow(0, 0, 3).zero_(), lambda g: g.chunk(2)[0].zero_(),
    lambda g: g.T.zero_(), lambda g: torch.transpose(g, 0, 1).zero_(), lambda g: g.fill_diagonal_(1), lambda g: g.as_strided((3,), (1,)).zero_(),
    lambda g: g.unsafe_chunk(2)[0].zero_(), lambda g: g[3].data.zero_(), lambda g: g[3].detach().zero_(), lambda g: torch.nn.init.constant_(g[3], 1),
    lambda g: g[0, 2:4].zero_(), lambda g: torch.ops.aten.zero_.default(g[3]),
    lambda g: torch.from_dlpack(g), lambda g: torch.from_dlpack(g.t()), lambda g: torch.Tensor.__dlpack__(g),
    lambda g: F.embedding(IDS, g[:], max_norm=0.1),
    lambda g: F.relu(g[3], inplace=True), lambda g: torch.sort(torch.ones(64), out=(g[3], torch.zeros(0, dtype=torch.long)))])
def test_what_would_write_to_a_copy_of_a_gradient_is_refused(level, write):
    model, _ = prepared(level)
    loss_of(model).backward()
    with pytest.raises(RuntimeError, match="packed"):
        write(model[1].weight.grad)


@levels
def test_a_gradient_takes_another_content_and_torchs_clipping_by_lists(level):
    model, _ = prepared(level)
    loss_of(model).backward()
    g = model[1].weight.grad
    g.data = torch.ones(96, 64)
    assert abs(g.norm() - (96 * 64) ** 0.5) < 0.1
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
    assert norm > 70 and abs(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0) - 1) < 1e-4


def all_of(gradients, write):
    write(gradients)
    return gradients


@levels
@pytest.mark.parametrize("of", [
    lambda gs: [torch.zeros(g.shape).copy_(g) for g in gs], lambda gs: [torch.zeros(g.shape).add_(g, alpha=2) for g in gs],
    lambda gs: [torch.add(g, 1, out=torch.empty(g.shape)) for g in gs],
    lambda gs: all_of([torch.ones(g.shape) for g in gs], lambda xs: torch._foreach_add_(xs, gs)),
    lambda gs: all_of(gs, lambda xs: torch._foreach_neg_(xs)), lambda gs: [g.mul_(torch.arange(g.numel()).view_as(g) % 2) for g in gs],
    lambda gs: [g.clamp_(min=0) for g in gs], lambda gs: [g.copy_(2 * g) for g in gs], lambda gs: [torch.neg(g, out=g) for g in gs],
    lambda gs: [g.add_(1) for g in gs], lambda gs: [g.div_(2, rounding_mode=None) for g in gs]])
def test_whole_gradients_are_read_and_written_as_others_are(level, of):
    model, _ = prepared(level)
    reference = floats_of(model)
    for m in (model, reference):
        loss_of(m).backward()
    gradients = [[p.grad for p in m.parameters() if p.dim() == 2] for m in (model, reference)]
    for got, want, g in zip(*map(of, gradients), gradients[0]):
        assert (got - want).norm() < 0.02 * want.norm()
        if isinstance(got, lpmm.PackedGradient):
            assert got is g and abs(g.norm() / want.norm() - 1) < 0.02


@levels
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_gradients_give_values_of_their_own_type(level, dtype):
    model = prepared(1)[0].to(dtype)
    optimizer = lpmm.AdamW(model.parameters(), preset="lpmm").fold_gradients()
    if level == 3:
        lpmm.pack(model, optimizer)
    loss_of(model).backward()
    p = model[1].weight
    changed, view = p.grad.clone(), p.grad[3]
    assert changed.dtype == view.dtype == (p.grad + p).dtype == p.dtype
    p.grad.lerp_(torch.zeros_like(p), 0.5)
    p.grad = changed
    assert p.grad is changed


@levels
def test_what_is_written_to_gradients_is_rounded_another_way_each_time(level):
    model, _ = prepared(level, preset="lpmm-min")
    g = model[1].weight.grad
    for _ in range(64):
        g.copy_(g + 0.013)
    assert abs(g.mean() - 64 * 0.013) < 0.01


@pytest.mark.parametrize("write", [
    lambda x: x.data.t_(), lambda x: x.data.resize_(3, 3), lambda x: torch.neg(torch.ones(64), out=x.data),
    lambda x: torch.neg(torch.ones(3, 64), out=x.data), lambda x: setattr(x, "data", torch.ones(3, 64)),
    lambda x: setattr(x, "data", torch.ones(64))])
def test_packed_tensors_keep_their_shape_and_their_values(write):
    model, _ = prepared(3)
    loss_of(model).backward()
    for x in (model[1].weight, model[1].weight.grad):
        before = x.dequantize()
        with pytest.raises(RuntimeError, match="packed .* of shape"):
            write(x)
        assert torch.equal(x.dequantize(), before) and not getattr(x, "is_part", False)


@levels
def test_hooks_read_gradients_while_others_come(level):
    model, _ = prepared(level)
    loss_of(model).backward()
    g = model[3].weight.grad
    want, seen = 2 * g.dequantize(), []
    model[1].register_full_backward_hook(lambda *_: seen.append(g + 1))
    loss_of(model).backward()
    assert (g - want).norm() < 0.02 * want.norm() and torch.equal(seen[0], g + 1)


@levels
def test_a_gradient_in_floats_is_kept_by_the_next_backward(level):
    model, optimizer = prepared(level)
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    loss_of(model).backward()
    reference = floats_of(model)
    loss_of(reference).backward()
    for p, q in zip(model.parameters(), reference.parameters()):
        assert (p.grad - q.grad - 1).abs().max() < 0.05


@pytest.mark.parametrize("folds", [False, True])
@pytest.mark.parametrize("pending", [False, True])
def test_another_optimizer_takes_over_gradients_that_the_first_one_left(folds, pending):
    """As where a cell of a notebook is run again: it had read sums by its own format, or a null pointer."""
    (model, first), (reference, _) = prepared(2), prepared(0)
    loss_of(model).backward()
    if not pending:
        first.zero_grad()
    del first
    optimizer = lpmm.SGD(model.parameters(), lr=1.0, preset="lpmm-nano")
    if folds:
        optimizer.fold_gradients()
    loss_of(model).backward()
    optimizer.step()
    for _ in range(1 + pending):
        loss_of(reference).backward()
    torch.optim.SGD(reference.parameters(), lr=1.0).step()
    start = prepared(0)[0][1].weight
    step = reference[1].weight - start
    assert (model[1].weight - reference[1].weight).norm() < 0.5 * step.norm()


def test_a_gradient_stays_where_its_model_is_converted():
    for convert, dtype in ((torch.nn.Module.float, torch.float32), (torch.nn.Module.cpu, torch.float32), (torch.nn.Module.bfloat16, torch.bfloat16)):
        model, optimizer = prepared(2)
        loss_of(model).backward()
        want = model[1].weight.grad.norm()
        convert(model)
        assert model[1].weight.grad.norm() == want and model[1].weight.grad.dtype == dtype
        loss_of(model).backward()
        assert abs(model[1].weight.grad.norm() - 2 * want) < 0.02 * want
        optimizer.step()


def test_the_way_of_folding_stays():
    for first, second in ((None, "none"), ("none", None)):
        _, optimizer = prepared(1)
        optimizer.fold_gradients(first).fold_gradients(first)
        with pytest.raises(ValueError, match="another way"):
            optimizer.fold_gradients(second)


# ---- weights
def test_a_model_that_another_optimizer_packed_keeps_its_codes():
    for theirs, ours in (("lpmm", "lpmm-nano"), ("lpmm-nano", "fp32")):
        model, optimizer = prepared(3, theirs)
        before, spec = model[1].weight.dequantize(), model[1].weight.spec
        del optimizer
        optimizer = lpmm.AdamW(model.parameters(), lr=1e-3, preset=ours).fold_gradients()
        optimizer.zero_grad()
        loss_of(model).backward()
        optimizer.step()
        assert model[1].weight.spec == spec and 1e-4 < (model[1].weight - before).abs().max() < 1e-2
        with pytest.raises(ValueError, match="is packed as"):
            lpmm.AdamW(model.parameters(), min_elements=10**6)


def test_gradients_of_other_tensors_leave_those_of_packed_weights_alone():
    model, _ = prepared(3)
    floats, x = floats_of(model), torch.randn(4, 64, requires_grad=True)
    got, want = (torch.autograd.grad(m[1:](x).square().sum(), x)[0] for m in (model, floats))
    assert torch.allclose(got, want, atol=1e-5)
    model[1:](x).sum().backward(inputs=[x])
    torch.autograd.grad(model(IDS).sum(), model[1].bias)
    assert all(model[i].weight.grad.is_empty for i in (0, 1, 3))


@pytest.mark.parametrize("call", [
    lambda m: m[1](torch.ones(2, 64, dtype=torch.long)), lambda m: m[1](torch.ones(2, 65)), lambda m: m[1](torch.ones(2, 64).bfloat16()),
    lambda m: m[1](torch.ones(2, 64).double()), lambda m: m[0](torch.tensor([1.7])), lambda m: m[0](torch.tensor([True]))])
def test_inputs_that_torch_refuses_are_refused(call):
    model, _ = prepared(3)
    for m in (floats_of(model), model):
        with pytest.raises(RuntimeError):
            call(m)


def test_conv1d_takes_rows_of_its_width():
    Conv1D = type("Conv1D", (torch.nn.Linear,), {"forward": lambda self, x: torch.addmm(self.bias, x, self.weight)})
    model = torch.nn.Sequential(Conv1D(64, 64))
    lpmm.pack(model, lpmm.AdamW(model.parameters()))
    assert model(torch.ones(2, 64)).shape == (2, 64)
    with pytest.raises(RuntimeError, match="rows of 64"):
        model(torch.ones(2, 80))


def test_frozen_and_detached_packed_weights_do_as_floats_do():
    model, optimizer = prepared(3)
    x = torch.randn(4, 64, requires_grad=True)
    F.linear(x, model[1].weight.detach()).sum().backward()  # the detached weight is gone by then
    assert torch.allclose(x.grad, floats_of(model)[1].weight.sum(0).expand(4, 64), atol=1e-4)
    assert model[1].weight.grad.is_empty and model[1].weight.sum() == model[1].weight.dequantize().sum()
    model.requires_grad_(False)
    assert not model(IDS).requires_grad


def test_a_frozen_base_has_no_gradients_and_folds_them_once_it_trains():
    model, _ = prepared(1)
    model.requires_grad_(False)
    optimizer = lpmm.AdamW(model.parameters(), preset="lpmm")
    assert len(lpmm.pack(model, optimizer)) == 3 and optimizer.memory()["gradients"] == 0
    model.requires_grad_(True)
    loss_of(model).backward()
    want = model[1].weight.grad
    assert type(want) is torch.Tensor
    optimizer.fold_gradients()
    loss_of(model).backward()
    assert model[1].weight.grad.memory.nbytes < want.nbytes / 2 and (model[1].weight.grad - 2 * want).norm() < 0.1 * want.norm()


def test_functions_of_torch_func_see_packed_weights():
    model, _ = prepared(3)
    floats, x = floats_of(model), torch.randn(5, 64)
    for function in (lambda m: torch.func.jvp(m[1], (x,), (x.cos(),))[1], lambda m: torch.vmap(m[1])(x), lambda m: torch.func.jacrev(m[1])(x[0]),
                     lambda m: torch.func.hessian(lambda y: m[1](y).tanh().sum())(x[0]),
                     lambda m: torch.func.linearize(lambda w: w.t() * 2, m[1].weight)[0]):
        assert torch.allclose(function(model), function(floats), atol=1e-5)
    assert model[1].weight.grad.is_empty


@pytest.mark.parametrize("write", [
    lambda w: w.__setitem__(0, 0), lambda w: w[0].zero_(), lambda w: w.data[0].zero_(), lambda w: w.data.view(-1).zero_(),
    lambda w: w.register_hook(print), lambda w: w.register_post_accumulate_grad_hook(print), lambda w: w.share_memory_(),
    lambda w: w.reshape(-1).zero_(), lambda w: w.data.flatten().zero_(), lambda w: w.t().zero_(), lambda w: w.unbind()[0].zero_(),
    lambda w: w.T.zero_(), lambda w: w.detach().mT.zero_(), lambda w: torch.select(w, 0, 1).zero_(), lambda w: w.fill_diagonal_(1),
    lambda w: w.unfold(0, 3, 3).zero_(), lambda w: w.T[0].zero_(), lambda w: torch.add(w.T, 1, out=w.T), lambda w: w.T.__iadd__(1),
    lambda w: torch._foreach_mul_([w.T], 2), lambda w: setattr(w.T, "data", torch.ones(64, 96)), lambda w: torch.from_dlpack(w.detach()),
    lambda w: setattr(w, "data", torch.ones(96, 65)), lambda w: torch.select(input=w, dim=0, index=1).zero_(),
    lambda w: torch.linalg.diagonal(w).zero_(), lambda w: torch.ops.aten.alias(w.detach()).zero_(), lambda w: w.view(torch.int32).zero_(),
    lambda w: torch.from_dlpack(w.detach().t()), lambda w: F.embedding(IDS, w.detach().t(), max_norm=0.1),
    lambda w: F.embedding_bag(IDS, w.detach()[:], IDS, max_norm=0.1),
    lambda w: torch.broadcast_tensors(w, torch.ones(2, 1, 1))[0].zero_(), lambda w: w[0, 2:4].zero_(), lambda w: w.data[::2, ::2].zero_()])
def test_what_would_have_no_effect_on_a_packed_weight_is_refused(write):
    model, _ = prepared(3)
    with torch.no_grad(), pytest.raises(RuntimeError, match="packed"):
        write(model[1].weight)


def test_views_of_frozen_weights_refuse_to_be_written_to():
    weight = prepared(3)[0][1].weight.requires_grad_(False)
    for view in (weight[0], weight.t(), torch.unbind(input=weight)[1]):
        with pytest.raises(RuntimeError, match="packed"):
            view.zero_()
    with pytest.raises(RuntimeError, match="packed"):
        weight.requires_grad_().view(torch.int32)


@pytest.mark.parametrize("view", [lambda w: w[0], lambda w: w[0, 2:4], lambda w: w.t().detach(), lambda w: w.unbind()[1].data])
def test_views_that_autograd_made_refuse_to_be_written_to_without_it(view):
    model, _ = prepared(3)
    row = view(model[1].weight)
    with torch.no_grad(), pytest.raises(RuntimeError, match="packed"):
        row.zero_()


def test_packed_weights_are_read_and_written_in_inference_mode():
    """detach() had failed, and with it state_dict(); some of torch's functions had given a copy for the weight itself."""
    model, _ = prepared(3)
    with torch.inference_mode():
        model.load_state_dict(model.state_dict())
        assert torch.equal(model[1].weight.detach() + 1, model[1].weight.dequantize() + 1)
        F.dropout(model[1].weight, 0.0, False).zero_()
        with pytest.raises(RuntimeError, match="packed"):
            torch.broadcast_tensors(model[0].weight, torch.ones(1))[0][0].zero_()
    assert not model[1].weight.any()


def test_packed_weights_become_numbers():
    weight = prepared(3)[0][1].weight
    want = weight.dequantize()
    assert weight.tolist() == want.tolist() and f"{weight[0, 1]:.3f}" == f"{want[0, 1]:.3f}"
    with pytest.raises(RuntimeError, match="requires grad"):
        weight.numpy()


def test_views_of_packed_weights_are_read_as_tensors_are():
    model, _ = prepared(3)
    weight, x = model[1].weight, torch.randn(5, 96, requires_grad=True)
    want = weight.dequantize()
    with torch.no_grad():
        before = weight.T
    for of in (before, weight.detach().T, torch.transpose(input=weight.detach(), dim0=0, dim1=1)):
        x.grad = None
        (x @ of.T).sum().backward()
        assert torch.equal(x.grad, want.sum(1).expand(5, 96))
    with torch.inference_mode():
        assert torch.equal(weight.T, want.T) and torch.equal(weight[3:][0] + 1, want[3] + 1)
    assert type(before + 1) is torch.Tensor and torch.equal(before[3:][0].clone().zero_(), torch.zeros(96))
    assert torch.equal(copy.deepcopy(before), want.T) and torch.equal(torch.stack(weight.detach().unbind()), want)
    held = weight.detach()
    assert torch.equal(torch.func.grad(lambda y: (y @ held.T.T).sum())(torch.randn(5, 96)), want.sum(1).expand(5, 96))


def test_arrays_of_packed_tensors_are_read_only():
    model, _ = prepared(3)
    loss_of(model).backward()
    for x in (model[1].weight.detach()[:], model[1].weight.grad, model[1].weight.grad.t()):
        assert (lpmm.quantize(x, "int8")[0] == lpmm.quantize(x.clone(), "int8")[0]).all()
    for x in (model[1].weight.detach(), model[1].weight.data.cpu(), model[1].weight.grad):
        for array in (x.numpy(), numpy.asarray(x), x.view(96, 64).numpy(), numpy.asarray(x[:])):
            assert (array == x.dequantize().numpy()).all()
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 0


def test_a_view_of_a_packed_weight_is_refused_by_name_in_a_compiled_function():
    weight = prepared(3)[0][1].weight
    with torch.no_grad(), pytest.raises(Exception, match="packed weight is refused"):
        torch.compile(lambda x: x @ weight.t(), backend="aot_eager")(torch.ones(2, 64))


class Layers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = torch.nn.Conv1d(64, 64, 3, padding=1)
        self.layer = torch.nn.TransformerEncoderLayer(64, 4, 64, dropout=0.0, batch_first=True)
        self.matrix = torch.nn.Linear(64, 64)

    def forward(self, x):
        return self.layer(self.convolution(x).transpose(1, 2)) @ self.matrix.weight.to(torch.bfloat16).float()


@pytest.mark.parametrize("types", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("compiles", [False, True])
def test_layers_convert_packed_weights_as_they_convert_others(types, compiles):
    model, x = Layers(), torch.randn(4, 64, 8)
    lpmm.pack(model, lpmm.SGD(model.parameters(), specs={"accumulator": "fp32"}))
    assert all(isinstance(of.weight, lpmm.PackedParameter) for of in (model.convolution, model.layer.self_attn.out_proj, model.matrix))
    reference = floats_of(model)
    with torch.autocast("cpu", dtype=types, enabled=types != torch.float32):
        ys = [(torch.compile(m.layer, backend="aot_eager") if compiles else m)(x.transpose(1, 2) if compiles else x) for m in (model, reference)]
    for y in ys:
        y.float().square().sum().backward()
    assert torch.allclose(*ys, atol=1e-2)
    for p, q in zip(model.parameters(), reference.parameters()):
        assert p.grad is None and q.grad is None or (p.grad.dequantize() - q.grad).norm() < 0.05 * q.grad.norm()
    torch.compiler.reset()  # torch compiles a function for a few kinds of arguments only


@pytest.mark.parametrize("convert", [lambda m: m.half(), lambda m: m.to(torch.bfloat16), lambda m: m.double()])
def test_a_model_of_packed_weights_is_not_converted(convert):
    model, _ = prepared(3)
    before = lpmm.float_state_dict(model)
    with pytest.raises(RuntimeError, match="on cpu stays so; lpmm.unpack"):
        convert(model)
    assert all(torch.equal(v, before[k]) for k, v in lpmm.float_state_dict(model).items() if k.endswith("weight"))


@pytest.mark.parametrize("write", [
    lambda w: w.mul_(0.5), lambda w: w.data.add_(w.grad, alpha=-0.1), lambda w: w.sub_(torch.ones(64)), lambda w: w.clamp_(-0.1, 0.1),
    lambda w: torch.nn.init.kaiming_uniform_(w, generator=torch.Generator().manual_seed(1)), lambda w: torch._foreach_lerp_([w], [w + 1], 0.5)[0],
    lambda w: torch.add(w, 1, out=w), lambda w: w.__itruediv__(3), lambda w: w.copy_(torch.arange(64)), lambda w: w.copy_(w.double() * 2)])
def test_whole_weights_are_written_as_others_are(write):
    model, _ = prepared(3)
    loss_of(model).backward()
    packed, plain = (m[1].weight for m in (model, floats_of(model)))
    plain.grad, codes = packed.grad.dequantize(), packed.memory.codes
    with torch.no_grad():
        written = [write(w) for w in (packed, plain)][0]
    assert (written is None or isinstance(written, lpmm.PackedParameter)) and packed.memory.codes is codes
    assert (packed - plain).abs().max() < 0.002 * plain.abs().max()


def test_lists_of_weights_are_decoded_one_at_a_time(monkeypatch):
    weights = [m.weight for m in prepared(3)[0] if isinstance(getattr(m, "weight", None), lpmm.PackedParameter)]
    want, alive, decode = [w.dequantize() for w in weights], [], lpmm.PackedParameter.dequantize

    def counted(weight):
        assert not any(values() is not None for values in alive)
        values = decode(weight)
        alive.append(weakref.ref(values))
        return values

    monkeypatch.setattr(lpmm.PackedParameter, "dequantize", counted)
    with torch.no_grad():
        norms = torch._foreach_norm(weights)
        torch._foreach_addcmul_(weights, [w.clone() for w in want], [torch.ones_like(w) for w in want], torch.tensor([2.0, 3.0, 4.0]))
    monkeypatch.undo()
    assert len(alive) == 2 * len(weights) == 6
    for w, before, norm, by in zip(weights, want, norms, (2, 3, 4)):
        assert torch.allclose(norm, before.norm()) and (w - (1 + by) * before).norm() < 0.01 * before.norm() * by


def test_lists_of_other_lengths_are_refused_and_powers_may_be_the_packed_ones():
    model, _ = prepared(3)
    loss_of(model).backward()
    weights = [model[1].weight, model[3].weight]
    for got, w in zip(torch._foreach_pow(2.0, weights), weights):
        assert torch.equal(got, 2.0 ** w.dequantize())
    with torch.no_grad(), pytest.raises(RuntimeError, match="same number"):
        torch._foreach_add_(weights, [w.dequantize() for w in (*weights, *weights)])
    with pytest.raises(RuntimeError, match="as many factors"):
        torch._foreach_mul_([w.grad for w in weights], [2.0])


def test_data_that_was_there_before_comes_back():
    """As averages of weights are applied and taken back; the assignment had changed what was to come back."""
    model, optimizer = prepared(3)
    weight, before = model[1].weight, model[1].weight.dequantize()
    backup = weight.data
    weight.data = before / 2
    assert torch.allclose(weight.data, before / 2, atol=1e-3) and torch.equal(backup.dequantize(), before)
    loss_of(model).backward()
    optimizer.step()
    weight.data = backup
    assert torch.equal(weight.dequantize(), before)


def test_another_tensor_takes_values_of_a_packed_weight():
    weight = prepared(3)[0][1].weight
    other = torch.nn.Linear(64, 99).weight
    with torch.no_grad():
        other[:96] = weight
    assert torch.equal(other[:96], weight.dequantize()) and torch.equal(weight.double(), weight.dequantize().double())


def test_a_packed_weight_takes_another_content():
    model, _ = prepared(3)
    vector = torch.nn.utils.parameters_to_vector(model.parameters())
    torch.nn.utils.vector_to_parameters(2 * vector, model.parameters())
    assert torch.allclose(torch.nn.utils.parameters_to_vector(model.parameters()), 2 * vector, atol=0.02)


def test_hooks_of_a_weight_are_not_lost():
    model, first = prepared(2)
    del first  # whose hooks stay, and do nothing
    optimizer = lpmm.AdamW(model.parameters())
    model[1].weight.register_hook(lambda g: 0 * g)
    with pytest.raises(RuntimeError, match="1.weight has a hook"):
        lpmm.pack(model, optimizer)
    model[1].weight._backward_hooks.clear()
    assert len(lpmm.pack(model, optimizer)) == 3


def test_unpacking_keeps_a_gradient():
    model, optimizer = prepared(3)
    loss_of(model).backward()
    want = model[1].weight.grad.dequantize()
    lpmm.unpack(model, optimizer)
    assert (model[1].weight.grad - want).norm() < 0.02 * want.norm()


def test_pack_takes_wrapped_optimizers_and_names_others():
    model, optimizer = prepared(1)
    with pytest.raises(TypeError, match="one of lpmm's"):
        lpmm.pack(model, torch.optim.AdamW(model.parameters()))
    wrapped = type("Wrapper", (), {"optimizer": optimizer})()
    assert len(lpmm.pack(model, wrapped)) == 3
    lpmm.unpack(model, wrapped)
    assert optimizer.param_groups[0]["params"][1] is model[1].weight


def test_layers_of_a_kind_share_a_compiled_graph():
    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.conv = torch.nn.Linear(64, 64), torch.nn.ConvTranspose1d(4, 4, 3, padding=1)

        def forward(self, x):
            return torch.tanh(self.conv(self.linear(x)))

    torch.manual_seed(1)
    model = torch.nn.Sequential(*[Block() for _ in range(10)])  # more than the graphs that torch keeps of a function
    lpmm.pack(model, lpmm.AdamW(model.parameters(), preset="lpmm"))
    floats, x = floats_of(model), torch.randn(3, 4, 64)
    for block in model:
        block.compile(backend="aot_eager", fullgraph=True)
    for m in (model, floats):
        m(x).square().sum().backward()
    for a, b in zip(model, floats):
        assert (a.linear.weight.grad - b.linear.weight.grad).norm() < 0.02 * b.linear.weight.grad.norm()
        assert (a.conv.weight.grad - b.conv.weight.grad).norm() < 0.05 * b.conv.weight.grad.norm()


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_torchs_default_type_changes_no_byte(dtype):
    """Values were decoded into memory of that type."""
    ends = []
    for default in (torch.float32, dtype):
        model, optimizer = prepared(3)
        torch.set_default_dtype(default)
        try:
            for _ in range(2):
                optimizer.zero_grad()
                loss_of(model).backward()
                read = [model[0](IDS), model[1].weight.grad.dequantize()]
                optimizer.step()
            read += [optimizer.dequantized(model[1].weight, "momentum"), optimizer.state[model[1].weight]["step"]]
        finally:
            torch.set_default_dtype(torch.float32)
        ends.append(read)
    assert all(a.dtype == b.dtype and torch.equal(a, b) for a, b in zip(*ends))


def test_averages_of_packed_weights_move():
    """A list of packed weights was averaged in a copy, and a tensor at a time had been rounded the same way each time."""
    swa = torch.optim.swa_utils
    model, optimizer = prepared(3, lr=1e-2)
    kinds = [swa.AveragedModel(m, multi_avg_fn=swa.get_ema_multi_avg_fn(0.99)) for m in (floats_of(model), model)]
    kinds.append(swa.AveragedModel(model, avg_fn=swa.get_ema_avg_fn(0.99)))
    for _ in range(100):
        optimizer.zero_grad()
        loss_of(model).backward()
        optimizer.step()
        for averaged in kinds:
            averaged.update_parameters(model)
    floats, *packed = (a.module[1].weight for a in kinds)
    assert all((p - floats).norm() < 0.1 * (model[1].weight - floats).norm() for p in packed)


def test_codes_of_a_file_may_have_strides():
    """Of an expanded tensor, bytes behind its memory had been read."""
    for codes, steps in ((torch.ones(1, dtype=torch.uint8).expand(2560), torch.ones(20, dtype=torch.bfloat16)),
                         (torch.ones(5120, dtype=torch.uint8)[::2], torch.ones(1, dtype=torch.bfloat16).expand(20))):
        packed = lpmm.parameters._rebuild("int8:block128:sr", (40, 64), torch.float32, codes, steps, True, True)
        assert torch.equal(packed.dequantize(), torch.ones(40, 64))


def test_a_weight_that_was_written_to_is_not_taken_for_the_one_before():
    """torch's own says so, too, where backward needs the weight: for the gradient of what it was multiplied by."""
    model, optimizer = prepared(3)
    for layer in (0, 3):
        loss = loss_of(model)
        with torch.no_grad():
            model[layer].weight.mul_(0.5)
        if layer == 0:  # ids have no gradient
            loss.backward()
        else:
            with pytest.raises(RuntimeError, match="between forward and backward"):
                loss.backward()
        optimizer.zero_grad()


def test_zeros_of_many_gradients_leave_them_empty():
    model, _ = prepared(2)
    loss_of(model).backward()
    packed = [p.grad for p in model.parameters() if isinstance(p.grad, lpmm.PackedGradient)]
    torch._foreach_zero_(packed)
    assert packed and all(g.is_empty for g in packed)


def test_layers_without_elements_do_as_torchs():
    model = torch.nn.Sequential(torch.nn.Linear(64, 0), torch.nn.Linear(0, 64))
    optimizer = lpmm.AdamW(model.parameters(), min_elements=0)
    lpmm.pack(model, optimizer)
    model(torch.ones(2, 64)).sum().backward()
    optimizer.step()
    assert (model[1].bias < 1).all() and float(model[0].weight.grad.norm()) == 0


def test_an_embedding_of_no_width_does_as_torchs():
    model = torch.nn.Embedding(64, 0)
    optimizer = lpmm.AdamW(model.parameters(), min_elements=0)
    lpmm.pack(model, optimizer)
    model(torch.arange(4)).sum().backward()
    optimizer.step()
    assert model.weight.shape == (64, 0)
