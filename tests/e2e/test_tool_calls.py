"""Tool calls and reasoning over the API: constrained calls are valid, and a stream says the same as the whole response."""

import json

import jsonschema
import openai
import pytest
from server_process import ServerProcess
from tool_model import marker_ids, tool_model

WEATHER = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 12},
        "days": {"type": "integer", "minimum": 1, "maximum": 9},
        "units": {"enum": ["metric", "imperial"]},
    },
    "required": ["city", "days", "units"],
    "additionalProperties": False,
}
SCHEMAS = {"get_weather": WEATHER, "ping": {"type": "object", "properties": {}, "additionalProperties": False}}
TOOLS = [{"type": "function", "function": {"name": name, "parameters": schema}} for name, schema in SCHEMAS.items()]
STRICT = [{"type": "function", "function": {**tool["function"], "strict": True}} for tool in TOOLS]
PING = {"type": "function", "function": {"name": "ping"}}
CHAT = [{"role": "user", "content": "How is the weather?"}]
IDS = marker_ids()
NO_REASONING = {str(IDS["<think>"]): -100}
FREE = {"max_tokens": 400, "temperature": 1.2, "seed": 3, "logit_bias": NO_REASONING}
THINK = {"chat_template_kwargs": {"enable_thinking": True}, "logit_bias": {str(IDS["</think>"]): 10}}
CALL = {"logit_bias": {**NO_REASONING, str(IDS["<tool_call>"]): 100}}
ANSWER = {"type": "json_schema", "json_schema": {"name": "w", "schema": WEATHER}}


@pytest.fixture(scope="module")
def caller():
    process = ServerProcess(str(tool_model()))
    yield process
    process.stop()


def ask(server, **fields):
    response = server.post("/v1/chat/completions", json={"messages": CHAT, **FREE, **fields})
    assert response.status_code == 200, response.text
    return response.json()


def check_calls(message, schemas=SCHEMAS):
    for call in message["tool_calls"]:
        assert call["type"] == "function" and call["id"]
        jsonschema.validate(json.loads(call["function"]["arguments"]), schemas[call["function"]["name"]])


def test_demanded_calls_are_valid_in_every_sample(caller):
    answer = ask(caller, tools=TOOLS[:1], tool_choice="required", parallel_tool_calls=False, n=8)
    for choice in answer["choices"]:
        assert choice["finish_reason"] == "tool_calls" and choice["message"]["content"] is None
        assert len(choice["message"]["tool_calls"]) == 1
        check_calls(choice["message"])
    assert len({json.dumps(choice["message"]["tool_calls"][0]["function"]) for choice in answer["choices"]}) > 1


def test_a_named_tool_is_the_one_that_is_called(caller):
    for choice in ask(caller, tools=TOOLS, tool_choice={"type": "function", "function": {"name": "get_weather"}}, n=4)["choices"]:
        if choice["finish_reason"] != "length":
            assert {call["function"]["name"] for call in choice["message"]["tool_calls"]} == {"get_weather"}
            check_calls(choice["message"])


def test_strict_tools_are_obeyed_if_the_model_decides_to_call(caller):
    message = ask(caller, tools=STRICT, parallel_tool_calls=False, **CALL)["choices"][0]["message"]
    assert message["tool_calls"]
    check_calls(message)


def test_an_answer_is_constrained_after_the_reasoning(caller):
    answer = ask(caller, response_format=ANSWER, n=8, **THINK)
    ended = [choice["message"] for choice in answer["choices"] if choice["finish_reason"] == "stop"]
    for message in ended:
        jsonschema.validate(json.loads(message["content"]), WEATHER)
        assert message.get("reasoning") == message.get("reasoning_content")
    assert any(message.get("reasoning") for message in ended)
    assert 0 < answer["usage"]["completion_tokens_details"]["reasoning_tokens"] < answer["usage"]["completion_tokens"]


def test_calls_may_follow_the_reasoning(caller):
    answer = ask(caller, tools=TOOLS, tool_choice="required", parallel_tool_calls=False, n=8, **THINK)
    ended = [choice["message"] for choice in answer["choices"] if choice["finish_reason"] == "tool_calls"]
    for message in ended:
        check_calls(message)
    assert any(message.get("reasoning") for message in ended)


