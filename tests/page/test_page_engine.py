"""The live view of the engine."""

import contextlib
import datetime
import json
import re
import threading

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from chat_page import PHONE, reload_and_count
from engine_page import colors_in, owner_colors, theme_colors
from playwright.sync_api import expect
from server_process import ServerProcess
from waiting import attempts, wait_until

# One client for all requests: each new one reads the certificates of the system, which takes longer than many a response.
CLIENT = httpx.Client(limits=httpx.Limits(max_connections=None), timeout=120)
PREFIX = "You are a careful assistant who answers in short sentences and never guesses. " * 10


def complete(server, number, **fields):
    body = {"model": "quire-tiny", "prompt": f"{PREFIX}Question {number}.", "max_tokens": 400, "ignore_eos": True, **fields}
    body["prompt"] = body["prompt"].replace("NUMBER", str(number))
    return CLIENT.post(server.url + "/v1/completions", json=body)


def repeat_until_stopped(server, number, **fields):
    with contextlib.suppress(httpx.HTTPError):
        while complete(server, number, **fields).status_code == 200:
            pass


@contextlib.contextmanager
def open_streams(server, count, **fields):
    """Requests that run until the end of the context, where they are aborted, or until they reach the longest length."""
    with contextlib.ExitStack() as connections:
        for number in range(count):
            body = {"prompt": f"{PREFIX}Question {number}.", "max_tokens": 700, "ignore_eos": True, "stream": True, **fields}
            text = json.dumps(body)
            connection = connections.enter_context(server.connect())
            connection.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode())
        yield


def in_background(server, count, target=complete, **fields):
    threads = [threading.Thread(target=target, args=(server, i), kwargs=fields) for i in range(count)]
    for thread in threads:
        thread.start()
    return threads


def test_shows_the_blocks_that_32_requests_share(slow_server, visit):
    complete(slow_server, 0, max_tokens=1)
    page = visit(slow_server.url + "/#/engine").page
    with open_streams(slow_server, 32):
        summary = page.locator(".pool-summary")
        expect(summary).to_contain_text("shared by up to 32 sequences")
        assert int(re.search(r"(\d+) shared", summary.inner_text()).group(1)) >= 10
        view = httpx.get(slow_server.url + "/internal/engine").json()
        assert len(view["requests"]) == 32 and all(r["arrival"] <= r["scheduled"] for r in view["requests"])
    expect(page.get_by_text("0 running, 0 waiting")).to_be_visible()


def test_draws_the_states_of_requests_and_blocks(start_server, visit):
    # The sequences do not fit: some wait, some are swapped out. Prompts take several chunks.
    server = start_server("--kv-cache-memory", "2MiB", "--swap-space", "64MiB", "--preemption-mode", "swap", "--max-num-batched-tokens", "64",
                          "--max-num-seqs", "8", "--shutdown-timeout", "0", slow=True)
    page = visit(server.url + "/#/engine").page
    expect(page.locator(".pool-summary")).to_contain_text("blocks of")
    threads = in_background(server, 12, repeat_until_stopped, prompt="NUMBER long stories about a cat and a dog. " * 12, max_tokens=300)
    expect(page.locator(".pool-summary")).to_contain_text(re.compile(r"[1-9]\d* of [\d,]+ host blocks used"))
    theme = theme_colors(page)
    colors = {state: theme[name] for state, name in {"queued": "idle", "prefill": "prefill", "decode": "decode", "preempted": "preempted"}.items()}
    wanted = {*colors, "owners", "swapped", "chunks", "pauses"}
    seen = set()
    for _ in attempts(lambda: f"not drawn: {wanted - seen}", pause_s=0.1):
        requests = httpx.get(server.url + "/internal/engine").json()["requests"]
        timeline, pool, host = (colors_in(page.get_by_label(name, exact=True)) for name in
                                ("Timeline of requests", "Blocks of the KV cache", "Swapped blocks in host memory"))
        seen |= {state for state, pixels in colors.items() if timeline.get(pixels, 0) > 20}
        in_phase = lambda *phases: owner_colors(page, [r["id"] for r in requests if r["phase"] in phases])  # noqa: E731
        if len([c for c in in_phase("prefill", "decode") if pool.get(c, 0) > 20]) >= 2:
            seen.add("owners")  # blocks in the colors of at least two requests
        if any(host.get(c, 0) > 20 for c in in_phase("swapped")):
            seen.add("swapped")
        if any(len(r["chunks"]) > 1 for r in requests):
            seen.add("chunks")
        if any(r["pauses"] for r in requests):
            seen.add("pauses")
        if seen == wanted:
            break
    for tile in page.locator(".tile dd").all():
        expect(tile).not_to_contain_text("–")  # rates need tokens between two updates
    tiles = dict(zip(page.locator(".tile dt").all_inner_texts(), page.locator(".tile dd:not(.tile-note)").all_inner_texts()))
    assert int(tiles["Preemptions"]) > 0, tiles
    expect(page.get_by_text("contiguous allocation would reserve 1,024 tokens for each")).to_be_visible()
    page.close()  # it would log that it cannot reach the stopped server
    server.stop()
    for thread in threads:
        thread.join()


