"""The page for models without a chat template: it continues a text."""

import json
import shutil

import pytest
from playwright.sync_api import expect
from server_process import ROOT, ServerProcess


@pytest.fixture(scope="module")
def base_server(tmp_path_factory):
    """The embedded model without its chat template."""
    model = tmp_path_factory.mktemp("model") / "base-model"
    shutil.copytree(ROOT / "models" / "quire-tiny", model)
    (model / "chat_template.jinja").unlink(missing_ok=True)
    config = json.loads((model / "tokenizer_config.json").read_text())
    config.pop("chat_template", None)
    (model / "tokenizer_config.json").write_text(json.dumps(config))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QUIRE_MODEL", str(model))
        process = ServerProcess("--kv-cache-memory", "16MiB")
    yield process
    process.stop()


@pytest.fixture
def page(base_server, visit):
    return visit(base_server.url).page


def marked(page):
    return "".join(page.locator(".completion-back mark").all_inner_texts())


def test_models_without_a_chat_template_continue_a_text(page):
    text = page.get_by_label("Text", exact=True)
    text.fill("Once upon a time")
    page.get_by_role("button", name="Continue").click()
    expect(page.locator(".completion .stats")).to_contain_text("tokens/s · first after")
    longer = text.input_value()
    assert longer.startswith("Once upon a time") and len(longer) > 20
    page.get_by_role("button", name="Remove the last completion").click()
    assert text.input_value() == "Once upon a time"
    assert marked(page) == ""


def test_generated_text_is_marked_also_after_an_edit_and_a_reload(page):
    text = page.get_by_label("Text", exact=True)
    text.fill("Once upon a time")
    page.get_by_role("button", name="Continue").click()
    expect(page.locator(".completion .stats")).to_contain_text("tokens")
    generated = text.input_value().removeprefix("Once upon a time")
    assert marked(page) == generated
    text.press("Control+Home")
    text.press_sequentially("Well: ")
    assert marked(page) == generated, "a text before it moves the mark"
    text.press("Control+End")
    text.press_sequentially(" The end.")
    assert marked(page) == generated, "a text after it is the person's"
    # A transaction waits for earlier ones, which a reload would abort.
    page.evaluate("async () => (await import('/ui/store.js')).loadAll()")
    page.reload()
    expect(page.get_by_label("Text", exact=True)).to_have_value(f"Well: Once upon a time{generated} The end.")
    assert marked(page) == generated


def test_marks_follow_edits(page):
    def shifted(ranges, before, after):
        return page.evaluate("async ([r, b, a]) => (await import('/ui/marked_text.js')).shiftRanges(r, b, a)", [ranges, before, after])

    assert shifted([[2, 6]], "abCDEFgh", "abCDxEFgh") == [[2, 4], [5, 7]], "typed inside"
    assert shifted([[2, 6]], "abCDEFgh", "abCFgh") == [[2, 4]], "deleted inside"
    assert shifted([[2, 6]], "abCDEFgh", "aEFgh") == [[1, 3]], "deleted across the start"
    assert shifted([[2, 6]], "abCDEFgh", "") == []


def test_the_mark_lies_behind_its_text(page):
    """The copy breaks lines where the field does, whether the field scrolls or not."""
    text = page.get_by_label("Text", exact=True)
    for lines in (3, 200):
        text.fill("A line of some words that is long enough to be broken. " * 5 * lines)
        assert page.evaluate("""() => {
            const [back, field] = ['.completion-back', '.completion-text'].map(name => document.querySelector(name));
            return Math.abs(back.scrollHeight - field.scrollHeight) <= 1 && back.clientWidth === field.clientWidth;
        }""")


def test_story_models_are_offered_openings_of_stories(page):
    page.get_by_role("button", name="Once upon a time, there was a little robot who").click()
    expect(page.locator(".completion .stats")).to_contain_text("tokens")
    assert page.get_by_label("Text", exact=True).input_value().startswith("Once upon a time, there was a little robot who")
    expect(page.locator(".openings")).to_be_hidden()
