"""Models by name: `quire pull` and MODEL = org/name, against a hub on the loopback interface (hub_server.py)."""

import hashlib
import json
import pathlib
import signal
import struct
import subprocess

import pytest
from hub_fixtures import hub, place  # noqa: F401
from hub_place import CHUNK, NEEDED, NUM_CHUNKS, TINY, assert_complete, big_files, safetensors, tiny_files, wait_for_bytes, wait_for_download
from hub_server import Fault, Repo
from server_process import BINARY
from waiting import HANG_S, wait_until

# Getting a model


def test_pull_fetches_the_needed_files_only(place, hub):
    files = tiny_files()
    extra = {"README.md": b"text", ".gitattributes": b"", "pytorch_model.bin": bytes(200_000), "onnx/model.onnx": bytes(200_000),
             "original/consolidated.00.pth": bytes(200_000), "vocab.json": b"{}"}
    hub.add("org/tiny", {**files, **extra})
    snapshot = place.pull()
    assert_complete(snapshot, files)
    assert hub.fetched() == set(NEEDED)
    assert snapshot == place.cache / "models--org--tiny" / "snapshots" / hub.repos["org/tiny"].commit


def test_a_name_is_a_model(place, hub):
    hub.add("org/tiny", tiny_files())
    flags = ["--prompt", "Once upon a time", "--max-tokens", 8, "--temperature", 0]
    expected = place.quire("generate", TINY, *flags)
    by_name = place.quire("generate", "org/tiny", *flags)
    assert by_name.returncode == 0, by_name.stderr
    assert by_name.stdout == expected.stdout


def test_a_model_in_the_cache_needs_no_network(place, hub):
    hub.add("org/tiny", tiny_files())
    place.pull()
    hub.requests.clear()
    flags = ["--text", "Once upon a time", "--json"]
    assert place.quire("tokenize", "org/tiny", *flags).returncode == 0
    run = place.quire("generate", "org/tiny", "--prompt", "Once", "--max-tokens", 4)
    assert run.returncode == 0, run.stderr
    assert hub.requests == []


def test_a_path_is_never_a_name(place, hub):
    hub.add("org/tiny", tiny_files())
    (place.path / "org" / "tiny").mkdir(parents=True)
    run = subprocess.run([str(BINARY), "inspect", "org/tiny"], cwd=place.path, env=place.environment, capture_output=True, text=True)
    assert run.returncode == 1
    assert "config.json" in run.stderr
    assert hub.requests == []


def test_the_tokenizer_is_enough_for_tokenize_and_render(place, hub):
    hub.add("org/tiny", tiny_files())
    run = place.quire("tokenize", "org/tiny", "--text", "Once upon a time")
    assert run.returncode == 0, run.stderr
    assert "model.safetensors" not in hub.fetched()
    assert place.quire("generate", "org/tiny", "--prompt", "a", "--max-tokens", 1).returncode == 0
    assert "model.safetensors" in hub.fetched()


def test_large_files_use_several_ranges(place, hub):
    files = big_files()
    hub.add("org/tiny", files)
    assert_complete(place.pull(), files)
    ranges = {headers["Range"] for _, _, headers in hub.content_requests if "Range" in headers}
    assert len(ranges) > NUM_CHUNKS
    assert {name for name in place.blobs() if len(name) == 64} == {hashlib.sha256(files["model.safetensors"]).hexdigest(),
                                                                   hashlib.sha256(files["tokenizer.json"]).hexdigest()}


def test_pull_updates_a_model_and_other_commands_do_not(place, hub):
    files = tiny_files()
    repo = hub.add("org/tiny", files)
    first = place.pull()
    newer = {**files, "generation_config.json": b'{"temperature": 0.5}'}
    repo.update(newer)
    assert place.quire("tokenize", "org/tiny", "--text", "a").returncode == 0
    assert (place.cache / "models--org--tiny" / "refs" / "main").read_text() == first.name
    hub.content_requests.clear()
    second = place.pull()
    assert second.name == repo.commit != first.name
    assert_complete(second, newer)
    assert_complete(first, files)
    assert hub.content_requests == []  # large files have not changed


def test_a_revision_is_a_branch_or_a_commit(place, hub):
    files = tiny_files()
    repo = hub.add("org/tiny", files)
    main = repo.commit
    other = {**files, "generation_config.json": b"{}"}
    repo.update(other, branch="dev")
    assert_complete(place.pull("org/tiny", "--revision", "dev"), other)
    assert_complete(place.pull("org/tiny", "--revision", main), files)
    refs = place.cache / "models--org--tiny" / "refs"
    assert [path.name for path in refs.iterdir()] == ["dev"]
    run = place.quire("tokenize", "org/tiny", "--revision", "dev", "--text", "a", HF_HUB_OFFLINE="1")
    assert run.returncode == 0, run.stderr


