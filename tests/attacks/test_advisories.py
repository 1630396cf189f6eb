"""One test per class of fault in security advisories of inference servers, for the features that quire has.

    class of fault                              tests
    code in weight files                        test_code_in_a_checkpoint_is_not_executed; checkpoint_test (io)
    code in a model's repository                test_code_in_a_checkpoint_is_not_executed
    templates that reach the host               test_templates_reach_no_host_objects, test_requests_cannot_bring_templates_by_default
    templates without bounds                    test_templates_have_a_budget, test_templates_are_rendered_off_the_http_threads, test_cost.py,
                                                chat_limits_test, chat_charges_test
    access checks on another path               test_no_path_is_served_without_a_key, test_raw_http.py
    web pages that drive a local server         test_web_pages_of_other_sites_cannot_use_the_server
    servers that fetch what a request names     test_the_server_opens_no_connections
    downloads of models                         does not apply: quire downloads nothing
    names used as paths                         test_shards_are_read_from_the_model_directory_only; mapped_file_test (pipes and devices)
    sizes in model files                        test_cost.py, gguf_test, safetensors_test, the fuzz targets gguf, safetensors and quantized
    tensors in requests                         test_tensors_are_refused
    numbers out of range                        test_request_fields.py
    one request's error ends the engine         test_a_failing_request_does_not_change_others, engine_failure_test
    expressions that explode                    test_cost.py (tokenizers), automaton_test (grammar); parsers of tool calls use none
    metric labels made by clients               test_metrics_do_not_grow_with_odd_requests
    decoding without bounds                     test_ids_are_detokenized_off_the_http_threads
    media decoders                              does not apply: images, audio and video are refused, test_the_server_opens_no_connections
    state of other requests                     test_equal_request_ids_are_different_requests, test_soak.py (e2e)
    prefix cache hits that can be timed         test_api_keys_do_not_share_cached_prefixes
    resources that are not released             test_abort_storms_leave_nothing_behind, test_soak.py (e2e)
    use after unloading a model                 does not apply: a process has one model
    saved KV caches that are trusted            disk_cache_test, packed_file_test, test_disk_faults.py (e2e)
    protocols between processes                 does not apply: quire is one process
    dependencies that are replaced              does not apply to the running program
"""

import concurrent.futures
import json
import pathlib
import re
import shutil
import socket
import subprocess
import threading

import httpx
import pytest

PROMPT = {"prompt": "Once upon a time", "max_tokens": 4}
CHAT = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}


def post(server, path, body, **options):
    content = body if isinstance(body, (bytes, str)) else json.dumps(body)
    headers = {"Content-Type": "application/json", **options.pop("headers", {})}
    return httpx.post(server.url + path, content=content, headers=headers, timeout=60, **options)


def raw_status(server, request):
    with server.connect() as connection:
        connection.sendall(request)
        head = connection.recv(65536)
        return int(head.split(b" ")[1]) if head else 0


# Checkpoints that bring code or names of other files.

def generate(model):
    from server_process import BINARY

    command = [str(BINARY), "generate", str(model), "--prompt", "Once", "--max-tokens", "4", "--temperature", "0", "--kv-cache-memory", "8MiB"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.fixture
def checkpoint(tmp_path):
    from server_process import ROOT

    return pathlib.Path(shutil.copytree(ROOT / "models" / "quire-tiny", tmp_path / "model"))


def test_code_in_a_checkpoint_is_not_executed(checkpoint, tmp_path):
    expected = generate(checkpoint).stdout
    assert expected
    executed = tmp_path / "executed"
    (checkpoint / "modeling_evil.py").write_text(f"open({str(executed)!r}, 'w')\n")
    config = json.loads((checkpoint / "config.json").read_text())
    config["auto_map"] = {"AutoConfig": "modeling_evil.Config", "AutoModelForCausalLM": "modeling_evil.Model"}
    (checkpoint / "config.json").write_text(json.dumps(config))
    assert generate(checkpoint).stdout == expected
    # Without an architecture that quire has, the code would be the only way to run the model.
    (checkpoint / "config.json").write_text(json.dumps({**config, "architectures": ["EvilForCausalLM"], "model_type": "evil"}))
    refused = generate(checkpoint)
    assert refused.returncode == 1
    assert "EvilForCausalLM" in refused.stderr
    # A pickle that would create the file when it is read.
    (checkpoint / "config.json").write_text(json.dumps(config))
    (checkpoint / "model.safetensors").unlink()
    (checkpoint / "pytorch_model.bin").write_bytes(b"cbuiltins\nopen\n(V" + str(executed).encode() + b"\nVw\ntR.")
    refused = generate(checkpoint)
    assert refused.returncode == 1
    assert "pickle" in refused.stderr
    assert not executed.exists()


def test_shards_are_read_from_the_model_directory_only(checkpoint, tmp_path):
    weights = checkpoint / "model.safetensors"
    header = weights.read_bytes()
    names = [name for name in json.loads(header[8:8 + int.from_bytes(header[:8], "little")]) if name != "__metadata__"]
    outside = tmp_path / "outside.safetensors"
    shutil.move(weights, outside)
    for shard in ("../outside.safetensors", str(outside), "x/../../outside.safetensors", "/dev/zero", "..", "", "a\0b"):
        (checkpoint / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {name: shard for name in names}}))
        refused = generate(checkpoint)
        assert refused.returncode == 1, shard
        assert "index.json" in refused.stderr, refused.stderr


