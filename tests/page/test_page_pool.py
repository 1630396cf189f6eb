"""The blocks of the KV cache in the live view: pools of any size, and what a pointer or the keyboard tell about a block."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from chat_page import PHONE
from engine_page import EnginePage, colors_in, owner_colors, request, theme_colors
from playwright.sync_api import expect
from waiting import wait_until

FREE = [-1, 0, 0, 0, 0]
# 96 blocks: 2 shared ones, 3 of request #7 of which the last has 5 of 16 tokens, 2 cached ones.
SMALL = {"num_blocks": 96, "used": 5, "cached": 2, "shared": 2, "cells": [2, 0, 3, 1, 0, 16, 2, 0, 1, 1, 0, 16, 1, 0, 1, 1, 0, 5, 2, -1, 0, 0, 1, 0, 89, *FREE]}
# The same blocks somewhere in a pool of 281,050: each of the 4,073 cells of the whole is 69 blocks.
LARGE = {"num_blocks": 281050, "used": 5, "cached": 2, "shared": 2, "blocks_per_cell": 69, "cells": [1000, *FREE, 1, 0, 3, 5, 2, 69, 3072, *FREE],
         "placed": [69003, 2, 0, 3, 1, 0, 16, 69010, 2, 0, 1, 1, 0, 16, 69012, 1, 0, 1, 1, 0, 5, 69020, 2, -1, 0, 0, 1, 0]}


@pytest.mark.parametrize("device", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("options", [{}, PHONE], ids=["desktop", "phone"])
def test_occupied_blocks_are_large_in_any_pool(server, visit, device, options):
    live = EnginePage(visit, server, device, [request(7)], **options)
    theme, own = theme_colors(live.page), owner_colors(live.page, [7])[0]
    wait_until(lambda: colors_in(live.pool).get(own, 0) > 2 * 20 * 20, "the blocks of the request are not large")
    pixels = colors_in(live.pool)
    assert pixels[theme["shared"]] > 300 and pixels[theme["idle"]] > 300
    expect(live.page.locator(".pool-map").first).to_be_visible(visible=device is LARGE)


def test_the_map_shows_where_a_few_blocks_of_a_large_pool_are(server, visit):
    live = EnginePage(visit, server, LARGE, [request(7)])
    whole = live.page.get_by_label("Blocks of the KV cache: the whole pool")
    shared = theme_colors(live.page)["shared"]
    wait_until(lambda: colors_in(whole).get(shared, 0) >= 8, "the map does not show the blocks")
    columns = whole.evaluate("""(canvas, wanted) => {
        const data = canvas.getContext('2d').getImageData(0, canvas.height - 2, canvas.width, 1).data;
        return Array.from({ length: canvas.width }, (_, x) => x).filter(x => [...data.slice(4 * x, 4 * x + 3)].join() === wanted).map(x => x / canvas.width);
    }""", shared)
    assert min(columns) > 0.23 and max(columns) < 0.26, "a quarter of the way"
    expect(live.page.locator(".pool-map .summary").first).to_contain_text("one column of this map is")


@pytest.mark.parametrize("device", [SMALL, LARGE], ids=["small", "large"])
def test_the_pointer_tells_block_owner_tokens_and_sharing(server, visit, device):
    live = EnginePage(visit, server, device, [request(7)])
    first = 0 if device is SMALL else 69003
    for index, text in [(0, f"Block {first:,} · request #7 and possibly others · 16 of 16 tokens · shared by 3 sequences"),
                        (4, f"Block {4 if device is SMALL else 69012:,} · request #7 · 5 of 16 tokens · not shared"),
                        (5, f"Block {5 if device is SMALL else 69020:,} · cached prefix, no request uses it")]:
        live.pool.hover(position={"x": 30 * index + 12, "y": 12})
        expect(live.tip).to_have_text(text)
    live.page.mouse.move(5, 5)
    expect(live.tip).to_be_hidden()


def test_the_arrow_keys_tell_the_same(server, visit):
    live = EnginePage(visit, server, SMALL, [request(7)])
    live.page.get_by_role("button", name="Run a demo load").focus()
    live.page.keyboard.press("Tab")
    expect(live.pool).to_be_focused()
    expect(live.tip).to_contain_text("Block 0 ·")
    for _ in range(4):
        live.page.keyboard.press("ArrowRight")
    expect(live.tip).to_contain_text("Block 4 ·")
    expect(live.page.locator("#announcer")).to_have_text("Block 4 · request #7 · 5 of 16 tokens · not shared")
    live.page.keyboard.press("ArrowLeft")
    live.page.keyboard.press("ArrowDown")
    expect(live.tip).to_contain_text("· free")
    live.page.keyboard.press("Escape")
    expect(live.tip).to_be_hidden()


def test_a_selected_block_stays_selected_when_others_come_and_go(server, visit):
    live = EnginePage(visit, server, LARGE, [request(7)])
    live.pool.focus()
    live.page.keyboard.press("ArrowRight")
    live.page.keyboard.press("ArrowRight")
    expect(live.tip).to_contain_text("Block 69,010 ·")
    live.device = {**LARGE, "placed": [5, 3, 0, 1, 1, 0, 16, *LARGE["placed"]]}
    expect(live.page.locator(".pool-summary")).to_contain_text("281,050 blocks")
    expect(live.tip).to_have_css("left", "150px")
    expect(live.tip).to_contain_text("Block 69,010 ·")


def test_an_idle_engine_says_that_no_block_is_used(server, visit):
    live = EnginePage(visit, server, {"num_blocks": 281050, "blocks_per_cell": 69, "cells": [4074, *FREE]})
    expect(live.page.get_by_text("No block is in use.").first).to_be_visible()


def test_cells_become_smaller_as_their_number_grows(server, visit):
    page = visit(server.url).page
    sizes = page.evaluate("""async counts => {
        const { cellLayout } = await import('/ui/pool_canvas.js');
        return [350, 1000].map(width => counts.map(count => cellLayout(count, width).size));
    }""", [1, 96, 500, 1500, 4096, 100000])
    for row in sizes:
        assert row == sorted(row, reverse=True) and row[0] == 30 and row[-1] == 9
    assert sizes[0][1] >= 24 and sizes[1][1] == 30, "96 blocks are comfortable on a phone, too"


def test_blocks_are_accessible_while_one_is_selected(server, visit):
    live = EnginePage(visit, server, LARGE, [request(7)], bypass_csp=True)
    live.pool.focus()
    live.page.keyboard.press("ArrowRight")
    expect(live.tip).to_be_visible()
    violations = Axe().run(live.page).response["violations"]
    assert [v["id"] for v in violations if v["impact"] in ("serious", "critical")] == []
