"""Gradients of PyTorch that are packed sums, and parts of DTensors."""
import math
import mmap
import threading
import weakref

import numpy
import torch

from . import _lpmm

PARAMETER, ACCUMULATOR = 0, 1  # roles, as lpmm counts them
PLANNED, FP32, BF16, BF16_NEAREST = -1, 0, 1, 2  # what lies at an address
TYPES = {torch.float32: FP32, torch.bfloat16: BF16}


def check_type(x, what):
    if x.is_sparse or x.layout != torch.strided:
        raise RuntimeError(f"{what} is sparse, and lpmm packs dense tensors only; use sparse=False")
    if x.device.type not in ("cpu", "cuda"):
        raise RuntimeError(f"{what} lies on {x.device}, and lpmm's optimizers work on CPUs and NVIDIA's GPUs alone")
    if not x.is_floating_point() or x.dtype == torch.float64:
        raise ValueError(f"{what} is of type {x.dtype}, but lpmm computes in fp32: use float32, bfloat16 or float16")


def where(x):
    """Where kernels find a tensor, and the stream on which they follow torch's work."""
    if x.device.type != "cuda":
        return -1, 0
    if torch.cuda.is_current_stream_capturing():
        raise RuntimeError("lpmm's kernels are no part of a CUDA graph, as the host reads what they find: capture forward and backward "
                           "without fold_gradients() and pack(), and call step() outside of the graph")
    return x.device.index, torch.cuda.current_stream(x.device).cuda_stream


_last = None, 0, 0.0  # the last tensor that was read, its version, its value


def _number(x):
    """x as a number. A GPU is asked once for a factor of many gradients."""
    global _last
    if not torch.is_tensor(x) or x.device.type != "cuda":
        return float(x)
    last = _last
    if last[0] is None or last[0]() is not x or last[1] != x._version:
        _last = last = weakref.ref(x), x._version, float(x)
    return last[2]


# ---- DTensors, of which a process has a part: a run of rows
def here(x):
    return x.to_local() if hasattr(x, "to_local") else x


def place_of(x, what=""):
    """How many parts there are, which is here, and the dimension of a mesh that has them."""
    found = 1, 0, None
    for i, placement in enumerate(getattr(x, "placements", ())):
        parts = x.device_mesh.size(i)
        if parts > 1 and not placement.is_replicate():
            if type(placement) is not torch.distributed.tensor.Shard or placement.dim != 0 or found[2]:
                raise ValueError(f"{what} is a DTensor placed as {x.placements}; lpmm takes one Shard(0), as fully_shard makes it")
            found = parts, x.device_mesh.get_local_rank(i), (x.device_mesh, i)
    return found


def part_of(x, of):
    """What lies here of x, whole or a DTensor, where it is placed as `of` is."""
    if hasattr(x, "to_local"):
        return here(x.redistribute(placements=of.placements)) if hasattr(of, "to_local") else x.full_tensor()
    parts, place, _ = place_of(of)
    rows = -(-len(x) // parts) if parts > 1 else 0
    return x[place * rows:(place + 1) * rows] if rows else x


def as_part(part, of, is_row=False):
    """A DTensor where `of` is one: of its shape, or one whose rows are the parts, so that no other number of processes takes it."""
    if not hasattr(of, "to_local"):
        return part
    shape, stride = of.shape, of.stride()
    if is_row:
        part, shape, stride = part.view(1, -1), torch.Size((place_of(of)[0], len(part))), (len(part), 1)
    return torch.distributed.tensor.DTensor.from_local(part, of.device_mesh, of.placements, shape=shape, stride=stride)


def check_alone(parameters=()):
    """Gradients of several processes are averaged after backward, and what is folded or applied inside of it would be left out."""
    if any(hasattr(p, "to_local") for p in parameters):
        raise RuntimeError("a parameter is a DTensor, whose gradient is averaged first: leave fold_gradients() and pack() out")
    of = torch.distributed
    if of.is_available() and of.is_initialized() and of.get_world_size() > 1:
        raise RuntimeError(f"{of.get_world_size()} processes train, whose gradients are averaged before they are packed or applied: "
                           "leave fold_gradients() and pack() out, and take lpmm's optimizer alone")


def readable(x):
    """x where it lies, if kernels can read it there; else a copy in a type and order that they can."""
    x = x.dequantize() if isinstance(x, PackedGradient) else x  # another optimizer's
    return (x if x.dtype in TYPES else x.float()).contiguous()


def _zeros(count, dtype, device):
    """What stays for the whole training lies outside of the host's heap, whose gaps activations then fill."""
    size = count * dtype.itemsize
    if size < 1 << 16 or device.type != "cpu":
        return torch.zeros(count, dtype=dtype, device=device)
    return torch.frombuffer(mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), dtype=dtype)


