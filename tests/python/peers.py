#!/usr/bin/env python3
"""Runs other libraries' own tests of optimizers on lpmm's, which take the names and arguments of theirs here.

usage: PYTHONPATH=build/python python3 tests/python/peers.py [bitsandbytes] [flashoptim] [torch] [--sources FOLDER] [-k EXPRESSION]
Their repositories are cloned into a temporary folder, or read from FOLDER/bitsandbytes, FOLDER/flashoptim and FOLDER/torch,
and the test files stay as they are, but for FlashOptim's "cuda", which becomes "cpu". bitsandbytes and lion_pytorch must be
installed: the tests compare with their references, and bitsandbytes' own decoder reads lpmm's codes. pytest loads
this file as a plugin, which puts lpmm in the place of the library. Prints a row for each test function.
"""
import argparse
import collections
import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import types
import xml.etree.ElementTree

PEERS = {
    "bitsandbytes": ("https://github.com/bitsandbytes-foundation/bitsandbytes", "tests", ["test_optim.py"]),
    "flashoptim": ("https://github.com/databricks/flashoptim", "test",
                   ["test_optimizers.py", "test_serialization.py", "test_training.py"]),
    "torch": ("https://github.com/pytorch/pytorch", "test", ["test_optim.py"]),
}
OF_THEIRS = "asks for something of theirs: "
NOT_OURS = {  # test functions that are not run, and why
    "test_benchmark_blockwise": "measures, and asserts nothing",
    **dict.fromkeys(["test_lamb_max_unorm_threaded_to_config", "test_lamb_max_unorm_changes_update", "test_lamb8bit_rejects_amsgrad",
                     "test_lamb8bit_rejects_non_default_max_unorm", "test_adagrad8bit_rejects_non_8_optim_bits"],
                    OF_THEIRS + "arguments that torch and lpmm do not have"),
    **dict.fromkeys(["test_fused_unfused_unquantized_same", "test_fused_as_fast_as_unfused", "test_fused_unfused_24bit_ecc_match"],
                    OF_THEIRS + "two paths of one optimizer, and a GPU"),
    **dict.fromkeys(["test_ecc_increases_precision", "test_fp32_state_dict_roundtrip"], OF_THEIRS + "error bits beside weights"),
    **dict.fromkeys(["test_gradient_release_matches_manual_step", "test_gradient_release_shared_params"],
                    OF_THEIRS + "updates inside backward"),
    "test_check_numerics": OF_THEIRS + "its error for rates below a weight's resolution",
    "test_errors": "looks for the words of torch's errors",
    "test_step_is_noop_for_zero_grads_Muon": "weight decay moves weights, in torch's own Muon too, which fails it",
    **dict.fromkeys(["test_forloop_goes_right_direction_multigpu", "test_state_dict_with_cuda_params"], "wants a GPU"),
    "test_reference_adamw_decouple_lr_matches_torch_adamw": "compares two references of theirs",
    **dict.fromkeys(["test_cast_model", "test_cast_model_selective_all_norm_types", "test_cast_model_fp32_keyword_forward_pass"],
                    OF_THEIRS + "a cast of models"),
}
KNOWN = {  # failures, and why
    "test_vanilla_checkpoint_interop": "torch's own fp16 step, whose epsilon of 1e-8 is 0, left NaN in weights before ours was asked",
    "test_joint_model_optimizer_checkpoint": "it saves states as fp32, and packing them again rounds to 4 bits once more",
}


# ---- what stands in for a library --------------------------------------------------------------------------------------
class Stand:
    """Calls an lpmm optimizer by another library's names; `state` shows its states as that library has them."""

    def __init__(self, optimizer, show):
        self.optimizer, self.state = optimizer, _States(optimizer, show)

    def __getattr__(self, name):
        return getattr(self.optimizer, name)


class _States:
    def __init__(self, optimizer, show):
        self.optimizer, self.show = optimizer, show

    def __getitem__(self, p):
        state = self.optimizer.state[p]
        return {"step": state["step"], **self.show(self.optimizer, p, state)}


def parts_of(state, role):
    """fp32 values, or codes and steps."""
    return state[role], state.get(role + "_steps")


