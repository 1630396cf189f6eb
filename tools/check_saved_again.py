#!/usr/bin/env python3
"""Checks that models still run after transformers has loaded and saved them. Some versions write other names into config.json, and a
single file instead of shards. Saves each model of tests/golden/models in this way and runs the golden tests on the results.

    tools/check_saved_again.py [--tests build/release/tests/test_models]

Needs torch and transformers (checked with 5.23).
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")
import golden_weights  # noqa: E402
import transformers  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[1]


def save_again(model: pathlib.Path, out: pathlib.Path) -> bool:
    """Returns whether transformers has the architecture; otherwise the model is copied unchanged."""
    golden_weights.write_checkpoint(model, out)
    architecture = getattr(transformers, json.loads((model / "config.json").read_text())["architectures"][0], None)
    if architecture is None:
        return False
    loaded = architecture.from_pretrained(out, dtype="auto")
    for file in out.glob("*.safetensors*"):
        file.unlink()
    loaded.save_pretrained(out)
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tests", type=pathlib.Path, default=ROOT / "build" / "release" / "tests" / "test_models")
    tests = parser.parse_args().tests
    with tempfile.TemporaryDirectory() as folder:
        again = pathlib.Path(folder)
        for model in sorted(p for p in (golden_weights.GOLDEN / "models").iterdir() if p.is_dir()):
            if not save_again(model, again / model.name):
                print(f"transformers {transformers.__version__} does not have {model.name}", flush=True)
        environment = dict(os.environ, QUIRE_GOLDEN_MODELS=str(again))
        return subprocess.run([str(tests), "--gtest_filter=*GoldenModel*", "--gtest_brief=1"], env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