# Templates from requests and template arguments that reach for what they should not.

def test_requests_cannot_bring_templates_by_default(target):
    for field in ({"chat_template": "{{ 1 }}"}, {"chat_template_kwargs": {"chat_template": "{{ 1 }}"}}, {"chat_template_kwargs": {"messages": []}}):
        for route in ("/v1/chat/completions", "/tokenize"):
            response = post(target, route, {**CHAT, **field})
            assert response.status_code == 400, response.text


@pytest.mark.parametrize("template", [
    "{{ ''.__class__.__mro__[1].__subclasses__() }}", "{{ cycler.__init__.__globals__.os.popen('id').read() }}", "{{ self.__init__.__globals__ }}",
    "{{ '{0.__class__}'.format(messages) }}", "{{ '%c' % 99999999999 }}", "{% include '/etc/passwd' %}", "{% import 'os' as os %}", "{{ lipsum.__globals__ }}",
])
def test_templates_reach_no_host_objects(trusting, template):
    response = post(trusting, "/v1/chat/completions", {**CHAT, "chat_template": template})
    assert response.status_code in (200, 400), response.text
    assert "root:" not in response.text
    assert "uid=" not in response.text


@pytest.fixture(scope="module")
def trusting():
    from server_process import ServerProcess

    process = ServerProcess("--trust-request-chat-template")
    yield process
    process.stop()


LOOPS = "{% for i in range(10000) %}{% for j in range(10000) %}x{% endfor %}{% endfor %}"


@pytest.mark.parametrize("template,reason", [
    ("{% for i in range(100000000) %}{% endfor %}", "Range too big"), (LOOPS, "too many steps"), ("{{ 'a' * 1000000000 }}", "too much memory"),
    ("{{ ('a' * 1000000).replace('a', 'b' * 1000000) }}", "too much memory"), ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "recurses too deeply"),
    ("{{ [1] * 100000000 }}", "too much memory"), ("{{ '%1000000000d' % 1 }}", "width too big"), ("{{ 'x'.center(1000000000) }}", "too much memory"),
    ("(" * 100000, "more than"), ("{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}", "nested more than 100 levels"), ("{{ 10 ** 10 ** 10 }}", "does not fit"),
    ("{{ ('a' ~ 'b') | indent(100000000) }}", "too much memory"),
])
def test_templates_have_a_budget(trusting, template, reason):
    response = post(trusting, "/v1/chat/completions", {**CHAT, "chat_template": template})
    assert response.status_code == 400
    assert reason in response.json()["error"]["message"]


def test_templates_are_rendered_off_the_http_threads(trusting, liveness):
    with liveness(trusting) as checks:
        checks.answered_during("/v1/chat/completions", json.dumps({**CHAT, "chat_template": LOOPS}).encode(), 400)


# Authentication that looks at another path than the router.

TARGETS = [
    "/v1/models", "//v1/models", "/v1/models/", "/v1/./models", "/v1/../v1/models", "/health/../v1/models", "/v1%2fmodels", "/%76%31/models", "/v1/models?x=/health",
    "/v1/models#/health", "/health;/v1/models", "/health%00/v1/models", "http://localhost/v1/models", "http://localhost/health/../v1/models", "/V1/MODELS", "*",
    "/tokenize", "/metrics", "/reset_prefix_cache",
]


@pytest.fixture(scope="module")
def keyed(tmp_path_factory):
    from server_process import ServerProcess

    file = tmp_path_factory.mktemp("keys") / "keys"
    file.write_text("# keys of the tests\nsecret-one\n\n  secret-two  \n")
    process = ServerProcess("--api-key-file", str(file))
    yield process
    process.stop()


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]:1"])
def test_no_path_is_served_without_a_key(keyed, host):
    for target in TARGETS:
        for method in ("GET", "POST", "HEAD", "DELETE"):
            request = f"{method} {target} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\nX-Forwarded-For: 127.0.0.1\r\nX-Original-URL: /health\r\n\r\n"
            assert raw_status(keyed, request.encode()) in (400, 401, 404, 405), (method, target)
    for key in ("", " ", "secret", "secret-one ", "SECRET-ONE", "secret-one\x00", "secret-onesecret-two", "# keys of the tests"):
        status = raw_status(keyed, f"GET /v1/models HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {key}\r\n\r\n".encode())
        # White space around a header's value does not belong to the value.
        assert status in ((200,) if key == "secret-one " else (400, 401)), key


