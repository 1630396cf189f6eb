"""What a person does on the chat page, for the tests."""

import collections
import json

from playwright.sync_api import expect


PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


class ExecutedBlocks:
    """Counts how often the scripts that a page loads from now on execute their parts. V8 counts exactly, on any machine."""

    def __init__(self, page):
        self.session = page.context.new_cdp_session(page)
        self.session.send("Profiler.enable")
        self.session.send("Profiler.startPreciseCoverage", {"callCount": True, "detailed": True})

    def take(self):
        """The counts since the last call: (script, function) for calls of a function, and script for all of its functions and branches."""
        counts = collections.Counter()
        for script in self.session.send("Profiler.takePreciseCoverage")["result"]:
            name = script["url"].rsplit("/", 1)[-1]
            for function in script["functions"]:
                counts[name, function["functionName"]] += function["ranges"][0]["count"]
                counts[name] += sum(each["count"] for each in function["ranges"])
        return counts


def reload_and_count(page):
    """Loads the page again, so that all of its scripts are counted."""
    executed = ExecutedBlocks(page)
    page.reload()
    expect(page.locator(".suggestion").first).to_be_visible()
    return executed


def wait_for_animations(page):
    # The promise of an animation whose element is removed is rejected.
    page.evaluate("Promise.allSettled(document.getAnimations().map(animation => animation.finished)).then(() => null)")


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
        expect(answer.get_by_role("button", name="Regenerate")).to_be_attached()
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
