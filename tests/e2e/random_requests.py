"""Random requests over the features of the completion routes, and what their answers have to be."""

import functools
import json
import os
import pathlib
import re
import struct

import jsonschema
import numpy
from tool_model import marker_ids, tool_model

IDS = marker_ids()
SUITE = pathlib.Path(os.environ.get("QUIRE_SHARED_DATA", pathlib.Path(__file__).resolve().parents[3] / "shared" / "data")) / "schemas" / "JSON-Schema-Test-Suite"
MESSAGES = ["Tell me about a cat.", "Count to three.", "Who are you? Ünïcödé 🙂", "Write JSON."]

SCHEMAS = [
    {"type": "object", "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer", "minimum": 0, "maximum": 120}},
     "required": ["name", "age"], "additionalProperties": False},
    {"enum": ["red", "green", {"a": [1, None]}, 7, False]},
    {"type": "array", "items": {"type": "integer", "multipleOf": 7, "minimum": -50, "maximum": 50}, "minItems": 1, "maxItems": 4},
    {"type": "array", "prefixItems": [{"type": "boolean"}, {"const": "x"}], "items": False},
    {"anyOf": [{"type": "null"}, {"type": "string", "pattern": "^[a-c]{1,4}$"}, {"type": "number", "exclusiveMinimum": 0, "maximum": 1}]},
    {"oneOf": [{"type": "integer", "minimum": 1, "maximum": 9}, {"type": "string", "minLength": 1, "maxLength": 3}]},
    {"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "object", "properties": {"v": {"type": "integer", "minimum": 0, "maximum": 9},
     "next": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]}}, "required": ["v", "next"], "additionalProperties": False}}},
    {"type": "object", "patternProperties": {"^k[0-9]$": {"type": "boolean"}}, "additionalProperties": False, "minProperties": 0, "maxProperties": 2},
    {"type": "object", "properties": {"a": {"type": "boolean"}, "b": {"type": "null"}}, "dependentRequired": {"a": ["b"]}, "additionalProperties": False},
    {"type": "object", "properties": {"kind": {"enum": ["s", "n"]}, "v": {}}, "required": ["kind", "v"], "additionalProperties": False,
     "if": {"properties": {"kind": {"const": "s"}}}, "then": {"properties": {"v": {"type": "string", "maxLength": 3}}},
     "else": {"properties": {"v": {"type": "integer", "minimum": 0, "maximum": 99}}}},
    {"type": "array", "uniqueItems": True, "items": {"enum": ["a", "b", "c"]}, "minItems": 2},
    {"type": "array", "items": {"enum": [1, 2, 3]}, "contains": {"const": 3}, "maxItems": 3},
    {"type": "string", "format": "date"},
    {"type": "string", "format": "ipv4"},
    {"allOf": [{"type": "integer", "minimum": 10}, {"maximum": 20}, {"not": {"enum": [13, 17]}}]},
    {"type": "object", "properties": {"x": {"type": "array", "maxItems": 2, "items": {"type": "object", "properties": {"y": {"type": "boolean"}},
     "additionalProperties": False}}}, "required": ["x"], "additionalProperties": False},
]
REGEXES = [r"\d{3}-[a-f]{2,4}", r"(one|two)( (one|two)){0,3}", r"[A-Z][a-z]{0,6}\.", r"(?:a|b(?=c)|c){2,5}", r"[^\x00-\x7f]{1,2}|ok"]
CHOICES = [["yes", "no", "yes, but"], ["a cat", "a dog", "cat"], ["ä", "äö", "🙂"]]
# Grammars and what their sentences are.
GRAMMARS = [
    ('root ::= "(" root ")" | [0-9]{1,2}', lambda t: bool(re.fullmatch(r"(\(*)\d{1,2}(\)*)", t)) and t.count("(") == t.count(")")),
    ('root ::= item ("," item){0,3}\nitem ::= [a-c]+ "=" [0-9]', lambda t: bool(re.fullmatch(r"[a-c]+=\d(,[a-c]+=\d){0,3}", t))),
    ('root ::= "a" root "b" | ""', lambda t: t == "a" * (len(t) // 2) + "b" * (len(t) // 2)),
]
# With a named color as the argument of a call.
TOOL_SCHEMAS = {"get_weather": {"type": "object", "properties": {"city": {"type": "string", "maxLength": 6}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
                                "required": ["city", "days"], "additionalProperties": False},
                "ping": {"type": "object", "properties": {}, "additionalProperties": False},
                "paint": {"type": "object", "properties": {"color": SCHEMAS[1]}, "required": ["color"], "additionalProperties": False}}
# What Python's re reads otherwise than ECMA-262, in schemas of the suite.
OTHER_REGEX = re.compile(r"\\[DWSpP]|\\\\[DWSpP]")


@functools.cache
def random_model():
    """The model with marker tokens, and random weights: nearly all tokens are as likely as each other."""
    path = pathlib.Path(tool_model())
    file = path / "model.safetensors"
    data = file.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    random, body = numpy.random.default_rng(1), bytearray(data[8 + size:])
    for name, tensor in header.items():
        if name == "__metadata__" or "norm" in name:
            continue
        begin, end = tensor["data_offsets"]
        assert tensor["dtype"] == "BF16"
        values = random.normal(0, 0.03, (end - begin) // 2).astype(numpy.float32)
        body[begin:end] = (values.view(numpy.uint32) >> 16).astype(numpy.uint16).tobytes()
    copy = path.parent / "random"
    copy.mkdir()
    for other in path.iterdir():
        (copy / other.name).write_bytes(data[:8 + size] + bytes(body) if other == file else other.read_bytes())
    return copy


@functools.cache
def suite_schemas():
    """Schemas of the test suite of JSON Schema, which may be absent."""
    found = []
    for file in sorted((SUITE / "tests" / "draft2020-12").glob("*.json")) if SUITE.exists() else []:
        found += [group["schema"] for group in json.loads(file.read_text()) if not OTHER_REGEX.search(json.dumps(group["schema"]))]
    return found


@functools.cache
def likely_ends():
    """Biases with which JSON, texts and reasoning end soon although all tokens are as likely as each other."""
    vocabulary = json.loads((pathlib.Path(tool_model()) / "tokenizer.json").read_text())["model"]["vocab"]
    bias = {str(vocabulary[text]): 5 for text in ('"', "}", "]", ",", ":") if text in vocabulary}
    return {**bias, str(IDS["</think>"]): 4, str(IDS["</tool_call>"]): 4}


def validator(schema):
    return jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)(schema).validate


def check_json(schema, text):
    validator(schema)(json.loads(text))


def random_constraint(rng):
    """Fields of a request, and a function that raises an error for a wrong output."""
    kind = rng.choice(["schema", "schema", "suite", "regex", "choice", "grammar", "object"])
    if kind == "suite" and not suite_schemas():
        kind = "schema"
    if kind in ("schema", "suite"):
        schema = rng.choice(SCHEMAS if kind == "schema" else suite_schemas())
        fields = rng.choice([{"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}},
                             {"structured_outputs": {"json": schema, "disable_any_whitespace": True}}, {"guided_json": schema}])
        return fields, functools.partial(check_json, schema)
    if kind == "regex":
        pattern = rng.choice(REGEXES)
        return {"structured_outputs": {"regex": pattern}}, functools.partial(check_that, lambda text: re.fullmatch(pattern, text))
    if kind == "choice":
        choices = rng.choice(CHOICES)
        return {"guided_choice": choices}, functools.partial(check_that, lambda text: text in choices)
    if kind == "grammar":
        grammar, valid = rng.choice(GRAMMARS)
        return {"structured_outputs": {"grammar": grammar}}, functools.partial(check_that, valid)
    return {"response_format": {"type": "json_object"}}, functools.partial(check_that, lambda text: isinstance(json.loads(text), dict))


def check_that(valid, text):
    assert valid(text), text


def random_tools(rng, strict):
    names = rng.sample(list(TOOL_SCHEMAS), rng.randint(1, 3))
    tools = [{"type": "function", "function": {"name": name, "parameters": TOOL_SCHEMAS[name], **({"strict": True} if strict else {})}} for name in names]
    one = {"type": "function", "function": {"name": rng.choice(names)}}
    choice = rng.choice(["required", one, "auto", {"type": "allowed_tools", "allowed_tools": {"mode": rng.choice(["auto", "required"]), "tools": [one]}}])
    fields = {"tools": tools, "tool_choice": choice}
    if rng.random() < 0.5:
        fields["parallel_tool_calls"] = False
    return fields


def allowed_names(fields):
    choice = fields["tool_choice"]
    if isinstance(choice, dict):
        return {(choice["allowed_tools"]["tools"][0] if "allowed_tools" in choice else choice)["function"]["name"]}
    return {tool["function"]["name"] for tool in fields["tools"]}


def check_calls(fields, message):
    for call in message.get("tool_calls") or []:
        assert call["function"]["name"] in allowed_names(fields), call
        check_json(TOOL_SCHEMAS[call["function"]["name"]], call["function"]["arguments"])
    if len(message.get("tool_calls") or []) > 1:
        assert fields.get("parallel_tool_calls", True)
    choice = fields["tool_choice"]
    if choice == "required" or (isinstance(choice, dict) and choice.get("allowed_tools", {}).get("mode") != "auto"):
        assert message.get("tool_calls"), message


def constrained_request(rng):
    """A route, the fields of a request whose outputs are constrained, and a check of a complete choice."""
    fields = {"temperature": 1.5, "max_tokens": rng.choice([60, 150]), "n": rng.choice([1, 2, 4, 8]), "seed": rng.randrange(2**31),
              "logit_bias": likely_ends()}
    if rng.random() < 0.3:
        constraint, check = random_constraint(rng)
        return "/v1/completions", {**fields, **constraint, "prompt": rng.choice(MESSAGES)}, lambda choice: check(choice["text"])
    fields["messages"] = [{"role": "user", "content": rng.choice(MESSAGES)}]
    if rng.random() < 0.5:
        fields["chat_template_kwargs"] = {"enable_thinking": True}
    if rng.random() < 0.4:
        fields["thinking_token_budget"] = rng.choice([0, 3, 20])
    if rng.random() < 0.4:
        fields |= random_tools(rng, strict=True)
        return "/v1/chat/completions", fields, lambda choice: check_calls(fields, choice["message"])
    constraint, check = random_constraint(rng)
    return "/v1/chat/completions", {**fields, **constraint}, lambda choice: check(choice["message"]["content"] or "")


def sampling_fields(rng):
    fields = {"max_tokens": rng.choice([1, 5, 24, 40]), "n": rng.choice([1, 1, 2, 3]), "seed": rng.randrange(2**31), "temperature": rng.choice([0.7, 1.0, 1.5])}
    options = {"stop": [["the", " a"], [".", "\n"], "ing", ["e", "zzz"]], "include_stop_str_in_output": [True], "stop_token_ids": [[300, 301, 302]],
               "min_tokens": [1], "ignore_eos": [True], "top_p": [0.9], "top_k": [20], "min_p": [0.02], "presence_penalty": [0.5], "repetition_penalty": [1.2],
               "bad_words": [["the", "cat"]], "logit_bias": [{str(IDS["</think>"]): 8, str(IDS["<tool_call>"]): 8}, {"0": 5, "2": 5}, {str(IDS["<think>"]): 10}],
               "allowed_token_ids": [list(range(200, 1500))], "skip_special_tokens": [False], "return_token_ids": [True, True],
               "return_tokens_as_token_ids": [True], "dry_multiplier": [0.8], "thinking_token_budget": [0, 2, 9],
               "repetition_detection": [{"max_pattern_size": 4, "min_count": 2}]}
    for name, values in options.items():
        if rng.random() < 0.15:
            fields[name] = rng.choice(values)
    return fields


def any_request(rng):
    """A route and the fields of a request with any features that a stream has too."""
    fields = sampling_fields(rng)
    if rng.random() < 0.3:
        fields |= random_constraint(rng)[0]
    if rng.random() < 0.4:
        prompts = [rng.choice(MESSAGES), [400, 401, 402], [MESSAGES[0], MESSAGES[1]], "a cat<think>so "]
        fields["prompt"] = rng.choice(prompts)
        fields |= {"echo": True} if rng.random() < 0.2 else {}
        fields |= {"logprobs": rng.choice([0, 2])} if rng.random() < 0.3 else {}
        return "/v1/completions", fields
    fields["messages"] = [{"role": "user", "content": rng.choice(MESSAGES)}]
    if rng.random() < 0.1:
        fields |= {"messages": [*fields["messages"], {"role": "assistant", "content": "It"}], "add_generation_prompt": False, "continue_final_message": True,
                   "echo": True}
    fields |= {"chat_template_kwargs": {"enable_thinking": True}} if rng.random() < 0.4 else {}
    fields |= {"logprobs": True, "top_logprobs": rng.choice([0, 2])} if rng.random() < 0.3 else {}
    fields |= {"include_reasoning": False} if rng.random() < 0.15 else {}
    fields |= {"reasoning_format": "none"} if rng.random() < 0.1 else {}
    fields |= {"reasoning_effort": "none"} if rng.random() < 0.1 else {}
    if rng.random() < 0.4:
        fields |= random_tools(rng, rng.random() < 0.5)
    return "/v1/chat/completions", fields
