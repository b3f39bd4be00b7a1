"""Weights of PyTorch's modules that exist as codes only."""
import contextlib
import itertools
import math
import threading
import weakref

import torch

from . import _lpmm
from .gradients import (PARAMETER, READERS, Memory, PackedGradient, are_between, check_alone, check_type, on_values, read, views, where,
                        without_memory)

_PANEL = 1 << 22  # elements of a weight that exist at once
_NO_WEIGHT = "a weight is NaN, infinite or above 2^120, and cannot be packed"
_kept = threading.local()


def _room(name, like, dtype, *shape):
    """A tensor that is used again: as many that come and go, between activations that stay, would leave gaps in the heap."""
    count, rooms, key = math.prod(shape), vars(_kept), (name, dtype, where(like))
    if key not in rooms or rooms[key].numel() < count:
        rooms[key] = torch.empty(count, dtype=dtype, device=like.device)
    return rooms[key][:count].view(shape)


def _decoded(dtype):
    return torch.bfloat16 if dtype == torch.bfloat16 else torch.float32


_STAYS = ("a packed weight of shape {0.shape} and type {0.dtype} on {0.device} stays so; lpmm.unpack(model) before you resize, convert or move "
          "it, and make a new optimizer")


class PackedParameter(torch.Tensor):
    """A parameter whose values are codes and steps; type and shape are those that it had.

    Functions get it decoded for as long as they run, and autograd keeps the codes for backward. F.linear, F.embedding and
    transformers' Conv1D decode and fold it piece by piece.
    """

    @staticmethod
    def __new__(cls, memory, plan, shape, dtype):
        return without_memory(torch.Tensor._make_wrapper_subclass(cls, shape, dtype=dtype, device=memory.codes.device), "weight")

    def __init__(self, memory, plan, shape, dtype):
        self.memory, self.plan = memory, plan
        self.packed_sum = None  # the PackedGradient that takes its gradient, if it has one
        self.lock = threading.RLock()  # a gradient comes in parts, and threads that are in backward of one model take turns
        self.anchor = torch.zeros((), dtype=dtype, device=self.device, requires_grad=True)
        self.key = torch.tensor(next(_numbers), device="cpu")
        _weights[int(self.key)] = self

    @classmethod
    def empty(cls, spec, shape, dtype, device):
        """Room for zeros."""
        plan = _lpmm.Plan(spec, list(shape))
        return cls(Memory(plan.rows()[PARAMETER], torch.device(device)), plan, shape, dtype)

    def live_anchor(self):
        """No leaf, so that a backward for other tensors alone is told from one that wants this weight's gradient, too."""
        return self.anchor.view(()) if self.requires_grad else self.anchor.detach()

    @property
    def spec(self):
        return self.memory.spec

    def assign(self, values, seed=0, ordinal=0):
        """Takes values, rounded with noise that is another one each time."""
        check_type(values, "a value to pack")
        values = values.detach().to(self.device, torch.float32).contiguous()
        if not _lpmm.encode(where(values), self.plan, PARAMETER, *self.memory.addresses, values.data_ptr(), False, seed, ordinal,
                            self.memory.copies):
            raise ValueError(_NO_WEIGHT)
        self.memory.copies += 1
        return self

    def decode(self, first, out):
        _lpmm.decode(where(out), self.plan, PARAMETER, *self.memory.addresses, first, out.numel(), out.data_ptr(), out.dtype == torch.bfloat16)
        return out

    def dequantize(self):
        return self.decode(0, torch.empty(self.shape, dtype=_decoded(self.dtype), device=self.device)).to(self.dtype)

    def panels(self):
        """Runs of rows that end where pieces of the packed tensor do: (first row, rows)."""
        rows, *rest = self.shape
        width = math.prod(rest)
        unit = 4096 // math.gcd(4096, width)
        step = max(unit, _PANEL // max(width, 1) // unit * unit)
        return [(first, min(step, rows - first)) for first in range(0, rows, step)]

    def panel(self, first, rows, dtype):
        """Some rows, which stay until another panel is asked for."""
        width = self.shape[1]
        return self.decode(first * width, _room("panel", self, _decoded(dtype), rows, width)).to(dtype)


    def take_gradient(self, part, first):
        """Under the lock: adds the gradient of some rows, from one on, to the packed sum, or else to a float gradient."""
        if not self.requires_grad:
            return
        if self.packed_sum is not None:
            if self.grad is not self.packed_sum:
                self.packed_sum.take_over(self)
            self.packed_sum.fold(part, first * math.prod(part.shape[1:]))
        else:
            if self.grad is None:
                self.grad = torch.zeros(self.shape, dtype=self.dtype, device=self.device)
            self.grad[first:first + part.shape[0]] += part.to(self.dtype)

    def __repr__(self):
        return f"PackedParameter(shape={tuple(self.shape)}, spec='{self.spec}')"

    def _copy(self):
        return _rebuild(self.spec, self.shape, self.dtype, self.memory.codes.clone(), self.memory.steps.clone(), False, False)

    def __deepcopy__(self, memo):
        copied = self._copy()
        is_parameter = isinstance(self, torch.nn.Parameter)
        return memo.setdefault(id(self), torch.nn.Parameter(copied, requires_grad=self.requires_grad) if is_parameter else copied)

    def __reduce_ex__(self, protocol):
        return _rebuild, (self.spec, tuple(self.shape), self.dtype, self.memory.codes, self.memory.steps,
                          isinstance(self, torch.nn.Parameter), self.requires_grad)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        by_panels, place = _BY_PANELS.get(func, (None, 0))
        if by_panels is not None and len(args) > place and isinstance(args[place], cls):
            if torch.compiler.is_compiling() or torch._C._functorch.peek_interpreter_stack() is None:
                return by_panels(*args, **(kwargs or {}))  # vmap, jvp and the like know torch's own operators better
        if func in _WHOLE and torch.compiler.is_compiling():
            args = [_decode(x.key, x.live_anchor(), x.shape) if isinstance(x, cls) else x for x in args]
            return func(*args, **(kwargs or {}))
        if func in _REFUSED and isinstance(args[0], cls):
            raise RuntimeError(f"{func.__name__} of a packed weight is refused: {_REFUSED[func]}; lpmm.unpack(model, optimizer) first")
        if func == torch.Tensor.data.__set__:
            if any(getattr(args[0], k) != getattr(args[1], k) for k in ("shape", "dtype", "device")):
                raise RuntimeError(_STAYS.format(args[0]))
            new = args[0]._copy()  # who has the former data keeps it
            new.memory.copies = args[0].memory.copies
            args[0].memory = new.take(args[1]).memory
            return None
        if func in READERS and isinstance(args[0], cls) and not torch.compiler.is_compiling():
            return read(func, *args, **(kwargs or {}))
        with torch._C.DisableTorchFunctionSubclass():  # Tensor's own would make what comes out one of these
            out = func(*args, **(kwargs or {}))
        return out if torch.compiler.is_compiling() else views(cls, out)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__
        if name == "detach":
            with torch.inference_mode(False):  # where a view of another tensor must be none of its own
                return PackedParameter(args[0].memory, args[0].plan, args[0].shape, args[0].dtype)
        if name == "_to_copy" and torch.device(kwargs.get("device") or args[0].device) != args[0].device:
            raise RuntimeError(_STAYS.format(args[0]))
        if name == "clone" or name == "_to_copy" and kwargs.get("dtype", args[0].dtype) == args[0].dtype:
            return args[0]._copy()
        if name == "copy_" and isinstance(args[0], cls):
            return args[0].take(args[1])
        return on_values(cls, func, args, kwargs)

    def take(self, values):
        if not isinstance(values, PackedParameter) or values.spec != self.spec or values.shape != self.shape:
            values = values.dequantize() if isinstance(values, PackedParameter) else torch.as_tensor(values)
            if not are_between(values, -2.0**120, 2.0**120):  # nothing is changed
                raise ValueError(_NO_WEIGHT)
            return self.assign(values.float().expand(self.shape))
        self.memory.codes.copy_(values.memory.codes)
        self.memory.steps.copy_(values.memory.steps)
        return self


def _rebuild(spec, shape, dtype, codes, steps, is_parameter, requires_grad):
    packed = PackedParameter.empty(spec, shape, dtype, codes.device)
    for mine, theirs in ((packed.memory.codes, codes), (packed.memory.steps, steps)):
        if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
            raise ValueError(f"codes or steps of {spec} are not those of the shape {tuple(shape)}")
    packed.memory.codes, packed.memory.steps = codes.contiguous(), steps.contiguous()  # a file may say anything of strides
    return torch.nn.Parameter(packed, requires_grad=requires_grad) if is_parameter else packed


torch.serialization.add_safe_globals([_rebuild])


# ---- functions that need a piece of a weight at a time -------------------------------------------------------------------
# Operators of torch's, so that a compiled model stays one graph. They know a weight by its number: the graph has no codes, which
# change with every step. The number is in a tensor, the key, so that one graph serves all layers of a kind. The anchor is a number that
# requires a gradient where the weight does; so backward comes to each of them.
_weights = weakref.WeakValueDictionary()
_numbers = itertools.count()


def _operator(name, fake):
    def register(function):
        op = torch.library.custom_op("lpmm::" + name, function, mutates_args=())
        op.register_fake(fake)
        return op
    return register


def _rows(x):
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])  # -1 in place of the product says nothing where rows have no elements


