"""The report of quire check-schema, as text and as JSON."""

import json
import subprocess

from server_process import BINARY

SCHEMA = {"title": "t", "type": "object", "properties": {"b": {"type": "array", "uniqueItems": True}, "a": {"pattern": "^a"}}}


def check(path, *flags):
    return subprocess.run([BINARY, "check-schema", path, *flags], capture_output=True, text=True)


def test_each_keyword_is_named(tmp_path):
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(SCHEMA))
    run = check(path)
    assert run.returncode == 1, run.stderr
    lines = [line.split() for line in run.stdout.splitlines()]
    assert ["no", "effect", "/title", "annotation"] in lines
    assert ["enforced", "/properties/a/pattern"] in lines
    assert any(line[:2] == ["refused", "/properties/b/uniqueItems"] for line in lines)


def test_json_has_pointer_effect_and_reason(tmp_path):
    path = tmp_path / "schema.json"
    path.write_text('{"type": "null"}')
    run = check(path, "--json")
    assert run.returncode == 0
    assert json.loads(run.stdout) == {"accepted": True, "keywords": [{"pointer": "/type", "effect": "enforced", "reason": ""}]}


def test_a_file_that_is_not_json_is_an_error(tmp_path):
    path = tmp_path / "schema.json"
    path.write_text("{")
    run = check(path)
    assert run.returncode == 1
    assert "not valid JSON" in run.stderr