def test_a_renamed_repository_is_found(place, hub):
    files = tiny_files()
    hub.add("org/tiny", files)
    hub.moved["old/tiny"] = "org/tiny"
    assert_complete(place.pull("old/tiny"), files)


def test_the_served_model_has_the_name(place, hub, start_server, monkeypatch):
    hub.add("org/tiny", tiny_files())
    place.pull()
    for name, value in place.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("QUIRE_MODEL", "org/tiny")
    assert start_server().client().models.list().data[0].id == "org/tiny"


@pytest.fixture(scope="module")
def gguf(tmp_path_factory):
    out = tmp_path_factory.mktemp("gguf") / "tiny"
    subprocess.run([str(BINARY), "quantize", str(TINY), "-o", str(out), "--format", "gguf-q8_0"], check=True, capture_output=True)
    [file] = out.glob("*.gguf")
    return file.read_bytes()


@pytest.mark.parametrize("name", ["org/tiny:Q8_0", "org/tiny:q8_0", "org/tiny/tiny-Q8_0.gguf"])
def test_a_gguf_file_is_named_by_tag_or_file(place, hub, gguf, name):
    hub.add("org/tiny", {"README.md": b"", "tiny-Q8_0.gguf": gguf, "tiny-BF16.gguf": b"GGUF" + bytes(200_000)})
    assert place.pull(name).name == "tiny-Q8_0.gguf"
    assert hub.fetched() == {"tiny-Q8_0.gguf"}
    run = place.quire("generate", name, "--prompt", "Once upon a time", "--max-tokens", 4, HF_HUB_OFFLINE="1")
    assert run.returncode == 0, run.stderr


# Errors before the download


def test_an_unsupported_architecture_is_reported_before_the_weights(place, hub):
    files = big_files()
    config = json.loads(files["config.json"])
    files["config.json"] = json.dumps({**config, "architectures": ["FooForCausalLM"], "model_type": "foo"}).encode()
    hub.add("org/tiny", files)
    message = place.fails("pull", "org/tiny")
    assert "org/tiny" in message and "FooForCausalLM" in message
    assert hub.bytes_sent < 2 << 20


def test_a_wrong_tensor_size_is_reported_before_the_weights(place, hub):
    hub.add("org/tiny", {**tiny_files(), "model.safetensors": safetensors(2 * CHUNK, dtype="U16")})
    message = place.fails("pull", "org/tiny")
    assert "org/tiny/model.safetensors" in message and "U16" in message
    assert hub.bytes_sent < 2 << 20


def test_a_broken_gguf_file_is_reported_before_it_is_downloaded(place, hub, gguf):
    broken = bytearray(gguf + bytes(2 * CHUNK))
    broken[4:8] = struct.pack("<I", 99)  # version
    hub.add("org/tiny", {"tiny-Q8_0.gguf": bytes(broken)})
    message = place.fails("pull", "org/tiny")
    assert "org/tiny/tiny-Q8_0.gguf" in message and "version" in message
    assert hub.bytes_sent < 4 << 20


def test_pickles_are_not_fetched(place, hub):
    hub.add("org/tiny", {"config.json": b"{}", "pytorch_model.bin": bytes(200_000)})
    assert "pickles" in place.fails("pull", "org/tiny")
    assert hub.fetched() == set()


def test_too_little_disk_space_is_reported_first(place, hub):
    class Huge(bytes):
        def __len__(self):
            return 1 << 60

    files = tiny_files()
    files["model.safetensors"] = Huge(files["model.safetensors"])
    hub.add("org/tiny", files)
    message = place.fails("pull", "org/tiny")
    assert "not enough disk space" in message and "1048576.0 TiB" in message
    assert "model.safetensors" not in hub.fetched()


def test_an_unknown_name_lists_similar_ones(place, hub):
    hub.add("org/tiny-stories", tiny_files())
    message = place.fails("pull", "org/tiny-story")
    assert "no such model" in message
    hub.add("org/tiny", tiny_files())
    place.pull("org/tiny")
    assert "similar names: org/tiny" in place.fails("generate", "org/tinny", "--prompt", "a")


def test_a_mistyped_path_is_reported_before_the_name(place):
    message = place.fails("generate", "models/foo", "--prompt", "a")
    assert message.index("there is no file or directory models/foo") < message.index("there is no such model at http")
    message = place.fails("inspect", "models/foo", HF_ENDPOINT="http://127.0.0.1:9")
    assert message.index("there is no file or directory models/foo") < message.index("check the network connection")


