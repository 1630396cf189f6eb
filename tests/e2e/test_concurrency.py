"""Many clients at once: every answer equals its answer alone, and afterwards nothing is left over."""

import asyncio
import http.client
import json

import httpx
from waiting import HANG_S

WORDS = "once upon a time there was a little dog who liked to run in the park with his friend and a red ball".split()


def request(i, limit):
    """A request of its own length, text and seed."""
    prompt = " ".join(WORDS[(i * 7 + k) % len(WORDS)] for k in range(3 + i * 5 % 90))
    return {"prompt": prompt, "max_tokens": min(limit // 4, 5 + i * 37 % 60), "temperature": 1.0 if i % 3 else 0.0, "seed": i,
            "extra_body": {"ignore_eos": True, "return_token_ids": True}}


async def streamed(client, model, options):
    text, ids, finish = "", [], []
    async for chunk in await client.completions.create(model=model, stream=True, **options):
        assert not finish, "something follows the end of a choice"
        text += chunk.choices[0].text
        ids += chunk.choices[0].token_ids or []
        if chunk.choices[0].finish_reason:
            finish.append(chunk.choices[0].finish_reason)
    assert finish == ["length"]
    return text, ids


def test_64_streaming_clients_get_what_each_gets_alone(server, model):
    limit = server.client().models.retrieve(model).max_model_len
    requests = [request(i, limit) for i in range(64)]

    async def run():
        async with server.async_client() as client:
            together = await asyncio.gather(*(streamed(client, model, r) for r in requests))
        async with server.async_client() as client:
            alone = [await streamed(client, model, r) for r in requests]
        return together, alone

    together, alone = asyncio.run(run())
    for i, (a, b) in enumerate(zip(together, alone)):
        assert a == b, f"request {i} differs"
        assert len(a[1]) == requests[i]["max_tokens"]
    assert len({text for text, _ in together}) > 1
    server.becomes_idle()


def test_streams_and_whole_answers_and_goners_do_not_disturb_each_other(server, model):
    limit = server.client().models.retrieve(model).max_model_len
    requests = [request(i, limit) for i in range(24)]

    async def whole(client, options):
        answer = await client.completions.create(model=model, **options)
        return answer.choices[0].text, answer.choices[0].token_ids

    async def disconnecting(client, options):
        stream = await client.completions.create(model=model, stream=True, **{**options, "max_tokens": limit // 2})
        async for _ in stream:
            break
        await stream.close()

    async def run():
        async with server.async_client() as client:
            jobs = [streamed(client, model, r) if i % 2 else whole(client, r) for i, r in enumerate(requests)]
            disconnected = [disconnecting(client, r) for r in requests]
            results = (await asyncio.gather(*jobs, *disconnected))[:len(jobs)]
            alone = [await streamed(client, model, r) for r in requests]
        return results, alone

    results, alone = asyncio.run(run())
    assert results == alone
    server.becomes_idle()


def send_request(server, body):
    """A connection on which the request has been sent."""
    content = json.dumps(body).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nHost: {server.host}\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    connection = server.connect()
    connection.sendall(head.encode() + content)
    return connection


def test_a_client_that_goes_frees_its_blocks(start_server, model):
    server = start_server(slow=True)
    limit = server.client().models.retrieve(model).max_model_len
    body = {"prompt": [7] * 32, "max_tokens": limit // 2, "ignore_eos": True, "n": 8, "temperature": 1}
    for num_before, stream in enumerate([True, False]):
        connection = send_request(server, {**body, "stream": stream})
        server.becomes_busy(1)
        if stream:
            assert connection.recv(100)
        connection.close()
        server.becomes_idle()
        assert server.num_aborted() == 8 * (num_before + 1), "the server went on without a client"


def test_clients_that_go_while_they_wait_are_forgotten(start_server, model):
    server = start_server("--max-num-seqs", "1", slow=True)
    body = {"prompt": "Once", "max_tokens": 700, "ignore_eos": True, "stream": True, "temperature": 1}
    connections = [send_request(server, body) for _ in range(6)]
    server.becomes_busy(len(connections))
    for connection in reversed(connections):
        connection.close()
    server.becomes_idle()
    assert server.num_aborted() == len(connections)


def test_a_full_queue_refuses_with_503(start_server, model):
    server = start_server("--max-num-seqs", "1", "--max-num-queued-reqs", "2", slow=True)
    body = {"prompt": "Once", "max_tokens": 900, "ignore_eos": True, "stream": True, "temperature": 1}
    connections = [send_request(server, body)]
    answers = [http.client.HTTPResponse(connections[0])]
    answers[0].begin()
    assert answers[0].readline().startswith(b"data:")  # it runs, so that the queue is empty
    connections += [send_request(server, body) for _ in range(39)]
    answers += [http.client.HTTPResponse(connection) for connection in connections[1:]]
    for answer in answers[1:]:
        answer.begin()
    statuses = [answer.status for answer in answers]
    assert statuses.count(200) == 3 and statuses.count(503) == 37  # one runs, two wait
    refused = answers[statuses.index(503)]
    assert "queue" in json.loads(refused.read())["error"]["message"]
    assert refused.headers["retry-after"]
    server.becomes_busy(1)
    for answer, connection in zip(answers, connections):
        answer.close()
        connection.close()
    server.becomes_idle()
    assert httpx.post(server.url + "/v1/completions", json={"prompt": "a", "max_tokens": 1}, timeout=HANG_S).status_code == 200


def test_a_client_that_stops_reading_is_ended_and_memory_stays_bounded(server, model):
    limit = server.client().models.retrieve(model).max_model_len
    before = server.rss_bytes()
    body = json.dumps({"model": model, "prompt": "Once", "max_tokens": limit - 50, "ignore_eos": True, "n": 64, "logprobs": 20, "stream": True,
                       "temperature": 1}).encode()
    with server.connect() as connection:
        connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        connection.recv(100)
        server.becomes_idle()  # either all of it fitted into the buffers, or it was given up
    assert server.rss_bytes() - before < 256 << 20