def bitsandbytes():
    import bitsandbytes as bnb
    import lpmm
    import numpy
    import torch
    of_de8, of_ude8 = (torch.from_numpy(lpmm.dequantize(numpy.arange(256, dtype=numpy.uint8), numpy.ones(1, numpy.float32).view(numpy.uint8),
                                                        f"{name}:block256:step32:rn", (256,))) for name in ("de8", "ude8"))

    def show(roles):
        def states(_, p, state):
            out = {"unorm_vec": torch.ones(1)}  # a buffer that a test looks for, which lpmm does not need
            for i, of in enumerate(roles, 1):
                values, steps = zip(*(parts_of(state, role) for role in of))
                values = [x.flatten()[:p.numel()].view(p.shape) for x in values]  # codes are whole groups
                out[f"state{i}"] = torch.stack(values) if len(of) > 1 else values[0]
                if steps[0] is not None:
                    out[f"absmax{i}"] = torch.stack(steps) if len(of) > 1 else steps[0]
                    out[f"qmap{i}"] = of_ude8 if of == ("variance",) else of_de8
            return out
        return states

    overridden = set()

    class Manager:
        @staticmethod
        def get_instance():
            return Manager()

        def initialize(self):
            overridden.clear()

        def register_parameters(self, params):
            pass

        def override_config(self, p, key, value):
            assert (key, value) == ("optim_bits", 8)
            overridden.add(p)

    def make(kind, roles, bits):
        def factory(params, *args, optim_bits=bits, **kwargs):
            presets = {32: "fp32", 8: "bnb8"}
            groups = [p if isinstance(p, dict) else {"params": [p], "preset": presets[8 if p in overridden else optim_bits]}
                      for p in params]
            return Stand(getattr(lpmm, kind)(groups, *args, preset=presets[optim_bits], bf16_rounding="rn", **kwargs), show(roles))
        return factory

    bnb.optim.GlobalOptimManager = Manager
    first, second, both = ("momentum",), ("variance",), ("momentum", "slow_momentum")
    for name, roles in {"Adam": (first, second), "AdamW": (first, second), "AdEMAMix": (both, second), "Lion": (first,),
                        "SGD": (first,), "RMSprop": (second,)}.items():
        setattr(bnb.optim, name, make(name, roles, 32))
        setattr(bnb.optim, name + "8bit", make(name, roles, 8))
    bnb.optim.LARS = make("LARSClip", (first,), 32)


def flashoptim():
    import lpmm
    import pytest
    import torch

    class State:
        def __init__(self, optimizer, p, role, values, steps):
            self.values = optimizer.dequantized(p, role)
            self.quantized, self.scales = (values, steps) if steps is not None else (None, None)

        def materialize(self):
            return self.values

        def is_quantized(self):
            return self.quantized is not None

    def show(optimizer, p, state):
        return {key: State(optimizer, p, role, *parts_of(state, role))
                for key, role in optimizer.torch_names.items() if role in state}

    class Flash(Stand, torch.optim.Optimizer):  # learning-rate schedulers and scalers ask for this base class
        def __init__(self, kind, params, fused=True, quantize=True, master_weight_bits=None, check_numerics=True,
                     compress_state_dict=False, **kwargs):
            if master_weight_bits is not None:
                pytest.skip("lpmm's Python package has no error bits beside weights")
            params = list(params)
            preset = os.environ["LPMM_PEER_PRESET"] if quantize else "fp32"
            own = getattr(lpmm, kind)(params, preset=preset, bf16_rounding="rn", **kwargs)
            Stand.__init__(self, own, show)
            self.compress = compress_state_dict

        def __getattribute__(self, name):  # Optimizer's own methods are those of the one that stands behind
            if name in ("step", "zero_grad", "load_state_dict", "param_groups", "defaults"):
                return getattr(self.optimizer, name)
            return super().__getattribute__(name)

        def state_dict(self):
            return self.optimizer.state_dict() if self.compress else self.optimizer.torch_state_dict()

        def _ensure_state_initialized(self, p, hparams):
            group = self.optimizer.param_groups[0]
            self.optimizer.state[p].update(self.optimizer._slot(p, group, 0).new_state(p))

    package, optimizers = types.ModuleType("flashoptim"), types.ModuleType("flashoptim.optimizers")
    for name, kind in {"FlashAdam": "Adam", "FlashAdamW": "AdamW", "FlashLion": "Lion", "FlashSGD": "SGD", "FlashSGDW": "SGD"}.items():
        setattr(package, name, lambda params, kind=kind, **kwargs: Flash(kind, params, **kwargs))
    package.cast_model = package.enable_gradient_release = optimizers._log2_min_expressible_step_size = None
    optimizers._BITS_TO_BYTES, optimizers.NumericsError = {None: 0, 24: 3, 32: 4}, ValueError
    sys.modules.update({"flashoptim": package, "flashoptim.optimizers": optimizers})


