"""What a person does on the chat page, for the tests."""

import contextlib
import json

from playwright.sync_api import expect


PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


TRACED = ["toplevel", "devtools.timeline"]  # categories of Chromium's trace with the tasks of threads


@contextlib.contextmanager
def traced_tasks(browser, page):
    """Yields a list which has, when the block has ended, the CPU times of the tasks on the main thread of the page."""
    tasks = []
    browser.start_tracing(page=page, categories=TRACED)
    try:
        yield tasks
    finally:  # only one trace can be recorded at a time
        tasks += main_thread_tasks(browser.stop_tracing())


def main_thread_tasks(trace):
    """The CPU times of the tasks on the main thread of the page, and of their parts, in milliseconds. Chromium leaves out some
    tasks, but not their parts."""
    events = json.loads(trace)["traceEvents"]
    main = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name" and e["args"]["name"] == "CrRendererMain"}
    return [e["tdur"] / 1000 for e in events if (e["pid"], e["tid"]) in main and "tdur" in e]


class ChatPage:
    def __init__(self, visit):
        self.visit = visit
        self.page = visit.page
        self.input = self.page.get_by_label("Message", exact=True)
        self.answers = self.page.locator(".message.assistant")
        self.questions = self.page.locator(".message.user")

    def send(self, text):
        self.input.fill(text)
        self.input.press("Enter")

    def wait_for_answer(self, index=-1):
        """The text of a response that is complete: it has its buttons then."""
        answer = self.answers.nth(index)
        expect(answer.get_by_role("button", name="Regenerate")).to_be_attached(timeout=20000)
        return answer.locator(".markdown").last.inner_text()

    def ask(self, text):
        self.send(text)
        return self.wait_for_answer()

    def regenerate(self):
        """Replaces the first response by a second version of it, and returns that."""
        self.answers.first.hover()
        self.answers.first.get_by_role("button", name="Regenerate").click()
        expect(self.page.locator(".branches")).to_contain_text("2/2")
        return self.wait_for_answer()

    def ask_on_a_phone(self, text):
        """There, Enter begins a new line."""
        count = self.answers.count()
        self.input.fill(text)
        self.page.get_by_role("button", name="Send").click()
        expect(self.answers).to_have_count(count + 1)
        return self.wait_for_answer()

    def set_parameters(self, **values):
        self.page.get_by_role("button", name="Conversation settings").click()
        for label, value in values.items():
            self.page.get_by_label(label.replace("_", " "), exact=True).fill(str(value))
        self.page.get_by_role("button", name="Done").click()

    def ignore_end_of_text(self):
        """Responses are as long as the context allows, so that a test can act while they arrive."""
        self.page.route("**/v1/chat/completions", lambda route: route.continue_(
            post_data=json.dumps({**route.request.post_data_json, "ignore_eos": True})))

    def answer_with(self, text, **usage):
        """From now on the server's responses are replaced by this text."""
        chunks = [{"choices": [{"index": 0, "delta": {"content": text[i:i + 50]}, "finish_reason": None}]} for i in range(0, len(text), 50)]
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        chunks.append({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": len(chunks), **usage}})
        body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
        self.page.route("**/v1/chat/completions", lambda route: route.fulfill(content_type="text/event-stream", body=body))
