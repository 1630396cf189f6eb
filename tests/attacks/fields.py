"""The fields of requests with their types, ranges and routes. test_request_fields.py makes the tests from these tables."""

import dataclasses

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

COMPLETION = "/v1/completions"
CHAT = "/v1/chat/completions"
TOKENIZE = "/tokenize"
DETOKENIZE = "/detokenize"

# A request that every route accepts. It generates one token at most.
BODIES = {
    COMPLETION: {"prompt": "a", "max_tokens": 1},
    CHAT: {"messages": [{"role": "user", "content": "a"}], "max_tokens": 1},
    TOKENIZE: {"prompt": "a"},
    DETOKENIZE: {"tokens": [1]},
}

GENERATION = (COMPLETION, CHAT)


@dataclasses.dataclass(frozen=True)
class Number:
    """A number in [low, high]. open_low: low itself is out of range. with_: other fields that it needs."""

    name: str
    low: float
    high: float
    integer: bool = True
    open_low: bool = False
    routes: tuple = GENERATION
    with_: tuple = ()
    # Whether the smallest and the largest value can be served (some of them only in theory).
    serve_low: bool = True
    serve_high: bool = True


NUMBERS = [
    Number("n", 1, INT32_MAX, serve_high=False),
    Number("temperature", 0, 2, integer=False),
    Number("top_p", 0, 1, integer=False, open_low=True),
    Number("top_k", -1, INT32_MAX),
    Number("min_p", 0, 1, integer=False),
    Number("repetition_penalty", 0, 3.0e38, integer=False, open_low=True, serve_high=False),
    Number("presence_penalty", -2, 2, integer=False),
    Number("frequency_penalty", -2, 2, integer=False),
    Number("typical_p", 0, 1, integer=False, open_low=True),
    Number("top_n_sigma", -1, 3.0e38, integer=False, serve_high=False),
    Number("min_keep", 0, INT32_MAX),
    Number("dynatemp_range", 0, 3.0e38, integer=False, serve_high=False),
    Number("dynatemp_exponent", 0, 3.0e38, integer=False, with_=(("dynatemp_range", 0.5),), serve_high=False),
    Number("xtc_probability", 0, 1, integer=False),
    Number("xtc_threshold", 0, 1, integer=False, with_=(("xtc_probability", 1),)),
    Number("dry_multiplier", 0, 3.0e38, integer=False, serve_high=False),
    Number("dry_base", 1, 3.0e38, integer=False, with_=(("dry_multiplier", 1),), serve_high=False),
    Number("dry_allowed_length", 0, INT32_MAX, with_=(("dry_multiplier", 1),)),
    Number("dry_penalty_last_n", -1, INT32_MAX, with_=(("dry_multiplier", 1),)),
    Number("mirostat_mode", 0, 2),
    Number("mirostat_tau", 0, 3.0e38, integer=False, with_=(("mirostat_mode", 2),), serve_high=False),
    Number("mirostat_eta", 0, 1, integer=False, with_=(("mirostat_mode", 2),)),
    Number("length_penalty", -20, 20, integer=False, serve_low=False, serve_high=False),
    Number("seed", -(2**63), INT64_MAX),
    Number("min_tokens", 0, INT32_MAX, serve_high=False),
    Number("thinking_token_budget", -1, INT32_MAX, serve_high=False),
    Number("best_of", 1, INT32_MAX, serve_high=False),
    Number("priority", -(2**31), INT32_MAX),
    Number("truncate_prompt_tokens", -1, INT32_MAX, serve_high=False),
    Number("max_tokens", 0, INT32_MAX, routes=(COMPLETION,), serve_low=False, serve_high=False),
    Number("max_tokens", 1, INT32_MAX, routes=(CHAT,), serve_high=False),
    Number("max_completion_tokens", 1, INT32_MAX, routes=(CHAT,), serve_high=False),
    Number("logprobs", -1, INT32_MAX, routes=(COMPLETION,), serve_low=False, serve_high=False),
    Number("prompt_logprobs", -1, INT32_MAX, serve_low=False, serve_high=False),
    Number("top_logprobs", -1, INT32_MAX, routes=(CHAT,), with_=(("logprobs", True),), serve_low=False, serve_high=False),
]

