"""The KV disk cache and the weight cache on disks that fail: killed at any moment, full, read-only, vanishing, shared between processes, and
corrupted while the program runs.

Every output must be the one without caches. A test fails if its fault did not occur. QUIRE_KILL_ROUNDS (default 24) is the number of kills.
Mounts need root."""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import threading

import httpx
import pytest
from faults.control import FaultControl, build_library
from server_process import BINARY, ServerProcess
from waiting import HANG_S, wait_until

KILL_ROUNDS = int(os.environ.get("QUIRE_KILL_ROUNDS", "24"))
pytestmark = pytest.mark.timeout(300 + 10 * KILL_ROUNDS)
WORDS = "the little fox went into a dark wood and looked for its old friend who lived under one tall tree by the river".split()
# A pool of 32 blocks and prompts of about 300 blocks, so that most prefixes are on the disk.
SMALL_POOL = ["--kv-cache-memory", "1MiB", "--max-model-len", "256"]
PROMPTS = [" ".join(random.Random(i).choice(WORDS) for _ in range(170)) for i in range(24)]


def complete(server, prompt):
    body = {"prompt": prompt, "max_tokens": 8, "temperature": 0, "ignore_eos": True}
    response = httpx.post(server.url + "/v1/completions", json=body, timeout=HANG_S)
    assert response.status_code == 200, response.text
    return response.json()["choices"][0]["text"]


def complete_all(server):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        return list(pool.map(lambda prompt: complete(server, prompt), PROMPTS))


@pytest.fixture(scope="module")
def expected():
    server = ServerProcess("--no-enable-prefix-caching")
    texts = complete_all(server)
    server.stop()
    return texts


def disk_flags(directory, size="64MiB"):
    return [*SMALL_POOL, "--kv-disk-cache", str(directory), "--kv-disk-cache-size", size]


def stop_cleanly(server):
    server.stop()
    assert server.process.returncode == 0, "".join(server.log)


def disk_hits(server):
    """Blocks of cached prefixes that the disk cache had."""
    return server.metric("quire:kv_tier_hits_total", 'tier="disk"')


def log_has(server, *texts):
    wait_until(lambda: any(all(text in line for text in texts) for line in server.log),
               lambda: f"{texts} is not in the log:\n" + "".join(server.log))


@contextlib.contextmanager
def mounted(directory, options):
    directory.mkdir(exist_ok=True)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(directory)], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"cannot mount a file system: {done.stderr.strip()}")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=False, stderr=subprocess.DEVNULL)


def cache_files(directory, *names):
    found = [path for path in directory.rglob("*") if path.name in names or path.suffix in names]
    assert found, f"{directory} has none of {names}"
    return found


# The KV disk cache.

def test_a_full_disk_ends_the_writes_of_the_kv_cache(start_server, tmp_path, expected):
    with mounted(tmp_path / "disk", "size=2m") as disk:
        server = start_server(*disk_flags(disk))
        for _ in range(3):
            assert complete_all(server) == expected
        log_has(server, "No space left on device", "nothing more is written")
        assert server.metric("quire:kv_disk_writes_dropped_total") > 0
        assert sum("No space left" in line for line in server.log) == 1
        stop_cleanly(server)
        # The next start reads what was written before the disk was full.
        again = start_server(*disk_flags(disk))
        assert complete_all(again) == expected
        assert disk_hits(again) > 0
        stop_cleanly(again)


def test_writes_that_start_to_fail_cost_nothing_but_writes(start_server, tmp_path, expected):
    server = start_server(*disk_flags(tmp_path))
    assert complete_all(server) == expected
    written = server.metric("quire:kv_disk_writes_total")
    assert written > 0
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (4096, 4096))
    assert httpx.post(server.url + "/reset_prefix_cache", timeout=HANG_S).json()["success"]
    for _ in range(2):
        assert complete_all(server) == expected
    log_has(server, "File too large", "nothing more is written")
    assert server.metric("quire:kv_disk_writes_dropped_total") > 0
    stop_cleanly(server)


