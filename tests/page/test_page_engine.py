"""The live view of the engine."""

import re
import threading
import time

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from chat_page import PHONE
from playwright.sync_api import expect

PREFIX = "You are a careful assistant who answers in short sentences and never guesses. " * 10


def complete(server, number, **fields):
    body = {"model": "quire-tiny", "prompt": f"{PREFIX}Question {number}.", "max_tokens": 400, "ignore_eos": True, **fields}
    return httpx.post(server.url + "/v1/completions", json=body, timeout=120)


def in_background(server, count, **fields):
    threads = [threading.Thread(target=complete, args=(server, i), kwargs=fields) for i in range(count)]
    for thread in threads:
        thread.start()
    return threads


def test_shows_the_blocks_that_32_requests_share(slow_server, visit):
    complete(slow_server, 0, max_tokens=1)
    page = visit(slow_server.url + "/#/engine").page
    threads = in_background(slow_server, 32, max_tokens=80)
    summary = page.locator(".pool-summary")
    expect(summary).to_contain_text("shared by up to 32 sequences", timeout=15000)
    assert int(re.search(r"(\d+) shared", summary.inner_text()).group(1)) >= 10
    view = httpx.get(slow_server.url + "/internal/engine").json()
    assert len(view["requests"]) == 32 and all(r["arrival"] <= r["scheduled"] for r in view["requests"])
    for thread in threads:
        thread.join()
    expect(page.get_by_text("0 + 0 waiting")).to_be_visible(timeout=15000)


def test_contains_no_text_of_prompts(server, visit):
    visit(server.url + "/#/engine")
    threads = in_background(server, 4)
    time.sleep(0.3)
    text = httpx.get(server.url + "/internal/engine").text
    for thread in threads:
        thread.join()
    assert "careful" not in text and "Question" not in text
    assert '"arrival"' in text


def test_pages_ask_for_snapshots_only_while_they_show_them(server, visit):
    page = visit(server.url).page
    asked = []
    page.on("request", lambda r: "/internal/engine" in r.url and asked.append(r.url))
    expect(page.locator(".suggestion").first).to_be_visible()
    page.wait_for_timeout(700)
    assert asked == []
    page.keyboard.press("Control+e")
    expect(page.locator(".pool-summary")).to_contain_text("blocks of")
    assert asked
    page.keyboard.press("Control+e")
    expect(page.locator(".composer")).to_be_visible()
    page.wait_for_timeout(200)
    del asked[:]
    page.wait_for_timeout(1200)
    assert asked == []


@pytest.mark.parametrize("options", [{}, {**PHONE, "color_scheme": "dark"}], ids=["desktop", "phone"])
def test_is_accessible_and_fits(server, visit, options):
    page = visit(server.url + "/#/engine", bypass_csp=True, **options).page
    expect(page.locator(".pool-summary")).to_contain_text("blocks of")
    violations = Axe().run(page).response["violations"]
    assert [v["id"] for v in violations if v["impact"] in ("serious", "critical")] == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_draws_256_sequences_without_long_tasks(start_server, visit):
    server = start_server("--kv-cache-memory", "512MiB")
    page = visit(server.url + "/#/engine").page
    expect(page.locator(".pool-summary")).to_contain_text("blocks of")
    page.evaluate("""() => {
        window.longTasks = [];
        new PerformanceObserver(list => window.longTasks.push(...list.getEntries().map(e => e.duration))).observe({type: 'longtask'});
    }""")
    threads = in_background(server, 4, n=64, max_tokens=300)
    expect(page.get_by_text(re.compile(r"^256 \+ 0 waiting"))).to_be_visible(timeout=15000)
    for thread in threads:
        thread.join()
    assert max(page.evaluate("window.longTasks"), default=0) <= 100
