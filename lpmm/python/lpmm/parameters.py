"""Weights of PyTorch's modules that exist as codes only."""
import math

import torch

from . import _lpmm
from .gradients import PARAMETER, Memory, PackedGradient, check_type, readable

_PANEL = 1 << 22  # elements of a weight that exist at once


class PackedParameter(torch.Tensor):
    """A parameter whose values are codes and steps; type and shape are those that it had.

    Functions get it decoded for as long as they run, and autograd keeps the codes for backward. F.linear and F.embedding
    decode and fold it piece by piece.
    """

    @staticmethod
    def __new__(cls, memory, plan, shape, dtype):
        return torch.Tensor._make_wrapper_subclass(cls, shape, dtype=dtype)

    def __init__(self, memory, plan, shape, dtype):
        self.memory, self.plan = memory, plan

    @classmethod
    def empty(cls, spec, shape, dtype):
        """Room for zeros."""
        config = _lpmm.config("sgd", 0.0, 0.0, {})
        plan = _lpmm.Plan("a parameter", list(shape), "hidden", config, "fp32", {"parameter": spec}, 0)
        return cls(Memory(plan.rows()[PARAMETER]), plan, shape, dtype)

    @property
    def spec(self):
        return self.memory.spec

    def assign(self, values, seed=0, ordinal=0):
        """Takes values, rounded with the noise of step 0."""
        check_type(values, "a value to pack")
        values = values.detach().float().contiguous()
        if not _lpmm.encode(self.plan, PARAMETER, *self.memory.addresses, values.data_ptr(), False, seed, ordinal):
            raise ValueError("a weight is NaN, infinite or above 2^120, and cannot be packed")
        return self

    def decode(self, first, count, dtype):
        out = torch.empty(count, dtype=torch.bfloat16 if dtype == torch.bfloat16 else torch.float32)
        _lpmm.decode(self.plan, PARAMETER, *self.memory.addresses, first, count, out.data_ptr(), dtype == torch.bfloat16)
        return out.to(dtype)

    def dequantize(self):
        return self.decode(0, self.plan.elements, self.dtype).view(self.shape)

    def panels(self):
        """Runs of rows that end where pieces of the packed tensor do: (first row, rows)."""
        rows, width = self.shape[0], math.prod(self.shape[1:])
        unit = 4096 // math.gcd(4096, width)
        step = max(unit, _PANEL // max(width, 1) // unit * unit)
        return [(first, min(step, rows - first)) for first in range(0, rows, step)]

    def panel(self, first, rows, dtype):
        width = self.shape[1]
        return self.decode(first * width, rows * width, dtype).view(rows, width)

    def __repr__(self):
        return f"PackedParameter(shape={tuple(self.shape)}, spec='{self.spec}')"

    def _copy(self):
        memory = Memory.__new__(Memory)
        memory.spec, memory.codes, memory.steps = self.spec, self.memory.codes.clone(), self.memory.steps.clone()
        return PackedParameter(memory, self.plan, self.shape, self.dtype)

    def __deepcopy__(self, memo):
        memo[id(self)] = _like(self._copy(), self)
        return memo[id(self)]

    def __reduce_ex__(self, protocol):
        return _rebuild, (self.spec, tuple(self.shape), self.dtype, self.memory.codes, self.memory.steps,
                          isinstance(self, torch.nn.Parameter), self.requires_grad)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func in _BY_PANELS and isinstance(args[1], cls) and torch.is_floating_point(args[1]):
            return _BY_PANELS[func](*args, **(kwargs or {}))
        if func in (torch.Tensor.data_ptr, torch.Tensor.untyped_storage, torch.Tensor.storage, torch.Tensor.numpy):
            raise RuntimeError("a packed weight has no fp32 memory; lpmm.float_state_dict(model) and lpmm.unpack(model) make it, "
                               "as in model.save_pretrained(folder, state_dict=lpmm.float_state_dict(model))")
        with torch._C.DisableTorchFunctionSubclass():  # Tensor's own would make what comes out one of these
            return func(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__
        if name == "detach":
            return PackedParameter(args[0].memory, args[0].plan, args[0].shape, args[0].dtype)
        if name == "clone":
            return args[0]._copy()
        if name == "copy_" and isinstance(args[0], cls):
            return args[0]._take(args[1])
        if name == "_to_copy":
            wanted = kwargs.get("dtype", args[0].dtype), torch.device(kwargs.get("device") or "cpu").type
            if wanted != (args[0].dtype, "cpu"):
                raise RuntimeError(f"a packed weight of type {args[0].dtype} on the CPU stays so; lpmm.unpack(model) first, or "
                                   "convert the model before it is packed")
            return args[0]._copy()
        if func._schema.is_mutable and any(isinstance(x, cls) for x in args[:1]):
            raise RuntimeError(f"{name} would change a packed weight in place; only the optimizer and copy_ do")
        plain = torch.utils._pytree.tree_map(lambda x: x.dequantize() if isinstance(x, cls) else x, (args, kwargs))
        return func(*plain[0], **plain[1])

    def _take(self, values):
        if not isinstance(values, PackedParameter) or values.spec != self.spec or values.shape != self.shape:
            return self.assign(torch.as_tensor(values.dequantize() if isinstance(values, PackedParameter) else values)
                               .expand(self.shape))
        self.memory.codes.copy_(values.memory.codes)
        self.memory.steps.copy_(values.memory.steps)
        return self


def _like(packed, of):
    """A parameter where `of` is one."""
    if isinstance(of, torch.nn.Parameter):
        return torch.nn.Parameter(packed, requires_grad=of.requires_grad)
    return packed


def _rebuild(spec, shape, dtype, codes, steps, is_parameter, requires_grad):
    packed = PackedParameter.empty(spec, shape, dtype)
    for mine, theirs in ((packed.memory.codes, codes), (packed.memory.steps, steps)):
        if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
            raise ValueError(f"codes or steps of {spec} are not those of the shape {tuple(shape)}")
    packed.memory.codes, packed.memory.steps = codes, steps
    return torch.nn.Parameter(packed, requires_grad=requires_grad) if is_parameter else packed


torch.serialization.add_safe_globals([_rebuild])


# ---- functions that need a piece of a weight at a time -------------------------------------------------------------------
class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        y = x.new_empty(*x.shape[:-1], weight.shape[0])
        for first, rows in weight.panels():
            y[..., first:first + rows] = x @ weight.panel(first, rows, x.dtype).t()
        return y

    @staticmethod
    def backward(ctx, dy):
        x, weight = ctx.saved_tensors
        flat, dy2 = x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])
        dx = torch.zeros_like(flat) if ctx.needs_input_grad[0] else None
        into = _Gradient(weight, ctx.needs_input_grad[1])
        for first, rows in weight.panels():
            part = dy2[:, first:first + rows]
            if dx is not None:
                dx.addmm_(part, weight.panel(first, rows, x.dtype))
            if into.wanted:
                into.add(first, part.t() @ flat)
        return None if dx is None else dx.view(x.shape), into.whole