def test_a_model_of_the_cache_needs_no_organization(place, hub):
    hub.add("org/tiny", tiny_files())
    place.pull("org/tiny")
    assert "org/tiny" in place.quire("inspect", "tiny").stdout
    hub.add("other/tiny", tiny_files())
    place.pull("other/tiny")
    assert "not the name of a model" in place.fails("inspect", "tiny")  # which one?


def test_what_is_no_name_is_an_error_without_network(place, hub):
    assert "not the name of a model" in place.fails("inspect", "gpt2")
    assert "not the name of a model" in place.fails("pull", "./org/tiny")
    assert hub.requests == []


def test_a_gated_model_needs_the_licence_and_a_token(place, hub):
    hub.add("org/tiny", tiny_files(), gated=True)
    message = place.fails("pull", "org/tiny")
    assert "is gated" in message and f"{hub.url}/org/tiny" in message and "HF_TOKEN" in message
    message = place.fails("pull", "org/tiny", HF_TOKEN=hub.token)
    assert "accept the licence" in message and "has no access" in message
    hub.licence_accepted = True
    place.pull(HF_TOKEN=hub.token)


def test_a_private_model_needs_a_token(place, hub):
    hub.add("org/tiny", tiny_files(), private=True)
    assert "needs a token in HF_TOKEN" in place.fails("pull", "org/tiny")
    assert "rejects the token" in place.fails("pull", "org/tiny", HF_TOKEN="hf_wrong")
    (place.path / "hf").mkdir(exist_ok=True)
    (place.path / "hf" / "token").write_text(hub.token + "\n")
    place.pull()


def test_the_token_is_sent_to_the_hub_only(place, hub):
    hub.add("org/tiny", tiny_files(), private=True)
    place.pull(HF_TOKEN=hub.token)
    assert all(headers.get("Authorization") == f"Bearer {hub.token}" for _, _, headers in hub.requests)
    assert hub.content_requests
    assert not any("Authorization" in headers for _, _, headers in hub.content_requests)


def test_an_unknown_revision_is_an_error(place, hub):
    hub.add("org/tiny", tiny_files())
    assert "no such branch, tag or commit" in place.fails("pull", "org/tiny", "--revision", "nope")
    assert "not a valid branch" in place.fails("pull", "org/tiny", "--revision", "../x")


def test_offline_is_an_error_only_if_files_are_missing(place, hub):
    hub.add("org/tiny", tiny_files())
    message = place.fails("generate", "org/tiny", "--prompt", "a", HF_HUB_OFFLINE="1")
    assert "HF_HUB_OFFLINE" in message and "not in the cache" in message
    assert hub.requests == []


def test_no_connection_is_an_error_that_names_the_hub(place, hub):
    message = place.fails("pull", "org/tiny", HF_ENDPOINT="http://127.0.0.1:9")
    assert "http://127.0.0.1:9" in message and "check the network" in message


# Hostile hubs


def test_unsafe_file_names_are_ignored(place, hub):
    files = tiny_files()
    hub.add("org/tiny", files)
    hub.unsafe_names = ["../../evil.json", "/tmp/evil.json", "a\nb.json", "..", "x/../../../evil.jinja"]
    run = place.quire("pull", "org/tiny")
    assert run.returncode == 0, run.stderr
    assert "unsafe name" in run.stderr
    assert not list(place.path.rglob("evil*"))


@pytest.mark.parametrize("etag", ['"../../../../evil"', '"' + "A" * 64 + '"', '""', '"abc"'])
def test_an_etag_that_is_not_a_hash_is_an_error(place, hub, etag):
    hub.add("org/tiny", tiny_files())
    hub.etags["model.safetensors"] = etag
    assert "SHA-256" in place.fails("pull", "org/tiny")
    assert not list(place.path.rglob("evil*"))


def test_an_index_must_name_files_of_the_repository(place, hub):
    files = tiny_files()
    weights = files.pop("model.safetensors")
    files["model.safetensors.index.json"] = b'{"weight_map": {"a": "../../../evil.safetensors"}}'
    hub.add("org/tiny", {**files, "model-1.safetensors": weights, "model-2.safetensors": weights})
    assert "not in the repository" in place.fails("pull", "org/tiny")


def test_redirects_are_limited(place, hub):
    hub.add("org/tiny", tiny_files())
    hub.hub_faults["/resolve/.*/config.json"] = [302] * 20
    assert "too many redirects" in place.fails("pull", "org/tiny")