@_operator("linear", lambda x, key, anchor, width, transposed: x.new_empty(*x.shape[:-1], width))
def _linear(x: torch.Tensor, key: torch.Tensor, anchor: torch.Tensor, width: int, transposed: bool) -> torch.Tensor:
    weight = _weights[int(key)]
    if x.shape[-1] != weight.shape[1 - transposed]:
        raise RuntimeError(f"a packed weight takes rows of {weight.shape[1 - transposed]}, and x has shape {tuple(x.shape)}")
    make = x.new_zeros if transposed else x.new_empty
    y = make(*x.shape[:-1], width)
    for first, rows in weight.panels():
        panel = weight.panel(first, rows, x.dtype)
        if transposed:
            y += x[..., first:first + rows] @ panel
        else:
            y[..., first:first + rows] = x @ panel.t()
    return y


@_operator("linear_backward",
           lambda dy, x, key, transposed, wanted, folds: (torch.empty_like(x) if wanted else x.new_empty(0), dy.new_empty(())))
def _linear_backward(dy: torch.Tensor, x: torch.Tensor, key: torch.Tensor, transposed: bool, wanted: bool,
                     folds: bool) -> tuple[torch.Tensor, torch.Tensor]:
    weight = _weights[int(key)]
    flat, dy = _rows(x), _rows(dy)
    dx = torch.zeros_like(flat) if wanted else None
    with weight.lock if folds else contextlib.nullcontext():
        for first, rows in weight.panels():
            part = slice(first, first + rows)
            if wanted and transposed:
                dx[:, part] = dy @ weight.panel(first, rows, x.dtype).t()
            elif wanted:
                dx.addmm_(dy[:, part], weight.panel(first, rows, x.dtype))
            if folds:
                left, right = (flat[:, part], dy) if transposed else (dy[:, part], flat)
                gradient = _room("gradient", left, left.dtype, left.shape[1], right.shape[1])
                weight.take_gradient(torch.mm(left.t(), right, out=gradient), first)
    return dx.view(x.shape) if wanted else x.new_empty(0), dy.new_zeros(())