class _Embedding(torch.autograd.Function):
    @staticmethod
    def forward(ctx, ids, weight, padding):
        ctx.save_for_backward(ids, weight)
        ctx.padding = padding
        width = weight.shape[1]
        rows = ids.reshape(-1).to(torch.int32).contiguous()
        out = torch.empty(rows.numel(), width)
        _lpmm.decode_rows(weight.plan, *weight.memory.addresses, width, rows.data_ptr(), rows.numel(), out.data_ptr())
        return out.to(weight.dtype).view(*ids.shape, width)

    @staticmethod
    def backward(ctx, dy):
        ids, weight = ctx.saved_tensors
        ids, dy = ids.reshape(-1), dy.reshape(-1, dy.shape[-1]).float()
        if ctx.padding is not None:
            dy = dy * (ids != ctx.padding).unsqueeze(1)
        into = _Gradient(weight, True)
        for first, rows in weight.panels():
            inside = (ids >= first) & (ids < first + rows)
            if inside.any() or first + rows == weight.shape[0] or not into.folds:
                into.add(first, torch.zeros(rows, dy.shape[1]).index_add_(0, ids[inside] - first, dy[inside]))
        return None, into.whole, None


class _Gradient:
    """Takes the gradient of a packed weight in parts: into its packed sum, or else into a whole tensor for autograd."""

    def __init__(self, weight, wanted):
        self.wanted, self.whole, self.weight = wanted, None, weight
        self.folds = isinstance(weight.grad, PackedGradient)
        if wanted and not self.folds:
            self.whole = torch.zeros(weight.shape, dtype=weight.dtype)

    def add(self, first, part):
        if self.folds:
            self.weight.grad.fold(part, first * self.weight.shape[1])
        else:
            self.whole[first:first + part.shape[0]] += part.to(self.whole.dtype)


