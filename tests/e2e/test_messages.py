"""Messages of every form give the prompt of transformers, over HTTP and in JSON lines, for the chat templates of ../shared."""

import json
import subprocess

import chat_oracle
import httpx
import pytest
from chat_oracle import CONVERSATIONS
from server_process import BINARY, ServerProcess
from waiting import HANG_S

NOW = "2026-01-15T12:00:00"
MODEL_TOKENS = {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>"}
MAX_PROMPT = 1000  # tokens that the embedded model reads next to an output

needs_templates = pytest.mark.skipif(not chat_oracle.TEMPLATES.exists(), reason="the shared chat templates are missing")


@pytest.fixture(scope="module")
def post():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QUIRE_NOW", NOW)
        server = ServerProcess("--trust-request-chat-template")
    with httpx.Client(base_url=server.url, timeout=HANG_S) as client:
        yield lambda path, body: client.post(path, json=body)
    server.stop()


def fields(name, messages):
    return {"messages": messages, "chat_template": chat_oracle.source(name), "chat_template_kwargs": chat_oracle.variables()[name]}


def tokens(post, body):
    response = post("/tokenize", body)
    assert response.status_code in (200, 400), response.text
    return response.json().get("tokens")


def text(post, ids):
    return post("/detokenize", {"tokens": ids}).json()["prompt"]


@needs_templates
@pytest.mark.parametrize("conversation", CONVERSATIONS)
def test_http_prompts_are_those_of_transformers(post, conversation):
    rendered = 0
    for name in chat_oracle.names():
        messages = CONVERSATIONS[conversation]
        values = {**MODEL_TOKENS, **chat_oracle.variables()[name]}
        prompt = chat_oracle.expected(chat_oracle.source(name), messages, NOW, **values)
        ids = tokens(post, fields(name, messages))
        if prompt is not None:
            assert ids is not None and text(post, ids) == prompt, f"{name}, {messages}"
            rendered += 1
    assert rendered >= 100


@needs_templates
def test_prompts_of_json_lines_are_those_of_http(post, tmp_path, monkeypatch):
    lines, expected = [], []
    for name in chat_oracle.names():
        for conversation in ("one_part", "result_parts"):
            body = fields(name, CONVERSATIONS[conversation])
            ids = tokens(post, body)
            if ids is not None and len(ids) < MAX_PROMPT:
                lines.append(json.dumps({**body, "max_tokens": 1, "temperature": 0}))
                expected.append(ids)
    assert len(lines) >= 200
    path = tmp_path / "prompts.jsonl"
    path.write_text("\n".join(lines))
    monkeypatch.setenv("QUIRE_NOW", NOW)
    run = subprocess.run([BINARY, "generate", "--prompts-file", path, "--json", "--kv-cache-memory", "64MiB"],
                         capture_output=True, text=True, timeout=HANG_S)
    assert run.returncode == 0, run.stderr
    assert [json.loads(line)["prompt_token_ids"] for line in run.stdout.splitlines()] == expected


def test_json_lines_keep_all_fields_of_messages(post, tmp_path):
    template = ("{% for m in messages %}{{ m.role }}|{{ m.name }}|{{ m.tool_call_id }}|{{ m.reasoning_content }}|"
                "{{ m.tool_calls[0].function | tojson if m.tool_calls }}|{{ m.content }};{% endfor %}{{ tools | tojson }}{{ mood }}")
    call = {**CONVERSATIONS["call"][1], "reasoning_content": "why", "content": None}
    line = {"messages": [call, chat_oracle.result(chat_oracle.parts("4", "2"))], "chat_template": template, "max_tokens": 1,
            "tools": [{"type": "function", "function": {"name": "f"}}], "chat_template_kwargs": {"mood": "calm"}}
    path = tmp_path / "prompts.jsonl"
    path.write_text(json.dumps(line))
    run = subprocess.run([BINARY, "generate", "--prompts-file", path, "--json"], capture_output=True, text=True, timeout=HANG_S)
    assert run.returncode == 0, run.stderr
    assert text(post, json.loads(run.stdout)["prompt_token_ids"]) == (
        'assistant|||why|{"name": "weather", "arguments": {"city": "Epsilon five", "days": 6}}|;'
        'tool|weather|a1B2c3D4e|||4\n2;[{"type": "function", "function": {"name": "f"}}]calm')


def test_json_lines_name_the_line_of_an_invalid_message(tmp_path):
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"prompt": "a"}\n{"messages": [{"role": "user", "content": 5}]}\n')
    run = subprocess.run([BINARY, "generate", "--prompts-file", path], capture_output=True, text=True, timeout=HANG_S)
    assert run.returncode != 0
    assert f"{path}:2: messages[0].content must be a string or an array of parts, not a number" in run.stderr


def test_render_reads_messages_like_the_server(tmp_path):
    (tmp_path / "lists.jinja").write_text("{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}")
    (tmp_path / "messages.json").write_text(json.dumps(CONVERSATIONS["user"]))
    run = subprocess.run([BINARY, "render", "--chat-template", tmp_path / "lists.jinja", "--messages", tmp_path / "messages.json"],
                         capture_output=True, text=True, timeout=HANG_S)
    assert run.stdout == "Alpha one", run.stderr


@pytest.mark.parametrize("tools, name", [(None, None), (chat_oracle.TOOLS, None), (None, "rag"), (chat_oracle.TOOLS, "default")])
def test_a_model_with_several_templates_uses_the_one_of_transformers(tmp_path, tools, name):
    model = chat_oracle.named_model(tmp_path / "model")
    body = {"messages": CONVERSATIONS["user"], "tools": tools, "chat_template": name}
    expected = chat_oracle.named_prompt(CONVERSATIONS["user"], tools, name)
    (tmp_path / "request.json").write_text(json.dumps(body))
    run = subprocess.run([BINARY, "render", model, "--messages", tmp_path / "request.json"], capture_output=True, text=True, timeout=HANG_S)
    assert run.stdout == expected, run.stderr
    (tmp_path / "prompts.jsonl").write_text(json.dumps({**body, "max_tokens": 1}))
    run = subprocess.run([BINARY, "generate", model, "--prompts-file", tmp_path / "prompts.jsonl", "--json"],
                         capture_output=True, text=True, timeout=HANG_S)
    ids = json.loads(run.stdout)["prompt_token_ids"]
    server = ServerProcess(model, "--trust-request-chat-template")
    try:
        with httpx.Client(base_url=server.url, timeout=HANG_S) as client:
            assert tokens(lambda path, fields: client.post(path, json=fields), body) == ids
            assert client.post("/detokenize", json={"tokens": ids}).json()["prompt"] == expected
    finally:
        server.stop()


def test_a_template_that_cannot_be_read_rejects_only_the_requests_that_need_it(tmp_path):
    broken = [chat_oracle.NAMED[0], {"name": "tool_use", "template": "{% include 'other' %}"}]
    model = chat_oracle.named_model(tmp_path / "model", broken)
    (tmp_path / "request.json").write_text(json.dumps({"messages": CONVERSATIONS["user"]}))
    command = [BINARY, "render", model, "--messages", tmp_path / "request.json"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S)
    assert run.stdout == "default:Alpha one" and "chat template 'tool_use'" in run.stderr
    (tmp_path / "tools.json").write_text(json.dumps(chat_oracle.TOOLS))
    run = subprocess.run([*command, "--tools", tmp_path / "tools.json"], capture_output=True, text=True, timeout=HANG_S)
    assert run.returncode == 1 and "The model has no chat template 'tool_use' that can be read." in run.stderr
