"""Fixtures of the tests of the web page. They drive Chromium with Playwright against `quire serve`."""

import pathlib
import shutil
import sys
import urllib.parse

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

import patient_httpx  # noqa: E402, F401
from playwright.sync_api import expect, sync_playwright  # noqa: E402
from server_fixtures import start_server  # noqa: E402, F401
from server_process import ServerProcess  # noqa: E402
from waiting import HANG_S  # noqa: E402

# Playwright waits for what a test expects. The time limits are for pages that hang.
TIMEOUT_MS = 1000 * HANG_S
expect.set_options(timeout=TIMEOUT_MS)
DESKTOP = {"viewport": {"width": 1280, "height": 800}}


@pytest.fixture(scope="session")
def server():
    process = ServerProcess("--kv-cache-memory", "16MiB")
    yield process
    process.stop()


@pytest.fixture(scope="session")
def slow_server():
    """A response takes seconds, so that a test can act while it arrives."""
    process = ServerProcess("--kv-cache-memory", "16MiB", slow=True)
    yield process
    process.stop()


@pytest.fixture(scope="module")
def browser():
    """For one file: Playwright's event loop runs until it ends, and tests in other files start loops of their own."""
    found = next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None)
    assert found, "Chromium is missing; tools/setup.sh test installs it"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


class Visit:
    """A page of its own browser context. Fails at the end if the page logged an error or asked another host."""

    def __init__(self, browser, url, **options):
        self.host = urllib.parse.urlsplit(url).netloc
        self.context = browser.new_context(**{**DESKTOP, **options})
        self.context.set_default_timeout(TIMEOUT_MS)
        self.page = self.context.new_page()
        self.errors = []
        self.foreign = []
        self.dialogs = []
        self.expected = ()
        self.page.on("console", lambda m: m.type in ("error", "warning") and self.errors.append(m.text))
        self.page.on("pageerror", lambda e: self.errors.append(str(e)))
        self.page.on("request", self.check_host)
        self.page.on("dialog", lambda d: (self.dialogs.append(d.message), d.dismiss()))
        self.page.goto(url)

    def check_host(self, request):
        parts = urllib.parse.urlsplit(request.url)
        if parts.scheme not in ("data", "blob") and parts.netloc != self.host:
            self.foreign.append(request.url)

    def expect_errors(self, *parts):
        """The browser itself logs failed requests; these parts of messages are expected."""
        self.expected = parts

    def finish(self):
        self.context.close()
        assert [e for e in self.errors if not any(part in e for part in self.expected)] == []
        assert self.foreign == []
        assert self.dialogs == []


@pytest.fixture
def visit(browser):
    visits = []

    def open_page(url, **options):
        visits.append(Visit(browser, url, **options))
        return visits[-1]

    yield open_page
    for each in visits:
        each.finish()
