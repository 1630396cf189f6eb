"""The comparison with llguidance on JSON-Schema-Test-Suite in docs/structured-output.md is what both say today."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHARED = pathlib.Path(os.environ.get("QUIRE_SHARED", ROOT.parent / "shared"))


def test_the_table_of_the_documentation_is_up_to_date():
    if not (SHARED / "data" / "schemas").exists():
        pytest.skip(f"SKIPPED: no schemas in {SHARED} (set QUIRE_SHARED)")
    run = subprocess.run([sys.executable, ROOT / "tools" / "make_schema_table.py", "--check"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
