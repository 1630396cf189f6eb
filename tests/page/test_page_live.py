"""The live view over time: the last five minutes, a server that ends, and the demo load."""

import re
import socket

import pytest
from chat_page import PHONE
from engine_page import EnginePage, colors_in, snapshot, theme_colors
from playwright.sync_api import expect
from test_page_engine import open_streams
from waiting import wait_until

POOL = {"num_blocks": 100, "used": 20, "cells": [20, 0, 1, 1, 0, 16, 80, -1, 0, 0, 0, 0]}
DEMO = "Run a demo load"


def test_figures_have_their_time_span(server, visit):
    live = EnginePage(visit, server, POOL)
    live.stats = {"running": 10, "waiting": 3}
    expect(live.page.get_by_text("10 running, 3 waiting")).to_be_visible()
    for name, note in [("Generation", "over the last 2 s"), ("TTFT, median", "requests of the last minute"), ("Sequences", "now"), ("Prefix hit rate", "since the start")]:
        expect(live.page.locator(".tile", has_text=name).first.locator(".tile-note")).to_have_text(note)


def history_of(page, snapshots):
    """The points that the page keeps of these snapshots; None stands for a server that ended."""
    return page.evaluate("""async snapshots => {
        const { History } = await import('/ui/history.js');
        const history = new History();
        for (const each of snapshots) each === null ? history.interrupt() : history.add(each);
        return history.points.map(({ time, generation, usage, hits, begins }) => ({ time, generation, usage, hits, begins }));
    }""", snapshots)


def test_history_has_rates_usage_and_hits_of_five_minutes(server, visit):
    def at(time, tokens, queries=0, hits=0):
        return snapshot(POOL, time=time, generation_tokens=tokens, prefix_queries=queries, prefix_hits=hits)

    page = visit(server.url).page
    points = history_of(page, [at(100, 0), at(100.5, 50), at(102, 300, 40, 10), at(130, 300, 40, 10), None, at(132, 5), at(133, 105)])
    assert [p["time"] for p in points] == [100, 102, 130, 132, 133], "at most one point per second"
    assert [p["generation"] for p in points] == [None, 150, 0, None, 100]
    assert [p["hits"] for p in points] == [None, 25, None, None, None]
    assert [p["usage"] for p in points] == [20] * 5
    assert [p["begins"] for p in points] == [True, False, True, True, False], "a line ends where snapshots are missing"
    assert len(history_of(page, [at(time, time) for time in range(1000)])) < 320


def test_history_is_drawn(server, visit):
    live = EnginePage(visit, server, POOL)
    chart = live.page.get_by_label("KV cache used: the last five minutes")
    decode = theme_colors(live.page)["decode"]
    wait_until(lambda: colors_in(chart).get(decode, 0) > 10, "nothing is drawn")
    few = colors_in(chart)[decode]
    live.time += 250
    wait_until(lambda: 0 < colors_in(chart).get(decode, 0) <= few, "a gap is drawn as a line")


@pytest.mark.parametrize("options", [{}, PHONE], ids=["desktop", "phone"])
def test_a_server_that_ends_is_reported_with_gray_figures(start_server, visit, options):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    first = start_server("--port", str(port))
    opened = visit(first.url + "/#/engine", **options)
    opened.expect_errors("ERR_CONNECTION", "ERR_INCOMPLETE", "ERR_EMPTY")
    page = opened.page
    expect(page.locator(".pool-summary")).to_contain_text("blocks of")
    figure = page.locator(".tile dd").first
    color = figure.evaluate("e => getComputedStyle(e).color")
    first.stop()
    banner = page.locator(".banner")
    expect(banner).to_contain_text("The server cannot be reached. Trying again…")
    expect(banner).to_be_in_viewport(ratio=1)
    assert banner.bounding_box()["height"] < 45, "in one line, also on a phone"
    expect(page.locator(".engine-notice")).to_contain_text("The figures are those of")
    assert figure.evaluate("e => getComputedStyle(e).color") != color
    assert "grayscale" in page.get_by_label("Blocks of the KV cache", exact=True).evaluate("e => getComputedStyle(e).filter")
    start_server("--port", str(port), "--kv-cache-memory", "32MiB")
    expect(banner).to_have_count(0)
    expect(page.locator(".engine-notice")).to_be_hidden()
    assert figure.evaluate("e => getComputedStyle(e).color") == color


def test_the_demo_load_shows_sharing_copies_and_preemptions_and_stops(start_server, visit):
    server = start_server("--kv-cache-memory", "3MiB")
    page = visit(server.url).page
    page.clock.install()
    page.goto(server.url + "/#/engine")
    page.reload()
    page.get_by_role("button", name=DEMO).click()
    expect(page.locator(".demo-text")).to_contain_text(re.compile("(24|30|36|[4-9][0-9]) requests sent"))
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    wait_until(lambda: server.metric("quire:num_preemptions_total") > 0, "a pool of 96 blocks is not too small")
    page.clock.fast_forward(20_000)  # no client sends another request after 15 s
    text = page.locator(".demo-text")
    expect(text).to_contain_text("were found in the prefix cache")
    found = re.search(r"(\d+) % of the prompt .* up to (\d+) blocks were shared .* (\d+) blocks were copied on write. ([\d,]+) preemptions?:", text.inner_text())
    assert found, text.inner_text()
    assert all(int(number.replace(",", "")) > 0 for number in found.groups()), found.groups()
    expect(page.get_by_role("button", name=DEMO)).to_be_visible()
    wait_until(lambda: server.metric("quire:num_requests_running") == 0, "the load has not ended")


def test_the_demo_load_runs_only_while_nobody_else_uses_the_server(slow_server, visit):
    page = visit(slow_server.url + "/#/engine").page
    expect(page.locator(".pool-summary")).to_contain_text("blocks of")
    finished = slow_server.metric("quire:prompt_tokens_total")
    with open_streams(slow_server, 1):
        slow_server.becomes_busy(1)
        expect(page.get_by_text("1 running, 0 waiting")).to_be_visible()
        page.get_by_role("button", name=DEMO).click()
        expect(page.locator(".demo-text")).to_have_text("Others use the server. The demo load runs only on an idle one.")
        assert slow_server.metric("quire:num_requests_running") == 1
    assert slow_server.metric("quire:prompt_tokens_total") - finished < 1000


def test_the_demo_load_makes_room_for_others_and_can_be_stopped(slow_server, visit):
    page = visit(slow_server.url + "/#/engine").page
    expect(page.get_by_text("0 running, 0 waiting")).to_be_visible()
    text = page.locator(".demo-text")
    page.get_by_role("button", name=DEMO).click()
    expect(text).to_contain_text("24 requests sent")
    with open_streams(slow_server, 1):
        expect(text).to_contain_text("Stopped, because others use the server.")
    expect(page.get_by_text("0 running, 0 waiting")).to_be_visible()
    page.get_by_role("button", name=DEMO).click()
    page.get_by_role("button", name="Stop").click()
    expect(text).to_contain_text("Stopped.")
    wait_until(lambda: slow_server.metric("quire:num_requests_running") == 0, "the load has not ended")
