"""torch.optim with packed states."""
import collections
import contextlib
import copy
import ctypes
import functools
import inspect
import math
import numbers
import threading
import weakref

import lpmm
import torch

from . import _lpmm
from .gradients import (ACCUMULATOR, BF16_NEAREST, ENDED_EARLY, FP32, PARAMETER, PLANNED, TYPES, AppliedGradient, Memory, PackedGradient,
                        are_between, as_part, check_alone, check_type, here, part_of, place_of, readable, where)
from .parameters import PackedParameter

_OWN = ("preset", "specs", "min_elements", "kind")  # keys of a group that say how its tensors are stored
_NO_STATE = "parameter {}: the state '{}' is NaN, infinite, above 2^120, or a variance below 0"


class NonFiniteGradient(RuntimeError):
    """A gradient is NaN or infinite, and on_nonfinite is "raise"; nothing was changed."""


class _Slot:
    """How the states of one parameter are stored, and under what of its group."""

    def __init__(self, p, group, ordinal, rule, settings):
        name = f"parameter {ordinal}"
        specs, config = group["specs"] or {}, _config(rule, group, settings)
        is_packed = isinstance(p, PackedParameter) and p.device.type != "meta"
        if is_packed:  # and stays as it is, though another optimizer packed it
            specs = {**specs, "parameter": p.spec}
        self.plan = lpmm._typed(f"{name}: {lpmm._ARE_STORED}", _lpmm.Plan, name, list(p.shape), group["kind"], config, group["preset"], specs,
                                group["min_elements"])
        if getattr(p, "_fsdp_flattened", False):
            raise RuntimeError(f"{name} is a run of FullyShardedDataParallel's vector, and how a tensor is stored depends on its shape; take "
                               "fully_shard")
        self.parts, place, self.mesh = place_of(p, name)
        if self.parts > 1:  # room of one size, as DTensor has it, and noise of groups that no other part draws
            most = -(-p.shape[0] // self.parts) * math.prod(p.shape[1:])
            first_group = place * -(-most // 128)
            self.plan.cut(most, first_group)
        self.rows = self.plan.rows()
        if is_packed and self.rows[PARAMETER][1] != p.spec:
            raise ValueError(f"{name} is packed as {p.spec}, which this optimizer's preset or min_elements excludes; lpmm.unpack(model) first")
        if self.parts > 1:
            self.plan.cut(here(p).numel(), first_group)
        self.states = {row[0]: (role, row) for role, row in self.rows.items() if role not in (PARAMETER, ACCUMULATOR)}

    def new_state(self, p):
        state, mine = {"step": torch.zeros((), dtype=torch.float32, device="cpu")}, here(p)
        for name, (_, row) in self.states.items():
            if name == "compensation" and not isinstance(p, PackedParameter) and p.dtype != torch.bfloat16:
                continue  # the second term of what is stored as planned, or is the framework's bf16
            memory = Memory(row, mine.device)
            plain = {"fp32": torch.float32, "bf16": torch.bfloat16}.get(memory.spec.split(":")[0])
            if plain is not None:
                values = memory.codes.view(plain)
                is_whole = self.parts == 1 and values.numel() != p.numel()  # of rows, or columns
                state[name] = values if is_whole else as_part(values[:mine.numel()].view(mine.shape), p)
            else:
                state[name] = as_part(memory.codes, p, True)
                if memory.steps.numel():
                    state[name + "_steps"] = as_part(memory.steps, p, True)
        return state


def _as_number(name, value):
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} is {value!r}, but must be a number") from None


def _config(rule, group, settings):
    lr, decay = (_as_number(k, group[k]) for k in ("lr", "weight_decay"))
    # Schedules end in rates that are as good as 0, on either side of it.
    return _lpmm.config(rule, 0.0 if -1e-15 < lr < 1e-30 else lr, 0.0 if 0 < decay < 1e-30 else decay, settings)


def _is_count(x):
    return x.numel() == 1 and not x.is_complex() and 0 <= float(x) <= 2**24 and float(x).is_integer()  # as fp32 counts


def _are_states(x, role):
    """Whether all values can be a state of that role."""
    return are_between(x, 0.0 if "variance" in role else -2.0**120, 2.0**120)


def _address(x):
    return here(x).data_ptr() if x is not None and x.numel() else 0


@functools.cache
def _team():
    """The address of OpenMP's entry in what torch is linked with, whose threads lpmm's kernels share; 0 where torch has others."""
    try:
        return ctypes.cast(ctypes.CDLL(torch._C.__file__).GOMP_parallel, ctypes.c_void_p).value
    except (OSError, AttributeError):
        return 0


def _take_threads():
    if lpmm._threads is None:
        _lpmm.set_threads(torch.get_num_threads(), _team())


class Optimizer(torch.optim.Optimizer):
    """What all of them share. Beside torch's arguments they take, for all parameters or in a group:

    preset: how states are stored (lpmm.presets()). specs: {role: spec} that differ from it. min_elements: tensors with fewer
    stay fp32. kind: "hidden", "embedding" or "head", which rules like Muon tell apart. seed: of the rounding.
    bf16_rounding: "sr" or "rn", of bf16 parameters.
    And for all: clip_norm, the norm that the whole gradient is cut to (0: none); on_nonfinite: "skip" a step whose gradient is
    NaN or infinite, counted in skipped_steps, or "raise" NonFiniteGradient.
    """

    rule = ""
    arguments = {}  # and defaults, in torch's order; lr and weight_decay are always among them
    settings = {}  # argument: setting of the rule, or settings
    torch_names = {}  # of torch.optim's states: roles
    # Arguments that all of them take. torch's foreach and fused choose one of its loops, and here there is one.
    own_arguments = dict(maximize=False, foreach=None, fused=None, capturable=False, differentiable=False, preset="lpmm-min",
                         specs=None, min_elements=0, kind="hidden", seed=0, bf16_rounding="sr", clip_norm=0.0, on_nonfinite="skip")
    _hints, _missing = ("foreach", "fused"), ("amsgrad", "capturable", "differentiable", "initial_accumulator_value")

    def __init_subclass__(cls):
        kinds = inspect.Parameter
        own = [kinds(k, kinds.KEYWORD_ONLY, default=v) for k, v in Optimizer.own_arguments.items()]
        torchs = [kinds(k, kinds.POSITIONAL_OR_KEYWORD, default=v) for k, v in cls.arguments.items()]
        cls.__signature__ = inspect.Signature([kinds("params", kinds.POSITIONAL_OR_KEYWORD), *torchs, *own])

    def __init__(self, *args, **kwargs):
        bound = self.__signature__.bind(*args, **kwargs)
        bound.apply_defaults()
        given = dict(bound.arguments)
        for name in self._missing:
            if given.pop(name, False):
                raise ValueError(f"{type(self).__name__} has no {name}; leave it out, or take torch.optim's")
        for name in self._hints:
            given.pop(name)
        params, self.clip_norm, self.on_nonfinite = (given.pop(k) for k in ("params", "clip_norm", "on_nonfinite"))
        if self.on_nonfinite not in ("skip", "raise"):
            raise ValueError(f"on_nonfinite is {self.on_nonfinite!r}, but must be 'skip' or 'raise'")
        self.clip_norm = self.clip_norm.item() if hasattr(self.clip_norm, "item") else self.clip_norm or 0.0
        if not isinstance(self.clip_norm, numbers.Real) or not 0 <= self.clip_norm < math.inf:
            raise ValueError(f"clip_norm is {self.clip_norm}, but must be a number from 0 (no clipping) on")
        self.skipped_steps, self.last_gradient_norm = 0, None
        self._folding = None  # "packed", or "none": fold_gradients()
        _take_threads()
        self._make_room()
        # torch puts "differentiable" into what it loads: in all groups from the start, a loaded state equals the one that was saved.
        super().__init__(params, {**given, "differentiable": False, "last_lr": math.inf})

    def _make_room(self):
        self._slots, self._sums, self._hooks, self._updated = {}, {}, {}, set()
        self._lock = threading.RLock()  # of threads that step at once

    # ---- what there is
    def _places(self):
        """Each parameter with its place among all, which keys its noise, and its group."""
        ordinal = 0
        for group in self.param_groups:
            for p in group["params"]:
                yield ordinal, group, p
                ordinal += 1

    def _settings(self, group):
        out = {}
        for argument, names in self.settings.items():
            value = group[argument]
            if isinstance(names, str):
                out[names] = _as_number(argument, value or 0)
            elif not hasattr(value, "__len__") or len(value) != len(names):
                raise ValueError(f"{argument} is {value}, but must be {len(names)} numbers")
            else:
                out.update((name, _as_number(argument, v)) for name, v in zip(names, value))
        return out

    def _slot(self, p, group, ordinal):
        settings = self._settings(group)
        # A setting that becomes 0, or is 0 no longer, may take a state away or need one.
        key = (p.shape, *(str(group[k]) for k in _OWN), *(v == 0 for v in settings.values()))
        found = self._slots.get(p)
        if found is None or found[0] != key:
            new = key, _Slot(p, group, ordinal, self.rule, settings)
            if found is not None and (self.state.get(p) or p in self._sums) and (found[0][0], found[1].rows) != (p.shape, new[1].rows):
                raise ValueError(f"parameter {ordinal}: its shape, or preset, specs, min_elements, kind or a setting that decides which states "
                                 "there are changed after the first step, or after fold_gradients(); make a new optimizer")
            found = self._slots[p] = new
        return found[1]

    def add_param_group(self, param_group):
        super().add_param_group(param_group)
        try:
            self._check_group(self.param_groups[-1])
        except Exception:
            self.param_groups.pop()
            raise
        self._fold_again()

    def _check_group(self, group):
        self._check_lacks(group, self._missing)
        self._checked(group)
        for ordinal, of, p in self._places():
            if of is not group:
                continue
            check_type(p, f"parameter {ordinal}")  # none is kept: accelerate shards and replaces them afterwards
            _lpmm.open(where(here(p)))
            _Slot(p, group, ordinal, self.rule, self._settings(group))

    def _check_lacks(self, group, names):
        for name in names:
            if group.get(name):
                raise ValueError(f"a group of {type(self).__name__} has no {name}; " + (
                    "leave it out, or take torch.optim's" if name in self._missing else "give it to the optimizer, for all groups"))

    def _checked(self, group):
        """The rule's configuration of a group, to which somebody may have written."""
        self._check_lacks(group, ("amsgrad", "clip_norm", "on_nonfinite"))
        if not isinstance(group["maximize"], (bool, numbers.Integral)):
            raise ValueError(f"maximize is {group['maximize']!r}, but must be True or False")
        if isinstance(group["min_elements"], numbers.Integral) and group["min_elements"] < 0:
            raise ValueError(f"min_elements is {group['min_elements']}, but must be a whole number from 0 on")
        _as_number("last_lr", group["last_lr"])
        if group["bf16_rounding"] not in ("sr", "rn"):
            raise ValueError(f"bf16_rounding is {group['bf16_rounding']!r}, but must be 'sr' or 'rn'")
        if not isinstance(group["seed"], numbers.Integral) or not 0 <= group["seed"] < 2**64:
            raise ValueError(f"seed is {group['seed']!r}, but must be a whole number from 0 to 2^64 - 1")
        return _config(self.rule, group, self._settings(group))

    def __getstate__(self):
        kept = ("clip_norm", "on_nonfinite", "skipped_steps", "last_gradient_norm", "_folding")
        return {**super().__getstate__(), **{k: self.__dict__[k] for k in kept}}

    def __setstate__(self, state):  # of deepcopy and pickle, and of load_state_dict
        super().__setstate__(state)
        for group in self.param_groups:
            for key, value in self.defaults.items():
                group.setdefault(key, value)
        if "clip_norm" in state:
            self._make_room()
            self._fold_again()

    # ---- a step
    @torch.compiler.disable
    @torch.no_grad()
    def step(self, closure=None):
        """One update of all parameters that have a gradient, which are clipped and checked before anything changes."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with self._lock:
            self._updated.clear()
            _take_threads()
            self._apply([(*place, place[2].grad) for place in self._places()])
        return loss

    @torch.no_grad()
    def _apply(self, places):
        with contextlib.ExitStack() as locks:  # no thread is amid a gradient
            for _, _, p, g in places:
                if isinstance(g, PackedGradient):
                    locks.enter_context(p.lock if isinstance(p, PackedParameter) else g.lock)
            self._apply_all(places)

    def _apply_all(self, places):
        configs = {i: self._checked(group) for i, group in {id(group): group for _, group, _, _ in places}.items()}
        todo = []
        for ordinal, group, p, g in places:
            if g is None or (isinstance(g, PackedGradient) and g.is_empty):
                continue
            if isinstance(g, PackedGradient) and g.is_part:
                raise RuntimeError(ENDED_EARLY.format(ordinal))
            slot = self._slot(p, group, ordinal)
            if g is self._sums.get(p):
                todo.append((ordinal, group, p, slot, g, (ACCUMULATOR, *g.memory.addresses, PLANNED), g.scale))
            else:
                check_type(g, f"the gradient of parameter {ordinal}")
                g = readable(part_of(g, p))
                if g.numel() != here(p).numel():
                    raise RuntimeError(f"parameter {ordinal} has shape {tuple(p.shape)}, and its gradient {tuple(g.shape)}: call zero_grad()")
                todo.append((ordinal, group, p, slot, g, (ACCUMULATOR, g.data_ptr(), 0, TYPES[g.dtype]), 1.0))
        clip = self._clip_factor(todo) if todo else None
        if clip is not None:
            self._update(todo, clip, configs)
        elif todo:
            self.skipped_steps += 1
            for packed in self._sums.values():
                packed.zero_()
            if self.on_nonfinite == "raise":
                raise NonFiniteGradient("a gradient is NaN or infinite; no parameter and no state was changed")

    def _clip_factor(self, todo):
        """Of the whole gradient; None where it is not finite."""
        plain, total, sums = {}, 0.0, {}  # sums of all parts of a tensor: processes clip and skip alike
        for _, _, _, slot, g, role, _ in todo:
            if role[3] == PLANNED:
                total += g.square_sum()
            else:
                plain.setdefault(where(g), []).append((slot, role))
        for place, gradients in plain.items():
            for (slot, _), squares in zip(gradients, _lpmm.square_sums(place, [(slot.plan, role) for slot, role in gradients])):
                sums[slot.mesh] = sums.get(slot.mesh, 0.0) + squares
        for mesh, squares in sums.items():
            if mesh:
                squares = torch.tensor(squares, dtype=torch.float64, device=mesh[0].device_type)
                torch.distributed.all_reduce(squares, group=mesh[0].get_group(mesh[1]))
            total += float(squares)
        if not math.isfinite(total):
            return None
        if self.clip_norm == 0:
            return 1.0
        self.last_gradient_norm = math.sqrt(total)
        return min(1.0, self.clip_norm / (self.last_gradient_norm + 1e-6))

    def _update(self, todo, clip, configs):
        places, copies = {}, []
        for ordinal, group, p, slot, g, gradient, scale in todo:
            state = self.state[p]
            if not state:
                state.update(slot.new_state(p))
            step = int(state["step"]) + 1
            roles = [gradient]
            if isinstance(p, PackedParameter):
                roles.append((PARAMETER, *p.memory.addresses, PLANNED))
            else:
                local = readable(here(p.detach()))
                if local.data_ptr() != _address(p):
                    copies.append((here(p), local))
                kind = TYPES[local.dtype]
                if kind != FP32 and "compensation" in state:
                    kind = PLANNED  # bf16, and its second term
                elif kind != FP32 and group["bf16_rounding"] == "rn":
                    kind = BF16_NEAREST
                roles.append((PARAMETER, local.data_ptr(), 0, kind))
            for name, (role, _) in slot.states.items():
                if name not in state:  # a second term that is not kept
                    continue
                if here(state[name]).device != here(p).device:
                    raise RuntimeError(f"parameter {ordinal} lies on {p.device}, and its {name} on {state[name].device}: move the model "
                                       "before its optimizer is made, or load the optimizer's state once more")
                roles.append((role, _address(state[name]), _address(state.get(name + "_steps")), PLANNED))
            factor = clip * scale
            updates, held, _ = places.setdefault(where(here(p)), (_lpmm.Updates(), [], here(p).device))
            updates.add(slot.plan, configs[id(group)], roles, group["seed"], ordinal, step,
                        -factor if group["maximize"] else factor, float(group["last_lr"]))
            held.append((ordinal, g, step))
        rooms = {place: torch.empty(updates.workspace_bytes(place), dtype=torch.uint8, device=device)
                 for place, (updates, _, device) in places.items()}
        for _, _, p, *_ in todo:  # nothing is refused from here on
            self.state[p]["step"] += 1
            if not p.is_inference():
                torch.autograd.graph.increment_version(p)  # a backward that wanted it as it was says so
        failed = []
        for place, (updates, held, _) in places.items():
            failed += [held[i][0] for i in updates.run(place, _address(rooms[place]))]
        for p, local in copies:
            p.copy_(local)
        for _, held, _ in places.values():
            for _, g, step in held:
                if isinstance(g, PackedGradient):
                    g.reset()
                    g.update = step + 1
        for group in self.param_groups:
            group["last_lr"] = float(group["lr"])
        if failed:
            raise RuntimeError(f"parameter {failed[0]}: the update made a value that is NaN, infinite or above 2^120, and "
                               "its weights are lost; load a checkpoint, and lower lr or set clip_norm")

    # ---- gradients that are folded as they come
    def fold_gradients(self, accumulator=None):
        """From now on p.grad is a PackedGradient, into which each gradient is folded as soon as it is known.

        accumulator="none": nothing is kept; each gradient updates its parameter inside of backward. For one backward a step,
        without clipping, and not with lpmm.pack. skipped_steps counts tensors then.
        """
        check_alone(p for _, _, p in self._places())
        if accumulator not in (None, "none"):
            raise ValueError(f'accumulator is {accumulator!r}, but must be "none" or left out; specs={{"accumulator": ...}} says how '
                             "sums are stored")
        if accumulator == "none" and (self.clip_norm > 0 or any(isinstance(p, PackedParameter) for _, _, p in self._places())):
            raise ValueError('accumulator="none" takes no clip_norm and no packed weights: both need a whole gradient')
        if self._folding not in (None, accumulator or "packed"):
            raise ValueError("gradients are folded in another way already; make a new optimizer to change it")
        self._folding = accumulator or "packed"
        for ordinal, group, p in self._places():
            slot = self._slot(p, group, ordinal)
            plain = slot.rows[ACCUMULATOR][1] == "fp32" and p.dtype == torch.float32 and accumulator is None
            if p in self._hooks or not p.requires_grad or plain:
                continue  # what autograd does by itself
            if accumulator == "none":
                packed = self._sums[p] = AppliedGradient(p, _at_once(self, p, group, ordinal), self._lock)
            else:
                packed = self._sums[p] = PackedGradient(p, slot.plan, group["seed"], ordinal)
            if self.state.get(p):
                packed.update = int(self.state[p]["step"]) + 1
            with torch._C.DisableTorchFunctionSubclass():
                self._hooks[p] = p.register_post_accumulate_grad_hook(_hook(self))
            if isinstance(p, PackedParameter):
                p.packed_sum = packed
            packed.take_over(p)
        return self

    def _fold_again(self):
        if self._folding:
            self.fold_gradients("none" if self._folding == "none" else None)

    def zero_grad(self, set_to_none=True):
        super().zero_grad(set_to_none)
        for p, packed in self._sums.items():
            p.grad = packed.zero_()

    # ---- packed weights (lpmm.pack)
    def _pack(self, values, group, ordinal, name):
        """The weight as codes; None where it stays as it is."""
        slot = _Slot(PackedParameter.empty("fp32", values.shape, values.dtype, "meta"), group, ordinal, self.rule, self._settings(group))
        spec = slot.rows[PARAMETER][1]
        if spec == "fp32":
            return None
        check_type(values, name)
        packed = PackedParameter.empty(spec, values.shape, values.dtype, values.device)
        if "compensation" not in slot.states:
            return packed.assign(values, group["seed"], ordinal)
        raise ValueError(f"preset {group['preset']} keeps a second term of parameters, which a packed weight has no room for; "
                         "take bf16 parameters with it, or another preset")

    def _rename(self, new):
        """Parameters were replaced; new: {id of the old one: the new one}."""
        for table in (self._slots, self._sums, self._hooks):
            for p in [p for p in table if id(p) in new]:
                entry = table.pop(p)
                if table is self._hooks:
                    entry.remove()
        for p in [p for p in self.state if id(p) in new]:
            self.state[new[id(p)]] = self.state.pop(p)
        self._fold_again()

    # ---- checkpoints: torch would turn codes into the type of the parameter
    def load_state_dict(self, state_dict):
        """Takes a state of its own, as it is, or one of torch.optim's, rounded to nearest. Changes nothing where it raises."""
        state_dict = dict(state_dict)
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            state_dict = hook(self, state_dict) or state_dict
        groups, states = state_dict.get("param_groups"), state_dict.get("state")
        if not isinstance(states, dict) or not isinstance(groups, (list, tuple)) or not all(isinstance(g, dict) and "params" in g for g in groups):
            raise ValueError("a state has 'state' and 'param_groups', and these 'params', as state_dict() gives them; this has "
                             f"{', '.join(map(repr, state_dict)) or 'nothing'}")
        sizes = [[len(g["params"]) for g in of] for of in (groups, self.param_groups)]
        if sizes[0] != sizes[1]:
            raise ValueError(f"the state has groups of {sizes[0]} parameters, and this optimizer of {sizes[1]}")
        saved_ids = [i for g in groups for i in g["params"]]
        kinds = {type(i) for i in saved_ids}  # others may be of a whole model
        strange = [i for i in states.keys() - set(saved_ids) if type(i) in kinds or str(i).isdigit()]
        if strange:
            raise ValueError(f"there is a state of {strange[0]!r}, which is none of the saved parameters {saved_ids[:3]}...")
        filled = []
        for mine, saved in zip(self.param_groups, groups):
            self._checked({**mine, **saved})
            for key in _OWN:
                if key in saved and (saved[key] or None) != (mine[key] or None):
                    raise ValueError(f"the state was saved with {key}={saved[key]!r}, and this optimizer has {key}={mine[key]!r}; "
                                     "make one like that")
            kept = {k: mine[k] for k in (*self.defaults, "param_names") if k in mine}
            filled.append({**kept, **copy.deepcopy({k: v for k, v in saved.items() if k != "params"}), "params": mine["params"]})
        before = self.state, self.param_groups
        self.state, self.param_groups = collections.defaultdict(dict), filled
        try:
            for (ordinal, group, p), i in zip(self._places(), saved_ids):
                saved = states.get(i)
                if saved:
                    self.state[p] = self._taken(p, self._slot(p, group, ordinal), saved, ordinal)
        except Exception:
            self.state, self.param_groups = before
            self._slots.clear()
            raise
        self.param_groups = before[1]
        for mine, new in zip(self.param_groups, filled):  # in place: gradients that are applied at once know their group
            mine.clear()
            mine.update(new)
        for p, packed in self._sums.items():
            packed.zero_().update = int(self.state[p]["step"] if self.state.get(p) else 0) + 1
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    def _taken(self, p, slot, saved, ordinal):
        if not isinstance(saved, dict):
            raise ValueError(f"parameter {ordinal}: its state is {saved!r}, but must be a dictionary")
        state = slot.new_state(p)
        counts = any("variance" in k for k in state)  # others' momentum alone comes without the number of steps
        missing = {k for k in state if not k.startswith("compensation") and (counts or k != "step")}
        for key, value in saved.items():
            if value is None:  # of torch's SGD
                continue
            try:
                value = torch.as_tensor(value)
            except (TypeError, ValueError, RuntimeError):
                raise TypeError(f"parameter {ordinal}: the state '{key}' is no tensor") from None
            if key == "step":
                if not _is_count(value):
                    raise ValueError(f"parameter {ordinal}: the state 'step' is {saved[key]!r}, but must be a number of steps up to 2^24")
                value = value.reshape(())
            role = self.torch_names.get(key, key)
            if value.is_floating_point() and role in slot.states and not _are_states(here(value), role):
                raise ValueError(_NO_STATE.format(ordinal, key))
            missing.discard(key)
            if key in state and value.shape == state[key].shape and (key == "step" or value.dtype == state[key].dtype):
                here(state[key]).copy_(part_of(value.detach(), state[key]))
            elif role in slot.states and role in state and value.is_floating_point():
                missing -= {role, role + "_steps"}
                if value.shape != p.shape:
                    raise ValueError(f"parameter {ordinal}: the state '{key}' has shape {tuple(value.shape)}, but must have "
                                     f"{tuple(p.shape)}")
                values = part_of(value.detach(), p).to(here(p).device, torch.float32).contiguous()
                _lpmm.encode(where(values), slot.plan, slot.states[role][0], _address(state[role]), _address(state.get(role + "_steps")),
                             values.data_ptr(), True, 0, 0, 0)
            elif key in state:
                raise ValueError(f"parameter {ordinal}: the state '{key}' is {value.dtype} of shape {tuple(value.shape)}, but "
                                 f"must be {state[key].dtype} of shape {tuple(state[key].shape)}")
            elif key in self.torch_names or (value.float() if value.is_floating_point() else value).count_nonzero():
                raise ValueError(f"parameter {ordinal}: the saved state '{key}' is none of {type(self).__name__}'s, which has "
                                 f"{', '.join(state)}")
        if missing:
            raise ValueError(f"parameter {ordinal}: the saved state lacks {', '.join(sorted(missing))}; it has {', '.join(saved)}")
        for role in slot.states:
            if role in state and not all(_are_states(piece, role) for piece in self._pieces(p, slot, state, role)):
                raise ValueError(_NO_STATE.format(ordinal, role))
        return state

    def _pieces(self, p, slot, state, role):
        """The values that codes and steps make, a piece after another."""
        if state[role].is_floating_point():
            return
        for first in range(0, here(p).numel(), 2**20):
            out = torch.empty(min(2**20, here(p).numel() - first), dtype=torch.float32, device=here(p).device)
            _lpmm.decode(where(out), slot.plan, slot.states[role][0], _address(state[role]), _address(state.get(role + "_steps")), first,
                         out.numel(), out.data_ptr(), False)
            yield out

    def torch_state_dict(self):
        """The state as torch.optim's class of this name has it, in fp32; what that has no name for is under lpmm's."""
        for ordinal, group, p in self._places():
            if hasattr(p, "to_local") and p.requires_grad and not self.state.get(p):  # zeros to load a checkpoint into
                self.state[p] = self._slot(p, group, ordinal).new_state(p)
        out = self.state_dict()
        out["param_groups"] = [{k: v for k, v in g.items() if k not in _OWN} for g in out["param_groups"]]
        names = {role: name for name, role in self.torch_names.items()}
        for i, (ordinal, group, p) in enumerate(self._places()):
            if i in out["state"]:
                roles = [r for r in self._slot(p, group, ordinal).states if r != "compensation"]  # which only codes can hold
                out["state"][i] = {"step": self.state[p]["step"].clone(), **{names.get(r, r): self.dequantized(p, r) for r in roles}}
        return out

    # ---- accounts
    def memory(self):
        """Bytes of states and of gradients, and of parameters as they are stored, in this process."""
        out = {"parameters": 0, "gradients": 0, "states": 0}
        for _, _, p in self._places():
            g = self._sums.get(p)
            out["parameters"] += p.memory.nbytes if isinstance(p, PackedParameter) else here(p).nbytes
            out["gradients"] += g.memory.nbytes if g is not None else 0 if p.grad is None else here(p.grad).nbytes
            out["states"] += sum(here(x).nbytes for name, x in self.state.get(p, {}).items() if name != "step")
        return out

    def dequantized(self, p, role):
        """A state of a parameter in fp32: "momentum", "variance", ..."""
        slot = next((self._slot(q, group, ordinal) for ordinal, group, q in self._places() if q is p), None)
        state = self.state.get(p, {})
        if role not in state or role not in slot.states:
            raise ValueError(f"there is no state '{role}' of this parameter" + (f"; it has {', '.join(slot.states)}" if state else " before its first step"))
        number, row = slot.states[role]
        if row[1] == "fp32":
            return state[role].clone()
        out = torch.empty(here(p).shape, dtype=torch.float32, device=here(p).device)
        _lpmm.decode(where(out), slot.plan, number, _address(state[role]), _address(state.get(role + "_steps")), 0, out.numel(),
                     out.data_ptr(), False)
        return as_part(out, p)


def _hook(optimizer):
    me = weakref.ref(optimizer)  # the tensor owns its hook, and may live longer

    def hook(p):
        owner = me()
        if owner is not None and not isinstance(p.grad, PackedGradient):
            owner._sums[p].take_over(p)

    hook.is_lpmms = True
    return hook


def _at_once(optimizer, p, group, ordinal):
    owner, parameter = weakref.ref(optimizer), weakref.ref(p)

    def apply(g):
        me = owner()
        if me is None:
            raise RuntimeError("the optimizer that takes these gradients is gone; call zero_grad() of the new one")
        with me._lock:
            if ordinal in me._updated:
                raise RuntimeError(f'parameter {ordinal} had a second gradient before step(); accumulator="none" is for one backward a step')
            me._apply([(ordinal, group, parameter(), g)])
            me._updated.add(ordinal)

    return apply
