"""The description at /openapi.json and docs/api.md against the server: routes, fields, and the form of responses."""

import json
import re
import subprocess
import sys

import jsonschema
import openapi_spec_validator
import pytest
from server_process import BINARY, ROOT, ServerProcess

sys.path.insert(0, str(ROOT / "tests" / "attacks"))
import fields as known  # noqa: E402

API = ROOT / "src" / "server" / "openai"
CHAT = {"messages": [{"role": "user", "content": "a b"}], "max_tokens": 3}
COMPLETION = {"prompt": "a b", "max_tokens": 3}
EXTRAS = {"n": 2, "prompt_logprobs": 1, "return_token_ids": True, "seed": 3}
REQUESTS = [
    ("/v1/chat/completions", CHAT),
    ("/v1/chat/completions", {**CHAT, **EXTRAS, "logprobs": True, "top_logprobs": 2}),
    ("/v1/completions", COMPLETION),
    ("/v1/completions", {**COMPLETION, **EXTRAS, "prompt": ["a", "b c"], "logprobs": 2, "echo": True}),
    ("/tokenize", {"prompt": "a b", "return_token_strs": True}),
    ("/tokenize", {"content": "a \u00e9", "with_pieces": True}),
    ("/detokenize", {"tokens": [5, 6]}),
    ("/reset_prefix_cache", {}),
]
TEMPLATE_FIELDS = ("documents", "chat_template", "chat_template_kwargs", "reasoning_effort", "add_generation_prompt",
                   "continue_final_message", "tools", "tool_choice")
POOLING_REQUESTS = [
    ("/v1/embeddings", {"input": ["a", "b"]}),
    ("/v1/embeddings", {"input": "a", "encoding_format": "base64", "dimensions": 4}),
    ("/pooling", {"input": [[5, 6]]}),
    ("/v1/score", {"queries": "a", "documents": ["b", {"text": "c"}]}),
    ("/rerank", {"query": "a", "documents": ["b", "c"], "top_n": 1}),
]


@pytest.fixture(scope="module")
def strict():
    """A server that rejects unknown fields, with all routes."""
    process = ServerProcess("--strict-params", "--allow-runtime-lora-updating")
    yield process
    process.stop()


@pytest.fixture(scope="module")
def embedder():
    process = ServerProcess("--strict-params", "--runner", "pooling")
    yield process
    process.stop()


@pytest.fixture(scope="module")
def description(strict):
    response = strict.get("/openapi.json")
    assert response.status_code == 200 and response.headers["Content-Type"].startswith("application/json")
    return response.json()


def schema_of(description, content):
    return {**content["schema"], "components": description["components"]}