def torch_itself():
    """torch's table of optimizers names lpmm's classes in place of its own."""
    import lpmm
    from torch.testing._internal import common_optimizers as table

    def packed(kind):
        return type(kind.__name__, (kind,), {"__init__": functools.partialmethod(kind.__init__, preset=os.environ["LPMM_PEER_PRESET"])})

    def ours(info):
        info.optim_cls, inputs = packed(getattr(lpmm, info.name)), info.optim_inputs_func
        missing = ("amsgrad", "capturable", "differentiable", "initial_accumulator_value", "ns_coefficients")
        info.optim_inputs_func = lambda device, dtype=None: [
            x for x in inputs(device)
            if not any(x.kwargs.get(key) for key in missing) and x.kwargs.get("adjust_lr_fn") != "spectral_unclamped"]
        info.supported_impls, info.supports_fused_on, info.has_capturable_arg = (), (), False
        info.supports_sparse = info.supports_complex = False  # refused in one sentence, which lpmm's own tests look for
        return info

    table.optim_db[:] = [ours(info) for info in table.optim_db if info.name in ("Adafactor", "Adagrad", "Adam", "AdamW", "Muon", "RMSprop", "SGD")]


if "LPMM_PEER" in os.environ:  # as pytest's plugin
    {"bitsandbytes": bitsandbytes, "flashoptim": flashoptim, "torch": torch_itself}[os.environ["LPMM_PEER"]]()

    def pytest_collection_modifyitems(config, items):
        def is_wanted(item):
            if os.environ["LPMM_PEER"] == "torch":  # its file holds tests of schedulers too, and names end with their parameters
                return item.cls.__name__.startswith("TestOptimRenewed") and not item.name.startswith(tuple(NOT_OURS))
            return item.function.__name__ not in NOT_OURS

        items[:] = filter(is_wanted, items)


# ---- the program -------------------------------------------------------------------------------------------------------
def run(peer, options, room):
    url, folder, files = PEERS[peer]
    source = pathlib.Path(options.sources) / peer if options.sources else room / "source"
    if not options.sources:
        subprocess.run(["git", "clone", "-q", "--depth", "1", url, source], check=True)
    tests = shutil.copytree(source / folder, room / folder)
    if peer == "flashoptim":
        (tests / "conftest.py").unlink()  # ends where there is no GPU
        for path in tests.glob("*.py"):
            path.write_text(path.read_text().replace('"cuda"', '"cpu"'))
    here = str(pathlib.Path(__file__).resolve().parent)
    paths = [here, str(room), str(tests), *(str(pathlib.Path(p).resolve()) for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "LPMM_PEER": peer, "LPMM_PEER_PRESET": options.preset}
    report = room / "report.xml"
    subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "peers", "--tb=line", "-x" if options.stop else "--maxfail=1000",
                    "-k", options.k, "--junitxml", report, *(tests / f for f in files)], cwd=room, env=environment,
                   stdout=sys.stderr, check=False)
    text = "".join((tests / f).read_text() for f in files)
    functions = re.findall(r"def (test_\w+)\(", text)
    rows = collections.defaultdict(collections.Counter)
    reasons = {(name, "failed"): why for name, why in KNOWN.items()}
    for case in xml.etree.ElementTree.parse(report).getroot().iter("testcase"):
        name, what = case.get("name").split("[")[0], "passed"
        name = max((f for f in functions if name.startswith(f)), key=len, default=name)  # torch's have their parameters in the name
        for child in case:
            what = {"failure": "failed", "error": "failed", "skipped": "skipped"}.get(child.tag, what)
            if what != "passed":
                reasons.setdefault((name, what), (child.get("message") or "").split("\n")[0][:110])
        rows[name][what] += 1
    print(f"\n{peer}\n\n| test | passed | failed | skipped | why |\n|---|---:|---:|---:|---|")
    for name, counts in rows.items():
        why = "; ".join(text for (of, what), text in reasons.items() if of == name and counts[what])
        print(f"| `{name}` | {counts['passed']} | {counts['failed']} | {counts['skipped']} | {why} |")
    for name, why in NOT_OURS.items():
        if f"def {name}(" in text:
            print(f"| `{name}` | | | | not run: {why} |")
    total = sum(rows.values(), collections.Counter())
    print(f"| all | {total['passed']} | {total['failed']} | {total['skipped']} | |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peers", nargs="*", metavar="PEER", help=f"{', '.join(PEERS)}; none: all of them")
    parser.add_argument("--sources", help="a folder with their repositories")
    parser.add_argument("--preset", default="lpmm-min", help="of states where FlashOptim's tests ask for packed ones")
    parser.add_argument("-k", default="", help="pytest's choice of tests")
    parser.add_argument("--stop", action="store_true", help="after the first failure")
    options = parser.parse_args()
    for peer in options.peers or PEERS:
        if peer not in PEERS:
            parser.error(f"{peer} is none of {', '.join(PEERS)}")
        with tempfile.TemporaryDirectory() as room:
            run(peer, options, pathlib.Path(room))


if __name__ == "__main__":
    main()
