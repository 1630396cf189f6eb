"""What users notice of the KV cache and of the scheduler: cached prefixes, their isolation, their disk, and who is served first."""

import asyncio

import httpx
import pytest
from waiting import HANG_S

WORDS = "The little fox went into the wood and looked for its friend the owl. " * 30


def complete(client, model, text, max_tokens=8, **options):
    return client.completions.create(model=model, prompt=text, max_tokens=max_tokens, temperature=0, **options)


def cached(answer):
    return answer.usage.prompt_tokens_details.cached_tokens


@pytest.fixture
def fresh(start_server):
    server = start_server()
    client = server.client()
    return server, client, client.models.list().data[0].id


def test_a_second_request_takes_its_prefix_from_the_cache(fresh):
    server, client, model = fresh
    first = complete(client, model, WORDS + "One.")
    second = complete(client, model, WORDS + "Two.")
    assert cached(first) == 0
    assert second.usage.prompt_tokens - cached(second) <= 32  # two blocks: the last one, and the one that differs
    assert server.metric("quire:prefix_cache_hits_total") == cached(second)
    assert server.metric("quire:prefix_cache_queries_total") == first.usage.prompt_tokens + second.usage.prompt_tokens


def test_a_cache_salt_isolates(fresh):
    _, client, model = fresh
    complete(client, model, WORDS, extra_body={"cache_salt": "ann"})
    other = complete(client, model, WORDS, extra_body={"cache_salt": "bob"})
    none = complete(client, model, WORDS)
    again = complete(client, model, WORDS, extra_body={"cache_salt": "ann"})
    assert (cached(other), cached(none)) == (0, 0)
    assert cached(again) > 0
    assert other.choices[0].text == again.choices[0].text


def test_reset_forgets_the_cache(fresh):
    server, client, model = fresh
    first = complete(client, model, WORDS)
    assert cached(complete(client, model, WORDS)) > 0
    answer = server.http().post("/reset_prefix_cache")
    assert answer.status_code == 200
    assert answer.json() == {"success": True, "in_use": False}
    third = complete(client, model, WORDS)
    assert cached(third) == 0
    assert third.choices[0].text == first.choices[0].text


def test_without_prefix_caching_nothing_is_cached(start_server):
    client = start_server("--no-enable-prefix-caching").client()
    model = client.models.list().data[0].id
    assert [cached(complete(client, model, WORDS)) for _ in range(2)] == [0, 0]


def test_a_restarted_server_has_its_cache_on_disk(start_server, tmp_path):
    flags = ["--kv-disk-cache", str(tmp_path), "--kv-disk-cache-size", "64MiB"]
    server = start_server(*flags)
    client = server.client()
    model = client.models.list().data[0].id
    first = complete(client, model, WORDS)
    server.stop()
    again = start_server(*flags)
    second = complete(again.client(), model, WORDS)
    assert cached(second) >= cached(first) + 300
    assert second.choices[0].text == first.choices[0].text
    assert again.metric("quire:kv_tier_hits_total") > 0


NUMBERED = [f"{WORDS[:40 * (i % 6)]}Number {i}." for i in range(24)]


@pytest.fixture(scope="module")
def alone(server, model):
    """The answers of a quiet server to NUMBERED."""
    client = server.client()
    return [complete(client, model, prompt, max_tokens=64).choices[0].text for prompt in NUMBERED]


@pytest.mark.parametrize("policy, mode", [("fcfs", "recompute"), ("fcfs", "swap"), ("priority", "auto"), ("priority", "swap"),
                                          ("mlfq", "recompute"), ("fair", "auto")])
def test_answers_do_not_change_under_any_policy(model, start_server, alone, policy, mode):
    """Many at once in a pool for a few: each answer is the one that a quiet server gives."""
    tight = start_server("--kv-cache-memory", "1MiB", "--max-model-len", "256", "--scheduling-policy", policy,
                         "--preemption-mode", mode, "--swap-space", "0" if mode == "recompute" else "4MiB")

    async def ask_all():
        async with tight.async_client() as c:
            return await asyncio.gather(*(
                c.completions.create(model=model, prompt=NUMBERED[u::3], max_tokens=64, temperature=0, user=f"user {u}",
                                     extra_body={"priority": u} if policy == "priority" else None)
                for u in range(3)))

    for u, answer in enumerate(asyncio.run(ask_all())):
        assert [choice.text for choice in answer.choices] == alone[u::3]
    assert tight.metric("quire:num_preemptions_total") > 0, "no request was preempted, so the test proves nothing"
    if mode == "swap":
        assert tight.metric("quire:kv_blocks_swapped_total") > 0
    tight.becomes_idle()


def test_priority_overtakes(start_server):
    """With one slot, the request with the highest priority runs before those that arrived earlier and wait."""
    server = start_server("--scheduling-policy", "priority", "--max-num-seqs", "1", slow=True)
    ends = []

    async def ask(client, model, name, priority, max_tokens=20):
        await client.completions.create(model=model, prompt="Once upon a time", max_tokens=max_tokens,
                                        extra_body={"priority": priority, "ignore_eos": True})
        ends.append(name)

    async def main():
        async with server.async_client() as client:
            model = (await client.models.list()).data[0].id
            first = asyncio.create_task(ask(client, model, "first", 5, max_tokens=900))
            await asyncio.to_thread(server.becomes_busy, 1)
            waiting = [asyncio.create_task(ask(client, model, f"common {i}", 5)) for i in range(4)]
            await asyncio.to_thread(server.becomes_busy, 5)
            waiting.append(asyncio.create_task(ask(client, model, "urgent", -1)))
            await asyncio.to_thread(server.becomes_busy, 6)
            assert ends == [], "the first request ended before the others waited"
            first.cancel()
            await asyncio.gather(*waiting)

    asyncio.run(main())
    assert ends[0] == "urgent"
    assert len(ends) == 5


@pytest.mark.parametrize("stream", [False, True])
def test_a_priority_without_its_policy_is_named_and_has_no_effect(server, model, stream):
    body = {"model": model, "prompt": "Hello", "max_tokens": 4, "temperature": 0, "stream": stream}
    plain = httpx.post(server.url + "/v1/completions", json=body, timeout=HANG_S)
    for priority in (3, -1):
        response = httpx.post(server.url + "/v1/completions", json={**body, "priority": priority}, timeout=HANG_S)
        assert response.status_code == 200
        assert response.headers["X-Ignored-Params"] == "priority"
        assert response.text.count("text") == plain.text.count("text")
    assert "X-Ignored-Params" not in plain.headers
    default = httpx.post(server.url + "/v1/completions", json={**body, "priority": 0}, timeout=HANG_S)
    assert "X-Ignored-Params" not in default.headers