def test_a_read_only_disk_means_no_kv_disk_cache(start_server, tmp_path, expected):
    with mounted(tmp_path / "disk", "size=64m") as disk:
        first = start_server(*disk_flags(disk))
        assert complete_all(first) == expected
        stop_cleanly(first)
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        server = start_server(*disk_flags(disk))
        log_has(server, "Read-only file system", "running without the disk cache")
        assert complete_all(server) == expected
        stop_cleanly(server)


@pytest.mark.parametrize("how", ["deleted", "unmounted", "truncated"])
def test_a_kv_disk_cache_may_vanish(start_server, tmp_path, expected, how):
    with mounted(tmp_path / "disk", "size=64m") as disk:
        server = start_server(*disk_flags(disk))
        assert complete_all(server) == expected
        assert server.metric("quire:kv_disk_writes_total") > 0
        if how == "deleted":
            for path in disk.iterdir():
                shutil.rmtree(path)
            assert not list(disk.iterdir())
        elif how == "unmounted":
            subprocess.run(["umount", "-l", str(disk)], check=True)
            assert not list(disk.iterdir())
        else:
            for file in cache_files(disk, "blocks", "heads"):
                os.truncate(file, 0)
        for _ in range(2):
            assert complete_all(server) == expected
        if how == "truncated":
            assert server.metric("quire:kv_disk_reads_failed_total") > 0
        stop_cleanly(server)


def test_processes_that_share_a_kv_disk_cache_do_not_disturb_each_other(start_server, tmp_path, expected):
    first = start_server(*disk_flags(tmp_path))
    second = start_server(*disk_flags(tmp_path))
    log_has(second, "another process uses it", "running without the disk cache")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        assert list(pool.map(complete_all, [first, second])) == [expected, expected]
    assert first.metric("quire:kv_disk_writes_total") > 0
    assert second.metric("quire:kv_disk_writes_total") == 0
    # A process that is killed leaves no lock behind.
    first.process.kill()
    first.wait()
    third = start_server(*disk_flags(tmp_path))
    assert complete_all(third) == expected
    assert disk_hits(third) > 0
    stop_cleanly(third)
    stop_cleanly(second)


def test_a_kv_disk_cache_that_is_corrupted_while_it_is_used_changes_no_output(start_server, tmp_path, expected):
    server = start_server(*disk_flags(tmp_path))
    assert complete_all(server) == expected
    files = [file.open("r+b", buffering=0) for file in cache_files(tmp_path, "blocks", "heads")]
    rng = random.Random(1)
    done = threading.Event()
    writes = 0

    def corrupt():
        nonlocal writes
        while not done.is_set():
            for file in files:
                size = os.fstat(file.fileno()).st_size
                if size > 0:
                    os.pwrite(file.fileno(), rng.randbytes(rng.choice([1, 8, 5000])), rng.randrange(size))
                    writes += 1
            done.wait(0.001)

    thread = threading.Thread(target=corrupt)
    thread.start()
    try:
        for _ in range(2):
            assert complete_all(server) == expected
    finally:
        done.set()
        thread.join()
        for file in files:
            file.close()
    assert writes > 0 and server.metric("quire:kv_disk_reads_failed_total") > 0
    stop_cleanly(server)
    # A later process finds slots with wrong checksums.
    again = start_server(*disk_flags(tmp_path))
    assert complete_all(again) == expected
    stop_cleanly(again)


# The weight cache.

GENERATE = ["generate", "--prompt", PROMPTS[0][:60], "--prompt", "The little fox", "--max-tokens", "16", "--temperature", "0", *SMALL_POOL]


def generate(*flags):
    done = subprocess.run([str(BINARY), *GENERATE, *flags], capture_output=True, text=True, timeout=HANG_S)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def generated():
    status, text, _ = generate()
    assert status == 0
    return text