@_operator("embedding", lambda ids, key, anchor, width, padding: anchor.new_empty(*ids.shape, width))
def _embedding(ids: torch.Tensor, key: torch.Tensor, anchor: torch.Tensor, width: int, padding: int) -> torch.Tensor:
    weight = _weights[int(key)]
    if ids.dtype not in (torch.int64, torch.int32):
        raise RuntimeError(f"ids of an embedding must be int64 or int32, and are {ids.dtype}")
    if ids.device != weight.device:
        raise RuntimeError(f"ids lie on {ids.device}, and the embedding on {weight.device}")
    range_text = f"ids of an embedding must be 0 to {weight.shape[0] - 1}"
    if ids.is_cuda:  # is told later, as by torch's own
        torch._assert_async(((ids >= 0) & (ids < weight.shape[0])).all(), range_text)
    elif ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < weight.shape[0]:
        raise IndexError(range_text)
    rows = ids.reshape(-1).to(torch.int32).contiguous()
    out = torch.empty(rows.numel(), width, dtype=torch.float32, device=weight.device)
    _lpmm.decode_rows(where(out), weight.plan, *weight.memory.addresses, width, rows.data_ptr(), rows.numel(), out.data_ptr())
    return out.to(weight.dtype).view(*ids.shape, width)


@_operator("embedding_backward", lambda dy, ids, key, padding: dy.new_empty(()))
def _embedding_backward(dy: torch.Tensor, ids: torch.Tensor, key: torch.Tensor, padding: int) -> torch.Tensor:
    weight, ids, dy = _weights[int(key)], ids.reshape(-1), _rows(dy).float()
    if padding >= 0:
        dy = dy * (ids != padding).unsqueeze(1)
    with weight.lock:
        for first, rows in weight.panels():
            inside = (ids >= first) & (ids < first + rows)
            if dy.is_cuda:  # torch's own sum of rows, with one more for ids that are not inside
                places = torch.where(inside, ids - first, rows)
                weight.take_gradient(torch.ops.aten.embedding_dense_backward(dy, places, rows + 1, rows, False)[:rows], first)
            elif inside.any() or first + rows == weight.shape[0]:
                gradient = _room("gradient", dy, torch.float32, rows, dy.shape[1]).zero_()
                weight.take_gradient(gradient.index_add_(0, ids[inside] - first, dy[inside]), first)
    return dy.new_zeros(())


