"""Searches for small inputs that cost much: requests, chat templates, tokenizer files, checkpoints and GGUF files.

Each input is a mutation of one that cost much per byte of its own. test_cost.py limits the memory, which `Meter` and `Files` measure in the
program. bench/attacks/cost.py derives from them and measures CPU time, too."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import cost
from server_process import BINARY, ROOT
from waiting import HANG_S, wait_until

MIB = 1 << 20
# Sanitizers make everything larger.
SLOWNESS = float(os.environ.get("QUIRE_COST_SLOWNESS", "1"))


class Worst:
    """The largest cost of each kind, relative to its limit."""

    def __init__(self, name):
        self.name, self.tried, self.accepted = name, 0, 0
        self.worst = {}

    def add(self, accepted, costs, limits, what):
        """Fails if a cost exceeds its limit."""
        for kind, limit in limits.items():
            ratio = costs[kind] / (SLOWNESS * limit)
            self.worst[kind] = max(self.worst.get(kind, 0.0), ratio)
            assert ratio < 1, f"{kind}: {costs[kind]:.6g}, {limit:.6g} allowed. {what}"
        self.tried += 1
        self.accepted += accepted

    def report(self):
        shares = ", ".join(f"{ratio:.2f} of the allowed {kind}" for kind, ratio in self.worst.items())
        print(f"\n{self.name}: {self.tried} tried, {self.accepted} accepted, worst {shares}")


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
REQUEST_FLAGS = ["--max-model-len", "256", "--threads", "1"]
STATUSES = {200, 400, 404, 413, 422, 503}
LARGEST_BODY = 200_000


class Meter(Worst):
    """Peak memory of a server, one request at a time."""

    def __init__(self, server, http):
        super().__init__("requests")
        self.server, self.http = server, http
        self.proc = pathlib.Path(f"/proc/{server.process.pid}")

    def start(self):
        (self.proc / "clear_refs").write_text("5")  # the peak starts again from the present
        self.memory = self.server.rss_bytes()
        self.tokens = self._tokens()

    def costs(self):
        """The costs since start(), once the server is idle, and the tokens it computed."""
        tokens = self._tokens() - self.tokens
        return {"bytes": self.server.peak_rss_bytes() - self.memory}, tokens

    @staticmethod
    def limits(sent, received, tokens):
        """The limits of docs/reliability.md, the response, and the state of sequences."""
        return {"bytes": 16 * MIB + 9 * sent + 3 * received + 8192 * tokens}

    @staticmethod
    def rank(costs, tokens):
        """What the search maximizes: tokens are work that a client asks for."""
        return {"bytes": max(0, costs["bytes"] - 4096 * tokens)}

    def _tokens(self):
        """The tokens that the server has computed, once it is idle."""
        def computed():
            lines = [line.split() for line in self.http.get("/metrics").text.splitlines() if line.startswith("quire:")]
            values = {line[0].split("{")[0]: float(line[-1]) for line in lines}
            if values["quire:num_requests_running"] + values["quire:num_requests_waiting"] > 0:
                return None
            return [values["quire:prompt_tokens_total"] + values["quire:generation_tokens_total"]]

        return wait_until(computed, "the server does not become idle", pause_s=0.002)[0]


def search_requests(meter, seed, rounds):
    rng = cost.generator(seed)
    search = cost.Search(REQUESTS, rng)
    meter.http.post("/v1/completions", json=PROMPT)
    while meter.tried < rounds:
        path, body = search.parent()
        body = cost.mutated(rng, body)
        text = json.dumps(body, ensure_ascii=rng.random() < 0.3).encode("utf-8", "replace").replace(b"Infinity", b"1e999")
        if len(text) > LARGEST_BODY:
            continue
        meter.start()
        response = meter.http.post(path, content=text, headers={"Content-Type": "application/json"})
        costs, tokens = meter.costs()
        what = f"QUIRE_COST_SEED={seed}: {path} with {len(text)} bytes, {tokens:.0f} tokens, status {response.status_code}: {text[:500]}"
        assert response.status_code in STATUSES, what
        meter.add(response.status_code == 200, costs, meter.limits(len(text), len(response.content), tokens), what)
        search.report((path, body), len(text), meter.rank(costs, tokens))


# Programs that read a file and end.

# Linux counts the memory of the process that calls exec as memory of the program that it starts. A small process starts the program, so that
# the memory of this one, which is larger with every test that ran before, is not part of the peak.
LAUNCHER = """
import os, sys
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)])
_, status, usage = os.wait4(pid, 0)
print(os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024)
"""


def run(arguments, launcher=LAUNCHER):
    """(status, costs, stderr) of the program. The costs are what the launcher prints, first the peak of the memory."""
    command = [sys.executable, "-I", "-S", "-c", launcher, BINARY, *arguments]
    done = subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=HANG_S)
    status, *costs = done.stdout.split()
    return int(status), list(map(float, costs)), done.stderr.decode(errors="replace")


class Files(Worst):
    """Runs the program on files, of which the first is not mutated, with limits above what an ordinary file costs: {kind: (constant, per
    byte of the file)}. The kinds are those that the launcher prints."""

    launcher = LAUNCHER
    LIMITS = {
        "template": {"bytes": (160 * MIB, 0)},
        "tokenizer": {"bytes": (128 * MIB, 100)},
        "checkpoint": {"bytes": (192 * MIB, 30)},
        "GGUF file": {"bytes": (192 * MIB, 30)},
    }

    def __init__(self, name, seed):
        super().__init__(name)
        self.seed = seed

    def measure(self, arguments, size, shown):
        status, costs, errors = run(arguments, self.launcher)
        what = f"QUIRE_COST_SEED={self.seed}: {self.name} of {size} bytes, status {status}: {shown[:1500]}\n{errors[-500:]}"
        assert status in (0, 1), what
        assert status == 0 or errors.strip(), what
        limits = {kind: constant + per_byte * size for kind, (constant, per_byte) in self.LIMITS[self.name].items()}
        costs = dict(zip(limits, costs))
        self.add(status == 0, costs, limits, what)
        return costs


def search_templates(files, directory, rounds):
    rng = cost.generator(files.seed)
    messages = directory / "messages.json"
    messages.write_text(json.dumps([{"role": "user", "content": "a b"}, {"role": "assistant", "content": "c"}] * 3))
    template = directory / "template.jinja"
    while files.tried < rounds:
        text = cost.some_template(rng)
        template.write_text(text)
        files.measure(["render", "--messages", messages, "--chat-template", template], len(text), text)


TOKENIZERS = sorted((ROOT / "tests" / "fixtures" / "tokenizers").glob("*/tokenizer.json"))


def search_tokenizers(files, directory, rounds):
    rng = cost.generator(files.seed)
    search = cost.Search([(file.parent, json.loads(file.read_text())) for file in TOKENIZERS], rng)
    text = directory / "text.txt"
    text.write_text("once upon a time " * 20 + "a" * 3000 + " " * 3000 + "\u00e9\u0301" * 500 + "0" * 1000)
    while files.tried < rounds:
        origin, tokenizer = search.parent()
        if files.tried > 0:
            tokenizer = cost.mutated(rng, tokenizer)
        data = json.dumps(tokenizer)
        if len(data) > 2 * MIB:
            continue
        changed = directory / str(files.tried)
        shutil.copytree(origin, changed)
        (changed / "tokenizer.json").write_text(data)
        costs = files.measure(["tokenize", changed, "--file", text, "--json"], len(data), f"{origin.name} {data}")
        search.report((origin, tokenizer), len(data), costs)
        shutil.rmtree(changed)


CHECKPOINTS = [ROOT / "tests" / "golden" / "models" / name for name in ("exaone4", "llama", "gpt_oss", "deepseek_v3", "mamba2", "gemma3", "qwen3_moe")]


def changed_checkpoint(rng, origin, directory, config, changes_weights):
    """Writes a checkpoint with this configuration, and with changed headers of its weights if wanted. Returns its size."""
    shutil.copytree(origin, directory)
    (directory / "golden.json").unlink(missing_ok=True)
    (directory / "config.json").write_text(json.dumps(config))
    weights = next(iter(sorted(directory.glob("*.safetensors"))), None)
    if weights is not None and changes_weights:
        data = weights.read_bytes()
        length = int.from_bytes(data[:8], "little")
        header = json.dumps(cost.mutated(rng, json.loads(data[8:8 + length]))).encode()
        length = rng.choice([len(header)] * 6 + [0, 2**63, len(header) + 1000])
        weights.write_bytes(length.to_bytes(8, "little") + header + data[8 + length:] if length < 2**40 else length.to_bytes(8, "little") + header)
    return sum(file.stat().st_size for file in directory.iterdir())


def search_checkpoints(files, directory, rounds):
    rng = cost.generator(files.seed)
    origins = [path for path in CHECKPOINTS if (path / "config.json").exists()]
    assert len(origins) >= 3
    search = cost.Search([(path, json.loads((path / "config.json").read_text())) for path in origins], rng)
    prompts = directory / "prompts.jsonl"
    prompts.write_text('{"prompt_token_ids": [5, 6, 7], "max_tokens": 1}\n')
    while files.tried < rounds:
        origin, config = search.parent()
        if files.tried > 0:
            config = cost.mutated(rng, config)
        if len(json.dumps(config)) > MIB:
            continue
        changed = directory / str(files.tried)
        size = changed_checkpoint(rng, origin, changed, config, files.tried > 0 and rng.random() < 0.5)
        command = ["inspect", changed] if rng.random() < 0.5 else ["generate", changed, "--prompts-file", prompts]
        costs = files.measure([*command, "--kv-cache-memory", "8MiB"], size, f"{origin.name} {json.dumps(config)}")
        search.report((origin, config), size, costs)
        shutil.rmtree(changed)


def search_gguf_files(files, directory, rounds):
    """Changes bytes of the header of a GGUF file, which has counts, lengths and types of values; every second time the counts."""
    rng = cost.generator(files.seed)
    output = directory / "tiny.gguf"
    subprocess.run([str(BINARY), "quantize", str(ROOT / "models" / "quire-tiny"), "-o", str(output), "--format", "gguf-q8_0"], check=True,
                   capture_output=True, timeout=HANG_S)
    (origin,) = [output] if output.is_file() else output.rglob("*.gguf")
    original = origin.read_bytes()
    file = directory / "mutated.gguf"
    while files.tried < rounds:
        data = bytearray(original)
        counts = files.tried % 2 == 1
        at = 8 if counts else rng.randrange(24, min(len(data), 4000))
        for _ in range(rng.choice([1, 2, 4]) if files.tried > 0 else 0):
            width = rng.choice([1, 4, 8])
            value = rng.choice([0, 1, 2**8 - 1, 2**16, 2**31, 2**32 - 1, 2**40, 2**62, 2**63, 2**64 - 1, rng.randrange(2**16)]) % 2 ** (8 * width)
            place = at + rng.randrange(16 if counts else 64)
            data[place:place + width] = value.to_bytes(width, "little")
        file.write_bytes(data)
        files.measure(["inspect", file, "--kv-cache-memory", "8MiB"], len(data), f"bytes at {at}")


FILE_SEARCHES = {"template": search_templates, "tokenizer": search_tokenizers, "checkpoint": search_checkpoints, "GGUF file": search_gguf_files}