class Memory:
    """Codes and steps of one role of one tensor."""

    copies = 0  # of values that were rounded into it, which key their noise: an average would else be rounded the same way each time

    def __init__(self, row, device):
        _, self.spec, code_bytes, steps, bits = row
        self.codes = _zeros(code_bytes, torch.uint8, device)
        self.steps = _zeros(steps, {0: torch.uint8, 16: torch.bfloat16, 32: torch.float32}[bits], device)

    @property
    def addresses(self):
        return self.codes.data_ptr(), self.steps.data_ptr() if self.steps.numel() else 0

    @property
    def nbytes(self):
        return self.codes.nbytes + self.steps.nbytes


_NO_FLOATS = "reading the memory of a packed {} is refused: it holds no floats; hand out its dequantize(), or the clone() of a view"
_tell_readers = getattr(torch._C, "_set_storage_data_ptr_access_error_msg", None)  # of a newer torch


def without_memory(packed, what):
    """The tensor. Whatever reads its memory past this package is told so; otherwise it would read from address 0."""
    if _tell_readers is not None:
        with torch._C.DisableTorchFunctionSubclass():
            _tell_readers(torch.Tensor.untyped_storage(packed)._cdata, _NO_FLOATS.format(what))
    return packed


def are_between(values, low, high):
    """False where one is NaN."""
    least, most = torch.aminmax(values.float() if values.element_size() == 1 else values) if values.numel() else (low, high)
    return bool(low <= least and most <= high)


def _check_stays(func):
    if func == torch.Tensor.__dlpack__:
        raise RuntimeError(_NO_FLOATS.format("tensor"))


ENDED_EARLY = "parameter {} has a part of a gradient, because backward ended early; call zero_grad() first"
# What gives values as something else than a tensor.
READERS = frozenset(getattr(torch.Tensor, name) for name in ("__array__", "numpy", "tolist", "is_shared"))
_WRITERS = frozenset(["__setitem__", *(f"__i{name}__" for name in ("add", "and", "floordiv", "lshift", "mod", "mul", "or", "pow", "rshift",
                                                                  "sub", "truediv", "xor"))])