@_operator("decode", lambda key, anchor, shape: anchor.new_empty(shape))
def _decode(key: torch.Tensor, anchor: torch.Tensor, shape: list[int]) -> torch.Tensor:
    return _weights[int(key)].dequantize()


@_operator("decode_backward", lambda dy, key: dy.new_empty(()))
def _decode_backward(dy: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    weight = _weights[int(key)]
    with weight.lock:
        weight.take_gradient(dy, 0)
    return dy.new_zeros(())


def _keep(ctx, inputs, output):
    *tensors, _ = (x for x in inputs if isinstance(x, torch.Tensor))  # the last ones are the key and the anchor
    ctx.save_for_backward(*tensors)
    ctx.last = inputs[-1]
    ctx.weight = _weights[int(tensors[-1])] if type(tensors[-1]) is torch.Tensor else None  # its owner may drop it before backward
    ctx.version = None if ctx.weight is None else ctx.weight._version


def _folds(ctx):
    """Whether this backward is for the weight, or for other tensors alone, as torch.autograd.grad and backward(inputs=...) are."""
    node = ctx.next_functions[-1][0]
    return node is not None and torch._C._will_engine_execute_node(node)


def _linear_gradients(ctx, dy):
    if ctx.needs_input_grad[0] and ctx.weight is not None and ctx.weight._version != ctx.version:
        raise RuntimeError("a packed weight was written to between forward and backward, which needs it as it was; write to it after backward")
    dx, anchor = _linear_backward(dy, *ctx.saved_tensors, ctx.last, ctx.needs_input_grad[0], _folds(ctx))
    return dx if ctx.needs_input_grad[0] else None, None, anchor, None, None


def _embedding_gradients(ctx, dy):
    return None, None, _embedding_backward(dy, *ctx.saved_tensors, ctx.last) if _folds(ctx) else None, None, None


def _decode_gradients(ctx, dy):
    return None, _decode_backward(dy, *ctx.saved_tensors) if _folds(ctx) else None, None


_linear.register_autograd(_linear_gradients, setup_context=_keep)
_embedding.register_autograd(_embedding_gradients, setup_context=_keep)
_decode.register_autograd(_decode_gradients, setup_context=_keep)


def _as_computed(x, weight):
    kind = x.device.type
    if torch.is_autocast_enabled(kind) and x.is_floating_point():
        return x.to(torch.get_autocast_dtype(kind))
    if x.dtype != weight.dtype:
        raise RuntimeError(f"x is {x.dtype}, and the packed weight {weight.dtype}: convert x; or lpmm.unpack(model), and convert that")
    return x


def _call_linear(x, weight, bias=None):
    y = _linear(_as_computed(x, weight), weight.key, weight.live_anchor(), weight.shape[0], False)
    return y if bias is None else y + bias.to(y.dtype)


def _call_addmm(bias, x, weight, *, beta=1, alpha=1):  # transformers' Conv1D
    y = _linear(_as_computed(x, weight), weight.key, weight.live_anchor(), weight.shape[1], True)
    return beta * bias.to(y.dtype) + alpha * y if (beta, alpha) != (1, 1) else y + bias.to(y.dtype)


def _call_embedding(ids, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
    if max_norm is not None or scale_grad_by_freq or sparse:
        raise ValueError("a packed embedding has no max_norm, scale_grad_by_freq or sparse; leave its weight unpacked")
    if padding_idx is not None and padding_idx < 0:
        padding_idx += weight.shape[0]
    return _embedding(ids, weight.key, weight.live_anchor(), weight.shape[1], -1 if padding_idx is None else padding_idx)


# Functions of a packed weight, and which argument it is.
_BY_PANELS = {torch.nn.functional.linear: (_call_linear, 1), torch.addmm: (_call_addmm, 2),
              torch.nn.functional.embedding: (_call_embedding, 1)}
_WHOLE = (torch.conv1d, torch.conv2d, torch.conv3d, torch.conv_transpose1d, torch.conv_transpose2d, torch.conv_transpose3d,
          torch.nn.functional.multi_head_attention_forward)
_HOOKED = "its gradient is folded in parts, which no hook sees"
_NO_MEMORY = "it has no memory in floats (for a file: model.save_pretrained(folder, state_dict=lpmm.float_state_dict(model)))"
_NOT_IN_PARTS = "it is written to as a whole"
_REFUSED = {torch.Tensor.__setitem__: _NOT_IN_PARTS, torch.Tensor.fill_diagonal_: _NOT_IN_PARTS,
            torch.Tensor.register_hook: _HOOKED, torch.Tensor.register_post_accumulate_grad_hook: _HOOKED,
            **dict.fromkeys((torch.Tensor.data_ptr, torch.Tensor.untyped_storage, torch.Tensor.storage, torch.Tensor._typed_storage,
                             torch.Tensor.share_memory_, torch.Tensor.__dlpack__), _NO_MEMORY)}


# ---- models ----------------------------------------------------------------------------------------------------------------
def _is_packable(module):
    kinds = (torch.nn.Linear, torch.nn.Embedding, torch.nn.modules.conv._ConvNd)
    return isinstance(module, kinds) or type(module).__name__ == "Conv1D"  # transformers' linear layer of GPT-2


def _own(optimizer):
    """lpmm's optimizer, which accelerate and Lightning wrap."""
    optimizer = getattr(optimizer, "optimizer", optimizer)
    if not hasattr(optimizer, "_places"):
        raise TypeError(f"the optimizer must be one of lpmm's, and is of type {type(optimizer).__name__}")
    return optimizer


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
    optimizer = _own(optimizer)
    check_alone(p for _, _, p in optimizer._places())
    if optimizer._folding == "none":
        raise ValueError('accumulator="none" takes no packed weights: their gradients come in parts')
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
        if any(not hasattr(h, "is_lpmms") for of in (p._backward_hooks, p._post_accumulate_grad_hooks) for h in (of or {}).values()):
            raise RuntimeError(f"{names[-1]} has a hook, and {_HOOKED} once it is packed; remove the hook, or leave pack() out")
        ordinal, group = places[id(p)]
        packed = optimizer._pack(p.detach(), group, ordinal, names[-1])
        if packed is None:
            names.pop()
        else:
            new[id(p)] = torch.nn.Parameter(packed, requires_grad=p.requires_grad)
    if not names:
        raise ValueError("no weight was packed: the optimizer trains none of this model's Linear, Embedding or convolution weights, they "
                         "are packed already, or its preset keeps parameters in fp32; take preset='lpmm-min'")
    _replace(model, optimizer, new)
    optimizer.fold_gradients()
    return names


def unpack(model, optimizer=None):
    """Gives packed weights back as float parameters; optimizer: the one that goes on training them."""
    new = {}
    for p in model.parameters():
        if isinstance(p, PackedParameter):
            new[id(p)] = q = torch.nn.Parameter(p.dequantize(), requires_grad=p.requires_grad)
            if p.grad is not None and not getattr(p.grad, "is_empty", False):
                q.grad = p.grad.to(q.dtype, copy=True)
    _replace(model, None if optimizer is None else _own(optimizer), new)
    return model


def float_state_dict(model):
    """model.state_dict() with every packed weight decoded, to be saved for programs that know nothing of lpmm."""
    return {k: v.dequantize() if isinstance(v, PackedParameter) else v for k, v in model.state_dict().items()}
