"""Good and bad requests of all kinds at once, from clients that stay and clients that disconnect, on a pool that is too small for
them. Every valid request gets the response that it gets alone, and no resource leaks."""

import asyncio
import json
import random

import httpx
import pytest
from waiting import HANG_S

WORDS = "once upon a time there was a little dog who liked to run in the park with his friend and a red ball \U0001f600 é 中".split()
NUM_CLIENTS = 24
REQUESTS_OF_A_CLIENT = 12
# What an answer may be. Any other one is a failure of the server's.
EXPECTED_STATUS = {200, 400, 404, 503}


def some_text(rng, max_words):
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(0, max_words)))


def some_prompt(rng):
    kind = rng.randrange(6)
    if kind == 0:
        return [rng.randrange(500) for _ in range(rng.randint(1, 900))]
    if kind == 1:
        return [some_text(rng, 20) for _ in range(rng.randint(1, 4))]
    if kind == 2:
        return "Once upon a time " * rng.randint(1, 60) + some_text(rng, 5)  # prefixes that others have
    return some_text(rng, 120)


# Fields, good values and bad ones.
FIELDS = {
    "temperature": ([0, 0.5, 1, 2], [-1, "hot"]),
    "top_p": ([0.1, 0.9, 1], [0, 7]),
    "top_k": ([-1, 0, 1, 5, 100000], [1.5]),
    "min_p": ([0, 0.3, 1], [2]),
    "seed": ([0, 7, None], [2**70]),
    "n": ([1, 2, 4], [0, 1000]),
    "stop": (["a", [".", "dog"], [], None], [[""], ["x"] * 50, 5]),
    "stop_token_ids": ([[1, 2], []], [[-5], [10**9]]),
    "min_tokens": ([0, 1], [10**6]),
    "logprobs": ([0, 3, 5], [500, "many"]),
    "prompt_logprobs": ([0, 2], [-2]),
    "echo": ([True, False], ["no"]),
    "logit_bias": ([{"5": 50}, {"5": -100, "6": 1}], [{"x": 1}, {"999999": 1}]),
    "allowed_token_ids": ([[3, 4, 5]], [[], [10**7]]),
    "repetition_penalty": ([1, 1.3], [0]),
    "frequency_penalty": ([0, 1, -2], [3]),
    "presence_penalty": ([0, 1, -2], [3]),
    "typical_p": ([0.2, 0.9, 1], [0]),
    "top_n_sigma": ([0, 1], [-2]),
    "dynatemp_range": ([0, 0.5], [-1]),
    "xtc_probability": ([0, 1], [2]),
    "dry_multiplier": ([0, 0.8], [-1]),
    "mirostat": ([0, 2], [1]),
    "samplers": ([["top_k", "temperature"], []], [["best"]]),
    "bad_words": (["the", ["a dog", "cat"]], [[""]]),
    "logprob_token_ids": ([[5, 6], []], [[10**7]]),
    "repetition_detection": ([{"max_pattern_size": 4, "min_count": 3}], [{"max_pattern_size": 4}]),
    "use_beam_search": ([True, False], [7]),
    "length_penalty": ([1, 0, -1], ["long"]),
    "ignore_eos": ([True, False], [None]),
    "priority": ([0, -3, 9], [0.5]),
    "cache_salt": (["a", "b"], [""]),
    "truncate_prompt_tokens": ([1, 20, -1], [0]),
    "response_format": ([{"type": "text"}, {"type": "json_object"}], [{"type": "json_schema"}, {"type": 3}]),
    "stream_options": ([{"include_usage": True}, {}], [5]),
    "user": (["u", None], [4]),
    "nonsense": ([{"deep": [[[]]]}], [1]),
}


def some_value(rng, values):
    good, bad = values
    return rng.choice(bad if rng.random() < 0.1 else good)


