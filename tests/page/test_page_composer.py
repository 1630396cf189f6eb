"""What the chat offers in addition to the messages: suggestions, files, times of the server, probabilities, labels."""

import json
import re

import httpx
import pytest
from chat_page import ChatPage
from playwright.sync_api import expect


@pytest.fixture
def chat(server, visit):
    return ChatPage(visit(server.url))


def test_suggestions_are_for_the_served_model(chat, server):
    cards = chat.page.locator(".suggestion")
    expect(cards).to_have_count(4)
    assert all("story" in text for text in cards.all_inner_texts()), "the embedded model tells stories"
    model = httpx.get(server.url + "/internal/model").json()
    chat.page.route("**/internal/model", lambda route: route.fulfill(json={**model, "num_parameters": 7e9}))
    chat.page.reload()
    expect(cards.nth(2)).to_contain_text("Write a function")


def test_times_are_those_of_the_server(chat):
    """A fast model's tokens arrive together, so that the browser's clock would show any rate."""
    usage = {"prompt_tokens": 10, "completion_tokens": 101, "total_tokens": 111}
    chunks = [{"choices": [{"index": 0, "delta": {"content": "Fine."}, "finish_reason": "stop"}]},
              {"choices": [], "usage": usage, "timings": {"queue_ms": 100.0, "prefill_ms": 400.0, "decode_ms": 2000.0}}]
    body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
    chat.page.route("**/v1/chat/completions", lambda route: route.fulfill(content_type="text/event-stream", body=body))
    chat.ask("How are you?")
    expect(chat.answers.first.locator(".stats")).to_have_text("101 tokens · 50.0 tokens/s · first after 500 ms")


def test_the_server_sends_its_times(chat, server):
    with chat.page.expect_request("**/v1/chat/completions") as request:
        chat.ask("Tell me a story about a cat.")
    response = httpx.post(server.url + "/v1/chat/completions", json=request.value.post_data_json)
    events = [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: {")]
    timings = events[-1]["timings"]
    assert timings["queue_ms"] >= 0 and timings["prefill_ms"] > 0 and timings["decode_ms"] > 0
    assert all("timings" not in event for event in events[:-1])


DROP = """([files]) => {
    const data = new DataTransfer();
    for (const [name, bytes] of files) data.items.add(new File([new Uint8Array(bytes)], name));
    for (const kind of ['dragover', 'drop']) document.querySelector('.chat').dispatchEvent(new DragEvent(kind, { dataTransfer: data, bubbles: true, cancelable: true }));
}"""


def test_text_files_are_attached_by_dropping_them(chat):
    bodies = []
    chat.page.on("request", lambda r: r.url.endswith("/chat/completions") and bodies.append(r.post_data_json))
    chat.page.evaluate(DROP, [[["notes.txt", list("A note ü.".encode())], ["gone.txt", list(b"x")], ["image.png", [137, 80, 78, 71]], ["zeros.bin", [65, 0]], ["big.txt", [32] * 300_000]]])
    expect(chat.page.locator(".composer .file")).to_have_text(["notes.txt", "gone.txt"])
    expect(chat.page.get_by_text("image.png is not a text file.")).to_be_visible()
    expect(chat.page.get_by_text("zeros.bin is not a text file.")).to_be_visible()
    expect(chat.page.get_by_text("big.txt has 293 KiB, the limit is 256 KiB.")).to_be_visible()
    chat.page.get_by_role("button", name="Remove gone.txt").click()
    chat.ask("What is this?")
    assert bodies[0]["messages"][-1]["content"] == "File notes.txt:\n\nA note ü.\n\nWhat is this?"
    expect(chat.questions.first.locator(".file")).to_have_text("notes.txt")
    expect(chat.questions.first.locator(".bubble")).to_have_text("What is this?")
    expect(chat.page.locator(".composer .file")).to_have_count(0)
    chat.page.reload()
    expect(chat.questions.first.locator(".file")).to_have_text("notes.txt")


def test_text_files_are_attached_by_choosing_them(chat, tmp_path):
    (tmp_path / "story.md").write_text("# A story")
    chat.page.locator("input[aria-label='Attach text files']").set_input_files(tmp_path / "story.md")
    expect(chat.page.locator(".composer .file")).to_have_text(["story.md"])
    chat.page.get_by_role("button", name="Send").click()
    chat.wait_for_answer()
    expect(chat.page.locator(".conversation-list a")).to_have_text(["story.md"])


def test_probabilities_of_alternatives_are_shown_under_the_pointer(chat):
    chat.page.get_by_role("button", name="Conversation settings").click()
    chat.page.get_by_label("Show the 5 most likely tokens under the pointer").check()
    chat.page.get_by_label("Max tokens", exact=True).fill("8")
    chat.page.get_by_label("Seed", exact=True).fill("7")
    chat.page.get_by_role("button", name="Done").click()
    chat.send("Tell me a story about a cat.")
    answer = chat.answers.first
    tokens = answer.locator(".token")
    expect(tokens).to_have_count(8)
    tokens.nth(3).hover()
    rows = answer.locator(".token-tip li")
    assert 5 <= rows.count() <= 6
    expect(rows.first).to_contain_text(re.compile(r"\d+(\.\d+)? %$"))
    expect(answer.locator(".token-tip .chosen")).to_have_count(1)
    answer.locator(".tokens").focus()
    chat.page.keyboard.press("ArrowRight")
    expect(chat.page.locator("#announcer")).to_contain_text("Most likely:")
    answer.get_by_role("button", name="Probabilities").click()
    expect(answer.locator(".tokens")).to_have_count(0)
    assert answer.locator(".markdown").last.inner_text().strip()


def test_icons_have_labels_and_controls_are_aligned(chat):
    foot = chat.page.locator(".sidebar-foot .icon-button")
    expect(foot).to_have_text(["Theme", "Export", "Import", "Keyboard"])
    for button in foot.all():
        icon, label = button.locator("svg").bounding_box(), button.locator("span").bounding_box()
        assert label["y"] >= icon["y"] + icon["height"] - 1, "below the icon"
    chat.ask("Hello!")
    chat.regenerate()
    parts = chat.answers.first.locator(".message-bar svg, .branches span, .message-bar .stats").all()
    centers = [box["y"] + box["height"] / 2 for box in (part.bounding_box() for part in parts)]
    assert len(centers) >= 6 and max(centers) - min(centers) < 1.5, centers
