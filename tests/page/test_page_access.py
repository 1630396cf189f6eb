"""How the page is served, API keys, errors of the server, and accessibility."""

import socket

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from chat_page import PHONE, ChatPage, wait_for_animations
from playwright.sync_api import expect


def test_files_have_types_and_a_strict_policy(server):
    page = httpx.get(server.url + "/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "connect-src 'self'" in policy
    assert "<script>" not in page.text and "style=" not in page.text
    for name, kind in [("main.js", "text/javascript"), ("base.css", "text/css"), ("icon.svg", "image/svg+xml")]:
        response = httpx.get(f"{server.url}/ui/{name}")
        assert response.headers["content-type"].startswith(kind)
        assert response.headers["content-security-policy"] == policy
    assert httpx.get(server.url + "/ui/none.js").status_code == 404


def test_unchanged_files_are_not_sent_again(server):
    with httpx.Client(base_url=server.url) as client:
        etag = client.get("/ui/main.js").headers["etag"]
        again = client.get("/ui/main.js", headers={"If-None-Match": f'"other", {etag}'})
        assert again.status_code == 304 and again.content == b""
        # The connection is still usable.
        assert client.get("/ui/main.js", headers={"If-None-Match": '"other"'}).status_code == 200


def test_no_ui_removes_page_and_internal_endpoints(start_server):
    server = start_server("--no-ui")
    for path in ("/", "/ui/main.js", "/internal/model", "/internal/engine"):
        assert httpx.get(server.url + path).status_code == 404
    assert httpx.get(server.url + "/v1/models").status_code == 200


def test_asks_for_a_key_and_keeps_it_in_the_tab(start_server, visit):
    server = start_server("--api-key", "secret-key")
    for path in ("/internal/model", "/internal/engine"):
        assert httpx.get(server.url + path).status_code == 401
    opened = visit(server.url)
    opened.expect_errors("401")
    page = opened.page
    page.get_by_label("API key", exact=True).fill("wrong")
    page.get_by_role("button", name="Connect").click()
    expect(page.get_by_text("did not accept")).to_be_visible()
    page.get_by_label("API key", exact=True).fill("secret-key")
    page.get_by_role("button", name="Connect").click()
    assert ChatPage(opened).ask("Hello!")
    page.reload()
    assert ChatPage(opened).ask("Hello again!")
    assert page.evaluate("Object.values(localStorage).join().includes('secret-key')") is False


def test_a_conversation_that_is_too_long_says_so(server, visit):
    opened = visit(server.url)
    opened.expect_errors("400")
    chat = ChatPage(opened)
    chat.send("word " * 3000)
    expect(chat.page.get_by_role("alert")).to_contain_text("The conversation is too long for this model")
    expect(chat.page.get_by_role("alert").get_by_role("button", name="New conversation")).to_be_visible()


def test_a_server_that_ends_is_reported_and_found_again(start_server, visit):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    first = start_server("--port", str(port))
    opened = visit(first.url)
    opened.expect_errors("ERR_CONNECTION", "ERR_INCOMPLETE", "ERR_EMPTY")
    chat = ChatPage(opened)
    chat.ask("Hello!")
    first.stop()
    chat.send("Are you there?")
    expect(chat.page.get_by_text("The server cannot be reached. Trying again…")).to_be_visible()
    expect(chat.answers.last.get_by_role("alert")).to_contain_text("Connection lost")
    start_server("--port", str(port))
    expect(chat.page.locator(".banner")).to_have_count(0)
    chat.answers.last.get_by_role("button", name="Try again").click()
    assert chat.wait_for_answer().strip()


def serious(page):
    violations = Axe().run(page).response["violations"]
    return [(v["id"], [n["html"][:120] for n in v["nodes"]]) for v in violations if v["impact"] in ("serious", "critical")]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_chat_is_accessible(server, visit, scheme):
    opened = visit(server.url, color_scheme=scheme, bypass_csp=True)
    chat = ChatPage(opened)
    expect(chat.page.locator(".suggestion").first).to_be_visible()
    assert serious(chat.page) == []
    chat.answer_with("<think>Hm.</think>**A** table and `code`:\n\n| a | b |\n|--|--|\n| 1 | $x^2$ |\n\n```python\ndef f(): return 'x'  # note\n```\n\n[link](https://example.com)")
    chat.ask("Hello!")
    assert serious(chat.page) == []
    chat.page.get_by_role("button", name="Conversation settings").click()
    assert serious(chat.page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_and_its_dialogs_are_accessible(server, start_server, visit, scheme):
    chat = ChatPage(visit(server.url, color_scheme=scheme, bypass_csp=True, **PHONE))
    page = chat.page
    chat.ask_on_a_phone("Hello!")
    assert serious(page) == []
    page.get_by_role("button", name="Conversations").click()
    wait_for_animations(page)  # the drawer moves
    assert serious(page) == []
    page.locator(".conversation-list summary").click()
    page.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    assert serious(page) == []
    with_key = visit(start_server("--api-key", "secret-key").url, color_scheme=scheme, bypass_csp=True)
    with_key.expect_errors("401")
    expect(with_key.page.get_by_label("API key", exact=True)).to_be_visible()
    assert serious(with_key.page) == []


def test_the_listed_shortcuts_work(server, visit):
    chat = ChatPage(visit(server.url))
    page, keyboard = chat.page, chat.page.keyboard
    chat.ask("Hello!")
    page.locator("main").focus()
    keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Search conversations")
    keyboard.press("Escape")
    keyboard.press("Control+k")
    expect(page.get_by_label("Search conversations")).to_be_focused()
    chat.input.focus()
    keyboard.press("ArrowUp")
    keyboard.type(" Bye!")
    keyboard.press("Control+Enter")
    expect(chat.questions.first.locator(".bubble")).to_have_text("Hello! Bye!")
    chat.wait_for_answer()
    keyboard.press("Control+e")
    expect(page.locator(".pool-summary")).to_be_visible()
    keyboard.press("Control+e")
    expect(chat.questions.first.locator(".bubble")).to_have_text("Hello! Bye!")


def test_everything_can_be_reached_with_the_tab_key(server, visit):
    chat = ChatPage(visit(server.url))
    chat.ask("Hello!")
    names = set()
    for _ in range(60):
        chat.page.keyboard.press("Tab")
        names.add(chat.page.evaluate("document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent.trim()"))
    wanted = {"New conversation", "Search conversations", "Export all conversations", "Keyboard shortcuts", "Conversation settings", "Message",
              "Copy message", "Edit message", "Regenerate", "Chat", "Engine", "Actions for Hello!"}
    assert wanted <= names, wanted - names


def test_works_with_the_keyboard_alone(server, visit):
    chat = ChatPage(visit(server.url))
    keyboard = chat.page.keyboard
    expect(chat.input).to_be_focused()
    keyboard.type("Hello!")
    keyboard.press("Shift+Enter")
    keyboard.type("Bye!")
    keyboard.press("Enter")
    chat.wait_for_answer()
    expect(chat.questions.first.locator(".bubble")).to_have_text("Hello!\nBye!")
    chat.input.focus()
    keyboard.press("ArrowUp")
    expect(chat.page.locator(".edit-field")).to_be_focused()
    keyboard.press("Escape")
    keyboard.press("Control+,")
    expect(chat.page.get_by_role("dialog")).to_be_visible()
    keyboard.press("Escape")
    expect(chat.page.get_by_role("dialog")).to_have_count(0)
    keyboard.press("Control+Shift+O")
    expect(chat.questions).to_have_count(0)
