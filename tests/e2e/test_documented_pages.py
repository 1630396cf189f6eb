"""The pages on moving from other engines, metrics and error messages agree with the program, and commands that need a server work."""

import functools
import pathlib
import re
import shlex
import subprocess

import httpx
import pytest
from server_process import BINARY, ROOT, ServerProcess
from test_documentation import console_commands, help_of
from waiting import HANG_S

MOVING = sorted((ROOT / "docs").glob("moving-from-*.md"))
# Commands with files that only the reader has.
NEEDS_DATA = re.compile(r"AzureLLMInferenceTrace")
DEFAULT_ADDRESS = "127.0.0.1:8000"


def rows_of(page):
    """(heading cells, cells) of each row of the tables of a page."""
    heading = None
    for line in page.read_text().splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]] if line.startswith("|") else None
        if cells is None:
            heading = None
        elif heading is None:
            heading = cells
        elif not all(set(cell) <= set("-:") for cell in cells):
            yield heading, cells


@functools.cache
def flags_of_all_commands():
    return set(re.findall(r"--[a-z][a-z0-9-]*", help_of()))


def test_there_are_pages_for_three_engines():
    assert [page.stem.removeprefix("moving-from-") for page in MOVING] == ["llama-cpp", "ollama", "vllm"]


@pytest.mark.parametrize("page", MOVING, ids=lambda page: page.stem)
def test_flags_of_quire_exist(page):
    """Flags of the other engine are in the first column of the tables only. All others are quire's."""
    own = [cell for _, cells in rows_of(page) for cell in cells[1:]]
    text = re.sub(r"^Without effect: .*?\n\n", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    own += [line for line in text.splitlines() if not line.startswith("|")]
    assert sum(len(cells) > 1 for _, cells in rows_of(page)) > 40
    unknown = {flag for text in own for code in re.findall(r"`([^`]+)`", text)
               for flag in re.findall(r"(?<![\w-])(--[a-z][a-z0-9-]*)", code) if flag not in flags_of_all_commands()}
    assert unknown <= {"--model"}, unknown  # --model of lm_eval


@pytest.mark.parametrize("page", [page for page in MOVING if page.stem != "moving-from-ollama"], ids=lambda page: page.stem)
def test_flags_of_the_server_are_flags_of_quire_serve(page):
    """In the tables of flags except those of sampling, the second column has flags of quire serve."""
    text = page.read_text()
    section = re.search(r"^## Flags of .*?(?=^## |^### Sampling)", text, re.MULTILINE | re.DOTALL)[0]
    rows = re.findall(r"^\| `-[^|]*\| ([^|]*) \|", section, re.MULTILINE)
    flags = {flag for cell in rows for flag in re.findall(r"--[a-z][a-z0-9-]*", cell)}
    assert len(rows) > 30 and len(flags) > 15
    assert flags <= set(re.findall(r"--[a-z][a-z0-9-]*", help_of("serve")))


def serve_flags():
    """The different flags of the commands that start a server, without the model, and on a free port."""
    found = []
    for _, command in console_commands():
        if re.match(r"(quire|\./run) serve\b", command):
            words = shlex.split(command.split("  #")[0])[2:]
            if words and not words[0].startswith("-"):
                del words[0]
            if any("=path/to/" in word for word in words):  # files that only the reader has
                continue
            if "--port" in words:
                words[words.index("--port") + 1] = "0"
            if words not in found:
                found.append(words)
    return found


@pytest.mark.parametrize("words", serve_flags(), ids=" ".join)
def test_a_documented_server_starts(words, tmp_path, monkeypatch):
    """With the embedded model instead of the named one."""
    monkeypatch.chdir(tmp_path)
    pathlib.Path("keys.txt").write_text("secret\n")
    process = ServerProcess(*words)
    try:
        assert httpx.get(process.url + "/health", timeout=HANG_S).status_code == 200
    finally:
        process.stop()
    assert process.process.returncode == 0


def client_commands():
    """Commands that talk to a server at the default address."""
    return [(page, command) for page, command in console_commands()
            if re.match(r"curl .*:8000|quire (bench serve|top)\b", command) and not NEEDS_DATA.search(command)]


@pytest.mark.parametrize("page, command", client_commands())
def test_a_documented_request_succeeds(server, page, command):
    """At the address of a running server, and without the pauses of a request rate."""
    address = server.url.removeprefix("http://")
    command = command.replace("curl ", "curl --silent --show-error --fail-with-body ", 1)
    if command == "quire top" or command.startswith("quire top -"):
        command = command.replace("quire top", f"quire top {server.url}", 1)
    command = re.sub(r"--request-rate \S+", "--request-rate inf", command.replace(DEFAULT_ADDRESS, address))
    command = re.sub(r"^quire ", f"{shlex.quote(str(BINARY.resolve()))} ", command)
    run = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=HANG_S, stdin=subprocess.DEVNULL)
    assert run.returncode == 0, f"{page}: {command}\n{run.stdout}{run.stderr}"
    assert run.stdout.strip(), f"{page}: {command} prints nothing"


