"""The weights of the golden models, drawn in Python. tests/unit/models/golden_checkpoint_test.cc has the same values for C++."""

import json
import subprocess
import sys
import zlib

import golden_checkpoints
import pytest
from golden_checkpoints import golden_weights

DESCRIBED = sorted(str(p.parent.relative_to(golden_weights.GOLDEN)) for p in golden_weights.GOLDEN.glob("*/*/weights.json"))


@pytest.mark.parametrize("name", DESCRIBED)
def test_files_are_those_whose_outputs_are_stored(name):
    golden = golden_weights.GOLDEN / name
    description = json.loads((golden / "weights.json").read_text())
    path = golden_checkpoints.golden_checkpoint(name)
    for file, content in description["files"].items():
        assert zlib.crc32((path / file).read_bytes()) == content["crc32"]
    assert not list(golden.rglob("*.safetensors"))


def test_values_are_those_of_cpp():
    assert golden_weights.normal(7, "a.weight", (2, 3), 0.5, 0.25).tolist() == [
        [0.4410501718521118, 0.46818482875823975, 0.4454241991043091], [0.4550586938858032, 0.5692380666732788, 0.358223557472229]]
    assert golden_weights.distinct(7, "t", (3, 2), 6).tolist() == [[5, 0], [4, 0], [4, 0]]
    file = golden_weights.file_bytes(7, {
        "m.{0..1}.w": ["F16", [2, 3], "normal", 0.0, 0.5], "b": ["BF16", [4], "normal", 1.0, 0.2], "i": ["I64", [2, 2], "distinct", 5],
        "m": ["U8", [2], "values", 1, 0], "s": ["F32", [], "constant", -1e4]})
    assert len(file) == 454 and zlib.crc32(file) == 3392829847


def test_collapsed_names_expand_to_the_same_tensors():
    described = {f"layers.{i}.experts.{j}.w": ["F32", [2], "normal", 0.0, 0.1 * (i == 3)] for i in (0, 1, 3) for j in (0, 1, 2, 5)}
    collapsed = golden_weights.collapse(described)
    assert len(collapsed) == 4
    assert {name: entry for pattern, entry in collapsed.items() for name in golden_weights.expand(pattern)} == described


def test_a_wrong_sum_and_a_missing_model_are_errors(tmp_path):
    golden = tmp_path / "golden"
    golden.mkdir()
    golden_weights.write_description(golden, 0, {"model.safetensors": {"x": ["F32", [2], "normal", 0.0, 1.0]}})
    text = (golden / "weights.json").read_text()
    golden_weights.write_checkpoint(golden, tmp_path / "good")
    (golden / "weights.json").write_text(text.replace('"seed": 0', '"seed": 1'))
    with pytest.raises(ValueError, match="CRC-32"):
        golden_weights.write_checkpoint(golden, tmp_path / "bad")
    run = subprocess.run([sys.executable, golden_weights.__file__, str(tmp_path), "models/none"], capture_output=True, text=True)
    assert run.returncode == 1 and "models/none does not exist" in run.stderr