def request_fields(description, path):
    """The fields of a POST request: {name: schema}."""
    reference = description["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]["$ref"]
    return description["components"]["schemas"][reference.rpartition("/")[2]]["properties"]


def check(description, path, body, method="post"):
    content = description["paths"][path][method]["responses"]["200"]["content"]
    jsonschema.Draft202012Validator(schema_of(description, content["application/json"])).validate(body)


def test_the_description_is_valid_openapi(description):
    openapi_spec_validator.validate(description)


def test_the_description_has_the_version_of_the_program(description):
    version = subprocess.run([BINARY, "--version"], capture_output=True, text=True, check=True).stdout
    assert description["info"]["version"] in version.split()


def test_the_files_are_up_to_date():
    run = subprocess.run([sys.executable, ROOT / "tools" / "make_openapi.py", "--check"], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout


def test_every_route_is_described_and_served(description, strict):
    table = (API / "api.cc").read_text()
    routes = {(method.lower(), path.replace("*", "{model}")) for method, path in re.findall(r'\{"(GET|POST)", "(/[^"]*)"', table)}
    described = {(method, path) for path, operations in description["paths"].items() for method in operations}
    assert described == routes
    with strict.http() as http:
        for method, path in sorted(described):
            response = http.request(method, path.replace("{model}", "missing"), json={} if method == "post" else None)
            assert response.status_code in ((404,) if "{model}" in path else (200, 400)), (method, path)
            assert "There is no" not in response.text, (method, path)


def test_every_field_that_the_server_reads_is_described(description):
    described = {name for schema in description["components"]["schemas"].values() for name in schema.get("properties", {})}
    described |= {"include_usage", "continuous_usage_stats", "include_timings", "max_pattern_size", "min_pattern_size", "min_count"}
    for file in API.glob("*.cc"):
        for name in re.findall(r'(?:fields|inner)\.(?:boolean|integer|integer32|number|text|texts|tokens|object|array|any)\("(\w+)"', file.read_text()):
            assert name in described, f"{file.name}: {name}"


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/tokenize", "/detokenize", "/v1/embeddings", "/pooling", "/v1/score", "/rerank"])
def test_every_described_field_is_known_to_the_server(description, strict, embedder, path):
    generation = path.startswith(("/v1/c", "/tok", "/det"))
    minimal = dict(REQUESTS + POOLING_REQUESTS)[path]
    with (strict if generation else embedder).http() as http:
        for name in request_fields(description, path):
            body = {name: None, **minimal}
            if "input" in body and name in TEMPLATE_FIELDS:  # read only with a conversation
                body = {name: None, "messages": CHAT["messages"]}
            if name in ("text_1", "text_2"):  # read instead of queries and documents
                body = {"text_1": "a", "text_2": "b"}
            response = http.post(path, json=body)
            assert "is unknown" not in response.text, name
        assert "is unknown" in http.post(path, json={**minimal, "no_such_field": 1}).text or path in ("/tokenize", "/detokenize")


def test_ranges_are_those_of_the_attack_tests(description):
    for number in known.NUMBERS:
        for path in number.routes:
            schema = request_fields(description, path)[number.name]
            assert schema["type"] == ("integer" if number.integer else "number"), number.name
            low = schema.get("exclusiveMinimum" if number.open_low else "minimum")
            assert low == number.low, number.name
            # What can be served is less than what the type allows.
            if number.serve_high or abs(number.high) < 1000:
                assert schema["maximum"] == number.high, number.name
    for kind, table in (("boolean", known.BOOLEANS), ("string", known.STRINGS), ("object", known.OBJECTS)):
        for name, paths in table.items():
            for path in paths:
                assert request_fields(description, path)[name]["type"] == kind, name


@pytest.mark.parametrize("path, body", REQUESTS)
def test_requests_and_responses_of_generation_have_the_described_form(description, strict, path, body):
    operation = description["paths"][path]["post"]
    if "requestBody" in operation:
        jsonschema.Draft202012Validator(schema_of(description, operation["requestBody"]["content"]["application/json"])).validate(body)
    response = strict.post(path, json=body)
    assert response.status_code == 200, response.text
    check(description, path, response.json())


@pytest.mark.parametrize("path, body", POOLING_REQUESTS)
def test_responses_of_pooling_have_the_described_form(description, embedder, path, body):
    response = embedder.post(path, json=body)
    assert response.status_code == 200, response.text
    check(description, path, response.json())


@pytest.mark.parametrize("path, schema", [("/v1/chat/completions", "ChatCompletionChunk"), ("/v1/completions", "Completion")])
def test_streamed_events_have_the_described_form(description, strict, path, schema):
    body = {**(CHAT if "chat" in path else COMPLETION), "stream": True, "stream_options": {"include_usage": True}}
    lines = strict.post(path, json=body).text.split("\n\n")
    events = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
    assert events[-1] == "[DONE]" and len(events) > 2
    validator = jsonschema.Draft202012Validator({"$ref": f"#/components/schemas/{schema}", "components": description["components"]})
    for event in events[:-1]:
        validator.validate(json.loads(event))


@pytest.mark.parametrize("path", ["/v1/models", "/version"])
def test_responses_to_get_have_the_described_form(description, strict, path):
    check(description, path, strict.get(path).json(), "get")


def test_one_model_has_the_described_form(description, strict):
    name = strict.get("/v1/models").json()["data"][0]["id"]
    check(description, "/v1/models/{model}", strict.get(f"/v1/models/{name}").json(), "get")


def test_errors_have_the_described_form(description, strict):
    validator = jsonschema.Draft202012Validator({"$ref": "#/components/schemas/Error", "components": description["components"]})
    for response in (strict.post("/v1/completions", json={}), strict.get("/nothing"),
                     strict.post("/v1/chat/completions", json={**CHAT, "n": "two"})):
        assert response.status_code >= 400
        validator.validate(response.json())