def forced(*elements):
    """An output that is exactly this: texts, and markers as tokens."""
    parts = [{"type": "token", "token": e} if e in IDS else {"type": "const_string", "value": e} for e in elements]
    return {"structured_outputs": {"structural_tag": {"type": "structural_tag", "format": {"type": "sequence", "elements": parts}}}}


PING_TEXT = '\n{"name": "ping", "arguments": {"n": [1, "é"]}}\n'
REQUESTS = {
    "text": {},
    "free output": {"tools": TOOLS},
    "calls": {"tools": TOOLS, "tool_choice": "required"},
    "named": {"tools": TOOLS, "tool_choice": PING},
    "strict": {"tools": STRICT, **CALL},
    "reasoning": THINK,
    "reasoning and answer": {"response_format": ANSWER, **THINK},
    "reasoning and calls": {"tools": TOOLS, "tool_choice": "required", **THINK},
    "cut": {"tools": TOOLS, "tool_choice": PING, "max_tokens": 6},
    "stop string": {"tools": TOOLS, "tool_choice": "required", "stop": ["arguments"]},
    "several samples": {"tools": TOOLS, "tool_choice": "required", "n": 3},
    "forced call": forced("Hi. ", "<tool_call>", PING_TEXT, "</tool_call>"),
    "forced reasoning": forced("<think>", "Hm.", "</think>", "\n\nYes."),
    "spelled marker": forced("<tool_", "call>" + PING_TEXT),
}


def add_delta(message, delta):
    for field in ("content", "reasoning"):
        message[field] += delta.get(field) or ""
    for part in delta.get("tool_calls") or []:
        if "id" in part:
            assert part["index"] == len(message["calls"])
            message["calls"].append([part["function"]["name"], ""])
        message["calls"][part["index"]][1] += part["function"]["arguments"]


@pytest.mark.parametrize("name", REQUESTS)
def test_a_stream_says_the_same_as_the_whole_response(caller, name):
    fields = REQUESTS[name]
    messages = {}
    body = {"messages": CHAT, **FREE, **fields, "stream": True}
    with caller.http() as http, http.stream("POST", "/v1/chat/completions", json=body) as response:
        assert response.status_code == 200
        for line in response.iter_lines():
            if not line.startswith("data: {"):
                continue
            for choice in json.loads(line[6:])["choices"]:
                message = messages.setdefault(choice["index"], {"content": "", "reasoning": "", "calls": [], "finish": None})
                add_delta(message, choice["delta"])
                message["finish"] = choice["finish_reason"] or message["finish"]
    whole = ask(caller, **fields)
    for choice in whole["choices"]:
        message = choice["message"]
        calls = [[call["function"]["name"], call["function"]["arguments"]] for call in message.get("tool_calls", [])]
        assert messages[choice["index"]] == {"content": message["content"] or "", "reasoning": message.get("reasoning", ""), "calls": calls,
                                             "finish": choice["finish_reason"]}


def test_only_the_token_of_a_marker_begins_a_call(caller):
    call = ask(caller, tools=TOOLS, **forced("<tool_call>", PING_TEXT, "</tool_call>"))["choices"][0]
    assert call["finish_reason"] == "tool_calls"
    names = {part["function"]["name"] for part in call["message"]["tool_calls"]}
    assert names <= set(SCHEMAS) and call["message"]["content"] is None
    spelled = ask(caller, **forced("<tool_", "call>" + PING_TEXT))["choices"][0]
    assert spelled["message"]["content"] == "<tool_call>" + PING_TEXT


def test_a_conversation_with_a_call_and_its_result(caller):
    message = ask(caller, tools=TOOLS, tool_choice=PING, parallel_tool_calls=False)["choices"][0]["message"]
    result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "pong"}
    answer = ask(caller, messages=[*CHAT, message, result], tools=TOOLS, return_token_ids=True, max_tokens=1)
    prompt = caller.post("/detokenize", json={"tokens": answer["prompt_token_ids"]}).json()["prompt"]
    assert '<tool_call>\n{"name": "ping", "arguments": {}}\n</tool_call><|im_end|>' in prompt
    assert "<|im_start|>tool\npong<|im_end|>" in prompt


