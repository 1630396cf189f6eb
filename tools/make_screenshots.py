#!/usr/bin/env python3
"""Takes the screenshots of the web page in docs/images: a chat with quire-tiny, and the live view of the engine.

    build/venv/bin/python tools/make_screenshots.py

Needs a release build, Chromium, and the Python packages of tests/e2e/requirements.txt."""

import pathlib
import shutil
import sys
import threading

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

import httpx  # noqa: E402
from playwright.sync_api import expect, sync_playwright  # noqa: E402
from server_process import ServerProcess  # noqa: E402

IMAGES = ROOT / "docs" / "images"
PREFIX = "Once upon a time, there was a girl named Mia. She had a small dog and a red ball. " * 6


def client(url, number):
    """Sends one request after another until the server stops."""
    try:
        for turn in range(number, 10000, 7):
            body = {"prompt": f"{PREFIX if turn % 3 else turn}One day {turn}", "max_tokens": 60 + 50 * (turn % 5), "ignore_eos": True}
            httpx.post(url + "/v1/completions", json=body, timeout=120)
    except httpx.HTTPError:
        pass


def chat(page, url):
    page.goto(url)
    page.get_by_label("Message", exact=True).fill("Tell me a story about a cat.")
    page.keyboard.press("Enter")
    expect(page.locator(".message.assistant").get_by_role("button", name="Regenerate")).to_be_attached(timeout=30000)
    page.wait_for_timeout(500)
    page.screenshot(path=IMAGES / "chat.png")


def engine(page, url):
    page.goto(url + "/#/engine")
    expect(page.locator(".pool-summary")).to_contain_text("blocks of")
    for number in range(15):
        threading.Thread(target=client, args=(url, number), daemon=True).start()
        page.wait_for_timeout(300)
    page.wait_for_timeout(20000)
    page.screenshot(path=IMAGES / "engine.png")


def main():
    browser_path = next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        for take, slow, height in ((chat, False, 760), (engine, True, 1100)):
            server = ServerProcess("--kv-cache-memory", "8MiB", "--max-num-seqs", "12", slow=slow)
            page = browser.new_page(viewport={"width": 1200, "height": height}, color_scheme="light")
            try:
                take(page, server.url)
            finally:
                page.close()
                server.stop()
        browser.close()


if __name__ == "__main__":
    main()
