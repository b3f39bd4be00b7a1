"""What a run of the program lpmm left: its log, and its weights in fp32."""
import json
import pathlib
import zlib

import numpy

import lpmm


class Run:
    """A run's folder, or one of its checkpoints.

    checkpoint: the folder that weights come from, the newest. config: the text of config.toml. log: a list of records; all the
    records of one "type" have the same keys. Raises OSError where files are missing, ValueError where they are damaged.
    """

    def __init__(self, folder):
        folder = pathlib.Path(folder)
        self.checkpoint, self.config, self.log = folder, None, []
        if not (folder / "state.json").exists():
            found = sorted((folder / "checkpoints").glob("step_" + "[0-9]" * 8))
            if not found and not (folder / "log.jsonl").exists():
                raise FileNotFoundError(f"{folder} has no checkpoints/step_NNNNNNNN; give the folder of a run or of a checkpoint")
            self.checkpoint, self.config = found[-1] if found else None, (folder / "config.toml").read_text(encoding="utf-8")
            with open(folder / "log.jsonl", encoding="utf-8") as log:
                for number, line in enumerate(log, 1):
                    try:
                        self.log.append(json.loads(line))
                    except ValueError as e:
                        if line.endswith("\n"):  # a run may be writing the last one, or have ended in it
                            raise ValueError(f"{folder / 'log.jsonl'}, line {number} is damaged: {e}; remove it") from None

    def weights(self):
        """{name: fp32 array}, with the run's names, which are transformers'. Rows of matrices are outputs, as in torch.nn.Linear."""
        if self.checkpoint is None:
            raise FileNotFoundError("the run has no checkpoint yet")
        try:
            return self._weights(self.checkpoint / "model.safetensors")
        except (KeyError, TypeError, AttributeError, IndexError, ValueError) as e:
            raise ValueError(f"{self.checkpoint} is damaged, or of another version: {e!r}; take another checkpoint of the run") from None

    def _weights(self, path):
        state, file = json.loads((self.checkpoint / "state.json").read_text(encoding="utf-8")), path.read_bytes()
        if state.get("version") != 1 or int(state["files"][path.name]["crc32"], 16) != zlib.crc32(file):
            raise ValueError(f"{path.name} is not the file that was saved")
        end = 8 + int.from_bytes(file[:8], "little")
        header = json.loads(file[8:end])
        specs = header.pop("__metadata__")

        def data(name):
            begin, stop = header[name]["data_offsets"] if name in header else (0, 0)
            if not 0 <= begin <= stop:
                raise ValueError(f"{name} ends before it begins")
            return numpy.frombuffer(file, numpy.uint8, stop - begin, end + begin)

        out = {}
        for key in header:
            name, _, role = key.rpartition(".")
            if role == "buffer" or role == "parameter" and header[key]["dtype"] == "F32":
                out[name] = data(key).view(numpy.float32)
            elif role == "parameter":
                out[name] = lpmm.dequantize(data(key), data(""), specs[key], [data(key).size // 2])
            elif key.endswith(".parameter.codes"):
                name, spec = key[:-len(".parameter.codes")], specs[key[:-len(".codes")]]
                out[name] = lpmm.dequantize(data(key), data(name + ".parameter.steps"), spec, _shape(specs, name))
        return {k: v.reshape(_shape(specs, k)) if k + ".shape" in specs else v for k, v in out.items()}

    def load_into(self, model):
        """Copies the weights into a module of transformers' with the same names, and returns it. Raises ValueError, and copies
        nothing, where names or shapes differ."""
        import torch
        weights, copies = self.weights(), []
        for prefix, module in model.named_modules(remove_duplicate=False):
            for name, p in [*module._parameters.items(), *module._buffers.items()]:
                full = f"{prefix}.{name}" if prefix else name
                key = full if full in weights else full.partition(".")[2]  # of the model below a head
                if key in weights:
                    values = torch.from_numpy(weights[key].copy())
                    copies.append((key, p, values.t() if type(module).__name__ == "Conv1D" and values.dim() == 2 else values))
                elif p is not None and name in module._parameters and not any(p is q for q in _tied(model, full)):
                    raise ValueError(f"the run has no weight for {full}; it has {', '.join(weights)}")
        missing = weights.keys() - {key for key, _, _ in copies}
        wrong = [key for key, p, values in copies if p.shape != values.shape]
        if missing or wrong:
            raise ValueError(f"the model has no place, or another shape, for {', '.join(sorted(missing) + wrong)} of the run")
        with torch.no_grad():
            for _, p, values in copies:
                p.copy_(values)
        return model


def _tied(model, name):
    """The parameters of other names: a weight that one of them shares comes with that one."""
    return [p for n, p in model.named_parameters(remove_duplicate=False) if n != name]


def _shape(specs, name):
    return [int(n) for n in specs[name + ".shape"].split(",") if n]