def test_shows_cached_blocks_and_the_hit_rate(server, visit):
    for number in range(2):
        complete(server, number, max_tokens=2)
    page = visit(server.url + "/#/engine").page
    expect(page.locator(".pool-summary")).to_contain_text(re.compile(r"[1-9]\d* cached"))
    pool, cached = page.get_by_label("Blocks of the KV cache", exact=True), theme_colors(page)["idle"]
    wait_until(lambda: colors_in(pool).get(cached, 0) > 20, "cached blocks are not drawn")
    hits = page.locator(".tile", has_text="Prefix hit rate").locator("dd").first.inner_text()
    assert float(hits.removesuffix(" %")) > 0


def test_contains_no_text_of_prompts(slow_server, visit):
    visit(slow_server.url + "/#/engine")

    def snapshot():
        text = httpx.get(slow_server.url + "/internal/engine").text
        return text if '"arrival"' in text else None

    with open_streams(slow_server, 4):
        text = wait_until(snapshot, "no request in the snapshots")
    assert "careful" not in text and "Question" not in text


def test_pages_ask_for_two_snapshots_per_second_and_only_while_they_show_them(server, visit):
    """On the clock of the page, which the test moves."""
    page = visit(server.url).page
    page.clock.install(time=datetime.datetime(2030, 1, 1))
    page.reload()
    asked = []
    page.on("request", lambda r: "/internal/engine" in r.url and asked.append(r.url))
    expect(page.locator(".suggestion").first).to_be_visible()
    page.clock.pause_at(datetime.datetime(2030, 1, 2))
    page.clock.run_for(5000)
    page.keyboard.press("Control+e")
    passed = 0
    for _ in attempts("the page asks for no more snapshots"):
        page.clock.run_for(100)
        passed += 100
        assert len(asked) <= 1 + passed / 500
        if len(asked) == 6:
            break
    expect(page.locator(".pool-summary")).to_contain_text("blocks of")
    page.keyboard.press("Control+e")
    expect(page.locator(".composer")).to_be_visible()
    page.clock.run_for(500)
    page.evaluate("fetch('/health')")  # later than a request of a timer
    del asked[:]
    page.clock.run_for(5000)
    page.evaluate("fetch('/health')")
    assert asked == []


@pytest.mark.parametrize("options", [{}, {**PHONE, "color_scheme": "dark"}], ids=["desktop", "phone"])
def test_is_accessible_and_fits(server, visit, options):
    page = visit(server.url + "/#/engine", bypass_csp=True, **options).page
    expect(page.locator(".pool-summary")).to_contain_text("blocks of")
    violations = Axe().run(page).response["violations"]
    assert [v["id"] for v in violations if v["impact"] in ("serious", "critical")] == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.fixture(scope="module")
def crowded():
    """A snapshot of an engine that runs 256 sequences."""
    server = ServerProcess("--kv-cache-memory", "128MiB", "--shutdown-timeout", "0")
    try:
        for _ in attempts("256 requests never ran together"):
            with open_streams(server, 256):
                for _ in range(20):
                    text = httpx.get(server.url + "/internal/engine").text
                    if json.loads(text)["stats"]["running"] == 256:
                        return text
    finally:
        server.stop()


def test_256_sequences_are_drawn_without_nodes(server, crowded, visit):
    page = visit(server.url).page
    view = json.loads(crowded)

    def fulfill(route):
        view["time"] += 1  # a new snapshot
        route.fulfill(json=view)

    page.route("**/internal/engine", fulfill)
    page.goto(server.url + "/#/engine")
    page.reload()
    expect(page.get_by_text("256 running, 0 waiting")).to_be_visible()
    expect(page.get_by_text("256 active")).to_be_visible()
    assert page.evaluate("document.querySelectorAll('*').length") < 300


def test_drawing_executes_a_linear_number_of_steps(server, visit):
    """Long tasks would make the page hang; bench/page measures them. The steps of a drawing do not depend on the machine."""
    page = visit(server.url).page
    executed = reload_and_count(page)

    def steps(num_requests):
        executed.take()
        page.evaluate("""async count => {
            const { drawTimeline, themeColors } = await import('/ui/engine_canvas.js');
            const { drawPool } = await import('/ui/pool_canvas.js');
            const canvas = document.body.appendChild(document.createElement('div')).appendChild(document.createElement('canvas'));
            const requests = Array.from({ length: count }, (_, id) => (
                { id, arrival: -9000, scheduled: -8000, first: -7000, end: null, pauses: [[-5000, -4000]], chunks: [[-8000], [-7500]] }));
            const cells = Array.from({ length: 16 * count }, (_, i) => (
                { owner: i % count, refs: 1, used: 1, cached: 0, slots: i % 2 ? 16 : 8 }));
            drawPool(canvas, cells, requests, themeColors(), 16);
            drawTimeline(canvas, requests, themeColors());
        }""", num_requests)
        counts = executed.take()
        return counts["engine_canvas.js"] + counts["pool_canvas.js"]

    few, many = steps(256), steps(512)
    assert few > 16 * 256, "each cell is drawn"
    assert many < 2.2 * few, (few, many)


def test_a_snapshot_of_256_sequences_is_small(crowded):
    """Its cost in the engine is limited by its own measurement: a snapshot is valid for 200 times its CPU time (page_api.cc), and
    PageTest.ClientsShareASnapshot checks that it is shared. bench/page measures it."""
    assert len(json.loads(crowded)["requests"]) == 256
    assert len(crowded) < 256 * 400 + 20_000
