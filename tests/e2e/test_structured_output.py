"""Constrained outputs: whatever ends is valid, for every kind of constraint, streamed or not."""

import concurrent.futures
import json
import re

import jsonschema
import openai
import pytest

CHAT = [{"role": "user", "content": "Tell me about a cat."}]
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "kind": {"enum": ["cat", "dog", "bird"]},
        "toys": {"type": "array", "items": {"type": "string", "maxLength": 8}, "maxItems": 3},
        "owner": {"type": ["object", "null"], "properties": {"tall": {"type": "boolean"}}, "required": ["tall"],
                  "additionalProperties": False},
    },
    "required": ["name", "age", "kind", "toys", "owner"],
    "additionalProperties": False,
}
# Random text ends soon: its length is bounded by the constraint.
FREE = {"max_tokens": 700, "temperature": 1.5}
FORMAT = {"type": "json_schema", "json_schema": {"name": "animal", "schema": SCHEMA, "strict": True}}


def texts(answer):
    assert {choice.finish_reason for choice in answer.choices} == {"stop"}
    return [choice.message.content for choice in answer.choices]


def test_a_json_schema_is_obeyed_by_every_sample(client, model):
    answer = client.chat.completions.create(model=model, messages=CHAT, response_format=FORMAT, n=8, seed=1, **FREE)
    outputs = texts(answer)
    for output in outputs:
        jsonschema.validate(json.loads(output), SCHEMA)
    assert len(set(outputs)) == 8


def test_a_streamed_answer_is_the_whole_answer(client, model):
    options = {"model": model, "messages": CHAT, "response_format": FORMAT, "seed": 5, **FREE}
    whole = client.chat.completions.create(**options)
    chunks = list(client.chat.completions.create(**options, stream=True))
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == texts(whole)[0]
    assert chunks[-1].choices[0].finish_reason == "stop"


def test_the_same_answer_in_a_batch(client, model, server):
    options = {"model": model, "messages": CHAT, "response_format": FORMAT, "seed": 7, **FREE}
    alone = client.chat.completions.create(**options)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: client.chat.completions.create(**options), range(8)))
    assert {texts(answer)[0] for answer in answers} == {texts(alone)[0]}


def is_object(text):
    return isinstance(json.loads(text), dict)


@pytest.mark.parametrize("fields, valid", [
    ({"response_format": {"type": "json_object"}, "max_tokens": 400, "temperature": 1.0}, is_object),
    ({"structured_outputs": {"json": {"type": "integer", "minimum": 5, "maximum": 17}}}, lambda t: 5 <= json.loads(t) <= 17),
    ({"structured_outputs": {"regex": r"\d{3}-[a-f]{2,4}"}}, lambda t: re.fullmatch(r"\d{3}-[a-f]{2,4}", t)),
    ({"structured_outputs": {"choice": ["yes", "no", "yes, but"]}}, lambda t: t in ("yes", "no", "yes, but")),
    ({"guided_json": json.dumps({"type": "boolean"})}, lambda t: t in ("true", "false")),
    ({"guided_choice": ["a cat", "a dog"]}, lambda t: t in ("a cat", "a dog")),
    ({"grammar": 'root ::= "(" root ")" | [0-9]{1,2}'}, lambda t: re.fullmatch(r"(\(*)\d{1,2}(\)*)", t) and t.count("(") == t.count(")")),
    ({"ebnf": 'root ::= ("a" | "b"){2,5}'}, lambda t: re.fullmatch("[ab]{2,5}", t)),
    ({"regex": "(one|two)( (one|two)){0,3}"}, lambda t: re.fullmatch("(one|two)( (one|two)){0,3}", t)),
])
def test_every_kind_of_constraint_is_obeyed(client, model, fields, valid):
    fields = {"temperature": 1.5, "max_tokens": 400, **fields}
    ended = 0
    for seed in range(6):
        answer = client.completions.create(model=model, prompt="A number:", seed=seed, extra_body=fields).choices[0]
        if answer.finish_reason == "stop":
            ended += 1
            assert valid(answer.text), answer.text
    assert ended > 0


@pytest.mark.parametrize("fields, where", [
    ({"structured_outputs": {"json": {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True, "items": {"type": "object"}}}}}}, "/properties/a"),
    ({"structured_outputs": {"json": {"type": "integer", "minimum": 5, "maximum": 4}}}, "structured_outputs.json"),
    ({"structured_outputs": {"json": "{"}}, "structured_outputs.json"),
    ({"structured_outputs": {"regex": "a(?=b)+("}}, "structured_outputs.regex"),
    ({"grammar": 'root ::= missing'}, "missing"),
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"$ref": "http://example.com/x"}}}}, "$ref"),
])
def test_what_cannot_be_enforced_is_refused(client, model, fields, where):
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(model=model, prompt="A number:", extra_body=fields)
    assert where in caught.value.message
    assert caught.value.param == next(iter(fields))


def test_an_output_that_max_tokens_cuts_ends_with_length(client, model):
    answer = client.chat.completions.create(model=model, messages=CHAT, response_format=FORMAT, max_tokens=5)
    assert answer.choices[0].finish_reason == "length"


def test_keywords_without_effect_are_named(client, model):
    schema = {"type": "object", "properties": {"a": {"type": "integer", "colour": "red"}}, "required": ["a"], "additionalProperties": False}
    for _ in range(2):  # the second time from the cache
        raw = client.chat.completions.with_raw_response.create(
            model=model, messages=[{"role": "user", "content": "a"}], max_tokens=20,
            response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}})
        assert raw.headers["x-ignored-params"].endswith("/properties/a/colour")
