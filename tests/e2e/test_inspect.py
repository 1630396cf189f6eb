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


def test_an_encoder_has_no_capacity_of_a_kv_cache():
    path = golden_checkpoint("pooling/bert")
    text = inspect(path)
    assert not re.search(r"^capacity|KV ", text, re.MULTILINE), text
    report = json.loads(inspect(path, "--json"))
    assert report["kv_cache_tokens"] is None and report["full_sequences"] is None


def test_a_bar_shows_the_memory_of_weights_and_cache():
    text = inspect(ROOT / "models" / "quire-tiny", "--kv-cache-memory", "64MiB")
    bar = re.search(r"^memory +\[(#+)(=+)(\.*)\]$", text, re.MULTILINE)
    assert bar and sum(map(len, bar.groups())) == 50, text
    assert re.search(r"^ +# [\d.]+ MiB weights, = 64\.0 MiB KV cache, \. [\d.]+ \w+ free$", text, re.MULTILINE), text
    assert "more than the free memory" in inspect(ROOT / "models" / "quire-tiny", "--kv-cache-memory", "100TiB")
