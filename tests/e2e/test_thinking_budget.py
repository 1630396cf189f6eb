"""Limits on reasoning: the end of reasoning is forced when the budget is used up, and the answer follows."""

import concurrent.futures
import json
import subprocess

import jsonschema
import openai
import pytest
from server_process import BINARY, ServerProcess
from tool_model import marker_ids, tool_model

IDS = marker_ids()
CHAT = [{"role": "user", "content": "Tell me about a cat."}]
OPENED = {"chat_template_kwargs": {"enable_thinking": True}}
SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 6}, "age": {"type": "integer", "minimum": 0, "maximum": 99}},
          "required": ["name", "age"], "additionalProperties": False}
FORMAT = {"type": "json_schema", "json_schema": {"name": "cat", "schema": SCHEMA}}
TOOL = {"type": "function", "function": {"name": "f", "strict": True, "parameters": SCHEMA}}


@pytest.fixture(scope="module")
def thinker():
    process = ServerProcess(str(tool_model()), "--served-model-name", "tiny")
    yield process
    process.stop()


@pytest.fixture(scope="module")
def client(thinker):
    with openai.OpenAI(base_url=f"{thinker.url}/v1", api_key="none") as client:
        yield client


def ask(client, budget, **fields):
    extra = {"thinking_token_budget": budget, "return_token_ids": True, "min_p": 0.0, **OPENED, **fields.pop("extra_body", {})}
    fields = {"model": "tiny", "messages": CHAT, "max_tokens": 40, "temperature": 1.5, "seed": 1, **fields}
    return client.chat.completions.create(**fields, extra_body=extra)


def reasoning_tokens(ids, opened=True):
    """The tokens of reasoning in an output, without markers."""
    if not opened:
        if IDS["<think>"] not in ids:
            return []
        ids = ids[ids.index(IDS["<think>"]) + 1:]
    return ids[:ids.index(IDS["</think>"])] if IDS["</think>"] in ids else ids


@pytest.mark.parametrize("budget", [0, 1, 7])
def test_reasoning_that_the_prompt_opens_ends_after_the_budget(client, budget):
    answer = ask(client, budget)
    choice = answer.choices[0]
    assert len(reasoning_tokens(choice.token_ids)) == budget
    assert len(choice.token_ids) > budget + 1
    assert answer.usage.completion_tokens_details.reasoning_tokens == budget
    assert choice.message.content
    assert bool(getattr(choice.message, "reasoning", None)) == (budget > 0)


@pytest.mark.parametrize("budget", [0, 5])
def test_reasoning_that_the_model_opens_ends_after_the_budget(client, budget):
    answer = ask(client, budget, max_tokens=20, extra_body={"chat_template_kwargs": {}}, logit_bias={str(IDS["<think>"]): 100})
    choice = answer.choices[0]
    assert choice.token_ids[0] == IDS["<think>"]
    assert choice.token_ids[budget + 1] == IDS["</think>"]
    assert answer.usage.completion_tokens_details.reasoning_tokens == budget


def test_without_a_budget_the_same_tokens_come_until_it_is_used_up(client):
    free = ask(client, None).choices[0].token_ids
    assert ask(client, -1).choices[0].token_ids == free
    assert ask(client, 9).choices[0].token_ids[:9] == free[:9]
    assert ask(client, 1000).choices[0].token_ids == free


def test_a_stream_says_the_same(client):
    whole = ask(client, 6)
    chunks = list(ask(client, 6, stream=True, stream_options={"include_usage": True}))
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    message = whole.choices[0].message
    assert "".join(getattr(d, "reasoning", None) or "" for d in deltas) == message.reasoning
    assert "".join(d.content or "" for d in deltas) == message.content
    assert chunks[-1].usage.completion_tokens_details.reasoning_tokens == 6


def test_every_sample_has_the_budget(client):
    answer = ask(client, 4, n=6)
    assert {len(reasoning_tokens(choice.token_ids)) for choice in answer.choices} == {4}
    assert answer.usage.completion_tokens_details.reasoning_tokens == 24
    assert len({tuple(choice.token_ids) for choice in answer.choices}) == 6


def test_every_beam_has_the_budget(client):
    answer = ask(client, 3, n=3, temperature=0, extra_body={"use_beam_search": True, "ignore_eos": True}, max_tokens=8)
    assert [choice.token_ids.index(IDS["</think>"]) for choice in answer.choices] == [3, 3, 3]