def test_a_full_disk_means_no_weight_cache(tmp_path, generated):
    with mounted(tmp_path / "disk", "size=1m") as disk:
        for _ in range(2):
            status, text, log = generate("--weight-cache", str(disk))
            assert (status, text) == (0, generated)
            assert "--weight-cache" in log and "No space left on device" in log
        assert not [path for path in disk.iterdir() if path.suffix in (".weights", ".part")]


def test_a_read_only_disk_means_no_weight_cache_or_the_one_it_has(tmp_path, generated):
    with mounted(tmp_path / "disk", "size=64m") as disk:
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        status, text, log = generate("--weight-cache", str(disk))
        assert (status, text) == (0, generated)
        assert "Read-only file system" in log
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
        assert generate("--weight-cache", str(disk))[:2] == (0, generated)
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        status, text, log = generate("--weight-cache", str(disk))
        assert (status, text) == (0, generated)
        assert "weights from cache" in log


def test_a_weight_cache_may_be_unmounted(start_server, tmp_path, expected):
    with mounted(tmp_path / "disk", "size=64m") as disk:
        stop_cleanly(start_server("--weight-cache", str(disk)))
        server = start_server("--weight-cache", str(disk), *SMALL_POOL)
        log_has(server, "weights from cache")
        subprocess.run(["umount", "-l", str(disk)], check=True)
        assert complete_all(server) == expected
        stop_cleanly(server)


def test_servers_share_a_weight_cache(start_server, tmp_path, expected):
    flags = ["--weight-cache", str(tmp_path), *SMALL_POOL]
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        servers = list(pool.map(lambda _: start_server(*flags), range(3)))
    for server in servers:
        assert complete_all(server) == expected
        stop_cleanly(server)
    assert len(cache_files(tmp_path, ".weights")) == 1
    assert generate("--weight-cache", str(tmp_path))[2].count("weights from cache") == 1


def test_a_weight_cache_that_is_truncated_under_a_server_ends_it_with_an_error(start_server, tmp_path, expected):
    stop_cleanly(start_server("--weight-cache", str(tmp_path)))
    server = start_server("--weight-cache", str(tmp_path), *SMALL_POOL)
    log_has(server, "weight cache verified")
    (file,) = cache_files(tmp_path, ".weights")
    os.truncate(file, 8192)
    for prompt, text in zip(PROMPTS, expected):
        try:
            assert complete(server, prompt) == text
        except (AssertionError, httpx.HTTPError):
            break
    assert server.wait() == 1, "".join(server.log)
    assert any(file.name in line for line in server.log), "".join(server.log)
    again = start_server("--weight-cache", str(tmp_path), *SMALL_POOL)
    assert complete_all(again) == expected
    stop_cleanly(again)


