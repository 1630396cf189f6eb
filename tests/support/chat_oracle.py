"""What a chat template prints for a conversation according to transformers: jinja2, set up as `apply_chat_template` does, with
the messages as the client sent them. Where a template cannot read a message of this form, its texts are joined by line breaks,
as vLLM does, or a string becomes a list of one part."""

import copy
import functools
import itertools
import json
import os
import pathlib
import shutil

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEMPLATES = pathlib.Path(os.environ.get("QUIRE_SHARED", ROOT.parent / "shared")) / "data" / "templates"


def call(name, arguments):
    return {"role": "assistant", "content": "", "tool_calls": [
        {"id": "a1B2c3D4e", "type": "function", "function": {"name": name, "arguments": arguments}}]}


def result(content):
    return {"role": "tool", "name": "weather", "tool_call_id": "a1B2c3D4e", "content": content}


def parts(*texts):
    return [{"type": "text", "text": text} for text in texts]


USER, SYSTEM = {"role": "user", "content": "Alpha one"}, {"role": "system", "content": "Beta two"}
ASSISTANT, LAST = {"role": "assistant", "content": "Gamma three"}, {"role": "user", "content": "Delta four"}
CALL = call("weather", {"city": "Epsilon five", "days": 6})


def with_content(message, *texts):
    return {**message, "content": parts(*texts)}


CONVERSATIONS = {
    "user": [USER],
    "strings": [SYSTEM, USER, ASSISTANT, LAST],
    "one_part": [with_content(SYSTEM, "Beta two"), with_content(USER, "Alpha one"), with_content(ASSISTANT, "Gamma three"), LAST],
    "user_part": [with_content(USER, "Alpha one")],
    "user_parts": [with_content(USER, "Alpha one", "Zeta seven")],
    "parts": [USER, with_content(ASSISTANT, "Gamma three", "Eta eight"), with_content(LAST, "Delta four", "Theta nine", "Iota ten")],
    "call": [USER, CALL],
    "result": [USER, CALL, result("Kappa eleven")],
    "result_part": [USER, CALL, result(parts("Kappa eleven"))],
    "result_parts": [USER, CALL, result(parts("Kappa eleven", "Lambda twelve"))],
    "after_result": [SYSTEM, USER, CALL, result("Kappa eleven"), ASSISTANT, LAST],
}


# Templates of a model that has several, in the form of tokenizer_config.json, and the tools of a request.
NAMED = [{"name": "default", "template": "default:{{ messages[0].content }}"},
         {"name": "tool_use", "template": "tools:{{ tools | map(attribute='function.name') | join(',') }}:{{ messages[0].content }}"},
         {"name": "rag", "template": "rag:{{ messages[0].content }}"}]
TOOLS = [{"type": "function", "function": {"name": "weather"}}]


def named_model(directory, templates=NAMED):
    """A copy of quire-tiny with these templates."""
    model = shutil.copytree(ROOT / "models" / "quire-tiny", directory)
    config = json.loads((model / "tokenizer_config.json").read_text())
    (model / "tokenizer_config.json").write_text(json.dumps({**config, "chat_template": templates}))
    return model


def named_prompt(messages, tools=None, chat_template=None, now="2026-01-15T12:00:00"):
    """The prompt of a model with the templates NAMED: transformers takes the named template, otherwise that for tools if
    there are some, otherwise the default."""
    sources = {entry["name"]: entry["template"] for entry in NAMED}
    text = sources[chat_template or ("tool_use" if tools is not None else "default")]
    return render(text, messages, now, tools=tools)


def names():
    return sorted(path.stem for path in (TEMPLATES / "jinja").glob("*.jinja"))


def source(name):
    with (TEMPLATES / "jinja" / f"{name}.jinja").open(encoding="utf8", newline="") as file:
        return file.read()


@functools.cache
def variables():
    """The special tokens of the models, by template."""
    return json.loads((TEMPLATES / "special_tokens.json").read_text(encoding="utf8"))


@functools.cache
def _environment(now):
    import datetime

    import jinja2
    import jinja2.ext
    import jinja2.sandbox

    class Generation(jinja2.ext.Extension):
        tags = {"generation"}

        def parse(self, parser):
            line = next(parser.stream).lineno
            return jinja2.nodes.Scope(parser.parse_statements(["name:endgeneration"], drop_needle=True)).set_lineno(line)

    def fail(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                                               extensions=[Generation, jinja2.ext.loopcontrols])
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = fail
    environment.globals["strftime_now"] = datetime.datetime.fromisoformat(now).strftime
    return environment


@functools.cache
def _compiled(text, now):
    return _environment(now).from_string(text)


def render(text, messages, now, **values):
    """The prompt; None if the template fails."""
    values = {"tools": None, "documents": None, "add_generation_prompt": True, **values}
    try:
        return _compiled(text, now).render(messages=copy.deepcopy(messages), **values)
    except Exception:
        return None


def _texts(message):
    content = message["content"]
    return [content] if isinstance(content, str) else [part["text"] for part in content]


def _joined(message):
    return {**message, "content": "\n".join(_texts(message))}


def _listed(message):
    return {**message, "content": parts(*_texts(message))}


def _prints_lists(prompt):
    """Whether a prompt shows a list in the notation of Python or of JSON."""
    return any(mark in prompt for mark in ("'text':", '"text":'))


def expected(text, messages, now, **values):
    """The prompt; None if the template can render these messages in no form."""
    contents = [i for i, message in enumerate(messages) if "tool_calls" not in message]

    def change(roles, form):
        return [form(m) if i in contents and m["role"] in roles else m for i, m in enumerate(messages)]

    def shown(prompt):
        return {i for i in contents if prompt and _texts(messages[i])[0] in prompt}

    roles = sorted({messages[i]["role"] for i in contents})
    as_sent = render(text, messages, now, **values)
    # Some templates drop messages of a role in every form.
    visible = shown(as_sent)
    for form in (_joined, _listed):
        visible |= shown(render(text, change(roles, form), now, **values))
    candidates = [as_sent]
    for form in (_joined, _listed):
        for count in range(1, len(roles) + 1):
            candidates += [change(chosen, form) for chosen in itertools.combinations(roles, count)]
    for candidate in candidates:
        prompt = candidate if isinstance(candidate, str) or candidate is None else render(text, candidate, now, **values)
        if prompt is not None and not _prints_lists(prompt) and visible <= shown(prompt):
            return prompt
    return None
