"""What needs no torch: quantize, dequantize, plan, errors, threads, forks."""
import json
import os
import shutil
import subprocess
import sys
import threading
import zlib

import numpy
import pytest

import lpmm


def values(*shape):
    return numpy.random.default_rng(3).standard_normal(shape).astype(numpy.float32)


@pytest.mark.parametrize("spec,most", [("int8:block128:sr", 1.05 / 127), ("int8:block128:rn", 0.55 / 127), ("soft4:block128:rn", 0.25),
                                       ("bf16:rn", 2.0**-8), ("fp32", 0), ("de4:row:step32:rn", 0.3)])
def test_dequantized_values_are_near(spec, most):
    x = values(33, 257)
    back = lpmm.dequantize(*lpmm.quantize(x, spec), spec, x.shape)
    assert back.shape == x.shape and back.dtype == numpy.float32
    assert numpy.abs(back - x).max() <= most * numpy.abs(x).max()


def test_bytes_are_those_of_the_spec():
    codes, steps = lpmm.quantize(values(1000), "int6:block128:rn")
    assert codes.nbytes == 8 * 6 * 128 // 8 and steps.nbytes == 8 * 2


def test_seed_tensor_and_step_choose_the_rounding_and_threads_do_not():
    x = values(300000)
    codes = [lpmm.quantize(x, "int4:block128:sr", **k)[0].tobytes() for k in ({}, {"seed": 1}, {"tensor": 1}, {"step": 1})]
    assert len(set(codes)) == 4
    lpmm.set_threads(1)
    assert lpmm.quantize(x, "int4:block128:sr")[0].tobytes() == codes[0]
    lpmm.set_threads(0)


def test_other_libraries_arrays_come_by_dlpack():
    class Foreign:
        def __init__(self, x):
            self.x = x

        def __dlpack__(self, **kwargs):
            return self.x.__dlpack__(**kwargs)

        def __dlpack_device__(self):
            return self.x.__dlpack_device__()

    x = values(500)
    assert lpmm.quantize(Foreign(x), "int8:rn")[0].tobytes() == lpmm.quantize(x, "int8:rn")[0].tobytes()
    assert lpmm.quantize(x[::2], "int8:rn")[0].tobytes() == lpmm.quantize(x[::2].copy(), "int8:rn")[0].tobytes()


@pytest.mark.parametrize("shape", [(0,), (), (1,), (0, 5)])
def test_empty_and_single_arrays(shape):
    x = numpy.ones(shape, numpy.float32)
    back = lpmm.dequantize(*lpmm.quantize(x, "int8:rn"), "int8:rn", shape)
    assert back.shape == shape and numpy.allclose(back, x, rtol=1e-3)


@pytest.mark.parametrize("call,kind,text", [
    (lambda: lpmm.quantize(values(5), "int99"), ValueError, "int99"),
    (lambda: lpmm.quantize(values(5) * numpy.nan, "int8"), ValueError, "NaN"),
    (lambda: lpmm.quantize(values(5).astype(numpy.float64), "int8"), TypeError, "float64"),
    (lambda: lpmm.dequantize(numpy.zeros(4, numpy.uint8), numpy.zeros(2, numpy.uint8), "int8", (5,)), ValueError, "has 4 bytes"),
    (lambda: lpmm.dequantize(numpy.zeros(128, numpy.uint8), numpy.zeros(2, numpy.uint8), "int8", (-1,)), ValueError, "negative"),
    (lambda: lpmm.plan({"w": (5, 5)}, preset="lpmm-mni"), ValueError, "lpmm-min"),
    (lambda: lpmm.plan({"w": (5, 5)}, rule="adm"), ValueError, "adamw"),
    (lambda: lpmm.plan({"w": (5, 5)}, specs={"varience": "fp32"}), ValueError, "variance"),
    (lambda: lpmm.set_threads(-1), ValueError, "-1"),
])
def test_mistakes_are_named(call, kind, text):
    with pytest.raises(kind, match=text):
        call()