def test_keys_come_from_a_file(keyed):
    for key in ("secret-one", "secret-two"):
        assert httpx.get(keyed.url + "/v1/models", headers={"Authorization": f"Bearer {key}"}).status_code == 200


def test_empty_keys_are_refused_at_start(tmp_path):
    from server_process import BINARY

    empty = tmp_path / "empty"
    empty.write_text("\n# nothing\n")
    for flags in (["--api-key", ""], ["--api-key", "real", "--api-key", ""], ["--api-key-file", str(empty)], ["--api-key-file", str(tmp_path / "missing")]):
        done = subprocess.run([str(BINARY), "serve", "--port", "0", *flags], capture_output=True, text=True, timeout=60)
        assert done.returncode != 0, flags
        assert "key" in done.stderr, flags


# Web pages that drive a local server.

def test_web_pages_of_other_sites_cannot_use_the_server(target):
    body = json.dumps(PROMPT)
    for headers in ({"Origin": "https://attacker.example"}, {"Origin": "null"}, {"Origin": "http://localhost.attacker.example"}, {"Host": "attacker.example"},
                    {"Host": "attacker.example", "Origin": "http://attacker.example"}):
        response = post(target, "/v1/completions", body, headers=headers)
        assert response.status_code == 403, headers
        assert "access-control-allow-origin" not in response.headers
        preflight = httpx.options(target.url + "/v1/completions", headers={"Access-Control-Request-Method": "POST", **headers})
        assert preflight.status_code == 403
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/json"):
        assert httpx.post(target.url + "/v1/completions", content=body, headers={"Content-Type": kind}).status_code == 415
    for headers in ({"Origin": target.url}, {"Host": "localhost"}, {"Host": "localhost:1234"}, {"Host": "127.0.0.1"}, {"Host": "[::1]"}):
        assert post(target, "/v1/completions", body, headers=headers).status_code == 200, headers


def test_named_origins_and_hosts_are_allowed(start_server):
    server = start_server("--allowed-origins", "https://app.example", "--allowed-hosts", "llm.example")
    response = post(server, "/v1/completions", PROMPT, headers={"Origin": "https://app.example", "Host": "llm.example:443"})
    assert response.status_code == 200
    assert response.headers["access-control-allow-origin"] == "https://app.example"
    assert post(server, "/v1/completions", PROMPT, headers={"Origin": "https://other.example"}).status_code == 403


# A server that fetches what a request names.

def test_the_server_opens_no_connections(target):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/x"
        for part in ({"type": "image_url", "image_url": {"url": url}}, {"type": "input_audio", "input_audio": {"data": url}},
                     {"type": "video_url", "video_url": {"url": url}}, {"type": "file", "file": {"file_data": url}}):
            response = post(target, "/v1/chat/completions", {"messages": [{"role": "user", "content": [part]}], "max_tokens": 1})
            assert response.status_code == 400
            assert not re.search(r"0x[0-9a-f]{6}", response.text)
        with pytest.raises(BlockingIOError):
            listener.accept()  # the kernel has accepted a connection before the server can use it


# Tensors in requests.

def test_tensors_are_refused(target):
    for field in ("prompt_embeds", "audio"):
        assert post(target, "/v1/completions", {**PROMPT, field: "gAAA" * 10}).status_code == 400


# An error of one request that reaches others.

def test_a_failing_request_does_not_change_others(target):
    def generate(i):
        return post(target, "/v1/completions", {"prompt": f"Tale {i}", "max_tokens": 12, "temperature": 0}).json()["choices"][0]["text"]

    alone = [generate(i) for i in range(16)]
    bad = [{**PROMPT, "n": 100000}, {**PROMPT, "temperature": -1}, {**PROMPT, "prompt": [10**9]}, {**PROMPT, "logit_bias": {"1": 1e400}}, {**PROMPT, "prompt": "x" * 10**6}]
    with concurrent.futures.ThreadPoolExecutor(24) as pool:
        good = [pool.submit(generate, i) for i in range(16)]
        failing = [pool.submit(post, target, "/v1/completions", json.dumps(bad[i % len(bad)]).replace("Infinity", "1e400")) for i in range(64)]
        assert {f.result().status_code for f in failing} == {400}
        assert [f.result() for f in good] == alone


# Calls of tools that the request does not offer.