def test_a_constrained_answer_follows(client):
    for seed in range(5):
        answer = ask(client, 5, seed=seed, response_format=FORMAT, max_tokens=300)
        assert answer.choices[0].finish_reason == "stop"
        jsonschema.validate(json.loads(answer.choices[0].message.content), SCHEMA)
        # A character that has begun is completed first.
        assert answer.usage.completion_tokens_details.reasoning_tokens <= 8


def test_calls_follow(client):
    for seed in range(5):
        answer = ask(client, 5, seed=seed, tools=[TOOL], tool_choice="required", parallel_tool_calls=False, max_tokens=300)
        assert answer.choices[0].finish_reason == "tool_calls"
        jsonschema.validate(json.loads(answer.choices[0].message.tool_calls[0].function.arguments), SCHEMA)
        assert answer.usage.completion_tokens_details.reasoning_tokens <= 8


def test_min_tokens_and_ignore_eos_are_as_without_a_budget(client):
    fields = {"extra_body": {"ignore_eos": True, "min_tokens": 40}, "max_tokens": 40}
    assert len(ask(client, 3, **fields).choices[0].token_ids) == 40


def test_completions_take_the_state_of_their_prompts(client):
    prompts = ["a cat", "a cat<think>so ", "<think>a</think>cat"]
    answer = client.completions.create(model="tiny", prompt=prompts, max_tokens=12, temperature=1.5, seed=3,
                                       extra_body={"thinking_token_budget": 4, "return_token_ids": True})
    ends = [choice.token_ids.index(IDS["</think>"]) if IDS["</think>"] in choice.token_ids else None for choice in answer.choices]
    assert ends == [None, 4, None]


def test_the_same_in_a_batch_and_after_preemption(client):
    def run(url, seed):
        with openai.OpenAI(base_url=f"{url}/v1", api_key="none") as other:
            return ask(other, 6, seed=seed, max_tokens=100, n=3, response_format=FORMAT if seed % 2 else {"type": "text"}).model_dump()["choices"]
    alone = [run(str(client.base_url).removesuffix("/v1/"), seed) for seed in range(10)]
    small = ServerProcess(str(tool_model()), "--served-model-name", "tiny", "--kv-cache-memory", "1MiB", "--max-model-len", "256")
    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        together = list(pool.map(lambda seed: run(small.url, seed), range(10)))
    assert small.metric("quire:num_preemptions_total") > 0
    small.stop()
    strip = [[(c["token_ids"], c["message"]["content"]) for c in choices] for choices in alone]
    assert [[(c["token_ids"], c["message"]["content"]) for c in choices] for choices in together] == strip


def test_an_effort_of_none_is_no_reasoning(client):
    # The template of this model opens no reasoning then; what the model opens ends at once.
    answer = client.chat.completions.create(model="tiny", messages=CHAT, max_tokens=20, temperature=1.5, seed=1, reasoning_effort="none",
                                            logit_bias={str(IDS["<think>"]): 100}, extra_body={"return_token_ids": True})
    assert answer.choices[0].token_ids[:2] == [IDS["<think>"], IDS["</think>"]]
    assert not hasattr(answer.choices[0].message, "reasoning")


def parts_of(text, opened=True):
    """The reasoning and the answer of an output with markers."""
    if not opened:
        text = text.removeprefix("<think>") if text.startswith("<think>") else "</think>" + text
    reasoning, _, answer = text.partition("</think>")
    return reasoning, answer


@pytest.mark.parametrize("budget", [0, 6])
def test_in_completions_a_constrained_answer_follows_the_reasoning(client, budget):
    prompts = ["A cat:<think>so ", "A cat:", "<think>a</think>\n\n"]
    for seed in range(5):
        answer = client.completions.create(model="tiny", prompt=prompts, max_tokens=300, temperature=1.5, seed=seed, logit_bias={str(IDS["<think>"]): 50},
                                           extra_body={"thinking_token_budget": budget, "guided_json": SCHEMA, "return_token_ids": True})
        for choice, opened in zip(answer.choices, [True, False, False], strict=True):
            assert choice.finish_reason == "stop"
            jsonschema.validate(json.loads(parts_of(choice.text, opened)[1]), SCHEMA)
            assert len(reasoning_tokens(choice.token_ids, opened)) <= budget + 3
        # The reasoning of the last prompt is over.
        assert [IDS["</think>"] in choice.token_ids for choice in answer.choices] == [True, True, False]