def some_request(rng):
    """(path, bytes, streams)."""
    kind = rng.randrange(10)
    if kind == 0:
        path = rng.choice(["/tokenize", "/detokenize", "/v1/embeddings", "/v1/nothing", "/pooling", "/rerank"])
        body = rng.choice([{"prompt": some_text(rng, 50)}, {"tokens": [1, 2, -1]}, {"tokens": [3, 4]}, {"input": "x"}, [], None])
        return path, json.dumps(body).encode(), False
    if kind == 1:
        whole = json.dumps({"prompt": some_text(rng, 30), "max_tokens": 5}).encode()
        at = rng.randrange(len(whole))
        return "/v1/completions", rng.choice([whole[:at], whole[:at] + b"\xff\x00{" + whole[at:], b"", b"[" * 5000]), False
    body = {rng.choice(["max_tokens", "max_completion_tokens"]): some_value(rng, ([1, 10, 60, 100], [0, -1, 10**6]))}
    if rng.random() < 0.7:
        path = "/v1/completions"
        body["prompt"] = some_prompt(rng)
    else:
        path = "/v1/chat/completions"
        body["messages"] = [{"role": some_value(rng, (["user", "user", "assistant"], ["dog", 4])), "content": some_text(rng, 60)}
                            for _ in range(some_value(rng, ([1, 3], [0])))]
    for name in rng.sample(sorted(FIELDS), rng.choice([0, 1, 1, 2, 4])):
        body[name] = some_value(rng, FIELDS[name])
    body["stream"] = rng.random() < 0.5
    return path, json.dumps(body).encode(), body["stream"]


def decent_request(i):
    return {"prompt": " ".join(WORDS[(i * 7 + k) % len(WORDS)] for k in range(3 + i * 11 % 90)), "max_tokens": 20 + i * 37 % 60,
            "temperature": 0 if i % 3 == 0 else 1, "seed": i, "n": 1 + i % 3, "ignore_eos": True, "logprobs": 2}


async def ask(http, rng):
    """The status of the response; 0 if the client disconnects before there is one."""
    path, body, streams = some_request(rng)
    leaves_after = rng.choice([None, None, None, 0, 1, 5])  # pieces of the answer
    try:
        async with http.stream("POST", path, content=body, headers={"Content-Type": "application/json"},
                               timeout=httpx.Timeout(HANG_S, read=0.05 if leaves_after == 0 else HANG_S)) as answer:
            assert answer.status_code in EXPECTED_STATUS, (path, body, answer.status_code, await answer.aread())
            pieces = []
            async for piece in answer.aiter_bytes():
                pieces.append(piece)
                if leaves_after is not None and len(pieces) > leaves_after:
                    return answer.status_code
            text = b"".join(pieces)
            if answer.status_code != 200:
                assert json.loads(text)["error"]["message"], (path, body)
            elif streams:
                assert text.endswith(b"data: [DONE]\n\n"), (path, body, text[-300:])
            else:
                json.loads(text)
            return answer.status_code
    except httpx.ReadTimeout:
        assert leaves_after == 0, (path, body)
        return 0


async def decent_answer(http, i):
    answer = await http.post("/v1/completions", json=decent_request(i))
    while answer.status_code == 503:
        await asyncio.sleep(0.05)
        answer = await http.post("/v1/completions", json=decent_request(i))
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"]


@pytest.mark.parametrize("flags", [
    ["--kv-cache-memory", "4MiB", "--preemption-mode", "recompute", "--max-num-queued-reqs", "30"],
    ["--kv-cache-memory", "4MiB", "--preemption-mode", "swap", "--swap-space", "8MiB", "--scheduling-policy", "mlfq"],
    ["--kv-cache-memory", "6MiB", "--scheduling-policy", "priority", "--max-num-seqs", "6", "--no-enable-prefix-caching"],
], ids=["recompute", "swap", "priority"])
def test_a_storm_breaks_nothing(start_server, flags):
    server = start_server(*flags)

    async def client(http, seed):
        rng = random.Random(seed)
        return [await ask(http, rng) for _ in range(REQUESTS_OF_A_CLIENT)]

    async def run():
        async with httpx.AsyncClient(base_url=server.url, timeout=HANG_S, limits=httpx.Limits(max_connections=None)) as http:
            alone = [await decent_answer(http, i) for i in range(12)]
            clients = [client(http, seed) for seed in range(NUM_CLIENTS)]
            decent = [decent_answer(http, i) for i in range(len(alone))]
            answers = await asyncio.gather(*decent, *clients)
            return alone, answers[:len(alone)], [status for statuses in answers[len(alone):] for status in statuses]

    alone, amid, statuses = asyncio.run(run())
    for i, (a, b) in enumerate(zip(alone, amid)):
        assert a == b, f"request {i} differs"
    assert statuses.count(200) > 50 and statuses.count(400) > 50, "neither decent nor bad requests were many"
    server.becomes_idle()
    assert httpx.get(server.url + "/health", timeout=HANG_S).status_code == 200
