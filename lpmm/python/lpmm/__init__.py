"""Training memory packed at 2 to 16 bits per number.

numpy: quantize, dequantize, presets, plan. PyTorch: AdamW and the other optimizers, pack. This is the package of the
program lpmm, not thu-ml's of the same name.
"""
import importlib
import math

import numpy

from . import _lpmm
from ._lpmm import presets

__version__ = _lpmm.version
_OF_TORCH = {  # imported where somebody asks for it; only the last does without torch
    "optimizer": ("Optimizer", "NonFiniteGradient"),
    "rules": ("Adam", "AdamW", "SGD", "Lion", "LAMB", "RMSprop", "LARS", "LARSClip", "Adagrad", "AdEMAMix",
                   "AdamMini", "AdamWFactored", "Adafactor", "Muon"),
    "gradients": ("PackedGradient",),
    "parameters": ("PackedParameter", "pack", "unpack", "float_state_dict"),
    "run": ("Run",),
}
__all__ = ["dequantize", "load_run", "plan", "presets", "quantize", "set_threads", *(n for ns in _OF_TORCH.values() for n in ns)]


def __getattr__(name):
    for module, names in _OF_TORCH.items():
        if name in names:
            return getattr(importlib.import_module("lpmm." + module), name)
    raise AttributeError(f"module 'lpmm' has no attribute '{name}'")


_HOST = -1, 0  # where the arrays lie
_ARE_STORED = "names, preset and kind must be texts, specs a dict of texts, min_elements a whole number"
_threads = None  # of the kernels; None: those of torch, or else as many as there are processors


def set_threads(threads):
    """The number of threads of lpmm's kernels, which then have their own; 0: all processors. No result depends on it."""
    global _threads
    _lpmm.set_threads(threads, 0)
    _threads = threads


def _array(x, dtype, what):
    """An array on the CPU, where it lies: numpy's, or another library's by DLPack."""
    if not hasattr(x, "__array__") and hasattr(x, "__dlpack__"):
        x = numpy.from_dlpack(x)
    x = numpy.asarray(x)
    if x.dtype != dtype:
        raise TypeError(f"{what} is of type {x.dtype}, but must be {numpy.dtype(dtype).name}; convert it first")
    return numpy.ascontiguousarray(x)


def _typed(what, function, *args):
    """What function(*args) returns; `what` is the error where arguments are of other types than it takes."""
    try:
        return function(*args)
    except TypeError:
        raise TypeError(what) from None


def _sizes(spec, shape):
    what = f"spec is {spec!r} and shape {shape!r}, but they must be a text and a sequence of whole numbers"
    of = _typed(what, lambda: _lpmm.Plan(spec, list(shape)))
    _, _, code_bytes, steps, bits = of.rows()[0]
    return of, code_bytes, steps * bits // 8


def quantize(x, spec, *, seed=0, tensor=0, step=0):
    """Codes and steps of fp32 values, as two arrays of bytes.

    spec: how they are stored, "int8:block128:sr"; lpmm's README lists formats. The same seed, tensor and step give the
    same random rounding, whatever the number of threads. Raises ValueError for a bad spec and for values that are not
    finite, TypeError for other types.
    """
    x = _array(x, numpy.float32, "x")
    of, *sizes = _sizes(spec, x.shape)
    codes, steps = (numpy.zeros(n, numpy.uint8) for n in sizes)
    what = f"seed, tensor and step are {seed!r}, {tensor!r} and {step!r}, but must be whole numbers of 64, 32 and 32 bits"
    if not _typed(what, _lpmm.encode, _HOST, of, 0, codes.ctypes.data, steps.ctypes.data, x.ctypes.data, False, seed, tensor, step):
        raise ValueError("a value is NaN, infinite, or above 2^120, or has a sign that the format lacks")
    return codes, steps


def dequantize(codes, steps, spec, shape):
    """The fp32 values of what quantize() made of an array of this shape."""
    codes, steps = _array(codes, numpy.uint8, "codes").ravel(), _array(steps, numpy.uint8, "steps").ravel()
    of, *sizes = _sizes(spec, shape)
    for what, array, size in zip(("codes", "steps"), (codes, steps), sizes):
        if array.size != size:
            raise ValueError(f"{what} has {array.size} bytes, but {spec} of this shape has {size}")
    if steps.ctypes.data % 4:  # somebody's piece of a file
        steps = steps.copy()
    out = numpy.empty(shape, numpy.float32)
    _lpmm.decode(_HOST, of, 0, codes.ctypes.data, steps.ctypes.data, 0, out.size, out.ctypes.data, False)
    return out


def load_run(folder):
    """The Run that the program lpmm left in a folder: its log, its weights, a module that takes them."""
    from .run import Run
    return Run(folder)


def plan(shapes, preset="lpmm-min", rule="adamw", *, specs=None, min_elements=0):
    """Bytes by role that training takes with packed parameters, gradients and states.

    shapes: {name: shape}. The answer also has "total" and "bits_per_parameter".
    """
    out, elements = {}, 0
    config = _lpmm.config(rule, 0.001, 0.0, {})
    for name, shape in shapes.items():
        what = f"{name!r} of shape {shape!r}: {_ARE_STORED}, and a shape a sequence of whole numbers"
        of = _typed(what, lambda: _lpmm.Plan(name, list(shape), "hidden", config, preset, specs or {}, min_elements))
        elements += of.elements
        for role, _, code_bytes, steps, bits in of.rows().values():
            out[role] = out.get(role, 0) + code_bytes + steps * bits // 8
    out["total"] = sum(out.values())
    out["bits_per_parameter"] = 8 * out["total"] / elements if elements else math.nan
    return out