@pytest.mark.parametrize("damage", ["byte", "page", "end", "header"])
def test_a_damaged_weight_cache_is_an_error_or_is_replaced(start_server, tmp_path, expected, damage):
    stop_cleanly(start_server("--weight-cache", str(tmp_path)))
    (file,) = cache_files(tmp_path, ".weights")
    size = file.stat().st_size
    with file.open("r+b") as stream:
        at = {"byte": size // 2, "page": size // 3, "end": size - 4096, "header": 16}[damage]
        if damage == "end":
            stream.truncate(at)
        else:
            stream.seek(at)
            old = stream.read(1 if damage == "byte" else 4096)
            stream.seek(at)
            stream.write(bytes(255 - byte for byte in old))
    server = start_server("--weight-cache", str(tmp_path), *SMALL_POOL)
    # Damage to a piece is found in the background, damage to the table and the size before the file is used.
    if damage in ("byte", "page"):
        assert server.wait() == 1, "".join(server.log)
        assert any(file.name in line for line in server.log), "".join(server.log)
    else:
        assert complete_all(server) == expected
        log_has(server, "weight cache written")
        stop_cleanly(server)
    again = start_server("--weight-cache", str(tmp_path), *SMALL_POOL)
    assert complete_all(again) == expected
    stop_cleanly(again)


# Kills.

# Where the program is killed: at a random one of these calls, on threads of this name or on all.
KILLED = [("malloc", ""), ("pwrite", "quire-kv-disk"), ("pwritev", ""), ("write", ""), ("malloc", "quire-engine"), ("malloc", "quire-kv-disk")]
KILLS_OF_A_KIND = 4


def test_kills_at_any_moment_cost_cached_data_and_nothing_else(tmp_path, expected):
    """Kills while the program starts, packs and writes weights, computes, writes blocks, and writes its queue at the end."""
    requests = tmp_path / "prompts.txt"
    requests.write_text("\n".join(PROMPTS) + "\n")
    command = [str(BINARY), "generate", "--prompts-file", str(requests), "--max-tokens", "8", "--temperature", "0", "--ignore-eos", "--json",
               "--stats", *disk_flags(tmp_path / "kv"), "--weight-cache", str(tmp_path / "weights")]
    rng = random.Random(5)
    faults = FaultControl(tmp_path)
    environment = {**os.environ, **faults.environment(build_library(tmp_path))}

    def run():
        process = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=HANG_S)
        return process.returncode, process.stdout, process.stderr

    def check(what):
        """A run that is not killed. Returns its number of tokens from the cache, and whether it mapped its weights."""
        status, out, err = run()
        assert status == 0, err
        results = [json.loads(line) for line in out.splitlines()]
        assert [result["outputs"][0]["text"] for result in results] == expected, what
        return sum(result["metrics"]["num_cached_tokens"] for result in results), "weights from cache" in err

    kills, checked, cached, mapped = 0, 0, 0, 0
    for rounds in range(0, KILL_ROUNDS, KILLS_OF_A_KIND):
        call, thread = KILLED[rounds // KILLS_OF_A_KIND % len(KILLED)]
        weights_are_written = call == "pwritev"
        if weights_are_written:
            shutil.rmtree(tmp_path / "weights", ignore_errors=True)
        faults.arm(call, thread, 0)
        num_cached, is_mapped = check(f"after {kills} kills")
        num_calls, _ = faults.disarm()
        checked += 1
        cached += num_cached
        mapped += is_mapped
        for _ in range(KILLS_OF_A_KIND):
            # Sometimes everything starts from nothing, so that weights are packed and written.
            if weights_are_written:
                shutil.rmtree(tmp_path / "weights", ignore_errors=True)
            elif rng.random() < 0.2:
                shutil.rmtree(tmp_path / rng.choice(["kv", "weights"]), ignore_errors=True)
            faults.arm(call, thread, rng.randint(1, max(1, num_calls)), kills=True)
            status, _, err = run()
            assert status in (0, -signal.SIGKILL), err
            kills += status != 0
            faults.disarm()
    check(f"after {kills} kills")
    print(f"{kills} kills, {checked} runs checked, {cached} tokens from the cache, weights mapped {mapped} times")
    assert kills > KILL_ROUNDS // 2, "many runs ended before they were killed"
    assert cached > 0 and mapped > 0, "no cache survived, so the kills proved nothing"
    assert not list(pathlib.Path(tmp_path / "weights").glob("*.part"))


def test_a_server_that_is_killed_while_it_answers_starts_again_with_its_cache(tmp_path, expected):
    rng = random.Random(6)
    hits = 0
    for _ in range(max(3, KILL_ROUNDS // 8)):
        server = ServerProcess(*disk_flags(tmp_path))
        answered = 0
        stop = threading.Event()
        wrong = []

        def client(first):
            nonlocal answered
            while not stop.is_set():
                for i in [*range(first, len(PROMPTS)), *range(first)]:
                    try:
                        text = complete(server, PROMPTS[i])
                    except httpx.HTTPError:
                        return  # killed
                    answered += 1
                    if text != expected[i]:
                        wrong.append((i, text))

        threads = [threading.Thread(target=client, args=(6 * k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        enough = rng.randint(10, 60)
        wait_until(lambda: answered >= enough, "the server does not answer")
        hits += disk_hits(server)
        server.process.kill()
        stop.set()
        for thread in threads:
            thread.join()
        server.stop()
        assert not wrong
    assert hits > 0