class DecodedView(torch.Tensor):
    """A view of decoded values. It refuses to be written to, as that would change a copy only; what is computed of it is a plain tensor."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        _check_stays(func)
        kwargs, name = kwargs or {}, func.__name__.split(".")[0]  # "zero_.default" is an overload of an operator
        writes = (name in _WRITERS or name[-1] == "_" and name[:2] != "__" and name != "requires_grad_" or func == torch.Tensor.data.__set__
                  or kwargs.get("inplace"))
        into = args if kwargs.get("max_norm") is not None else (args[:1] or kwargs) if writes else kwargs.get("out")
        if any(isinstance(x, cls) for x in torch.utils._pytree.tree_leaves(into)):
            raise RuntimeError(f"{name} would change decoded values of a packed tensor, and not the tensor; clone() them first")
        with torch._C.DisableTorchFunctionSubclass():
            out = func(*args, **kwargs)
        return read_only(out, [x for x in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(x, cls)])

    def __deepcopy__(self, memo):
        return memo.setdefault(id(self), self.clone())

    def __reduce_ex__(self, protocol):
        return self.clone().__reduce_ex__(protocol)

    def __format__(self, text):
        return self.clone().__format__(text)


def _as_view(x):
    return x if torch._C._len_torch_dispatch_stack() else x.as_subclass(DecodedView)  # torch.func.linearize traces plain tensors


def read_only(out, values):
    """What a function gave for decoded values, kept from being written to where it is these values."""
    if isinstance(out, numpy.ndarray):
        out.flags.writeable = False
        return out
    of = torch._C._is_alias_of
    return torch.utils._pytree.tree_map_only(torch.Tensor, lambda x: _as_view(x) if any(of(x, v) for v in values if v is not x) else x, out)


def views(cls, out):
    """The same for views that autograd knows, as those of several steps: their values are gone by then. It knows no others, as
    unsafe_chunk's."""
    if type(out) in (list, tuple):
        return type(out)(views(cls, x) for x in out)
    return _as_view(out) if type(out) is torch.Tensor and isinstance(out._base, cls) else out


def read(func, packed, *args, **kwargs):
    """What a function of READERS gives for the values."""
    if func == torch.Tensor.is_shared:  # torch's own ends the process where there is no memory
        return False
    values = packed.dequantize().to(packed.dtype).requires_grad_(packed.requires_grad)
    return read_only(func(values, *args, **kwargs), [values])


def _check_shape(values, packed):
    if values.shape != packed.shape:
        raise RuntimeError(f"a packed tensor of shape {tuple(packed.shape)} takes no values of shape {tuple(values.shape)}")


def _one_by_one(args, kwargs):
    """The arguments for each tensor of the lists among them; none where lists differ in length, which torch refuses."""
    def is_list(x):
        return isinstance(x, (list, tuple)) or torch.is_tensor(x) and x.dim() == 1  # of factors

    def piece(i, x):
        return x[i:i + 1] if is_list(x) else x
    counts = {len(x) for x in (*args, *kwargs.values()) if is_list(x)}
    count = counts.pop() if len(counts) == 1 else 0
    return [([piece(i, x) for x in args], {k: piece(i, x) for k, x in kwargs.items()}) for i in range(count)]


def on_values(cls, func, args, kwargs):
    """What an operator of torch's gives for the values of packed tensors, which take what it writes to them."""
    if func == torch.ops.aten.view.dtype:  # autograd detaches it, so that nothing could keep it from being written to
        raise RuntimeError("values of a packed tensor are not seen as another type; call view(dtype) of dequantize()")
    if func.overloadpacket.__name__.startswith("_foreach_"):
        calls = _one_by_one(args, kwargs)  # all of them decoded may not fit
        if len(calls) > 1:
            outs = [on_values(cls, func, *call) for call in calls]
            return None if outs[0] is None else [out for (out,) in outs]
    packed = {id(x): x for x in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(x, cls)}
    with torch.inference_mode(False):  # where views of its own tensors would be none of the packed one
        values = {key: x.dequantize().to(x.dtype) for key, x in packed.items()}
    plain = torch.utils._pytree.tree_map(lambda x: values.get(id(x), x), (args, kwargs))
    out = func(*plain[0], **plain[1])
    schema = func._schema
    if schema.is_mutable or not (torch.is_grad_enabled() and any(x.requires_grad for x in packed.values())):
        out = read_only(out, values.values())
        same = {id(v): packed[key] for key, v in values.items()}
        out = torch.utils._pytree.tree_map(lambda x: same.get(id(x), x), out)
    given = {**dict(zip((a.name for a in schema.arguments), args)), **kwargs}
    for to in (given.get(a.name) for a in schema.arguments if schema.is_mutable and a.alias_info is not None and a.alias_info.is_write):
        for x in to if isinstance(to, (list, tuple)) else [to]:
            if isinstance(x, cls):
                _check_shape(values[id(x)], x)
                x.take(values[id(x)])
    return out


