"""The chat of the web page, with the embedded model."""

import json
import re

import httpx
import pytest
from chat_page import PHONE, ChatPage
from playwright.sync_api import expect
from waiting import wait_until

STORY = "Tell me a story about a cat."


@pytest.fixture
def chat(server, visit):
    return ChatPage(visit(server.url))


def test_shows_a_response_with_its_statistics(chat):
    answer = chat.ask("Hello!")
    assert answer.strip()
    expect(chat.answers.first.locator(".stats")).to_contain_text(re.compile(r"\d+ tokens? · .*first after"))
    expect(chat.page.locator(".meter-text")).to_contain_text("/ 1,024")


def test_same_seed_gives_the_response_of_the_api(chat, server):
    chat.set_parameters(Seed=7, Max_tokens=40)
    shown = chat.ask(STORY)
    body = {"model": "quire-tiny", "messages": [{"role": "user", "content": STORY}], "seed": 7, "max_tokens": 40}
    expected = httpx.post(server.url + "/v1/chat/completions", json=body).json()["choices"][0]["message"]["content"]
    assert "".join(shown.split()) == "".join(expected.split())


def test_sends_the_system_prompt_and_the_history(chat):
    bodies = []
    chat.page.on("request", lambda r: r.url.endswith("/chat/completions") and bodies.append(r.post_data_json))
    chat.set_parameters(System_prompt="Speak like a pirate.", Temperature=0)
    first = chat.ask("Hello!")
    chat.ask("How are you?")
    roles = [(m["role"], m["content"]) for m in bodies[1]["messages"]]
    assert roles[0] == ("system", "Speak like a pirate.")
    assert [role for role, _ in roles] == ["system", "user", "assistant", "user"]
    assert "".join(roles[2][1].split()) == "".join(first.split())
    assert bodies[1]["temperature"] == 0


def test_sends_every_sampling_parameter(chat):
    values = {"Temperature": 0.5, "Top-p": 0.9, "Top-k": 40, "Min-p": 0.05, "Max tokens": 7, "Repetition penalty": 1.1,
              "Presence penalty": 0.25, "Frequency penalty": -0.5, "Seed": 3}
    bodies = []
    chat.page.on("request", lambda r: r.url.endswith("/chat/completions") and bodies.append(r.post_data_json))
    chat.page.get_by_role("button", name="Conversation settings").click()
    for label, value in values.items():
        chat.page.get_by_label(label, exact=True).fill(str(value))
    chat.page.get_by_label("Stop strings, one per line").fill("END\nSTOP")
    chat.page.get_by_role("button", name="Done").click()
    chat.ask("Hello!")
    for label, value in values.items():
        assert bodies[0][label.lower().replace(" ", "_").replace("-", "_")] == value
    assert bodies[0]["stop"] == ["END", "STOP"]
    chat.page.get_by_role("button", name="Conversation settings").click()
    chat.page.get_by_role("button", name="Reset to defaults").click()
    chat.page.get_by_role("button", name="Done").click()
    chat.ask("Hello!")
    assert set(bodies[1]) == {"model", "messages", "stream", "stream_options"}


def test_text_appears_while_it_arrives(slow_server, visit):
    chat = ChatPage(visit(slow_server.url))
    chat.ignore_end_of_text()
    chat.send(STORY)
    text = chat.answers.first.locator(".markdown").last
    lengths = []
    for _ in range(3):
        chat.page.wait_for_function("([e, n]) => e.innerText.length > n", arg=[text.element_handle(), lengths[-1] if lengths else 0])
        lengths.append(len(text.inner_text()))
    assert lengths == sorted(set(lengths))
    expect(chat.answers.first.get_by_role("button", name="Regenerate")).to_have_count(0)
    chat.page.keyboard.press("Escape")


def test_stop_keeps_the_text_and_ends_the_request(slow_server, visit):
    chat = ChatPage(visit(slow_server.url))
    chat.ignore_end_of_text()
    chat.send(STORY)
    expect(chat.answers.first.locator(".markdown").last).not_to_be_empty()
    aborted = slow_server.num_aborted()
    chat.page.get_by_role("button", name="Stop").click()
    expect(chat.answers.first.get_by_text("Stopped.")).to_be_visible()
    assert chat.wait_for_answer().strip()
    wait_until(lambda: slow_server.num_aborted() == aborted + 1, "the request is aborted")


def test_escape_stops(slow_server, visit):
    chat = ChatPage(visit(slow_server.url))
    chat.ignore_end_of_text()
    chat.send(STORY)
    expect(chat.page.get_by_role("button", name="Stop")).to_be_visible()
    slow_server.becomes_busy(1)
    aborted = slow_server.num_aborted()
    chat.page.keyboard.press("Escape")
    expect(chat.answers.first.get_by_text("Stopped.")).to_be_visible()
    wait_until(lambda: slow_server.num_aborted() == aborted + 1, "the request is aborted")


def test_regenerating_keeps_both_versions(chat):
    first = chat.ask(STORY)
    second = chat.regenerate()
    assert second != first
    chat.page.get_by_role("button", name="Previous version").click()
    assert chat.wait_for_answer() == first


def test_versions_survive_a_reload(chat):
    first = chat.ask(STORY)
    second = chat.regenerate()
    chat.page.reload()
    assert chat.wait_for_answer() == second
    expect(chat.page.locator(".branches")).to_contain_text("2/2")
    chat.page.get_by_role("button", name="Previous version").click()
    assert chat.wait_for_answer() == first


