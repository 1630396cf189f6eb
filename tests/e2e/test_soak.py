"""Random requests on servers with random flags and KV pools that are too small for them.

Each of QUIRE_SOAK_ROUNDS rounds starts a server with its own flags and a second one, the reference, with the same number formats and
nothing to do. Clients send QUIRE_SOAK_REQUESTS requests in each of the four parts of a round, with samples, beams, stop strings and
log-probabilities, streamed or not; some disconnect. Every output must equal the output of the same request on the reference. Between
the parts of a round the server is idle: descriptors, threads and memory must not grow then.

A failure names the seed. QUIRE_SOAK_SEED=N starts with that seed: the same flags and requests, though not the same timing. For hours, with
long rounds, in which slow leaks show:

    QUIRE_SOAK_ROUNDS=100 QUIRE_SOAK_REQUESTS=2500 build/venv/bin/python -m pytest -s tests/e2e/test_soak.py
"""

import asyncio
import contextlib
import gc
import json
import os
import pathlib
import random
import time

import httpx
import pytest
from server_process import ServerProcess
from waiting import HANG_S, wait_until

ROUNDS = int(os.environ.get("QUIRE_SOAK_ROUNDS", "2"))
REQUESTS = int(os.environ.get("QUIRE_SOAK_REQUESTS", "150"))  # of a part
SEED = os.environ.get("QUIRE_SOAK_SEED")
PARTS = 4
MIB = 1 << 20
# Memory of an idle server after a part may exceed that of the part before by what allocators keep. A leak grows with every part.
GROWTH_BYTES = int(os.environ.get("QUIRE_SOAK_GROWTH_MIB", "6")) * MIB
NUM_CLIENTS = 16
NUM_REQUESTS = 120
pytestmark = pytest.mark.timeout(600 + ROUNDS * PARTS * REQUESTS)
MAX_MODEL_LEN = 256
WORDS = "once upon a time there was a little dog who liked to run in the park with his friend and a red ball \U0001f600 é 中".split()


def some_flags(rng, directory):
    """(flags that change results, flags that must not)."""
    formats = ["--max-model-len", str(MAX_MODEL_LEN), "--threads", "1"]
    if rng.random() < 0.4:
        formats += ["--kv-cache-dtype", rng.choice(["float32", "float16", "int8", "fp8_e4m3"])]
    if rng.random() < 0.4:
        formats += ["--quantization", rng.choice(["int8", "int4", "w8a8"])]
    max_num_seqs = rng.choice([4, 16, 64])
    flags = ["--kv-cache-memory", f"{rng.choice([1, 1, 1, 2])}MiB", "--max-num-seqs", str(max_num_seqs),
             "--max-num-batched-tokens", str(rng.choice([max_num_seqs, 64, 100, 512])), "--scheduling-policy",
             rng.choice(["fcfs", "priority", "mlfq", "fair"]), "--block-size", str(rng.choice([8, 16, 32]))]
    mode = rng.choice(["auto", "recompute", "swap"])
    flags += ["--preemption-mode", mode, "--swap-space", f"{rng.choice([2, 8] if mode == 'swap' else [0, 2, 8])}MiB"]
    if rng.random() < 0.3:
        flags += ["--no-enable-prefix-caching"]
    elif rng.random() < 0.6:
        flags += ["--kv-disk-cache", str(directory / "kv"), "--kv-disk-cache-size", f"{rng.choice([2, 64])}MiB"]
    if rng.random() < 0.3:
        flags += ["--long-prefill-token-threshold", str(rng.choice([1, 17, 64])), "--max-num-partial-prefills", str(rng.choice([1, 2]))]
    if rng.random() < 0.2:
        flags += ["--tpot-slo", "20ms"]
    if rng.random() < 0.3:
        flags += ["--max-num-queued-reqs", "8"]
    return formats, flags


def some_words(rng, max_words):
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, max_words)))