def test_list_of_metrics_is_complete(server):
    """docs/metrics.md has every metric of /metrics, with its type."""
    text = httpx.get(server.url + "/metrics", timeout=HANG_S).text
    served = dict(re.findall(r"^# TYPE quire:(\w+) (\w+)$", text, re.MULTILINE))
    documented = {}
    for heading, cells in rows_of(ROOT / "docs" / "metrics.md"):
        if heading[0] == "metric":
            documented[cells[0].removeprefix("`quire:").rstrip("`")] = cells[1]
    assert documented == served
    with_two_names = {name for name in served if re.search(rf"^# TYPE vllm:{name} ", text, re.MULTILINE)}
    assert set(served) - with_two_names == {"http_connections", "http_requests_in_flight"}


def test_metrics_in_queries_exist(server):
    text = httpx.get(server.url + "/metrics", timeout=HANG_S).text
    for name in re.findall(r"quire:\w+", (ROOT / "docs" / "metrics.md").read_text().split("## Queries")[1]):
        assert re.search(rf"^{name}[{{ ]", text, re.MULTILINE), name


def test_ignored_fields_are_named(server):
    """The pages say of these fields that X-Ignored-Params names them."""
    body = {"messages": [{"role": "user", "content": "a"}], "max_tokens": 1}
    for name, value in {"n_predict": 3, "repeat_penalty": 1.1, "adaptive_target": 0.5, "cache_prompt": True, "id_slot": 1,
                        "keep_alive": "5m", "format": "json"}.items():
        response = httpx.post(server.url + "/v1/chat/completions", json={**body, name: value}, timeout=HANG_S)
        assert response.status_code == 200 and name in response.headers["X-Ignored-Params"], name


@pytest.mark.parametrize("path", ["/completion", "/infill", "/apply-template", "/embedding", "/reranking", "/lora-adapters", "/api/chat", "/api/generate",
                                  "/v1/responses", "/v1/messages", "/v1/load_lora_adapter", "/v1/chat/completions/batch"])
def test_paths_that_the_pages_say_are_missing(server, path):
    assert httpx.post(server.url + path, json={}, timeout=HANG_S).status_code == 404


@functools.cache
def string_literals():
    """The text of the sources, with adjacent string literals joined and arguments between them removed."""
    text = "\n".join(path.read_text() for folder, ending in (("src", "*.cc"), ("src", "*.h"), ("python", "*.py"))
                     for path in (ROOT / folder).rglob(ending))
    return re.sub(r'"\s*\n\s*f?"', "", text).replace('\\"', '"')


def pieces_of(message):
    """The parts of a message between its values: "A ... of B" -> ["A", "of B"]. Something optional may precede a comma."""
    pieces = re.split(r"\.\.\.|'[a-z_]+'|, (?=a sequence)", message)
    return [piece.strip() for piece in pieces if len(piece.strip(" ,;:'.()")) > 1]


def documented_messages():
    found = [cells[0].strip("`") for heading, cells in rows_of(ROOT / "docs" / "troubleshooting.md") if heading[0] == "message"]
    found += [cells[1].split("`")[1] for heading, cells in rows_of(ROOT / "docs" / "moving-from-vllm.md")
              if heading[-1] == "error of a request" and cells[1].startswith("400")]
    return found


@pytest.mark.parametrize("message", documented_messages())
def test_quoted_messages_exist(message):
    if message == "... not in {...}":  # CLI11 writes it; test_wrong_flags_are_reported checks it
        return
    pieces = pieces_of(message)
    assert max(map(len, pieces)) >= 10 or message == "QUIRE_CPU_ISA: ...", message
    missing = [piece for piece in pieces if piece not in string_literals()]
    assert not missing, missing


def test_wrong_flags_are_reported():
    for flag, message in (("--no-such-flag", "there is no flag --no-such-flag"),
                          ("--dtype=int3", "int3 not in {auto,float32,bfloat16,float16}"),
                          ("--port=99999", "'99999' is not a port; ports are 1 to 65535")):
        run = subprocess.run([BINARY, "serve", flag], capture_output=True, text=True)
        assert run.returncode == 2 and message in run.stderr


@pytest.mark.parametrize("command", ["serve", "generate --prompt a", "bench throughput", "inspect"])
@pytest.mark.parametrize("flag, message", [
    ("--max-num-queued-reqs=0", "--max-num-queued-reqs is 0; it must be at least 1."),
    ("--max-num-partial-prefills=-3", "--max-num-partial-prefills is -3; it must be at least 1, or 0 for no limit."),
    ("--long-prefill-token-threshold=-1", "--long-prefill-token-threshold is -1; it must be at least 1, or 0 for no limit."),
    ("--threads=5000", "--threads is 5000; it must be 1 to 1023, or 0 for the physical cores."),
])
def test_numbers_out_of_range_are_reported_before_the_model_is_read(tmp_path, command, flag, message):
    name, *rest = command.split(" ", 1) if not command.startswith("bench") else (command,)
    run = subprocess.run([BINARY, *name.split(), str(tmp_path / "no-model"), *" ".join(rest).split(), flag], capture_output=True, text=True)
    assert run.returncode == 1 and message in run.stderr