def test_calls_name_tools_of_the_request_only(target):
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}, "additionalProperties": False}}}]
    chat = {**CHAT, "max_tokens": 60, "tools": tools}
    for choice in ("required", {"type": "function", "function": {"name": "f"}}):
        response = post(target, "/v1/chat/completions", {**chat, "tool_choice": choice})
        assert response.status_code == 200, choice
        calls = response.json()["choices"][0]["message"]["tool_calls"]
        assert {call["function"]["name"] for call in calls} == {"f"}, choice
    unknown = post(target, "/v1/chat/completions", {**chat, "tool_choice": {"type": "function", "function": {"name": "g"}}})
    assert unknown.status_code == 400 and unknown.json()["error"]["param"] == "tool_choice"
    for fields in ({"tools": tools, "tool_choice": "none"}, {"tools": []}, {"tools": None}):
        message = post(target, "/v1/chat/completions", {**CHAT, **fields}).json()["choices"][0]["message"]
        assert "tool_calls" not in message, fields


# Metric labels made of what clients send.

def test_metrics_do_not_grow_with_odd_requests(target):
    def labels():
        lines = httpx.get(target.url + "/metrics").text.splitlines()
        return {line.rsplit(" ", 1)[0] for line in lines if not line.startswith("#")}

    post(target, "/v1/completions", PROMPT)
    before = labels()
    with httpx.Client(base_url=target.url) as http:
        for i in range(100):
            http.request(f"M{i}", f"/path/{i}", headers={"X-Request-Id": f"id-{i}"})
            http.post("/v1/completions", json={"prompt": "a", "max_tokens": 1, "user": f"user {i}", "model": f"m{i}"})
    assert labels() == before


# Client-made ids as keys of state.

def test_equal_request_ids_are_different_requests(target):
    def generate(i):
        response = post(target, "/v1/completions", {"prompt": f"Tale {i}", "max_tokens": 12, "temperature": 0, "request_id": "same"}, headers={"X-Request-Id": "same"})
        return response.json()["choices"][0]["text"]

    alone = [generate(i) for i in range(12)]
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        assert list(pool.map(generate, range(12))) == alone


# Prefix cache hits of other clients.

def test_api_keys_do_not_share_cached_prefixes(keyed):
    prompt = {"prompt": "A long and secret prompt. " * 30, "max_tokens": 1}

    def cached(key, **fields):
        response = post(keyed, "/v1/completions", {**prompt, **fields}, headers={"Authorization": f"Bearer {key}"})
        return response.json()["usage"]["prompt_tokens_details"]["cached_tokens"]

    assert cached("secret-one") == 0
    assert cached("secret-one") > 0
    assert cached("secret-two") == 0
    assert cached("secret-two", cache_salt="x") == 0
    assert cached("secret-one", cache_salt="x") == 0
    assert cached("secret-two") > 0


# Resources of requests that were aborted.

def test_abort_storms_leave_nothing_behind(start_server):
    server = start_server()
    body = json.dumps({"prompt": "a " * 50, "max_tokens": 400, "n": 4, "temperature": 1, "stream": True, "ignore_eos": True}).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()

    finished = []

    # A third of the clients disconnects within the body, a third after the first bytes of the response, a third before them.
    def storm():
        for i in range(25):
            with server.connect() as connection:
                if i % 3 == 0:
                    connection.sendall(head + body[:-1])
                    continue
                connection.sendall(head + body)
                if i % 3 == 1:
                    assert connection.recv(1000).startswith(b"HTTP/1.1 200")
                finished.append(i)

    threads = [threading.Thread(target=storm) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(finished) == 8 * 16
    server.becomes_idle()
    assert post(server, "/v1/completions", PROMPT).status_code == 200


# User text in the log.

def test_requests_cannot_forge_log_lines(start_server):
    server = start_server("--log-requests")
    forged = "INFO 01-01 00:00:00 forged line"
    response = post(server, "/v1/completions", {**PROMPT, "request_id": f"a\n{forged}\n\x1b[31m"})
    assert response.status_code == 200
    server.stop()
    log = "".join(server.log)
    assert "forged line" in log
    assert not any(line.startswith(forged) for line in server.log)
    assert "\x1b" not in log


# Offsets of echoed tokens.

def test_text_offsets_of_an_echo_point_into_the_text(target):
    prompt = "Once upon a time, żółć!"
    choice = post(target, "/v1/completions", {"prompt": prompt, "max_tokens": 3, "echo": True, "logprobs": 0, "temperature": 0}).json()["choices"][0]
    offsets = choice["logprobs"]["text_offset"]
    tokens = choice["logprobs"]["tokens"]
    assert choice["text"].startswith(prompt)
    for offset, token in zip(offsets, tokens):
        whole = not token.startswith("bytes:") and not token.startswith("<")
        assert not whole or choice["text"][offset:].startswith(token) or choice["text"][offset:].startswith(token.strip()), (offset, token)
    assert max(offsets) <= len(choice["text"])
