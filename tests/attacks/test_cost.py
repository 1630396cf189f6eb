"""A search for small inputs that cost much: requests, chat templates, tokenizer files and checkpoints.

Each input is a mutation of one that cost many seconds or bytes per byte of its own. The asserted limits hold for every input. CPU time is
measured, not time, so that other programs do not matter. QUIRE_COST_SECONDS (default 32) is the time of all searches together; QUIRE_COST_SEED
(default 1, or "random") chooses the mutations. A search depends on measurements only in its choice of parents."""

import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import time

import cost
import httpx
import pytest
from server_process import BINARY, ROOT, ServerProcess

SECONDS = float(os.environ.get("QUIRE_COST_SECONDS", "32")) / 4
SEED = random.SystemRandom().randrange(10**9) if os.environ.get("QUIRE_COST_SEED") == "random" else int(os.environ.get("QUIRE_COST_SEED", "1"))
MIB = 1 << 20
# Sanitizers make everything slower and larger.
SLOWNESS = float(os.environ.get("QUIRE_COST_SLOWNESS", "1"))
pytestmark = pytest.mark.timeout(300 + SECONDS)


# Requests.

PROMPT = {"prompt": "a", "max_tokens": 1}
REQUESTS = [
    ("/v1/completions", {**PROMPT, "n": 2, "temperature": 1, "stop": ["x"], "logit_bias": {"5": 1}}),
    ("/v1/completions", {**PROMPT, "prompt": ["a", "b"], "allowed_token_ids": [5, 6], "stop_token_ids": [7]}),
    ("/v1/completions", {**PROMPT, "prompt": [[5, 6], [7]], "logprobs": 1, "echo": True}),
    ("/v1/completions", {**PROMPT, "prompt": "once upon a time", "truncate_prompt_tokens": 5, "prompt_logprobs": 1}),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}], "max_tokens": 1, "chat_template_kwargs": {}}),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}], "max_tokens": 1, "metadata": {"a": [1]}}),
    ("/tokenize", {"prompt": "once upon a time"}),
    ("/detokenize", {"tokens": [5, 6, 7]}),
]
STATUSES = {200, 400, 404, 413, 422, 501, 503}
LARGEST_BODY = 200_000


class Meter:
    """CPU time and peak memory of a server, one request at a time."""

    def __init__(self, server, http):
        self.server, self.http = server, http
        self.proc = pathlib.Path(f"/proc/{server.process.pid}")
        self.clock = (~server.process.pid << 3) | 2  # CPU time of another process, see clock_getcpuclockid(3)

    def start(self):
        (self.proc / "clear_refs").write_text("5")  # the peak starts again from the present
        self.memory = self.server.rss_bytes()
        self.tokens = self._tokens()
        self.cpu = time.clock_gettime(self.clock)

    def stop(self):
        """(CPU seconds, bytes, tokens computed)."""
        tokens = self._tokens() - self.tokens
        return time.clock_gettime(self.clock) - self.cpu, self.server.peak_rss_bytes() - self.memory, tokens

    def _tokens(self):
        """The tokens that the server has computed, once it is idle."""
        end = time.monotonic() + 30
        while True:
            lines = [line.split() for line in self.http.get("/metrics").text.splitlines() if line.startswith("quire:")]
            values = {line[0].split("{")[0]: float(line[-1]) for line in lines}
            if values["quire:num_requests_running"] + values["quire:num_requests_waiting"] == 0:
                return values["quire:prompt_tokens_total"] + values["quire:generation_tokens_total"]
            assert time.monotonic() < end, "the server does not become idle"
            time.sleep(0.002)


def test_requests_cost_what_their_size_and_tokens_allow():
    rng = cost.generator(SEED)
    search = cost.Search(REQUESTS, rng)
    server = ServerProcess("--max-model-len", "256", "--threads", "1")
    tried, worst = 0, [0, 0]
    try:
        with httpx.Client(base_url=server.url, timeout=120) as http:
            meter = Meter(server, http)
            http.post("/v1/completions", json=PROMPT)
            end = time.monotonic() + SECONDS
            while time.monotonic() < end:
                path, body = search.parent()
                body = cost.mutated(rng, body)
                text = json.dumps(body, ensure_ascii=rng.random() < 0.3).encode("utf-8", "replace").replace(b"Infinity", b"1e999")
                if len(text) > LARGEST_BODY:
                    continue
                meter.start()
                response = http.post(path, content=text, headers={"Content-Type": "application/json"})
                seconds, memory, tokens = meter.stop()
                what = f"QUIRE_COST_SEED={SEED}: {path} with {len(text)} bytes, {tokens:.0f} tokens, status {response.status_code}: {text[:500]}"
                assert response.status_code in STATUSES, what
                # The limits of docs/reliability.md, the response, and the state of sequences.
                allowed = 16 * MIB + 9 * len(text) + 3 * len(response.content) + 8192 * tokens
                assert memory < SLOWNESS * allowed, f"{memory} bytes, {allowed:.0f} allowed. {what}"
                allowed_s = 0.15 + 3e-6 * len(text) + 2e-3 * tokens + 1e-6 * len(response.content)
                assert seconds < SLOWNESS * allowed_s, f"{seconds:.3f} s, {allowed_s:.3f} allowed. {what}"
                worst = [max(worst[0], seconds / allowed_s), max(worst[1], memory / allowed)]
                search.report((path, body), len(text), max(0, seconds - 1e-3 * tokens), max(0, memory - 4096 * tokens))
                tried += 1
        print(f"\nrequests: {tried} tried, worst {worst[0]:.2f} of the allowed seconds and {worst[1]:.2f} of the allowed bytes")
        assert tried > 10
    finally:
        server.stop()