BOOLEANS = {
    "stream": GENERATION,
    "ignore_eos": GENERATION,
    "include_stop_str_in_output": GENERATION,
    "skip_special_tokens": GENERATION,
    "spaces_between_special_tokens": GENERATION,
    "use_beam_search": GENERATION,
    "add_special_tokens": (COMPLETION, CHAT, TOKENIZE),
    "return_token_ids": GENERATION,
    "return_tokens_as_token_ids": GENERATION,
    "echo": GENERATION,
    "logprobs": (CHAT,),
    "parallel_tool_calls": (CHAT,),
    "include_reasoning": (CHAT,),
    "add_generation_prompt": (CHAT,),
    "continue_final_message": (CHAT,),
    "return_token_strs": (TOKENIZE,),
}

STRINGS = {
    "model": (COMPLETION, CHAT, TOKENIZE, DETOKENIZE),
    "cache_salt": GENERATION,
    "request_id": GENERATION,
    "truncation_side": GENERATION,
    "chat_template": (CHAT,),
    "reasoning_effort": (CHAT,),
    "reasoning_format": (CHAT,),
}

OBJECTS = {
    "logit_bias": GENERATION,
    "repetition_detection": GENERATION,
    "stream_options": GENERATION,
    "response_format": GENERATION,
    "chat_template_kwargs": (CHAT,),
}

# Lists with values that are out of range. `@` stands for the vocabulary size.
LISTS = {
    "stop": (GENERATION, ['[""]', "[1]", "[null]", "[[]]", '["a",1]', "[" + ",".join(['"a"'] * 129) + "]", '["' + "a" * 20000 + '"]']),
    "stop_token_ids": (GENERATION, ["[-1]", "[@]", "[9223372036854775808]", "[1.5]", '["a"]', "[null]", "[" + ",".join(["1"] * 4097) + "]"]),
    "allowed_token_ids": (GENERATION, ["[]", "[-1]", "[@]", "[1e400]", "[true]", "[" + ",".join(["1"] * 300000) + "]"]),
    "logprob_token_ids": (GENERATION, ["[-1]", "[@]", "[1.5]", '["a"]', "[" + ",".join(str(i) for i in range(129)) + "]"]),
    "prompt_logprob_token_ids": (GENERATION, ["[-1]", "[@]", "[null]", "[" + ",".join(str(i) for i in range(129)) + "]"]),
    "bad_words": (GENERATION, ['[""]', "[1]", "[null]", '[" "]', "[" + ",".join(['"a"'] * 1025) + "]", '["' + "a" * 1025 + '"]']),
    "dry_sequence_breakers": (GENERATION, ['[""]', "[1]", "[[]]", "[" + ",".join(['"a"'] * 33) + "]", '["' + "a" * 41 + '"]']),
    "samplers": (GENERATION, ['["best"]', "[1]", '[""]', '["top_k","top_k"]', '["top_k","dry"]']),
    "messages": ((CHAT,), ["[]", "[1]", "[null]", '[{"role":"user"}]', '[{"role":1,"content":"a"}]', '[{"role":"user","content":{}}]']),
    "tools": ((CHAT,), ["[1]", "[{}]", '[{"type":"custom","function":{"name":"f"}}]', '[{"function":{"name":1}}]', '[{"function":{"name":""}}]',
                        '[{"function":{"name":"f","parameters":1}}]', '[{"function":{"name":"f"}},{"function":{"name":"f"}}]',
                        "[" + ",".join(f'{{"function":{{"name":"f{i}"}}}}' for i in range(1025)) + "]"]),
    "tool_choice": ((CHAT,), ["1", "[]", "{}", '"required"', '"other"', '{"type":"function","function":{"name":"f"}}']),
    "functions": ((CHAT,), ["1", '"f"', "{}", "[1]", "[{}]", '[{"name":1}]']),
    "function_call": ((CHAT,), ["1", "[]", "{}", '"required"', '{"name":"f"}']),
    "documents": ((CHAT,), ["1", '"a"', "{}"]),
    "prompt": ((COMPLETION,), ["[]", "[null]", "[1,-1]", "[@]", "[[]]", '["a",1]', "[[1],2]", "1", "true", "{}", "[" + ",".join(['"a"'] * 4097) + "]"]),
    "tokens": ((DETOKENIZE,), ["[-1]", "[@]", "[1.5]", '["a"]', "1", "{}"]),
}

NOT_A_NUMBER = ['"1"', "[]", "[1]", "{}", "true", "NaN", "Infinity", "-Infinity", "1e400", "-1e400", "0x10", "01", "+1", "1.", ".5"]
NOT_A_BOOLEAN = ['"true"', "1", "0", "[]", "{}", "True"]
NOT_A_STRING = ["1", "true", "[]", "{}", '["a"]']
NOT_AN_OBJECT = ["1", "true", "[]", '"a"', '["a"]']
