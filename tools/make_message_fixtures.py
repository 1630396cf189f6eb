#!/usr/bin/env python3
"""Writes tests/fixtures/messages.json: prompts of small templates, one for each way of reading messages, as transformers renders
them. Needs jinja2 (tests/e2e/requirements.txt).

usage: tools/make_message_fixtures.py
"""

import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

import chat_oracle  # noqa: E402

NOW = "2026-01-15T12:00:00"
CALLS = "{% for c in m.tool_calls or [] %}[{{ c.function.name }}({{ ARGUMENTS }})]{% endfor %}"
LOOP = "{% for m in messages %}<{{ m.role }}>CONTENT" + CALLS + "{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
PARTS = "{% for p in m.content %}{% if p.type == 'text' %}{{ p.text }}{% endif %}{% endfor %}"


def template(content, arguments="c.function.arguments | tojson"):
    return LOOP.replace("CONTENT", content).replace("ARGUMENTS", arguments)


TEMPLATES = {
    "strings": template("{{ m.content }}"),
    "strings_added": template("{{ m.content + '|' }}"),
    "strings_trimmed": template("{{ m.content | trim }}"),
    "both": template("{% if m.content is string %}{{ m.content }}{% else %}" + PARTS + "{% endif %}"),
    "both_with_breaks": template("{% if m.content is string %}{{ m.content }}{% else %}"
                                 "{{ m.content | map(attribute='text') | join('\\n\\n') }}{% endif %}"),
    "lists": template(PARTS),
    "lists_selected": template("{% for p in m.content | selectattr('type', 'equalto', 'text') %}{{ p['text'] }}{% endfor %}"),
    "lists_first": template("{{ m.content[0]['text'] }}"),
    "lists_of_users": template("{% if m.role == 'user' and m.content is not string %}" + PARTS + "{% else %}{{ m.content }}{% endif %}"),
    "json_of_lists": template("{% if m.content is string %}{{ m.content }}{% else %}{{ m.content | tojson }}{% endif %}"),
    "drops_lists": template("{% if m.content is string %}{{ m.content }}{% endif %}"),
    "drops_system": "{% for m in messages if m.role != 'system' %}<{{ m.role }}>{{ m.content }}{% endfor %}",
    "system_first": "{% if messages[0].role != 'system' %}{{ raise_exception('no system message') }}{% endif %}" + template(PARTS),
    "texts_of_calls": template("{{ m.content }}", "'' + c.function.arguments"),
    "objects_of_calls": template("{{ m.content }}", "c.function.arguments.items() | list | length"),
}


def main():
    cases = []
    for name, text in TEMPLATES.items():
        for conversation, messages in chat_oracle.CONVERSATIONS.items():
            prompt = chat_oracle.expected(text, messages, NOW)
            if prompt is not None:
                cases.append([name, conversation, prompt])
    path = ROOT / "tests" / "fixtures" / "messages.json"
    fields = {"templates": TEMPLATES, "conversations": chat_oracle.CONVERSATIONS, "cases": cases}
    body = ",\n".join(f"{json.dumps(name)}: {lines(value)}" for name, value in fields.items())
    path.write_text(f"{{\n{body}\n}}\n", encoding="utf8")
    print(f"{path}: {len(cases)} cases")


def lines(value):
    """JSON with one line for each element."""
    if isinstance(value, dict):
        return "{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in value.items()) + "}"
    return "[\n" + ",\n".join(json.dumps(v) for v in value) + "]"


if __name__ == "__main__":
    main()
