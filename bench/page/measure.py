"""Measures what the web page costs: CPU time of the longest task on its main thread, and CPU time of the server for snapshots of the engine.
Exits with 1 if a bound is exceeded. The tests in tests/page count steps, nodes and bytes instead.

    build/venv/bin/python bench/page/measure.py        needs tools/make_venv.sh tests/e2e/requirements.txt build/venv

| figure | bound |
|---|---|
| longest task while the live view draws 256 sequences | 100 ms |
| longest task while a response of 25 kB arrives at once | 400 ms |
| a page that shows the live view of 256 sequences, share of a core that the server needs for it | 1 % |
| the same with 32 sequences and the default size of the KV cache | 1 % |
"""

import contextlib
import json
import pathlib
import re
import shutil
import statistics
import sys
import threading
import time

TESTS = pathlib.Path(__file__).resolve().parents[2] / "tests"
sys.path[:0] = [str(TESTS / folder) for folder in ("e2e", "support", "page")]

import httpx  # noqa: E402
from chat_page import ChatPage  # noqa: E402
from playwright.sync_api import expect, sync_playwright  # noqa: E402
from server_process import ServerProcess  # noqa: E402

NUM_SEQUENCES = 256
NUM_SEQUENCES_DEFAULT_POOL = 32
SNAPSHOTS_PER_SECOND = 2  # of a page: INTERVAL in engine_view.js
SERVER_THREADS = {"quire-http", "quire-work"}
TRACED = ["toplevel", "devtools.timeline"]  # categories of Chromium's trace with the tasks of threads
LONG_RESPONSE = "A paragraph with `code` and $x^2$ and **emphasis**.\n\n" * 300 + "[" * 3000 + "*" * 3000 + "_a" * 2000 + "`" * 1001


class Visit:
    def __init__(self, page):
        self.page = page


@contextlib.contextmanager
def traced_tasks(browser, page):
    """Yields a list which has, when the block has ended, the CPU times of the tasks on the main thread of the page."""
    tasks = []
    browser.start_tracing(page=page, categories=TRACED)
    try:
        yield tasks
    finally:  # only one trace can be recorded at a time
        tasks += main_thread_tasks(browser.stop_tracing())


def main_thread_tasks(trace):
    """The CPU times of the tasks on the main thread of the page, and of their parts, in milliseconds. Chromium leaves out some
    tasks, but not their parts."""
    events = json.loads(trace)["traceEvents"]
    main = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name" and e["args"]["name"] == "CrRendererMain"}
    return [e["tdur"] / 1000 for e in events if (e["pid"], e["tid"]) in main and "tdur" in e]


@contextlib.contextmanager
def crowded_server(num_sequences, memory):
    """A server that always runs num_sequences sequences."""
    server = ServerProcess("--kv-cache-memory", memory, "--shutdown-timeout", "0", slow=True)
    client = httpx.Client(limits=httpx.Limits(max_connections=None), timeout=600)
    body = {"prompt": "Once upon a time", "max_tokens": 800, "ignore_eos": True}

    def repeat():
        with contextlib.suppress(httpx.HTTPError):
            while client.post(server.url + "/v1/completions", json=body).status_code == 200:
                pass

    threads = [threading.Thread(target=repeat) for _ in range(num_sequences)]
    for thread in threads:
        thread.start()
    while server.metric("quire:num_requests_running") < num_sequences:
        time.sleep(0.1)
    try:
        yield server
    finally:
        server.stop()
        for thread in threads:
            thread.join()


def longest_drawing_task(browser, server):
    page = browser.new_page()
    page.goto(server.url + "/#/engine")
    expect(page.locator(".pool-summary")).to_contain_text("blocks of")
    with traced_tasks(browser, page) as tasks:
        page.wait_for_timeout(5000)
    page.close()
    return max(tasks)


def longest_rendering_task(browser):
    server = ServerProcess()
    page = browser.new_page()
    page.goto(server.url)
    chat = ChatPage(Visit(page))
    chat.answer_with(LONG_RESPONSE)
    with traced_tasks(browser, page) as tasks:
        chat.ask("long")
    page.close()
    server.stop()
    return max(tasks)


def thread_seconds(server):
    """The CPU time of SERVER_THREADS, in seconds."""
    total = 0
    for task in pathlib.Path(f"/proc/{server.process.pid}/task").iterdir():
        if (task / "comm").read_text().strip() in SERVER_THREADS:
            total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


def idle_rate(server):
    """Seconds of CPU time per second that these threads take while no page asks for snapshots."""
    before, begin = thread_seconds(server), time.monotonic()
    time.sleep(1)
    return (thread_seconds(server) - before) / (time.monotonic() - begin)


def snapshot_seconds(server):
    """CPU seconds per snapshot. The same threads also work for the responses. That part is measured before and after the snapshots, and
    subtracted."""
    costs = []
    with httpx.Client(timeout=60) as client:
        for _ in range(5):
            first = idle_rate(server)
            before, begin, engine, count = thread_seconds(server), time.monotonic(), 0.0, 0
            while time.monotonic() < begin + 2:
                response = client.get(server.url + "/internal/engine")
                if "server-timing" not in response.headers:
                    time.sleep(0.05)  # the last snapshot again
                    continue
                engine += float(re.search(r"engine;dur=([\d.]+)", response.headers["server-timing"])[1]) / 1000
                count += 1
            used, seconds = thread_seconds(server) - before, time.monotonic() - begin
            others = (first + idle_rate(server)) / 2 * seconds
            costs.append((engine + used - others) / count)
    return statistics.median(costs)


def main():
    found = next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None)
    assert found, "Chromium is missing; tools/setup.sh test installs it"
    expect.set_options(timeout=120_000)
    with crowded_server(NUM_SEQUENCES_DEFAULT_POOL, "0") as server:
        num_blocks = httpx.get(server.url + "/internal/model").json()["num_blocks"]
        default_share = SNAPSHOTS_PER_SECOND * snapshot_seconds(server)
    with sync_playwright() as playwright, crowded_server(NUM_SEQUENCES, "512MiB") as server:
        share = SNAPSHOTS_PER_SECOND * snapshot_seconds(server)
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        drawing = longest_drawing_task(browser, server)
        server.stop()
        rendering = longest_rendering_task(browser)
        browser.close()
    figures = [
        (f"longest task with {NUM_SEQUENCES} sequences", drawing, 100, "ms of CPU time"),
        ("longest task with a long response", rendering, 400, "ms of CPU time"),
        (f"snapshots of {NUM_SEQUENCES} sequences for a page", 100 * share, 1, "% of a core"),
        (f"snapshots of the default pool, {num_blocks:,} blocks, for a page", 100 * default_share, 1, "% of a core"),
    ]
    for name, value, bound, unit in figures:
        print(f"{name}: {value:.2f} {unit} (bound {bound})")
    return 1 if any(value > bound for _, value, bound, _ in figures) else 0


if __name__ == "__main__":
    sys.exit(main())