def _linear(x, weight, bias=None):
    if weight.dim() != 2 or not torch.is_floating_point(x):
        raise ValueError("F.linear takes a matrix and floating-point values")
    if torch.is_autocast_enabled("cpu"):
        x = x.to(torch.get_autocast_dtype("cpu"))
    y = _Linear.apply(x, weight)
    return y if bias is None else y + bias.to(y.dtype)


def _embedding(ids, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
    if max_norm is not None or scale_grad_by_freq or sparse:
        raise ValueError("a packed embedding has no max_norm, scale_grad_by_freq or sparse; leave its weight unpacked")
    if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < weight.shape[0]:
        raise IndexError(f"ids of an embedding must be 0 to {weight.shape[0] - 1}")
    if padding_idx is not None and padding_idx < 0:
        padding_idx += weight.shape[0]
    return _Embedding.apply(ids, weight, padding_idx)


_BY_PANELS = {torch.nn.functional.linear: _linear, torch.nn.functional.embedding: _embedding}


# ---- models ----------------------------------------------------------------------------------------------------------------
def _is_packable(module):
    kinds = (torch.nn.Linear, torch.nn.Embedding, torch.nn.modules.conv._ConvNd)
    return isinstance(module, kinds) or type(module).__name__ == "Conv1D"  # transformers' linear layer of GPT-2


def _replace(model, optimizer, new):
    """Puts new[id(p)] in the place of p wherever the model and its optimizer have p."""
    for module in model.modules():
        for name, p in module._parameters.items():
            if id(p) in new:
                module._parameters[name] = new[id(p)]
    if optimizer is None:
        return
    for group in optimizer.param_groups:
        group["params"] = [new.get(id(p), p) for p in group["params"]]
    optimizer._rename(new)


def pack(model, optimizer):
    """Replaces the weights of Linear, Embedding, convolutions and transformers' Conv1D by codes, and folds gradients.

    Which of them, and how, is the optimizer's preset and specs; weights that it does not train stay. Returns the names of
    the packed ones. Tied weights stay tied.
    """
    places = {id(p): (n, group) for n, group, p in optimizer._places()}
    new, names = {}, []
    for prefix, module in model.named_modules():
        p = module._parameters.get("weight") if _is_packable(module) else None
        if p is None or id(p) not in places or isinstance(p, PackedParameter):
            continue
        names.append(f"{prefix}.weight" if prefix else "weight")
        if id(p) in new:
            continue
        if p.grad is not None and not (isinstance(p.grad, PackedGradient) and p.grad.folds == 0):
            raise RuntimeError(f"{names[-1]} has a gradient; pack() before backward, or after zero_grad()")
        ordinal, group = places[id(p)]
        packed = optimizer._pack(p.detach(), group, ordinal, names[-1])
        if packed is None:
            names.pop()
        else:
            new[id(p)] = torch.nn.Parameter(packed, requires_grad=p.requires_grad)
    if not names:
        raise ValueError("no weight was packed: the optimizer trains none of this model's Linear, Embedding or convolution weights, or "
                         "its preset keeps parameters in fp32; take preset='lpmm-min'")
    _replace(model, optimizer, new)
    optimizer.fold_gradients()
    return names


def unpack(model, optimizer=None):
    """Gives packed weights back as float parameters; optimizer: the one that goes on training them."""
    new = {id(p): torch.nn.Parameter(p.dequantize(), requires_grad=p.requires_grad)
           for p in model.parameters() if isinstance(p, PackedParameter)}
    _replace(model, optimizer, new)
    return model


def float_state_dict(model):
    """model.state_dict() with every packed weight decoded, to be saved for programs that know nothing of lpmm."""
    return {k: v.dequantize() if isinstance(v, PackedParameter) else v for k, v in model.state_dict().items()}
