"""The checkpoints of tests/golden with their weights, which are drawn when a test first needs them."""

import functools
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import golden_weights  # noqa: E402

_folder = tempfile.TemporaryDirectory(prefix="quire-golden-")


@functools.cache
def golden_checkpoint(name):
    """The directory of a checkpoint, for example "pooling/bert"."""
    path = pathlib.Path(_folder.name) / name
    golden_weights.write_checkpoint(golden_weights.GOLDEN / name, path)
    return path