# Programs that read a file and end.

# Linux counts the memory of the process that calls exec as memory of the program that it starts. A small process starts the program, so that
# the memory of this one, which is larger with every test that ran before, is not part of the peak.
LAUNCHER = """
import os, sys
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)])
_, status, usage = os.wait4(pid, 0)
print(os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)
"""


def run(arguments):
    """(status, CPU seconds, peak bytes, stderr)."""
    command = [sys.executable, "-I", "-S", "-c", LAUNCHER, BINARY, *arguments]
    done = subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, capture_output=True, check=True)
    status, seconds, memory = done.stdout.split()
    return int(status), float(seconds), int(memory), done.stderr.decode(errors="replace")


def test_the_peak_memory_of_a_program_does_not_depend_on_this_process():
    before = run(["--version"])[2]
    ballast = bytearray(os.urandom(1 << 20) * 256)
    assert run(["--version"])[2] < before + 64 * MIB
    del ballast


class Files:
    """Runs the program on mutated files, with limits above what an ordinary file costs."""

    def __init__(self, name, seconds, memory, seconds_per_byte=0.0, memory_per_byte=0.0):
        self.name, self.seconds, self.memory = name, seconds, memory
        self.seconds_per_byte, self.memory_per_byte = seconds_per_byte, memory_per_byte
        self.tried, self.accepted, self.worst = 0, 0, [0.0, 0.0]

    def measure(self, arguments, size, shown):
        status, seconds, memory, errors = run(arguments)
        what = f"QUIRE_COST_SEED={SEED}: {self.name} of {size} bytes, status {status}: {shown[:1500]}\n{errors[-500:]}"
        assert status in (0, 1), what
        assert status == 0 or errors.strip(), what
        allowed_s, allowed = self.seconds + self.seconds_per_byte * size, self.memory + self.memory_per_byte * size
        assert seconds < SLOWNESS * allowed_s, f"{seconds:.2f} s, {allowed_s:.2f} allowed. {what}"
        assert memory < SLOWNESS * allowed, f"{memory} bytes, {allowed:.0f} allowed. {what}"
        self.worst = [max(self.worst[0], seconds / allowed_s), max(self.worst[1], memory / allowed)]
        self.tried += 1
        self.accepted += status == 0
        return seconds, memory

    def report(self):
        print(f"\n{self.name}: {self.tried} tried, {self.accepted} accepted, worst {self.worst[0]:.2f} of the allowed seconds and "
              f"{self.worst[1]:.2f} of the allowed bytes")
        assert self.tried > 10 and self.accepted > 0


def test_templates_cost_at_most_their_budget(tmp_path):
    rng = cost.generator(SEED)
    messages = tmp_path / "messages.json"
    messages.write_text(json.dumps([{"role": "user", "content": "a b"}, {"role": "assistant", "content": "c"}] * 3))
    template = tmp_path / "template.jinja"
    files = Files("template", seconds=0.8, memory=160 * MIB)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        text = cost.some_template(rng)
        template.write_text(text)
        files.measure(["render", "--messages", messages, "--chat-template", template], len(text), text)
    files.report()


TOKENIZERS = sorted((ROOT / "tests" / "fixtures" / "tokenizers").glob("*/tokenizer.json"))


