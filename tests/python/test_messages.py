"""Messages of every form give the prompt of transformers in Python, too."""

import dataclasses
import json
import types

import chat_oracle
import numpy as np
import pytest
from chat_oracle import CONVERSATIONS
from quire import LLM, SamplingParams

NOW = "2026-01-15T12:00:00"
MODEL_TOKENS = {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>"}
ONE = SamplingParams(temperature=0, max_tokens=1)

needs_templates = pytest.mark.skipif(not chat_oracle.TEMPLATES.exists(), reason="the shared chat templates are missing")


@needs_templates
@pytest.mark.parametrize("conversation", CONVERSATIONS)
def test_prompts_are_those_of_transformers(llm, monkeypatch, conversation):
    monkeypatch.setenv("QUIRE_NOW", NOW)
    tokenizer, messages, rendered = llm.get_tokenizer(), CONVERSATIONS[conversation], 0
    for name in chat_oracle.names():
        source, tokens = chat_oracle.source(name), chat_oracle.variables()[name]
        prompt = chat_oracle.expected(source, messages, NOW, **{**MODEL_TOKENS, **tokens})
        if prompt is None:
            continue
        assert tokenizer.apply_chat_template(messages, chat_template=source, add_generation_prompt=True, tokenize=False,
                                             **tokens) == prompt, name
        rendered += 1
    assert rendered >= 100


def chat_prompt(llm, messages, **options):
    return llm.chat(messages, ONE, use_tqdm=False, **options)[0].prompt


LISTS = "{% for m in messages %}{% for p in m.content %}{{ p.text }};{% endfor %}{% endfor %}"


def test_chat_passes_lists_to_templates_that_read_them(llm):
    parts = [{"role": "user", "content": chat_oracle.parts("a", "b")}]
    assert chat_prompt(llm, parts, chat_template=LISTS) == "a;b;"
    assert chat_prompt(llm, [{"role": "user", "content": "a"}], chat_template=LISTS) == "a;"
    assert chat_prompt(llm, parts, chat_template="{{ messages[0].content }}") == "a\nb"
    both = "{{ messages[0].content if messages[0].content is string else messages[0].content | length }}"
    assert chat_prompt(llm, parts, chat_template=both, chat_template_content_format="string") == "a\nb"
    assert chat_prompt(llm, parts, chat_template=both, chat_template_content_format="openai") == "2"


def test_chat_passes_all_fields_and_options_to_the_template(llm):
    template = ("{% for m in messages %}{{ m.role }}|{{ m.name }}|{{ m.tool_call_id }}|{{ m.reasoning_content }}|"
                "{{ m.tool_calls[0].function | tojson if m.tool_calls }}|{{ m.content }};{% endfor %}"
                "{{ tools[0].name }}{{ mood }}{{ add_generation_prompt }}")
    call = {**CONVERSATIONS["call"][1], "reasoning": "why", "content": None}
    assert chat_prompt(llm, [call, chat_oracle.result("42")], chat_template=template, tools=[{"name": "f"}],
                       chat_template_kwargs={"mood": "calm"}, add_generation_prompt=False) == (
        'assistant|||why|{"name": "weather", "arguments": {"city": "Epsilon five", "days": 6}}|;'
        "tool|weather|a1B2c3D4e|||42;fcalmFalse")


def test_messages_can_be_objects_of_clients(llm):
    @dataclasses.dataclass
    class Message:
        role: str
        content: str

    class Model:
        def model_dump(self):
            return {"role": "user", "content": "b", "name": None}

    messages = [Message("user", "a"), Model(), types.MappingProxyType({"role": "user", "content": "c"})]
    assert chat_prompt(llm, messages, chat_template="{{ messages | map(attribute='content') | join }}") == "abc"


def test_numbers_of_numpy_are_numbers(llm):
    messages = [{"role": "user", "content": "a", "n": np.int64(3), "x": np.float32(0.5)}]
    assert chat_prompt(llm, messages, chat_template="{{ messages[0].n }} {{ messages[0].x }}") == "3 0.5"


def test_large_integers_keep_their_digits(llm):
    messages = [{"role": "user", "content": "a", "n": 10**30}]
    assert chat_prompt(llm, messages, chat_template="{{ messages[0].n }}") == str(10**30)
    assert json.loads(chat_prompt(llm, messages, chat_template="{{ messages | tojson }}")) == messages


def test_tools_select_the_template_for_tools(tmp_path):
    messages, tools = CONVERSATIONS["user"], chat_oracle.TOOLS
    named = LLM(chat_oracle.named_model(tmp_path / "model"), kv_cache_memory_bytes=32 << 20, threads=1)
    assert chat_prompt(named, messages) == chat_oracle.named_prompt(messages)
    assert chat_prompt(named, messages, tools=tools) == chat_oracle.named_prompt(messages, tools)
    assert chat_prompt(named, messages, tools=tools, chat_template="rag") == chat_oracle.named_prompt(messages, tools, "rag")
