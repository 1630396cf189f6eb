"""quire inspect names the sizes that a model has, and no others."""

import json
import re
import subprocess

import pytest
from golden_checkpoints import golden_checkpoint
from server_process import BINARY, ROOT

MODELS = sorted(path.name for path in (ROOT / "tests" / "golden" / "models").iterdir() if (path / "config.json").exists())
SIZES = ("intermediate_size", "num_heads", "num_kv_heads", "head_dim")


def inspect(path, *flags):
    run = subprocess.run([BINARY, "inspect", path, *flags], capture_output=True, text=True, check=True)
    return run.stdout


def config_only(name, place):
    """A directory with the configuration, which is enough for the sizes."""
    place.joinpath("config.json").write_text((ROOT / "tests" / "golden" / "models" / name / "config.json").read_text())
    return place


@pytest.mark.parametrize("name", MODELS)
def test_no_size_of_zero_is_printed(tmp_path, name):
    place = config_only(name, tmp_path)
    text = inspect(place)
    assert not re.search(r"(?<![\d.])0 (query|key/value|bytes per token)|size 0\b", text), text
    report = json.loads(inspect(place, "--json"))
    assert all(report[size] is None or report[size] > 0 for size in SIZES)
    assert (report["num_heads"] is None) == ("heads" not in text)


@pytest.mark.parametrize("name, has_heads", [("mamba", False), ("mamba2", False), ("falcon_mamba", False), ("zamba2", True)])
def test_recurrent_models_have_what_their_configuration_says(name, has_heads):
    config = json.loads((ROOT / "tests" / "golden" / "models" / name / "config.json").read_text())
    report = json.loads(inspect(golden_checkpoint(f"models/{name}"), "--json"))
    assert (report["num_heads"] is not None) == has_heads
    if has_heads:
        assert report["num_heads"] == config["num_attention_heads"]
        assert report["intermediate_size"] == config["intermediate_size"]
    else:
        assert report["intermediate_size"] is None and report["kv_bytes_per_token"] == 0
