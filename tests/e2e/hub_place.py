"""Models and caches for the tests of models by name."""

import functools
import hashlib
import json
import os
import pathlib
import random
import struct
import subprocess

from server_process import BINARY
from slow_model import TINY
from waiting import HANG_S, wait_until

NEEDED = ["config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]
CHUNK = 8 << 20  # bytes of one request
NUM_CHUNKS = 3  # whole ones of a large file


def tiny_files():
    return {name: (TINY / name).read_bytes() for name in NEEDED}


@functools.cache
def safetensors(size, dtype="F32", seed=1):
    """A safetensors file with one tensor of `size` bytes."""
    header = json.dumps({"a": {"dtype": dtype, "shape": [size // 4], "data_offsets": [0, size]}}).encode()
    return struct.pack("<Q", len(header)) + header + random.Random(seed).randbytes(size)


def big_files(size=NUM_CHUNKS * CHUNK + 12345 * 4):
    """A model whose weights need several requests. It can be pulled, not run."""
    return {**tiny_files(), "model.safetensors": safetensors(size)}


class Workplace:
    """A home directory with a cache, and the environment that points to a hub."""

    def __init__(self, path, hub):
        self.path = path
        self.cache = path / "hf" / "hub"
        self.hub = hub
        clean = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy") and not k.startswith(("HF_", "SSL_CERT"))}
        self.environment = {**clean, "HOME": str(path), "HF_HOME": str(path / "hf"), "HF_ENDPOINT": hub.url, "no_proxy": "",
                            "HF_HUB_DOWNLOAD_TIMEOUT": "60"}

    def start(self, *arguments, **environment):
        return subprocess.Popen([str(BINARY), *map(str, arguments)], env={**self.environment, **environment}, text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def quire(self, *arguments, **environment):
        return subprocess.run([str(BINARY), *map(str, arguments)], env={**self.environment, **environment}, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=HANG_S)

    def pull(self, name="org/tiny", *flags, **environment):
        run = self.quire("pull", name, *flags, **environment)
        assert run.returncode == 0, run.stderr
        return pathlib.Path(run.stdout.strip())

    def fails(self, *arguments, **environment):
        run = self.quire(*arguments, **environment)
        assert run.returncode == 1, (run.stdout, run.stderr)
        assert run.stdout == ""
        return run.stderr

    def blobs(self, name="org/tiny"):
        folder = self.cache / ("models--" + name.replace("/", "--")) / "blobs"
        return {path.name: path for path in folder.iterdir()} if folder.exists() else {}

    def incomplete(self, name="org/tiny"):
        return {name: path for name, path in self.blobs(name).items() if name.endswith(".incomplete")}


def assert_complete(snapshot, files):
    for name in NEEDED:
        assert (snapshot / name).read_bytes() == files[name], name


def wait_for_download(place, content, process):
    """Waits until the download of a large file with this content has begun."""
    name = hashlib.sha256(content).hexdigest() + ".incomplete"

    def has_begun():
        assert process.poll() is None, process.stderr.read()
        return name in place.incomplete()

    wait_until(has_begun, "the download did not begin")


def wait_for_bytes(place, number, process):
    """Waits until an unfinished download has `number` bytes."""
    def has_bytes():
        assert process.poll() is None, process.stderr.read()
        return any(path.stat().st_size >= number for path in place.incomplete().values() if path.exists())

    wait_until(has_bytes, "the download made no progress")