def test_editing_starts_a_branch(chat):
    chat.ask("Hello!")
    chat.ask("How are you?")
    chat.questions.first.hover()
    chat.questions.first.get_by_role("button", name="Edit message").click()
    chat.page.locator(".edit-field").fill("Goodbye!")
    chat.page.locator(".edit-form").get_by_role("button", name="Send").click()
    expect(chat.questions).to_have_count(1)
    expect(chat.questions.first).to_contain_text("Goodbye!")
    chat.wait_for_answer()
    chat.questions.first.get_by_role("button", name="Previous version").click()
    expect(chat.questions).to_have_count(2)
    expect(chat.questions.first).to_contain_text("Hello!")


def test_reload_finds_the_conversation(chat):
    answer = chat.ask("Hello!")
    chat.page.reload()
    assert chat.wait_for_answer() == answer
    expect(chat.page.locator(".conversation-list a")).to_have_text(["Hello!"])
    chat.page.goto(chat.page.url.split("#")[0])
    chat.page.locator(".conversation-list a").click()
    assert chat.wait_for_answer() == answer


def test_conversations_are_searched_renamed_and_deleted(chat):
    chat.answer_with("I am fine.")  # the search reads responses, too: a random story may contain the word
    for text in ("Hello!", "Good morning!"):
        chat.ask(text)
        chat.page.get_by_role("button", name="New conversation").click()
    links = chat.page.locator(".conversation-list a")
    expect(links).to_have_text(["Good morning!", "Hello!"])
    chat.page.get_by_label("Search conversations").fill("morn")
    expect(links).to_have_text(["Good morning!"])
    chat.page.get_by_label("Search conversations").fill("")
    row = chat.page.locator(".conversation-list li").first
    row.hover()
    row.locator("summary").click()
    row.get_by_role("button", name="Rename").click()
    chat.page.get_by_label("Title").fill("Morning")
    chat.page.get_by_role("button", name="Save").click()
    expect(links).to_have_text(["Morning", "Hello!"])
    row.hover()
    row.locator("summary").click()
    row.get_by_role("button", name="Delete").click()
    chat.page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(links).to_have_text(["Hello!"])


def test_exported_conversations_can_be_imported(chat, server, visit, tmp_path):
    answer = chat.ask("Hello!")
    with chat.page.expect_download() as download:
        chat.page.get_by_role("button", name="Export all conversations").click()
    path = tmp_path / "conversations.json"
    download.value.save_as(path)
    other = ChatPage(visit(server.url))
    other.page.get_by_label("Import conversations").last.set_input_files(path)
    other.page.locator(".conversation-list a").click()
    assert other.wait_for_answer() == answer


@pytest.mark.parametrize("kind", ["Markdown", "JSON"])
def test_a_conversation_is_exported(chat, tmp_path, kind):
    chat.set_parameters(System_prompt="Be brief.")
    chat.answer_with("<think>Hm.</think>Some *text*.")
    chat.ask("Hello!\nBye!")
    row = chat.page.locator(".conversation-list li").first
    row.hover()
    row.locator("summary").click()
    with chat.page.expect_download() as download:
        row.get_by_role("button", name=f"Export as {kind}").click()
    assert download.value.suggested_filename == f"hello.{'md' if kind == 'Markdown' else 'json'}"
    path = tmp_path / "exported"
    download.value.save_as(path)
    if kind == "Markdown":
        assert path.read_text() == "# Hello!\n\n**System**\n\n> Be brief.\n\n## You\n\nHello!\nBye!\n\n## Assistant\n\n> Hm.\n\nSome *text*.\n"
    else:
        messages = json.loads(path.read_text())["messages"]
        assert [(m["role"], m["content"]) for m in messages] == [("user", "Hello!\nBye!"), ("assistant", "<think>Hm.</think>Some *text*.")]


def test_files_that_are_not_conversations_are_refused(chat, tmp_path):
    path = tmp_path / "other.json"
    for content in ['{"a": 1}', "[1]", "not JSON"]:
        path.write_text(content)
        chat.page.get_by_label("Import conversations").last.set_input_files(path)
        expect(chat.page.get_by_text("The file cannot be imported").last).to_be_visible()
    expect(chat.page.locator(".conversation-list a")).to_have_count(0)


def test_continues_a_response_that_reached_the_limit(chat):
    chat.set_parameters(Max_tokens=5, Temperature=0)
    first = chat.ask(STORY)
    chat.page.get_by_role("button", name="Continue").click()
    longer = chat.wait_for_answer()
    assert longer.startswith(first.strip()) and len(longer) > len(first)


def test_phone_has_a_drawer_and_no_horizontal_scrolling(server, visit):
    chat = ChatPage(visit(server.url, **PHONE))
    chat.ask_on_a_phone("Hello!")
    expect(chat.page.locator(".sidebar")).not_to_be_visible()
    chat.page.get_by_role("button", name="Conversations").click()
    expect(chat.page.locator(".conversation-list a")).to_be_visible()
    assert chat.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    chat.page.keyboard.press("Escape")
    chat.answer_with("A long line of code:\n\n```\n" + "x" * 300 + "\n```\n\n| " + " | ".join(["column"] * 20) + " |\n" + "|--" * 20 + "|\n\n"
                     "$$" + "+".join(["x^2"] * 60) + "$$\n\n" + "y" * 300)
    chat.ask_on_a_phone("Wide things")
    assert chat.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    chat.page.get_by_role("button", name="Conversation settings").click()
    expect(chat.page.get_by_role("dialog")).to_be_visible()
    assert chat.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    box = chat.page.get_by_role("dialog").bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= 390


def test_theme_can_be_chosen_and_is_kept(chat):
    background = "getComputedStyle(document.body).backgroundColor"
    light = chat.page.evaluate(background)
    theme = chat.page.get_by_role("button", name=re.compile("^Theme"))
    theme.click()
    theme.click()
    assert chat.page.evaluate(background) != light
    dark = chat.page.evaluate(background)
    chat.page.reload()
    assert chat.page.evaluate(background) == dark