def test_a_plan_counts_what_a_parameter_takes():
    plan = lpmm.plan({"w": (768, 768)}, preset="lpmm-min")
    assert plan["parameter"] == 768 * 768 + 2 * 768 * 768 // 128
    assert plan["total"] == sum(plan[k] for k in ("parameter", "accumulator", "momentum", "variance"))
    assert 20.4 < plan["bits_per_parameter"] < 20.6


def test_four_threads_get_the_bytes_of_one():
    x = values(200000)
    want, got = lpmm.quantize(x, "int8:sr")[0].tobytes(), [None] * 4

    def work(i):
        got[i] = lpmm.quantize(x, "int8:sr")[0].tobytes()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert got == [want] * 4


def test_a_child_process_has_threads_of_its_own():
    lpmm.set_threads(2)
    want = lpmm.quantize(values(200000), "int8:sr")[0].tobytes()
    child = os.fork()
    if child == 0:
        os._exit(0 if lpmm.quantize(values(200000), "int8:sr")[0].tobytes() == want else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    lpmm.set_threads(0)


def test_the_package_comes_without_torch():
    code = "import sys, lpmm; sys.exit('torch' in sys.modules or 'AdamW' not in lpmm.__all__)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize("call,text", [
    (lambda x: lpmm.quantize(x, "int8", seed=-1), "seed"), (lambda x: lpmm.quantize(x, "int8", step=2**32), "step"),
    (lambda x: lpmm.quantize(x, None), "spec is None"), (lambda x: lpmm.dequantize(x, x, "int8", 300), "codes is of type"),
    (lambda x: lpmm.dequantize(*lpmm.quantize(x, "int8"), "int8", 300), "shape 300"),
    (lambda x: lpmm.plan({"w": 300}), "300"), (lambda x: lpmm.plan({"w": (3, 4)}, min_elements=1e3), "min_elements")])
def test_wrong_types_are_named(call, text):
    with pytest.raises(TypeError, match=text) as e:
        call(values(300))
    assert "incompatible function arguments" not in str(e.value)


def run_folder(folder, log="", state="{}", file=b""):
    checkpoint = folder / "checkpoints" / "step_00000005"
    checkpoint.mkdir(parents=True)
    (folder / "config.toml").write_text("")
    (folder / "log.jsonl").write_text(log)
    (checkpoint / "state.json").write_text(state)
    (checkpoint / "model.safetensors").write_bytes(file)
    return folder


def test_the_log_of_a_run_that_goes_on_is_read(tmp_path):
    run = run_folder(tmp_path, '{"step": 1}\n{"st')
    assert lpmm.load_run(run).log == [{"step": 1}]
    shutil.rmtree(run / "checkpoints")
    assert lpmm.load_run(run).log == [{"step": 1}]
    with pytest.raises(FileNotFoundError, match="no checkpoint yet"):
        lpmm.load_run(run).weights()
    (run / "log.jsonl").write_text('{"st\n{"step": 1}\n')
    with pytest.raises(ValueError, match="line 1 is damaged"):
        lpmm.load_run(run)


@pytest.mark.parametrize("header", ["", "[]", "null", '{"a": 3}', '{"a.parameter": {}, "__metadata__": {}}',
                                    '{"a.parameter": {"dtype": "F32", "data_offsets": [0, 7]}, "__metadata__": {}}',
                                    '{"a.parameter": {"dtype": "F32", "data_offsets": [8, 64]}, "__metadata__": {}}',
                                    '{"a.parameter": {"dtype": "F32", "data_offsets": [-8, 0]}, "__metadata__": {}}',
                                    '{"a.parameter.codes": {"data_offsets": [0, 1]}, "__metadata__": {}}'])
@pytest.mark.parametrize("state", ["{}", "[]", '{"version": 1}', "right"])
def test_a_damaged_checkpoint_is_a_value_error(tmp_path, header, state):
    file = len(header).to_bytes(8, "little") + header.encode() + bytes(16)
    if state == "right":
        state = json.dumps({"version": 1, "files": {"model.safetensors": {"crc32": f"{zlib.crc32(file):08x}"}}})
    with pytest.raises(ValueError, match="step_00000005 is damaged"):
        lpmm.load_run(run_folder(tmp_path, state=state, file=file)).weights()