@pytest.mark.parametrize("target", ["ftp://127.0.0.1/x", "file:///etc/passwd"])
def test_redirects_lead_to_http_only(place, hub, target):
    hub.add("org/tiny", tiny_files())
    hub.redirects["model.safetensors"] = target
    assert "invalid address" in place.fails("pull", "org/tiny")


# Interruptions

STAGES = {
    "list": lambda hub: hub.hub_faults.update({"^/api/models/": ["drop"]}),
    "list, busy": lambda hub: hub.hub_faults.update({"^/api/models/": [503, 429]}),
    "metadata": lambda hub: hub.hub_faults.update({"/resolve/.*/model.safetensors": ["drop", 500]}),
    "small file, head": lambda hub: hub.faults.update({"config.json": Fault(break_after=0, times=2)}),
    "small file, body": lambda hub: hub.faults.update({"config.json": Fault(break_after=100, times=2)}),
    "large file, head": lambda hub: hub.faults.update({"model.safetensors": Fault(break_after=0, times=3)}),
    "large file, first byte": lambda hub: hub.faults.update({"model.safetensors": Fault(break_after=1, times=3)}),
    "large file, body": lambda hub: hub.faults.update({"model.safetensors": Fault(break_after=3_000_000, times=12)}),
    "large file, busy": lambda hub: hub.faults.update({"model.safetensors": Fault(status=503, times=3)}),
    "large file, other range": lambda hub: hub.faults.update({"model.safetensors": Fault(shift=1, times=3)}),
    "large file, stall": lambda hub: hub.faults.update({"model.safetensors": Fault(break_after=70_000, stall=True, times=2)}),
    "expired addresses": lambda hub: setattr(hub, "signature_uses", 2),
}


@pytest.mark.parametrize("stage", STAGES)
def test_a_broken_connection_is_continued(place, hub, stage):
    files = big_files()
    hub.add("org/tiny", files)
    STAGES[stage](hub)
    assert_complete(place.pull(**({"HF_HUB_DOWNLOAD_TIMEOUT": "1"} if stage.endswith("stall") else {})), files)
    assert place.incomplete() == {}


@pytest.mark.parametrize("size", [1000, 3_000_000])
def test_a_server_without_ranges_works(place, hub, size):
    files = big_files()
    hub.add("org/tiny", files)
    hub.faults["model.safetensors"] = Fault(ignore_ranges=True, times=100)
    assert_complete(place.pull(), files)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_download_is_resumed(place, hub, number):
    files = big_files()
    hub.add("org/tiny", files)
    hub.faults["model.safetensors"] = held = Fault(hold_from=CHUNK + 1_000_000, times=1000)
    process = place.start("pull", "org/tiny")
    wait_for_bytes(place, CHUNK, process)
    process.send_signal(number)
    assert process.wait(HANG_S) != 0
    [unfinished] = place.incomplete().values()
    prefix = unfinished.read_bytes()
    assert files["model.safetensors"].startswith(prefix) and len(prefix) >= CHUNK
    held.times, held.hold_from = 0, None
    wait_until(lambda: hub.num_sending == 0, "the hub does not notice the closed connections")
    hub.bytes_sent = 0
    assert_complete(place.pull(), files)
    assert hub.bytes_sent <= len(files["model.safetensors"]) - len(prefix) + (1 << 20)


def test_what_huggingface_hub_left_unfinished_is_resumed(place, hub):
    files = big_files()
    weights = files["model.safetensors"]
    hub.add("org/tiny", files)
    blobs = place.cache / "models--org--tiny" / "blobs"
    blobs.mkdir(parents=True)
    (blobs / (hashlib.sha256(weights).hexdigest() + ".incomplete")).write_bytes(weights[:-1000])
    assert_complete(place.pull(), files)
    assert hub.bytes_sent < 2 << 20


def test_a_wrong_unfinished_file_is_downloaded_again(place, hub):
    files = big_files()
    weights = files["model.safetensors"]
    hub.add("org/tiny", files)
    blobs = place.cache / "models--org--tiny" / "blobs"
    blobs.mkdir(parents=True)
    unfinished = blobs / (hashlib.sha256(weights).hexdigest() + ".incomplete")
    unfinished.write_bytes(bytes(1_000_000))
    assert_complete(place.pull(), files)
    for link in place.cache.rglob("model.safetensors"):
        link.unlink()
    (blobs / hashlib.sha256(weights).hexdigest()).unlink()
    unfinished.write_bytes(bytes(len(weights) + 1))
    assert_complete(place.pull(), files)


