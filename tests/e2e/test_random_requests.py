"""Random requests: constrained outputs that end are valid, and a stream says the same as the whole response.

The sizes are for ./test. For more:
    QUIRE_RANDOM_OUTPUTS=100000 QUIRE_RANDOM_STREAMS=20000 build/venv/bin/python -m pytest -s tests/e2e/test_random_requests.py
QUIRE_RANDOM_SEED chooses other requests."""

import collections
import concurrent.futures
import contextlib
import json
import os
import random
import threading

import httpx
import pytest
from random_requests import any_request, constrained_request, likely_ends, random_model, suite_schemas
from server_process import ServerProcess
from stream_fold import ask, comparable
from tool_model import TEMPLATE, tool_model
from waiting import HANG_S

OUTPUTS = int(os.environ.get("QUIRE_RANDOM_OUTPUTS", "5000"))
STREAMS = int(os.environ.get("QUIRE_RANDOM_STREAMS", "1000"))
SEED = int(os.environ.get("QUIRE_RANDOM_SEED", "1"))
WORKERS = 12
# Of calls and of reasoning; together all that have a machine of their own.
FORMATS = ["llama3_json deepseek_r1", "mistral mistral", "granite granite", "deepseek_v3 deepseek_v3", "kimi_k2 kimi_k2", "qwen3_coder qwen3", "glm45 glm45",
           "minimax_m2 minimax_m2", "seed_oss seed_oss", "deepseek_v32 deepseek_v4", "step3p5 step3p5", "gemma4 gemma4", "harmony harmony", "lfm2 olmo3",
           "json hunyuan_a13b", "xlam nemotron_v3", "jamba cohere_command3", "internlm ernie45", "phi4_mini_json nemotron_v2", "functionary_v3 kimi_k2"]


@contextlib.contextmanager
def small_server(*flags):
    """A server whose pool is too small for all requests at once, and a client."""
    likely_ends(), suite_schemas()  # before there are threads
    flags = [*flags, "--served-model-name", "m", "--kv-cache-memory", "2MiB", "--max-model-len", "384", "--max-num-seqs", "32"]
    server = ServerProcess(*flags)
    with httpx.Client(base_url=server.url, timeout=HANG_S) as client:
        yield server, client
    server.stop()


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """With a model that has no tokens for its markers."""
    file = tmp_path_factory.mktemp("template") / "template.jinja"
    file.write_text(TEMPLATE)
    return str(file)


@pytest.fixture(scope="module", params=["tiny", "random", "text"])
def client(request, template):
    """Models: one that has learned to write English, one with random weights, and one whose markers are no tokens."""
    flags = {"tiny": lambda: [str(tool_model())], "random": lambda: [str(random_model())], "text": lambda: ["--chat-template", template]}
    with small_server(*flags[request.param]()) as (server, client):
        yield client
        assert server.metric("quire:num_preemptions_total") > 0, "no request was preempted, so the tests prove less"


def in_parallel(work, count):
    """Calls work(number) for `count` numbers, and stops soon after an error."""
    failed = threading.Event()

    def one(number):
        if failed.is_set():
            return
        try:
            work(number)
        except BaseException:
            failed.set()
            raise

    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        for future in [pool.submit(one, number) for number in range(count)]:
            future.result()


def check_outputs(client, count, kind=""):
    counts, lock = collections.Counter(), threading.Lock()

    def work(number):
        with lock:
            if counts["outputs"] >= count:
                return
        rng = random.Random(f"outputs {SEED} {number} {kind}")
        route, fields, check = constrained_request(rng)
        stream = rng.random() < 0.5
        status, answer = ask(client, route, fields, stream)
        if status == 400:  # what cannot be enforced
            assert answer["error"]["param"] in fields, answer
            counts["refused"] += 1
            return
        assert status == 200, answer
        if "thinking_token_budget" in fields:
            reasoning = answer["usage"].get("completion_tokens_details", {}).get("reasoning_tokens", 0)
            # A marker of several tokens and the rest of a character count too.
            assert reasoning <= fields["n"] * (fields["thinking_token_budget"] + 20), f"number {number}: {json.dumps(fields)}"
            counts["limited"] += 1
        for choice in answer["choices"]:
            counts["outputs"] += 1
            if choice["finish_reason"] == "length":
                continue
            counts["ended"] += 1
            try:
                check(choice)
            except Exception as error:
                raise AssertionError(f"number {number}: {json.dumps({**fields, 'stream': stream})}\n{json.dumps(choice)}") from error

    in_parallel(work, count)
    print(dict(counts))
    assert counts["outputs"] >= count
    assert counts["ended"] > count // 5


def check_streams(client, count, kind=""):
    counts = collections.Counter()

    def work(number):
        route, fields = any_request(random.Random(f"streams {SEED} {number} {kind}"))
        status, whole = ask(client, route, fields, False)
        streamed_status, streamed = ask(client, route, fields, True)
        what = f"number {number}: {route} {json.dumps(fields)}"
        assert status == streamed_status, f"{what}\n{whole}\n{streamed}"
        if status != 200:
            assert whole["error"] == streamed["error"], what
            # Fields that leave no token together are found while tokens are generated.
            assert status == 400 or whole["error"]["message"].startswith("No token is left to choose from"), f"{what}\n{whole}"
            counts["refused"] += 1
            return
        assert comparable(whole) == comparable(streamed), what
        counts["same"] += 1

    in_parallel(work, count)
    print(dict(counts))
    assert counts["same"] > count // 2


def test_outputs_that_end_are_valid(client):
    check_outputs(client, OUTPUTS // 4)


def test_a_stream_says_the_same(client):
    check_streams(client, STREAMS // 6)


@pytest.mark.parametrize("names", FORMATS)
def test_both_in_every_format(names, template):
    calls, reasoning = names.split()
    with small_server("--chat-template", template, "--tool-call-parser", calls, "--reasoning-parser", reasoning) as (_, client):
        check_outputs(client, OUTPUTS // 4 // len(FORMATS), names)
        check_streams(client, STREAMS // 2 // len(FORMATS), names)