def test_openais_client_reads_calls_and_reasoning(caller):
    client = caller.client()
    fields = {"model": client.models.list().data[0].id, "messages": CHAT, "tools": TOOLS, "tool_choice": "required", "max_tokens": 400, "seed": 5}
    body = {"parallel_tool_calls": False, **THINK}
    message = client.chat.completions.create(**fields, extra_body=body).choices[0].message
    assert message.tool_calls[0].function.name in SCHEMAS
    chunks = [c.choices[0].delta for c in client.chat.completions.create(**fields, extra_body=body, stream=True)]
    parts = [part for delta in chunks for part in delta.tool_calls or []]
    assert parts[0].function.name == message.tool_calls[0].function.name
    assert "".join(part.function.arguments for part in parts) == message.tool_calls[0].function.arguments
    assert "".join(getattr(delta, "reasoning", None) or "" for delta in chunks) == (getattr(message, "reasoning", None) or "")


def test_older_clients_get_function_calls(caller):
    function = {"name": "get_weather", "parameters": WEATHER}
    answer = ask(caller, functions=[function], function_call={"name": "get_weather"})["choices"][0]
    assert answer["finish_reason"] == "function_call"
    jsonschema.validate(json.loads(answer["message"]["function_call"]["arguments"]), WEATHER)


@pytest.mark.parametrize("schema, where", [
    ({"type": "object", "properties": {"a": {"type": "integer", "minimum": 5, "maximum": 4}}, "required": ["a"]}, "tools[1].function.parameters"),
    ({"type": "object", "properties": {"a": {"$ref": "http://example.com/x"}}}, "tools[1].function.parameters: /properties/a/$ref"),
])
def test_schemas_that_cannot_be_enforced_are_refused(caller, schema, where):
    tools = [TOOLS[0], {"type": "function", "function": {"name": "other", "parameters": schema}}]
    with pytest.raises(openai.BadRequestError) as caught:
        caller.client().chat.completions.create(model="", messages=CHAT, tools=tools, tool_choice="required")
    assert where in caught.value.message and caught.value.param == "tools"


def test_a_template_that_ignores_tools_shows_them_in_the_system_message(server):
    answer = ask(server, tools=TOOLS, tool_choice="required", parallel_tool_calls=False, return_token_ids=True)
    prompt = server.post("/detokenize", json={"tokens": answer["prompt_token_ids"]}).json()["prompt"]
    assert "You can call these tools:" in prompt and '"name":"get_weather"' in prompt
    check_calls(answer["choices"][0]["message"])


def test_a_template_that_refuses_system_messages_shows_tools_to_the_user(start_server, tmp_path):
    template = ("{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
                "{{ m.role }}: {{ m.content }}\n{% endfor %}")
    (tmp_path / "t.jinja").write_text(template)
    server = start_server("--chat-template", tmp_path / "t.jinja")
    answer = ask(server, tools=TOOLS, max_tokens=1, return_token_ids=True)
    prompt = server.post("/detokenize", json={"tokens": answer["prompt_token_ids"]}).json()["prompt"]
    assert prompt.startswith("user: You can call these tools:") and prompt.rstrip().endswith(CHAT[0]["content"])


@pytest.mark.parametrize("parser, prefix", [("mistral", ""), ("qwen3_xml", "call_"), ("kimi_k2", "functions."), ("pythonic", "call_")])
def test_a_parser_that_is_named_is_used(start_server, parser, prefix):
    server = start_server("--tool-call-parser", parser, "--reasoning-parser", "none", "--enable-auto-tool-choice")
    schema = {**WEATHER, "properties": {**WEATHER["properties"], "city": {"enum": ["Bern", "New York"]}}}
    tools = [{"type": "function", "function": {"name": "get_weather", "parameters": schema}}]
    message = ask(server, tools=tools, tool_choice="required", parallel_tool_calls=False)["choices"][0]["message"]
    assert message["content"] is None and message["tool_calls"][0]["id"].startswith(prefix)
    check_calls(message, {"get_weather": schema})