def some_request(rng, seed):
    """(path, body) of a valid request that a pool of MAX_MODEL_LEN tokens can run."""
    body = {"max_tokens": rng.choice([1, 5, 20, 60]), "seed": seed, "temperature": rng.choice([0, 0.7, 1]), "return_token_ids": True}
    if rng.random() < 0.75:
        path = "/v1/completions"
        prefix = "Once upon a time there was a dog. " * rng.choice([0, 1, 3, 5])  # shared with other requests
        body["prompt"] = rng.choice([prefix + some_words(rng, 20), [rng.randrange(3, 500) for _ in range(rng.randint(1, 60))],
                                     [prefix + some_words(rng, 8) for _ in range(rng.randint(1, 3))]])
        if rng.random() < 0.3:
            body["logprobs"] = rng.randint(0, 4)
        if rng.random() < 0.15:
            body["prompt_logprobs"] = rng.randint(0, 2)
        if rng.random() < 0.15:
            body["echo"] = True
    else:
        path = "/v1/chat/completions"
        body["messages"] = [{"role": "user", "content": some_words(rng, 15)}]
        if rng.random() < 0.3:
            body |= {"logprobs": True, "top_logprobs": rng.randint(0, 4)}
    kind = rng.random()
    if kind < 0.2:
        body |= {"use_beam_search": True, "n": rng.choice([2, 3, 4]), "temperature": 0, "length_penalty": rng.choice([0.5, 1, 2])}
        body.pop("seed")
    elif kind < 0.5:
        body |= {"n": rng.choice([2, 3, 4]), "temperature": rng.choice([0.7, 1])}
    extras = {
        "ignore_eos": True, "stop": rng.choice(["the", [".", "dog"]]), "top_k": rng.choice([1, 5, 50]), "top_p": rng.choice([0.3, 0.9]),
        "min_p": 0.1, "repetition_penalty": 1.2, "frequency_penalty": 0.5, "presence_penalty": -0.5, "min_tokens": 1,
        "logit_bias": {"5": 5, "9": -100}, "stop_token_ids": [17, 40],
    }
    for name in rng.sample(sorted(extras), rng.choice([0, 0, 1, 2, 3])):
        if not body.get("use_beam_search") or name in ("ignore_eos", "stop_token_ids"):
            body[name] = extras[name]
    return path, body


def joined(choices_of_chunks):
    """The choices that the chunks of a stream add up to."""
    choices = {}
    for chunk in choices_of_chunks:
        whole = choices.setdefault(chunk["index"], {"text": "", "token_ids": [], "logprobs": {}, "finish_reason": None, "stop_reason": None})
        whole["text"] += chunk["text"] if "text" in chunk else chunk["delta"].get("content") or ""
        whole["token_ids"] += chunk.get("token_ids") or []
        for name, values in (chunk.get("logprobs") or {}).items():
            whole["logprobs"].setdefault(name, []).extend(values or [])
        assert whole["finish_reason"] is None, "a chunk follows the end of its choice"
        whole["finish_reason"] = chunk.get("finish_reason")
        whole["stop_reason"] = chunk.get("stop_reason")
    return [choices[index] for index in sorted(choices)]


def plain(choices):
    """The same fields of a response that was not streamed."""
    return [{"text": choice["text"] if "text" in choice else choice["message"]["content"] or "", "token_ids": choice.get("token_ids") or [],
             "logprobs": {name: values or [] for name, values in (choice.get("logprobs") or {}).items()},
             "finish_reason": choice["finish_reason"], "stop_reason": choice.get("stop_reason")} for choice in choices]


class Soak:
    """The clients of one server, and the reference for their outputs."""

    def __init__(self, server, reference, rng, policy):
        self.server, self.reference, self.rng = server, reference, rng
        self.requests = [some_request(rng, seed) for seed in range(NUM_REQUESTS)]
        if policy == "priority":
            for _, body in self.requests:
                body["priority"] = rng.randint(-2, 2)
        self.expected = {}
        self.lock = None
        self.left = 0
        self.counts = {"verified": 0, "disconnected": 0, "queue full": 0, "never fits": 0}

    async def right(self, http, index):
        async with self.lock:
            if index not in self.expected:
                path, body = self.requests[index]
                alone = {name: value for name, value in body.items() if name != "priority"}
                response = await http.post(self.reference.url + path, json=alone)
                assert response.status_code == 200, (path, alone, response.text)
                self.expected[index] = response.json()["choices"]
            return self.expected[index]

    async def ask(self, http, index):
        path, body = self.requests[index]
        # Beams cannot be streamed. Echoed prompts and their log-probabilities are compared in whole responses.
        can_stream = not body.keys() & {"use_beam_search", "prompt_logprobs", "echo"}
        leaves_after = self.rng.choice([None, None, None, 0, 1, 4]) if can_stream else None  # chunks
        streams = can_stream and (leaves_after is not None or self.rng.random() < 0.5)
        async with http.stream("POST", self.server.url + path, json={**body, "stream": streams}) as response:
            if response.status_code != 200:
                message = json.loads(await response.aread())["error"]["message"]
                if response.status_code == 503:
                    self.counts["queue full"] += 1
                    self.left += 1
                    await asyncio.sleep(0.05)
                else:
                    assert response.status_code == 400 and "KV" in message, (path, body, response.status_code, message)
                    self.counts["never fits"] += 1
                return
            if not streams:
                got = json.loads(await response.aread())["choices"]
                expected = await self.right(http, index)
                # Exact, with every field: prompt log-probabilities and echoes too.
                assert got == expected, f"{path} {json.dumps(body)}: {got} instead of {expected}"
                self.counts["verified"] += 1
                return
            chunks, lines = [], 0
            async for line in response.aiter_lines():
                if not line.startswith("data: {"):
                    continue
                lines += 1
                chunk = json.loads(line[6:])
                if "error" in chunk:
                    assert chunk["error"]["code"] == "overloaded", (path, body, chunk)
                    self.counts["queue full"] += 1
                    self.left += 1
                    return
                chunks += chunk["choices"]
                if leaves_after is not None and lines > leaves_after:
                    self.counts["disconnected"] += 1
                    return
        if leaves_after is None:
            expected = plain(await self.right(http, index))
            assert joined(chunks) == expected, f"{path} {json.dumps(body)}: streamed {joined(chunks)} instead of {expected}"
            self.counts["verified"] += 1

    async def client(self):
        async with httpx.AsyncClient(timeout=2 * HANG_S) as http:
            while self.left > 0:
                self.left -= 1
                if self.rng.random() < 0.01:
                    response = await http.post(self.server.url + "/reset_prefix_cache")
                    assert response.status_code == 200, response.text
                await self.ask(http, self.rng.randrange(NUM_REQUESTS))

    async def run(self, num_requests):
        """Sends this many requests, not counting those that a full queue refuses."""
        self.lock = asyncio.Lock()
        self.left = num_requests
        await asyncio.gather(*(self.client() for _ in range(NUM_CLIENTS)))