def test_tokenizer_files_cost_what_their_size_allows(tmp_path):
    rng = cost.generator(SEED)
    seeds = [(file.parent, json.loads(file.read_text())) for file in TOKENIZERS]
    search = cost.Search(seeds, rng)
    files = Files("tokenizer", seconds=0.8, memory=128 * MIB, seconds_per_byte=5e-6, memory_per_byte=100)
    text = tmp_path / "text.txt"
    text.write_text("once upon a time " * 20 + "a" * 3000 + " " * 3000 + "\u00e9\u0301" * 500 + "0" * 1000)
    end = time.monotonic() + SECONDS
    number = 0
    while time.monotonic() < end:
        origin, tokenizer = search.parent()
        tokenizer = cost.mutated(rng, tokenizer)
        data = json.dumps(tokenizer)
        if len(data) > 2 * MIB:
            continue
        directory = tmp_path / str(number)
        number += 1
        shutil.copytree(origin, directory)
        (directory / "tokenizer.json").write_text(data)
        seconds, memory = files.measure(["tokenize", directory, "--file", text, "--json"], len(data), f"{origin.name} {data}")
        search.report((origin, tokenizer), len(data), seconds, memory)
        shutil.rmtree(directory)
    files.report()


CHECKPOINTS = [ROOT / "tests" / "golden" / "models" / name for name in ("exaone4", "llama", "gpt_oss", "deepseek_v3", "mamba2", "gemma3", "qwen3_moe")]


def changed_checkpoint(rng, origin, directory, config):
    """Writes a checkpoint with this configuration. Half of them have changed headers of weights too. Returns its size."""
    shutil.copytree(origin, directory)
    (directory / "golden.json").unlink(missing_ok=True)
    (directory / "config.json").write_text(json.dumps(config))
    weights = next(iter(sorted(directory.glob("*.safetensors"))), None)
    if weights is not None and rng.random() < 0.5:
        data = weights.read_bytes()
        length = int.from_bytes(data[:8], "little")
        header = json.dumps(cost.mutated(rng, json.loads(data[8:8 + length]))).encode()
        length = rng.choice([len(header)] * 6 + [0, 2**63, len(header) + 1000])
        weights.write_bytes(length.to_bytes(8, "little") + header + data[8 + length:] if length < 2**40 else length.to_bytes(8, "little") + header)
    return sum(file.stat().st_size for file in directory.iterdir())


def test_checkpoints_cost_what_their_size_allows(tmp_path):
    rng = cost.generator(SEED)
    origins = [path for path in CHECKPOINTS if (path / "config.json").exists()]
    assert len(origins) >= 3
    search = cost.Search([(path, json.loads((path / "config.json").read_text())) for path in origins], rng)
    files = Files("checkpoint", seconds=0.5, memory=192 * MIB, seconds_per_byte=5e-6, memory_per_byte=30)
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"prompt_token_ids": [5, 6, 7], "max_tokens": 1}\n')
    end = time.monotonic() + SECONDS
    number = 0
    while time.monotonic() < end:
        origin, config = search.parent()
        config = cost.mutated(rng, config)
        if len(json.dumps(config)) > MIB:
            continue
        directory = tmp_path / str(number)
        number += 1
        size = changed_checkpoint(rng, origin, directory, config)
        command = ["inspect", directory] if rng.random() < 0.5 else ["generate", directory, "--prompts-file", prompts]
        seconds, memory = files.measure([*command, "--kv-cache-memory", "8MiB"], size, f"{origin.name} {json.dumps(config)}")
        search.report((origin, config), size, seconds, memory)
        shutil.rmtree(directory)
    files.report()


@pytest.mark.parametrize("part", ["metadata", "counts"])
def test_gguf_files_cost_what_their_size_allows(tmp_path, part):
    """Bytes of the header of GGUF files, which has counts, lengths and types of values."""
    rng = cost.generator(SEED)
    output = tmp_path / "tiny.gguf"
    subprocess.run([str(BINARY), "quantize", str(ROOT / "models" / "quire-tiny"), "-o", str(output), "--format", "gguf-q8_0"], check=True,
                   capture_output=True)
    (origin,) = [output] if output.is_file() else output.rglob("*.gguf")
    original = origin.read_bytes()
    files = Files("GGUF file", seconds=0.5, memory=192 * MIB, seconds_per_byte=1e-6, memory_per_byte=30)
    end = time.monotonic() + SECONDS / 4
    while time.monotonic() < end:
        data = bytearray(original)
        at = 8 if part == "counts" else rng.randrange(24, min(len(data), 4000))
        for _ in range(rng.choice([1, 2, 4])):
            width = rng.choice([1, 4, 8])
            value = rng.choice([0, 1, 2**8 - 1, 2**16, 2**31, 2**32 - 1, 2**40, 2**62, 2**63, 2**64 - 1, rng.randrange(2**16)]) % 2 ** (8 * width)
            place = at + rng.randrange(16) if part == "counts" else at + rng.randrange(64)
            data[place:place + width] = value.to_bytes(width, "little")
        file = tmp_path / "mutated.gguf"
        file.write_bytes(data)
        files.measure(["inspect", file, "--kv-cache-memory", "8MiB"], len(data), f"bytes at {at}")
    print(f"{files.tried} tried, {files.accepted} accepted")
    assert files.tried > 10
