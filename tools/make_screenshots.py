#!/usr/bin/env python3
"""Takes the screenshots of the web page in docs/images, or in a folder: a chat with quire-tiny, and the live view of an idle engine, of one
with 32 requests on the default pool and on a pool of 96 blocks, and after its end, for a desktop and a phone, light and dark.

    build/venv/bin/python tools/make_screenshots.py [FOLDER]

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
NUM_CLIENTS = 32
DESKTOP = {"viewport": {"width": 1200, "height": 1160}}
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
SMALL_POOL = ("--kv-cache-memory", "3MiB")  # 96 blocks
DEFAULT_POOL = ("--kv-cache-memory", "0")  # the default of `quire serve`


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
    page.get_by_role("button", name="Send").click()
    expect(page.locator(".message.assistant").get_by_role("button", name="Regenerate")).to_be_attached(timeout=30000)
    page.wait_for_timeout(500)


def idle(page, url):
    page.goto(url + "/#/engine")
    expect(page.locator(".pool-summary")).to_contain_text("blocks of")
    page.wait_for_timeout(1500)


def loaded(page, url):
    idle(page, url)
    for number in range(NUM_CLIENTS):
        threading.Thread(target=client, args=(url, number), daemon=True).start()
        page.wait_for_timeout(200)
    page.wait_for_timeout(12000)


# name, state, options of the server, of the page, color scheme, whether the server ends first
SCREENSHOTS = [
    ("chat", chat, SMALL_POOL, {"viewport": {"width": 1200, "height": 760}}, "light", False),
    ("chat-phone", chat, SMALL_POOL, PHONE, "dark", False),
    ("engine-idle", idle, DEFAULT_POOL, DESKTOP, "light", False),
    ("engine", loaded, SMALL_POOL, DESKTOP, "light", False),
    ("engine-default-pool", loaded, DEFAULT_POOL, DESKTOP, "dark", False),
    ("engine-phone", loaded, SMALL_POOL, PHONE, "light", False),
    ("engine-default-pool-phone", loaded, DEFAULT_POOL, PHONE, "dark", False),
    ("engine-disconnected", loaded, SMALL_POOL, DESKTOP, "light", True),
    ("engine-disconnected-phone", loaded, DEFAULT_POOL, PHONE, "dark", True),
]


def show_everything(page):
    """Makes the lists of the live view and the window as high as their content."""
    page.add_style_tag(content=".pool-scroll, .timeline-scroll { max-height: none !important; }")
    hidden = page.evaluate("""() => Math.max(0, ...[...document.querySelectorAll("*")]
        .filter((element) => ["auto", "scroll"].includes(getComputedStyle(element).overflowY))
        .map((element) => element.scrollHeight - element.clientHeight))""")
    size = page.viewport_size
    page.set_viewport_size({"width": size["width"], "height": size["height"] + hidden})


def take(browser, folder, name, state, flags, options, scheme, ends):
    server = ServerProcess(*flags, "--shutdown-timeout", "0", slow=state is loaded)
    page = browser.new_page(color_scheme=scheme, **options)
    try:
        state(page, server.url)
        if ends:
            server.stop()
            expect(page.locator(".banner")).to_be_visible(timeout=30000)
            page.wait_for_timeout(500)
        if options is DESKTOP:
            show_everything(page)
        page.screenshot(path=folder / f"{name}.png")
    finally:
        page.close()
        if not ends:
            server.stop()


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES
    browser_path = next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        for screenshot in SCREENSHOTS:
            take(browser, folder, *screenshot)
        browser.close()


if __name__ == "__main__":
    main()