def connections_of(port):
    """The kernel's table of TCP sockets with this port: address, peer, state, and whether this process has it."""
    states = {1: "ESTABLISHED", 4: "FIN_WAIT1", 5: "FIN_WAIT2", 6: "TIME_WAIT", 7: "CLOSE", 8: "CLOSE_WAIT", 9: "LAST_ACK", 10: "LISTEN"}
    own = set()
    for descriptor in pathlib.Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            own.add(os.readlink(descriptor))
    rows = []
    for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        ports = [int(address.split(":")[1], 16) for address in fields[1:3]]
        if port in ports:
            state = int(fields[3], 16)
            rows.append(f"{ports[0]} -> {ports[1]} {states.get(state, state)} {'own' if f'socket:[{fields[9]}]' in own else ''}")
    return rows


def resources(server):
    """Bytes, descriptors and threads of an idle server."""
    server.becomes_idle()
    process = pathlib.Path(f"/proc/{server.process.pid}")
    # Connections that the clients have closed end a moment later. Transports that asyncio did not close when its loop ended keep their
    # sockets until they are collected, or until the server closes connections that are idle for 75 s.
    gc.collect()
    wait_until(lambda: server.metric("quire:http_connections") <= 1,
               lambda: "\n".join(["a connection stays open:", *connections_of(server.port)]))
    descriptors = []
    for _ in range(20):
        descriptors.append(len(list((process / "fd").iterdir())))
        time.sleep(0.01)
    return server.rss_bytes(), min(descriptors), len(list((process / "task").iterdir()))


def soak_round(seed, directory):
    """Returns what was done: outputs verified, disconnections, preemptions and so on."""
    rng = random.Random(seed)
    formats, flags = some_flags(rng, directory)
    servers = []
    try:
        servers.append(ServerProcess(*formats, *flags))
        servers.append(ServerProcess(*formats, "--no-enable-prefix-caching"))
        server, reference = servers
        soak = Soak(server, reference, rng, flags[flags.index("--scheduling-policy") + 1])
        used = []
        for _ in range(PARTS):
            asyncio.run(soak.run(REQUESTS))
            used.append(resources(server))
        counts = {**soak.counts, "preemptions": int(server.metric("quire:num_preemptions_total")),
                  "blocks swapped": int(server.metric("quire:kv_blocks_swapped_total")),
                  "blocks from tiers": int(server.metric("quire:kv_tier_hits_total"))}
        print(f"\nseed {seed}: {' '.join(formats + flags)}\n  {counts}, (bytes, descriptors, threads) {used}", flush=True)
        memory, descriptors, threads = zip(*used)
        # The first parts fill pools, caches and the buffers of all threads.
        assert memory[-1] - memory[1] < GROWTH_BYTES, f"memory grows: {memory}"
        assert descriptors[-1] <= descriptors[1], f"descriptors grow: {descriptors}"
        assert threads[-1] <= threads[1], f"threads grow: {threads}"
        server.stop()
        assert server.process.returncode == 0, "".join(server.log[-20:])
        return counts
    except (AssertionError, pytest.fail.Exception, httpx.HTTPError) as error:
        log = "".join("".join(process.log[-40:]) for process in servers)
        raise AssertionError(f"QUIRE_SOAK_SEED={seed}, {' '.join(formats + flags)}: {error!r}\n{log}") from error
    finally:
        for process in servers:
            process.stop()


def test_outputs_do_not_change_and_nothing_grows(tmp_path):
    first = int(SEED) if SEED else random.SystemRandom().randrange(10**9)
    totals = {}
    for rounds in range(ROUNDS):
        directory = tmp_path / str(rounds)
        directory.mkdir()
        for name, count in soak_round(first + rounds, directory).items():
            totals[name] = totals.get(name, 0) + count
    print(f"soak: {ROUNDS} rounds, {totals}")
    assert totals["verified"] > ROUNDS * PARTS * REQUESTS / 5
    assert totals["disconnected"] > 0
    assert totals["preemptions"] > 0 or ROUNDS < 4, "the pools were too large, so the rounds proved nothing"