def test_in_completions_every_constraint_can_follow_reasoning(client):
    tag = {"type": "structural_tag", "format": {"type": "regex", "pattern": "[ab]{3}"}}
    for extra in ({"guided_regex": "[ab]{3}"}, {"guided_choice": ["aab", "bba"]}, {"guided_grammar": 'root ::= [ab] [ab] [ab]'}, {"response_format": tag}):
        fields = {"model": "tiny", "prompt": "cat<think>", "max_tokens": 60, "temperature": 1.5, "seed": 1, "n": 2}
        answer = client.completions.create(**fields, extra_body={"thinking_token_budget": 4, **extra})
        for choice in answer.choices:
            assert set(parts_of(choice.text)[1]) <= {"a", "b"} and len(parts_of(choice.text)[1]) == 3
        chunks = client.completions.create(**fields, stream=True, extra_body={"thinking_token_budget": 4, **extra})
        assert "".join(chunk.choices[0].text for chunk in chunks if chunk.choices[0].index == 0) == answer.choices[0].text


def test_in_completions_without_a_budget_the_constraint_is_on_the_whole_output(client):
    answer = client.completions.create(model="tiny", prompt="cat<think>", max_tokens=60, extra_body={"guided_regex": "[ab]{3}"})
    assert set(answer.choices[0].text) <= {"a", "b"}


@pytest.mark.parametrize("extra, param", [
    ({"guided_regex": "a("}, "guided_regex"), ({"guided_json": {"type": "nothing"}}, "guided_json"),
    ({"structured_outputs": {"structural_tag": {"structures": [{"begin": "<a>", "schema": {}, "end": "</a>"}], "triggers": ["<a>"]}}}, "structured_outputs"),
])
def test_constraints_that_cannot_follow_reasoning_are_refused(client, extra, param):
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(model="tiny", prompt="cat<think>", extra_body={"thinking_token_budget": 4, **extra})
    assert caught.value.param == param


@pytest.mark.parametrize("fields, word", [({"thinking_token_budget": -2}, "-2"), ({"thinking_token_budget": "3"}, "integer")])
def test_wrong_budgets_are_refused(client, fields, word):
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(model="tiny", prompt="a", extra_body=fields)
    assert caught.value.param == "thinking_token_budget"
    assert word in caught.value.message


def test_quire_generate_takes_budgets(tmp_path):
    lines = [{"prompt": "cat<think>so ", "max_tokens": 12, "thinking_token_budget": 2}, {"prompt": "cat<think>so ", "max_tokens": 12}]
    (tmp_path / "prompts.jsonl").write_text("\n".join(map(json.dumps, lines)))
    command = [BINARY, "generate", str(tool_model()), "--prompts-file", str(tmp_path / "prompts.jsonl"), "--json", "--thinking-token-budget", "5",
               "--temperature", "1.5", "--ignore-eos"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    ids = [json.loads(line)["outputs"][0]["token_ids"] for line in output.splitlines()]
    assert [one.index(IDS["</think>"]) for one in ids] == [2, 5]


def test_quire_generate_takes_budgets_with_constraints(tmp_path):
    lines = [{"prompt": "cat<think>so ", "thinking_token_budget": 2}, {"prompt": "cat<think>so ", "regex": "[ab]{3}"},
             {"messages": CHAT, "guided_choice": ["bab"]}]
    (tmp_path / "prompts.jsonl").write_text("\n".join(map(json.dumps, lines)))
    command = [BINARY, "generate", str(tool_model()), "--prompts-file", str(tmp_path / "prompts.jsonl"), "--json", "--thinking-token-budget", "5",
               "--json-schema", json.dumps(SCHEMA), "--temperature", "1.5", "--max-tokens", "300", "--seed", "1"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    first, second, third = [json.loads(line)["outputs"][0] for line in output.splitlines()]
    assert first["token_ids"].index(IDS["</think>"]) <= 5
    jsonschema.validate(json.loads(parts_of(first["text"])[1]), SCHEMA)
    assert second["token_ids"].index(IDS["</think>"]) <= 8 and len(parts_of(second["text"])[1]) == 3
    assert parts_of(third["text"], opened=False)[1].strip() == "bab"
    (tmp_path / "prompts.jsonl").write_text(json.dumps({"prompt": "cat<think>so ", "guided_regex": "a("}))
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode == 1 and "guided_regex" in refused.stderr


def test_a_model_without_reasoning_refuses_budgets(server, model):
    options = {"model": model, "messages": CHAT, "max_tokens": 4, "extra_body": {"thinking_token_budget": 3}}
    with pytest.raises(openai.BadRequestError) as caught:
        server.client().chat.completions.create(**options)
    assert caught.value.param == "thinking_token_budget"
    assert "reasoning" in caught.value.message
