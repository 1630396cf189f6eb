"""The embedded model with wider MLPs: a response takes seconds on any machine, so that a test can act while it is written.
The added rows and columns of the weights are zero. The text is that of the embedded model, apart from rounding, and so is the KV cache."""

import atexit
import functools
import json
import math
import pathlib
import shutil
import tempfile

TINY = pathlib.Path(__file__).resolve().parents[2] / "models" / "quire-tiny"
WIDTH = 12  # times the intermediate size of the embedded model


def widened(name, shape, data):
    """Shape and bytes of a bfloat16 matrix, [out_features, in_features], of the slow model."""
    if name.endswith((".gate_proj.weight", ".up_proj.weight")):
        return [shape[0] * WIDTH, shape[1]], data + bytes(len(data) * (WIDTH - 1))
    if name.endswith(".down_proj.weight"):
        row = shape[1] * 2
        rows = (data[i:i + row] for i in range(0, len(data), row))
        return [shape[0], shape[1] * WIDTH], b"".join(r + bytes(row * (WIDTH - 1)) for r in rows)
    return shape, data


def write_slow_model(directory):
    shutil.copytree(TINY, directory)
    config = json.loads((TINY / "config.json").read_text())
    config["intermediate_size"] *= WIDTH
    (directory / "config.json").write_text(json.dumps(config))

    file = (TINY / "model.safetensors").read_bytes()
    begin = 8 + int.from_bytes(file[:8], "little")
    header, data = {}, bytearray()
    for name, tensor in json.loads(file[8:begin]).items():
        if name == "__metadata__":
            continue
        first, end = tensor["data_offsets"]
        assert tensor["dtype"] == "BF16" and end - first == 2 * math.prod(tensor["shape"])
        shape, values = widened(name, tensor["shape"], file[begin + first:begin + end])
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    (directory / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + bytes(data))


@functools.cache
def slow_model():
    """The directory of the slow model. It is removed when the tests end."""
    place = tempfile.mkdtemp(prefix="quire-slow-model-")
    atexit.register(shutil.rmtree, place)
    directory = pathlib.Path(place) / TINY.name
    write_slow_model(directory)
    return directory