def test_a_connection_that_always_breaks_is_an_error_and_keeps_what_has_arrived(place, hub):
    files = big_files()
    hub.add("org/tiny", files)
    place.fails("pull", "org/nothing")
    header = len(files["model.safetensors"]) - NUM_CHUNKS * CHUNK
    hub.faults["model.safetensors"] = Fault(status=503, times=1000)
    assert header < 300_000
    message = place.fails("pull", "org/tiny")
    assert "model.safetensors" in message and "503" in message
    hub.faults.clear()
    assert_complete(place.pull(), files)


@pytest.mark.parametrize("file", ["config.json", "model.safetensors"])
def test_a_wrong_hash_is_an_error_and_nothing_is_kept(place, hub, file):
    files = tiny_files()
    hub.add("org/tiny", files)
    wrong = bytearray(files[file])
    wrong[-2] ^= 1
    hub.faults[file] = Fault(content=bytes(wrong), times=100)
    message = place.fails("pull", "org/tiny")
    assert file in message and "wrong hash" in message
    assert place.incomplete() == {}
    assert not (place.cache / "models--org--tiny" / "refs" / "main").exists()
    for content in map(pathlib.Path.read_bytes, place.blobs().values()):
        assert content != bytes(wrong)
    hub.faults.clear()
    assert_complete(place.pull(), files)


@pytest.mark.parametrize("content", [lambda c: c[:-1], lambda c: c + b"x"])
def test_a_wrong_length_is_an_error(place, hub, content):
    files = tiny_files()
    hub.add("org/tiny", files)
    hub.faults["model.safetensors"] = Fault(content=content(files["model.safetensors"]), times=100)
    assert "bytes on the server" in place.fails("pull", "org/tiny")
    hub.faults["model.safetensors"] = Fault(content=content(files["model.safetensors"]), times=100, ignore_ranges=True)
    assert "bytes on the server" in place.fails("pull", "org/tiny")


def test_two_processes_share_a_download(place, hub):
    files = big_files()
    hub.add("org/tiny", files)
    hub.faults["model.safetensors"] = Fault(delay=0.005, times=1000)
    processes = [place.start("pull", "org/tiny") for _ in range(3)]
    for process in processes:
        output, errors = process.communicate(timeout=HANG_S)
        assert process.returncode == 0, errors
        assert_complete(pathlib.Path(output.strip()), files)
    headers = 3 * (1 << 20)
    assert hub.bytes_sent < sum(map(len, files.values())) + headers


# The cache


def test_list_and_rm(place, hub, gguf):
    hub.add("org/tiny", tiny_files())
    hub.add("org/tiny-GGUF", {"tiny-Q8_0.gguf": gguf})
    assert "no models" in place.quire("list").stderr
    place.pull()
    place.pull("org/tiny-GGUF:Q8_0")
    table = place.quire("list").stdout
    assert "org/tiny " in table and "org/tiny-GGUF/tiny-Q8_0.gguf" in table and "main" in table
    listed = json.loads(place.quire("list", "--json").stdout)
    assert [model["name"] for model in listed] == ["org/tiny", "org/tiny-GGUF"]
    assert listed[0]["bytes"] == sum(map(len, tiny_files().values()))
    assert listed[1]["gguf"] == ["tiny-Q8_0.gguf"]
    removed = place.quire("rm", "org/tiny", "org/tiny-GGUF:Q8_0")
    assert removed.returncode == 0 and "removed org/tiny," in removed.stderr, removed.stderr
    assert not (place.cache / "models--org--tiny").exists()
    assert place.blobs("org/tiny-GGUF") == {}
    assert "is not in the cache" in place.fails("rm", "org/tiny")
    assert place.quire("rm").returncode == 2


def test_a_downloaded_model_cannot_be_removed_meanwhile(place, hub):
    files = big_files()
    hub.add("org/tiny", files)
    hub.faults["model.safetensors"] = Fault(hold_from=CHUNK, times=1000)
    process = place.start("pull", "org/tiny")
    wait_for_download(place, files["model.safetensors"], process)
    assert "another process" in place.fails("rm", "org/tiny")
    process.kill()
    process.wait()


def test_run_needs_a_name_and_downloads_it(place, hub):
    hub.add("org/tiny", tiny_files())
    assert place.quire("run").returncode == 2
    run = subprocess.run([str(BINARY), "run", "org/tiny", "--max-tokens", "4"], env=place.environment, input="Hello\n/exit\n",
                         capture_output=True, text=True, timeout=HANG_S)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip()
    assert "model.safetensors" in hub.fetched()


def test_the_repository_class_gives_commits():
    """The test hub itself: a commit is a function of the content."""
    assert Repo({"a": b"1"}).commit == Repo({"a": b"1"}).commit != Repo({"a": b"2"}).commit
