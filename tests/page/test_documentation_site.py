"""The documentation as a site: tools/build_docs.sh reports broken links, and the pages work in a browser."""

import fcntl
import functools
import http.server
import os
import pathlib
import re
import shutil
import subprocess
import threading

import pytest
from playwright.sync_api import expect

ROOT = pathlib.Path(__file__).resolve().parents[2]
SITE = ROOT / "build" / "site"
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The site in build/site. Where several processes run the tests, the first of them builds it for all."""
    temporary = tmp_path_factory.getbasetemp()
    common = temporary.parent if "PYTEST_XDIST_WORKER" in os.environ else temporary
    with open(common / "site-is-built", "a+") as done:
        fcntl.flock(done, fcntl.LOCK_EX)
        if done.tell() == 0:
            run = subprocess.run([ROOT / "tools" / "build_docs.sh"], capture_output=True, text=True, timeout=300)
            assert run.returncode == 0, run.stdout + run.stderr
            done.write("yes")
    return SITE


@pytest.fixture(scope="module")
def site(built):
    """The address of a server with the built site."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(QuietHandler, directory=built))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


def pages(built):
    return [path for path in built.rglob("*.html") if path.name != "404.html"]


def test_every_page_of_docs_is_built(built):
    for page in (ROOT / "docs").glob("*.md"):
        name = "index" if page.stem == "README" else page.stem
        assert (built / "docs" / f"{name}.html").exists(), page.name
    assert (built / "index.html").exists() and (built / "src" / "server" / "index.html").exists()


def test_pages_load_nothing_from_other_hosts(built):
    for page in pages(built):
        foreign = re.findall(r'<(?:script|img|iframe|source|link)\b[^>]*(?:src|href)="(?:https?:)?//[^"]*"', page.read_text())
        assert not foreign, f"{page.relative_to(built)}: {foreign}"
    for style in built.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(?:https?:)?//", style.read_text()), style


def test_markdown_is_rendered_as_on_github(built):
    """Lists and tables that need an empty line before them in MkDocs do not become part of a paragraph."""
    wrong = []
    for page in pages(built):
        article = re.search(r"<article.*?</article>", page.read_text(), re.DOTALL)[0]
        text = re.sub(r"<pre.*?</pre>|<code.*?</code>", "", article, flags=re.DOTALL)
        found = re.findall(r"<p>(?:(?!</p>).)*?\n(?:[-*] |\d+\. |\|).{0,40}", text, re.DOTALL) + re.findall(r"\*\*.{0,20}|\]\(.{0,20}", text)
        wrong += [f"{page.relative_to(built)}: {each[-60:]}" for each in found]
    assert not wrong, "\n".join(wrong)


def test_broken_links_and_anchors_are_errors(built, tmp_path):
    shutil.copytree(ROOT / "build" / "site-pages", tmp_path / "pages")
    with open(tmp_path / "pages" / "docs" / "tuning.md", "a") as page:
        page.write("\n[a](no-such-page.md) [b](serving.md#no-such-heading)\n")
    config = ROOT / "tools" / "docs_site" / "mkdocs.yml"
    (tmp_path / "mkdocs.yml").write_text(f"INHERIT: {config}\ndocs_dir: {tmp_path}/pages\nsite_dir: {tmp_path}/site\n")
    run = subprocess.run([ROOT / "build" / "venv-docs" / "bin" / "mkdocs", "build", "--strict", "-f", tmp_path / "mkdocs.yml"],
                         capture_output=True, text=True, timeout=120, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    assert run.returncode != 0
    assert "no-such-page.md" in run.stderr and "#no-such-heading" in run.stderr


@pytest.mark.parametrize("path", ["index.html", "docs/index.html", "docs/cli.html", "docs/moving-from-vllm.html", "docs/benchmarks.html"])
def test_pages_open_without_errors(site, visit, path):
    page = visit(site + path).page
    assert page.locator("article h1").is_visible()


def test_navigation_leads_to_other_pages(site, visit):
    page = visit(site + "index.html").page
    page.locator(".md-sidebar--primary").get_by_text("Troubleshooting", exact=True).click()
    page.wait_for_url("**/docs/troubleshooting.html")
    page.locator("article").get_by_role("link", name="cli.md").first.click()
    page.wait_for_url("**/docs/cli.html")
    assert page.locator("#quire-serve").is_visible()


def test_navigation_works_on_a_phone(site, visit):
    page = visit(site + "docs/metrics.html", **PHONE).page
    entry = page.locator(".md-sidebar--primary").get_by_text("Reliability", exact=True)
    expect(entry).not_to_be_in_viewport()
    page.locator("label.md-header__button[for=__drawer]").click()
    expect(entry).to_be_in_viewport()
    entry.click()
    page.wait_for_url("**/docs/reliability.html")
    assert page.locator("article h1").inner_text().startswith("Reliability")


@pytest.mark.parametrize("path", ["index.html", "docs/cli.html", "docs/metrics.html", "docs/moving-from-llama-cpp.html", "docs/weight-formats.html"])
def test_pages_fit_a_phone(site, visit, path):
    """Wide tables and code scroll inside the page."""
    page = visit(site + path, **PHONE).page
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["viewport"]["width"]


def test_copying_a_block_takes_the_commands(site, visit):
    view = visit(site + "docs/offline.html", permissions=["clipboard-read", "clipboard-write"])
    block = view.page.locator(".highlight", has_text="quire tokenize").first
    block.hover()
    block.locator(".md-code__button[title='Copy to clipboard'], .md-clipboard").first.click()
    copied = view.page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith('quire tokenize "Hello world" --json\nquire detokenize')


def test_search_finds_pages(site, visit):
    page = visit(site + "index.html").page
    page.locator(".md-search__input").click()
    page.locator(".md-search__input").press_sequentially("preemption")
    result = page.locator(".md-search-result__link").first
    result.wait_for()
    result.click()
    page.wait_for_url("**/*h=preemption*")
