"""quire parse: reasoning, text and tool calls in a model's output."""

import json
import pathlib
import subprocess

import pytest
from server_process import BINARY
from waiting import HANG_S

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDENS = json.loads((ROOT / "tests/fixtures/output/goldens.json").read_text())
CASES = {case["name"]: case for case in GOLDENS["cases"]}

TEMPLATE = """{% for m in messages %}<|im_start|>{{ m.role }}
{% if m.reasoning_content %}<think>
{{ m.reasoning_content }}
</think>
{% endif %}{{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>
{{ {"name": c.function.name, "arguments": c.function.arguments} | tojson }}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}{{ tools | tojson if tools }}{% if add_generation_prompt %}<|im_start|>assistant
<think>
{% endif %}"""


def parse(text, *flags, code=0):
    run = subprocess.run([BINARY, "parse", "--text", "-", *flags], input=text.encode(), capture_output=True, timeout=HANG_S)
    assert run.returncode == code, run.stderr.decode()
    return run.stderr.decode() if code else run.stdout.decode()


def parse_json(text, *flags):
    return json.loads(parse(text, "--json", *flags))


def fold(events):
    """The result that a client builds from the events of a stream."""
    result = {"reasoning": "", "content": "", "tool_calls": []}
    for event in events:
        if event["type"] == "reasoning":
            result["reasoning"] += event["text"]
        elif event["type"] == "text":
            result["content"] += event["text"]
        elif event["type"] == "call_begin":
            assert event["index"] == len(result["tool_calls"])
            result["tool_calls"].append({"id": event["id"], "name": event["name"], "arguments": ""})
        elif event["type"] == "arguments":
            result["tool_calls"][event["index"]]["arguments"] += event["text"]
        else:
            assert event["type"] == "call_end"
    result["reasoning"] = result["reasoning"] or None
    result["content"] = result["content"] or None
    return result


@pytest.fixture
def tools(tmp_path):
    path = tmp_path / "tools.json"
    path.write_text(json.dumps(GOLDENS["tools"]))
    return path


@pytest.mark.parametrize(
    "name", ["hermes with reasoning", "mistral v11", "qwen3 coder", "pythonic", "gemma 4", "harmony", "hermes stop within the name"]
)
def test_events_give_the_result_however_the_text_is_divided(name, tools):
    case = CASES[name]
    flags = ["--tools", tools, "--tool-call-parser", case["tool_parser"]]
    if "reasoning_parser" in case:
        flags += ["--reasoning-parser", case["reasoning_parser"]]
    whole = parse_json(case["input"], *flags)
    assert whole["reasoning"] == case.get("reasoning")
    assert whole["content"] == (case["text"] or None)
    assert [[call["name"], call["arguments"]] for call in whole["tool_calls"]] == [call[:2] for call in case["calls"]]
    assert fold(whole["events"]) == {key: whole[key] for key in ("reasoning", "content", "tool_calls")}
    for split in ["0", "1", "17", "100000", "all", "random:1", "random:2"]:
        assert parse_json(case["input"], *flags, "--split-at", split) == whole


def test_template_gives_the_formats_and_the_beginning(tmp_path):
    path = tmp_path / "template.jinja"
    path.write_text(TEMPLATE)
    output = 'Hm.\n</think>\n\n<tool_call>\n{"name": "ping", "arguments": {}}\n</tool_call>'
    result = parse_json(output, "--chat-template", path)
    assert (result["tool_call_parser"], result["reasoning_parser"]) == ("hermes", "qwen3")
    assert result["reasoning"] == "Hm.\n"
    assert result["content"] is None
    assert result["tool_calls"][0]["name"] == "ping"
    result = parse_json(output, "--chat-template", path, "--tool-call-parser", "none", "--reasoning-parser", "none")
    assert result["content"] == output


def test_text_output_names_the_parts():
    text = parse('Hi<tool_call>{"name": "ping", "arg', "--tool-call-parser", "hermes")
    assert "content:\nHi\n" in text
    assert "call: ping\n" in text
    assert "ends within this call" in text


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--tool-call-parser", "unknown"], "'unknown' is not one of auto, none, hermes"),
        (["--reasoning-parser", "unknown"], "'unknown' is not one of auto, none, deepseek_r1"),
        (["--tool-call-parser", "hermes", "--split-at", "x"], "--split-at must be a byte, 'all' or 'random:SEED'"),
        (["--chat-template", "/does/not/exist"], "/does/not/exist"),
    ],
)
def test_wrong_flags_are_refused(flags, message):
    assert message in parse("text", *flags, code=1)


def test_tools_must_be_a_list(tmp_path):
    path = tmp_path / "tools.json"
    path.write_text("{}")
    assert "must be a list of tools" in parse("text", "--tool-call-parser", "hermes", "--tools", path, code=1)


def test_bytes_that_are_not_text_are_replaced():
    run = subprocess.run(
        [BINARY, "parse", "--text", "-", "--json", "--tool-call-parser", "hermes"], input=b"\xff<tool_call>{\xff", capture_output=True, timeout=HANG_S
    )
    assert run.returncode == 0
    assert json.loads(run.stdout)["content"] == "\ufffd<tool_call>{\ufffd"
