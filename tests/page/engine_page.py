"""The live view of the engine with snapshots that a test makes, and what its canvases show."""

from playwright.sync_api import expect

STATS = {"running": 0, "waiting": 0, "finished": 0, "preemptions": 0, "steps": 0, "prompt_tokens": 0, "generation_tokens": 0, "prefix_queries": 0,
         "prefix_hits": 0, "swapped_out": 0, "swapped_in": 0, "copied_on_write": 0, "slots_used": 0, "slots_filled": 0, "disk_blocks": 0, "cached_disk_blocks": 0}
NO_POOL = {"num_blocks": 0, "used": 0, "cached": 0, "shared": 0, "blocks_per_cell": 1, "cells": [], "blocks_per_placed": 1, "placed": []}


def request(number, **fields):
    return {"id": number, "phase": "decode", "sequences": 1, "prompt": 40, "cached": 0, "computed": 50, "blocks": 4, "generated": 10, "arrival": -5000,
            "scheduled": -4900, "first": -4000, "last": -10, "chunks": [], "pauses": [], **fields}


def snapshot(device, requests=(), time=100.0, **stats):
    return {"time": time, "stats": {**STATS, **stats}, "num_requests": len(requests), "requests": list(requests), "ended": [], "host": NO_POOL,
            "device": {**NO_POOL, **device}}


class EnginePage:
    """Each snapshot that the page asks for is half a second after the last one."""

    def __init__(self, visit, server, device, requests=(), **options):
        self.device, self.requests, self.stats, self.time = device, list(requests), {}, 100.0
        self.visit = visit(server.url, **options)
        self.page = self.visit.page
        self.page.route("**/internal/engine", self.fulfill)
        self.page.get_by_role("link", name="Engine").click()
        expect(self.page.locator(".pool-summary")).to_contain_text("blocks of")
        self.pool = self.page.get_by_label("Blocks of the KV cache", exact=True)
        self.tip = self.page.locator(".pool-tip").first

    def fulfill(self, route):
        self.time += 0.5
        route.fulfill(json=snapshot(self.device, self.requests, self.time, **self.stats))


def colors_in(canvas):
    """The numbers of pixels by color, "r,g,b", of a canvas."""
    return canvas.evaluate("""canvas => {
        // A copy, because the browser warns about a canvas that is read again and again.
        const copy = document.createElement('canvas');
        copy.width = canvas.width;
        copy.height = canvas.height;
        const context = copy.getContext('2d', { willReadFrequently: true });
        context.drawImage(canvas, 0, 0);
        const data = context.getImageData(0, 0, copy.width, copy.height).data;
        const counts = {};
        for (let i = 0; i < data.length; i += 4) {
            const name = `${data[i]},${data[i + 1]},${data[i + 2]}`;
            counts[name] = (counts[name] ?? 0) + 1;
        }
        return counts;
    }""")


def theme_colors(page):
    """The colors of the theme as "r,g,b"."""
    return page.evaluate("""async () => {
        const colors = (await import('/ui/engine_canvas.js')).themeColors();
        return Object.fromEntries(Object.entries(colors).map(([name, value]) => [name, value.match(/\\d+/g).slice(0, 3).join()]));
    }""")


def owner_colors(page, ids):
    return page.evaluate("""async ids => {
        const { ownerColor, themeColors } = await import('/ui/engine_canvas.js');
        const colors = themeColors();
        return ids.map(id => ownerColor(id, colors).match(/\\d+/g).slice(0, 3).join());
    }""", ids)