def _refused(text):
    def refuse(self, *_):
        raise RuntimeError(text)
    return refuse


class PackedGradient(torch.Tensor):
    """The gradient of a parameter as a packed sum, to which autograd adds what it computes.

    p.grad is one after Optimizer.fold_gradients(). It knows its norm and takes factors, so that
    torch.nn.utils.clip_grad_norm_ and GradScaler work on it. Other functions get it decoded, and what they write to the
    whole of it is rounded once more.
    """

    @staticmethod
    def __new__(cls, p, *_):
        return without_memory(torch.Tensor._make_wrapper_subclass(cls, p.shape, dtype=p.dtype, device=p.device), "gradient")

    def __init__(self, p, plan, seed, ordinal):
        self.plan, self.seed, self.ordinal = plan, seed, ordinal
        self._begin(plan.rows()[ACCUMULATOR])

    def _begin(self, row):
        self.memory = Memory(row, self.device)
        self.lock = threading.RLock()  # of threads that are in backward of one model
        self.squares = _lpmm.SquareSum()  # of what is stored
        self.update = 1  # the number of the update that it is for
        self.reset()

    def reset(self):
        """As an update leaves it: empty."""
        self.folds, self.scale, self.is_empty, self.is_part = 0, 1.0, True, False
        self.squares.clear()

    @property
    def is_finite(self):
        return self.is_empty or math.isfinite(self.squares.value() * self.scale)

    def fold(self, g, first=0):
        """Adds values from an element on; those up to the last one complete a gradient."""
        check_alone()
        check_type(g, "a gradient")
        if g.shape[1:] != self.shape[1:] or first + g.numel() > self.plan.elements:
            raise RuntimeError(f"a gradient has shape {tuple(g.shape)}, and its sum {tuple(self.shape)}: shapes stay as they were when the "
                               "optimizer was made; make a new one")
        if g.device != self.device:
            raise RuntimeError(f"a gradient lies on {g.device}, and its sum on {self.device}")
        g = readable(g)
        with self.lock:
            if self.scale == 0:
                self.zero_()
            if self.is_part and first == 0:
                raise RuntimeError(ENDED_EARLY.format(self.ordinal))
            self.is_empty, self.is_part = False, first + g.numel() < self.plan.elements
            self.squares.fold(where(g), self.plan, *self.memory.addresses, first, g.numel(), g.data_ptr(), g.dtype == torch.bfloat16,
                              1 / self.scale, self.seed, self.ordinal, self.update, self.folds)
            self.folds += not self.is_part

    def zero_(self):
        with self.lock:
            if not self.is_empty:
                _lpmm.clear(where(self), self.plan, *self.memory.addresses)
            self.reset()
        return self

    def take(self, values):
        with self.lock:
            folds = self.folds
            self.zero_().folds = folds  # rounded with noise that is another one each time
            self.fold(values)

    def take_over(self, p):
        """Becomes the gradient of p, and takes what somebody else put there."""
        with self.lock:
            theirs = p.grad
            if theirs is self:  # another thread's work
                return
            self.zero_()
            if theirs is not None and not getattr(theirs, "is_empty", False):
                self.fold(theirs)
            p.grad = self

    def scale_by(self, factor):
        with self.lock:
            self.scale *= _number(factor)
        return self

    def square_sum(self):
        """Of the gradients' sum before it is rounded to codes; on average, where there were several."""
        return max(self.scale**2 * self.squares.value(), 0.0) if self.is_finite else math.nan

    def dequantize(self):
        out = torch.empty(self.shape, dtype=torch.float32, device=self.device)
        if not self.is_finite:
            return out.fill_(math.nan)
        _lpmm.decode(where(out), self.plan, ACCUMULATOR, *self.memory.addresses, 0, self.plan.elements, out.data_ptr(), False)
        return out.mul_(self.scale)

    def __repr__(self):
        return f"PackedGradient(shape={tuple(self.shape)}, spec='{self.memory.spec}', folds={self.folds})"

    @property
    def data(self):
        return self

    @data.setter
    def data(self, values):
        if values.dtype != self.dtype:  # of module.half()
            torch.Tensor.data.__set__(self, values)
        elif values is not self:
            _check_shape(values, self)
            self.take(values)

    untyped_storage = storage = _typed_storage = _refused(_NO_FLOATS.format("gradient"))
    __setitem__ = fill_diagonal_ = _refused("a gradient that is a packed sum is not changed in parts: change a clone() of it, and assign that to "
                                            "p.grad")
    share_memory_ = _refused("a packed gradient is not shared between processes; call share_memory() before fold_gradients()")
    __deepcopy__ = _refused("a packed gradient is not copied; call zero_grad(), or step(), before copying what has it")
    __reduce_ex__ = _refused("a packed gradient is not saved; save parameters and the state of the optimizer")

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        _check_stays(func)
        if func in READERS and isinstance(args[0], cls):
            return read(func, *args, **(kwargs or {}))
        with torch._C.DisableTorchFunctionSubclass():
            return views(cls, func(*args, **(kwargs or {})))

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__
        special = cls._special.get(name)
        if name in ("mul_", "div_") and (kwargs or torch.is_tensor(args[1]) and args[1].dim()):
            special = None  # many factors are no scale
        if special is not None and (isinstance(args[0], cls) or isinstance(args[0], (list, tuple))):
            return special(func, *args, **kwargs)
        if func._schema.is_mutable:
            check_alone()  # DistributedDataParallel copies gradients
        return on_values(cls, func, args, kwargs)

    def _add(func, self, other, alpha=1):
        other = torch.as_tensor(other, dtype=self.dtype, device=self.device).expand(self.shape)
        self.fold(other if alpha == 1 else other * alpha)
        return self

    def _multiply_each(func, grads, factor):
        factors = factor if isinstance(factor, (list, tuple)) else [factor] * len(grads)
        if len(factors) != len(grads):
            raise RuntimeError(f"{len(grads)} tensors, of which some are packed, take as many factors, and not {len(factors)}")
        for g, by in zip(grads, factors):
            g.mul_(by)

    def _zero_each(func, grads):
        for g in grads:
            g.zero_()

    def _norm(func, self, ord=2, dim=None, keepdim=False, dtype=None):
        if ord == 2 and dim is None and not keepdim:
            return torch.tensor(math.sqrt(self.square_sum()), dtype=dtype or torch.float32, device=self.device)
        return func(self.dequantize(), ord, dim, keepdim, dtype=dtype)

    def _unscale(func, grads, found_inf, inverse):  # GradScaler
        plain = [g for g in grads if not isinstance(g, PackedGradient)]
        if plain:
            func(plain, found_inf, inverse)
        for g in grads:
            if isinstance(g, PackedGradient):
                g.scale_by(inverse)
                if not g.is_finite:
                    found_inf.fill_(1)

    _special = {
        "add_": _add, "linalg_vector_norm": _norm, "mul_": lambda func, self, factor: self.scale_by(factor),
        "div_": lambda func, self, factor: self.scale_by(1 / _number(factor)),
        "zero_": lambda func, self: PackedGradient.zero_(self),
        "_foreach_zero_": _zero_each, "detach": lambda func, self: self,
        "_amp_foreach_non_finite_check_and_unscale_": _unscale, "_foreach_mul_": _multiply_each,
    }


class AppliedGradient(PackedGradient):
    """A gradient that its owner takes to update the parameter as soon as autograd adds it here; nothing is kept."""

    def __init__(self, p, apply, lock):
        self.apply = apply
        self._begin(("accumulator", "none", 0, 0, 0))
        self.lock = lock  # its owner's: who updates holds it, and may empty all of these

    def fold(self, g, first=0):
        check_alone()
        self.apply(g)

    scale_by = square_sum = dequantize = _refused('with accumulator="none" a gradient is gone once its weight is updated: it is not clipped, '
                                                  "scaled or read; call fold_gradients() without it")
