#!/usr/bin/env python3
"""Writes the OpenAPI description of the server, src/server/openapi.json, and docs/api.md, which lists the same fields as tables.

    tools/make_openapi.py           write both files
    tools/make_openapi.py --check   exit code 1 if a file differs from what would be written

The server returns the file at /openapi.json. tests/e2e/test_openapi.py compares it with the server."""

import argparse
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
JSON_FILE = ROOT / "src" / "server" / "openapi.json"
PAGE = ROOT / "docs" / "api.md"

INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
VERSION = "@VERSION@"  # the server puts its own version here


def number(description, low=None, high=None, default=None, *, integer=False, open_low=False):
    schema = {"type": "integer" if integer else "number", "description": description}
    if low is not None:
        schema["exclusiveMinimum" if open_low else "minimum"] = low
    if high is not None:
        schema["maximum"] = high
    return with_default(schema, default)


def integer(description, low=None, high=INT32_MAX, default=None):
    return number(description, low, high, default, integer=True)


def boolean(description, default=None):
    return with_default({"type": "boolean", "description": description}, default)


def string(description, default=None, *, choices=None, longest=None):
    schema = {"type": "string", "description": description}
    if choices:
        schema["enum"] = choices
    if longest:
        schema |= {"minLength": 1, "maxLength": longest}
    return with_default(schema, default)


def array(description, items, low=None, high=None):
    schema = {"type": "array", "items": items, "description": description}
    if low is not None:
        schema["minItems"] = low
    if high is not None:
        schema["maxItems"] = high
    return schema


def some_object(description):
    return {"type": "object", "description": description}


def one_of(description, *types):
    return {"anyOf": list(types), "description": description}


def with_default(schema, default):
    return schema if default is None else {**schema, "default": default}


def ref(name):
    return {"$ref": f"#/components/schemas/{name}"}


TOKEN = {"type": "integer", "minimum": 0}
TOKENS = {"type": "array", "items": TOKEN}
TEXT = {"type": "string"}
TEXTS = {"type": "array", "items": TEXT, "minItems": 1, "maxItems": 4096}
PROMPTS = (TEXT, TEXTS, TOKENS, {"type": "array", "items": TOKENS, "minItems": 1, "maxItems": 4096})

MODEL = {"model": string("One of the names of /v1/models. Default: the first one.")}

LABELS = {
    "user": string("Name of the user, for --scheduling-policy fair. With API keys the key counts instead."),
    "priority": integer("Lower values run first with --scheduling-policy priority. Without effect with other policies.", INT32_MIN, default=0),
    "cache_salt": string("Only requests with the same salt share cached prefixes.", longest=128),
    "request_id": string("Ends the id of the response.", longest=128),
}

TRUNCATION = {
    "truncate_prompt_tokens": integer("Keeps this many tokens of the prompt; -1 = as many as fit. 0 is not allowed.", -1),
    "truncation_side": string("The side where tokens are removed. Default: left; right for encoders.", choices=["left", "right"]),
}

SAMPLING = {
    "n": integer("Number of choices. At most 16384 with all prompts together.", 1, 16384, 1),
    "temperature": number("0 = greedy.", 0, 2, 1),
    "top_p": number("Smallest set of tokens with this cumulative probability.", 0, 1, 1, open_low=True),
    "top_k": integer("Number of most likely tokens; 0 or -1 = all.", -1, default=0),
    "min_p": number("Minimum probability relative to the most likely token.", 0, 1, 0),
    "repetition_penalty": number("For tokens of prompt and output.", 0, default=1, open_low=True),
    "presence_penalty": number("For tokens of the output.", -2, 2, 0),
    "frequency_penalty": number("For tokens of the output, per occurrence.", -2, 2, 0),
    "typical_p": number("Locally typical sampling: the tokens with the most typical probabilities that have this cumulative probability.", 0, 1, 1, open_low=True),
    "top_n_sigma": number("Keeps logits within this many standard deviations of the largest; 0 or less = off.", -1, default=0),
    "min_keep": integer("min_p, typical_p, top_p and XTC leave at least this many tokens.", 0, default=0),
    "dynatemp_range": number("The entropy selects a temperature that differs from temperature by at most this; 0 = off.", 0, default=0),
    "dynatemp_exponent": number("Exponent of the relative entropy.", 0, default=1),
    "xtc_probability": number("How often XTC excludes the most likely tokens.", 0, 1, 0),
    "xtc_threshold": number("XTC leaves only the least likely of the tokens that have at least this probability.", 0, 1, 0.1),
    "dry_multiplier": number("Penalty of DRY for tokens that prolong a repetition; 0 = off.", 0, default=0),
    "dry_base": number("Factor of that penalty for each further token.", 1, default=1.75),
    "dry_allowed_length": integer("Longest repetition without a penalty.", 0, default=2),
    "dry_penalty_last_n": integer("Number of last tokens in which repetitions are looked for; -1 = all, 0 = off.", -1, default=-1),
    "dry_sequence_breakers": one_of("Texts of at most 40 bytes that end repetitions; at most 32. Default: line break, colon, quotation mark, asterisk.", TEXT, {"type": "array", "items": TEXT, "maxItems": 32}),
    "mirostat_mode": integer("2 = Mirostat 2, which replaces all truncation; 0 = off. 1 is not supported.", 0, 2, 0),
    "mirostat": integer("Same as mirostat_mode.", 0, 2),
    "mirostat_tau": number("Target surprise of Mirostat in bits.", 0, default=5),
    "mirostat_eta": number("Learning rate of Mirostat.", 0, 1, 0.1),
    "samplers": array("Names of the samplers to apply, in this order: penalties, dry, top_n_sigma, top_k, typ_p, top_p, min_p, xtc, temperature. Default: all, see sampling.md.", TEXT),
    "bad_words": one_of("Texts that the output does not contain; at most 1024.", TEXT, {"type": "array", "items": TEXT, "maxItems": 1024}),
    "repetition_detection": {"type": "object", "description": "Ends an output whose last tokens are a pattern that repeats; finish_reason is then repetition.", "properties": {
        "max_pattern_size": integer("Tokens of the longest pattern that is looked for; 0 = off.", 0, 1024, 0),
        "min_pattern_size": integer("Tokens of the shortest one.", 0, default=0),
        "min_count": integer("The pattern stands this many times in a row; at least 2.", 0, default=0)}},
    "seed": integer("Makes the output repeatable. Default: chosen per request.", -(2**63), 2**63 - 1),
    "stop": one_of("Strings that end the output: at most 128, with 16 KiB in total.", TEXT, {"type": "array", "items": TEXT, "maxItems": 128}),
    "stop_token_ids": array("Tokens that end the output.", TOKEN, high=4096),
    "include_stop_str_in_output": boolean("Whether the output contains the stop string.", False),
    "ignore_eos": boolean("Continue after the model's end token.", False),
    "min_tokens": integer("End and stop tokens are masked before this many tokens. A stop string ends the output only if it is complete after them; it may begin before.", 0, default=0),
    "thinking_token_budget": integer("After this many tokens of reasoning, its end is forced; -1 = no limit, 0 = no reasoning. Not for models without a known format of reasoning.", -1, default=-1),
    "logit_bias": {"type": "object", "additionalProperties": {"type": "number"}, "description": "Token id to a value that is added to its logit, limited to -100 to 100."},
    "allowed_token_ids": array("Only these tokens are sampled.", TOKEN, low=1),
    "skip_special_tokens": boolean("Whether special tokens are left out of the text.", True),
    "spaces_between_special_tokens": boolean("Whether special tokens are separated by spaces.", True),
    "use_beam_search": boolean("Beam search instead of sampling.", False),
    "best_of": integer("Beam width. Without beam search it must equal n.", 1),
    "length_penalty": number("Exponent of the length in the score of a beam.", -20, 20, 1),
    "early_stopping": one_of("When a beam search ends.", {"type": "boolean"}, {"const": "never"}),
}

SCHEMA = one_of("A JSON Schema, or its text.", {"type": "object"}, {"type": "boolean"}, TEXT)
CHOICES = array("Texts, one of which is the output.", TEXT)
GRAMMAR = string("A grammar in EBNF or GBNF.")
REGEX = string("A regular expression that the whole output matches.")
# At most one of these per request.
CONSTRAINTS = {
    "response_format": {"type": "object", "required": ["type"], "description": "A constraint on the output.", "properties": {
        "type": string("json_object takes an optional schema, as in llama.cpp.", choices=["text", "json_object", "json_schema", "structural_tag"]),
        "json_schema": {"type": "object", "description": "With json_schema.", "required": ["schema"], "properties": {
            "name": TEXT, "schema": SCHEMA, "strict": boolean("Refuse unknown keywords.", False)}},
        "schema": SCHEMA}},
    "structured_outputs": {"type": "object", "description": "A constraint on the output, under vLLM's names; exactly one of them.", "properties": {
        "json": SCHEMA, "regex": REGEX, "choice": CHOICES, "grammar": GRAMMAR, "json_object": boolean("Any JSON object."),
        "structural_tag": one_of("Triggers in free text begin constrained parts.", {"type": "object"}, TEXT),
        "disable_any_whitespace": boolean("JSON without white space except one blank after commas and colons.", False)}},
    "guided_json": SCHEMA,
    "guided_regex": REGEX,
    "guided_choice": CHOICES,
    "guided_grammar": GRAMMAR,
    "json_schema": SCHEMA,
    "grammar": GRAMMAR,
    "ebnf": GRAMMAR,
    "regex": REGEX,
}

GENERATION = {
    **SAMPLING,
    "stream": boolean("Send the output as server-sent events.", False),
    "stream_options": {"type": "object", "description": "Only with stream.", "properties": {
        "include_usage": boolean("Send the usage in a last event.", False),
        "continuous_usage_stats": boolean("Send the usage in each event. Needs include_usage.", False),
        "include_timings": boolean("Send the times of the engine with the usage of the last event. Needs include_usage.", False)}},
    **CONSTRAINTS,
    "prompt_logprobs": integer("Log-probabilities of the prompt's tokens with this many alternatives; -1 = the whole vocabulary. Not with stream.", -1),
    "logprob_token_ids": array("Log-probabilities of these tokens instead of the most likely ones; implies logprobs.", TOKEN, high=128),
    "prompt_logprob_token_ids": array("The same for prompt tokens. Not with stream.", TOKEN, high=128),
    "return_token_ids": boolean("Whether choices contain prompt_token_ids and token_ids.", False),
    "return_tokens_as_token_ids": boolean("Write tokens of log-probabilities as \"token_id:ID\".", False),
    **LABELS,
    **TRUNCATION,
}

TEMPLATE = {
    "messages": array("The conversation.", ref("Message"), low=1, high=16384),
    "documents": array("Documents for the chat template.", {}),
    "chat_template": string("A Jinja template instead of the model's, or the name of one of the model's. Needs --trust-request-chat-template."),
    "chat_template_kwargs": some_object("Variables for the chat template."),
    "reasoning_effort": string("A variable for the chat template. \"none\" also sets enable_thinking and thinking to false and, in chats, thinking_token_budget to 0, unless the request gives them."),
    "add_generation_prompt": boolean("Whether the prompt ends with the beginning of an assistant message. Default: unless continue_final_message is true."),
    "continue_final_message": boolean("Continue the last message.", False),
    "tools": array("Tools that the model can call: objects with type \"function\" and function, which has name, description, parameters (a JSON Schema) and strict.", {"type": "object"}, high=1024),
    "tool_choice": {"description": "\"none\", \"auto\", \"required\", or an object that names a tool, or some with allowed_tools. Default: auto with tools."},
}

POOLING = {
    **MODEL,
    **LABELS,
    **TRUNCATION,
    "encoding_format": string("Format of vectors.", "float", choices=["float", "base64"]),
    "normalize": boolean("Whether vectors have length 1. Default: as the model's files say."),
    "activation": boolean("Whether the activation is applied to scores. Default: as the model's files say."),
    "use_activation": boolean("Same as activation."),
}

POOLING_INPUT = {
    **POOLING,
    "input": one_of("One or more texts, or their token ids. This or messages is required.", *PROMPTS),
    "prompt_name": string("Name of one of the model's prompts, which is put before each text."),
    **TEMPLATE,
}

DIMENSIONS = {"dimensions": integer("Number of leading values of a vector to return.", 1)}
DOCUMENT = one_of("", TEXT, {"type": "object", "required": ["text"], "properties": {"text": TEXT}})
DOCUMENTS = (TEXT, array("", DOCUMENT, 1, 4096))
INSTRUCTION = {"instruction": string("The instruction that the chat template of a reranker shows.")}

REQUESTS = {
    "CompletionRequest": ({
        **MODEL,
        "prompt": one_of("One or more prompts, or their token ids.", *PROMPTS),
        "max_tokens": integer("Maximum number of generated tokens; 0 with echo or prompt_logprobs scores the prompt.", 0, default=16),
        "echo": boolean("Whether the text begins with the prompt.", False),
        "logprobs": integer("Log-probabilities with this many alternatives; -1 = the whole vocabulary.", -1),
        "add_special_tokens": boolean("Whether the tokenizer adds BOS.", True),
        **GENERATION,
    }, ["prompt"]),
    "ChatCompletionRequest": ({
        **MODEL,
        **TEMPLATE,
        "max_completion_tokens": integer("Maximum number of generated tokens. Default: the rest of the context, or max_new_tokens of the model's generation_config.json if that is less.", 1),
        "max_tokens": integer("Older name of max_completion_tokens.", 1),
        "logprobs": boolean("Whether to return log-probabilities.", False),
        "top_logprobs": integer("Number of alternatives; -1 = the whole vocabulary. Needs logprobs.", -1, default=0),
        "echo": boolean("Whether the answer begins with the text of the last message if that is the assistant's.", False),
        "add_special_tokens": boolean("Whether the tokenizer adds BOS; most templates contain it.", False),
        "parallel_tool_calls": boolean("Whether the output may have several tool calls.", True),
        "functions": array("Older form of tools: their functions. The response then has function_call.", {"type": "object"}),
        "function_call": {"description": "Older form of tool_choice: \"none\", \"auto\", or an object with a name."},
        "include_reasoning": boolean("Whether the response contains the reasoning.", True),
        "reasoning_format": string("\"none\" leaves reasoning in the content.", "auto", choices=["auto", "deepseek", "none"]),
        **GENERATION,
    }, ["messages"]),
    "EmbeddingRequest": ({**POOLING_INPUT, **DIMENSIONS}, []),
    "PoolingRequest": ({**POOLING_INPUT, **DIMENSIONS}, []),
    "ClassificationRequest": (POOLING_INPUT, []),
    "RerankRequest": ({
        **POOLING,
        "query": string("What the documents are compared with."),
        "documents": one_of("The documents.", *DOCUMENTS),
        "top_n": integer("Number of results; 0 = all.", 0, 2**30, default=0),
        "return_documents": boolean("Whether results contain the documents.", True),
        **INSTRUCTION,
    }, ["query", "documents"]),
    "ScoreRequest": ({
        **POOLING,
        "queries": one_of("One text, or as many as documents.", *DOCUMENTS),
        "documents": one_of("The texts to compare with.", *DOCUMENTS),
        "text_1": one_of("Older name of queries.", *DOCUMENTS),
        "text_2": one_of("Older name of documents.", *DOCUMENTS),
        **INSTRUCTION,
    }, []),
    "TokenizeRequest": ({
        **MODEL,
        "prompt": string("The text. This, messages or content is required."),
        "add_special_tokens": boolean("Whether BOS and EOS are added. Default: true for prompt, false for messages."),
        "return_token_strs": boolean("Whether to return the tokens as strings.", False),
        **TEMPLATE,
        "content": string("The text, as llama.cpp names it; the response then has only tokens."),
        "add_special": boolean("With content: whether BOS and EOS are added.", False),
        "with_pieces": boolean("With content: whether to return id and piece of each token.", False),
    }, []),
    "DetokenizeRequest": ({**MODEL, "tokens": {**TOKENS, "description": "Token ids."}}, ["tokens"]),
    "LoadAdapterRequest": ({
        "lora_name": string("The name that requests give as their model."),
        "lora_path": string("A directory with the files of the adapter, or a GGUF file, below --lora-dir or one of --lora-allowed-dir."),
        "load_inplace": boolean("Whether to replace an adapter of that name. Requests that run keep theirs.", False),
    }, ["lora_name", "lora_path"]),
    "UnloadAdapterRequest": ({"lora_name": string("The name of an adapter.")}, ["lora_name"]),
}


def response(required, **properties):
    return {"type": "object", "required": required.split(), "properties": properties}


def nullable(schema):
    return {"anyOf": [schema, {"type": "null"}]}


def fixed(text):
    return {"const": text}


INTEGER, NUMBER, OBJECT = {"type": "integer"}, {"type": "number"}, {"type": "object"}
FINISH = nullable({"enum": ["stop", "length", "tool_calls", "function_call", "repetition", "abort", "error"]})
FUNCTION_CALL = response("name arguments", name=TEXT, arguments=TEXT)
FUNCTION_DELTA = response("arguments", name=TEXT, arguments=TEXT)
REASONING = {"reasoning": TEXT, "reasoning_content": TEXT}
STOP_REASON = {"type": ["string", "integer", "null"]}
PROMPT_LOGPROBS = {"type": ["array", "null"], "items": {"type": ["object", "null"]}}
HEAD = {"id": TEXT, "created": INTEGER, "model": TEXT, "usage": nullable(ref("Usage"))}
TIMINGS = response("queue_ms prefill_ms decode_ms", **{name: {"type": ["number", "null"]} for name in ("queue_ms", "prefill_ms", "decode_ms")})
IDS = {"prompt_token_ids": nullable(TOKENS), "token_ids": nullable(TOKENS)}


def generated(object_name, choice, required):
    choices = {"type": "array", "items": response(required, index=INTEGER, finish_reason=FINISH, stop_reason=STOP_REASON, **IDS, **choice)}
    return response("id object created model choices", **HEAD, object=fixed(object_name), choices=choices, system_fingerprint=TEXT, timings=TIMINGS, **IDS, prompt_logprobs=PROMPT_LOGPROBS)


def pooled(required, item, name="data", **head):
    return response(f"id model {name} usage", **HEAD, **head, **{name: {"type": "array", "items": response(required, **item)}})


LIST = {"object": fixed("list")}
CHAT_TOKEN = {"token": TEXT, "logprob": NUMBER, "bytes": {"type": "array", "items": INTEGER}}
VECTOR = {"anyOf": [{"type": "array", "items": NUMBER}, {"type": "string", "description": "base64 of little-endian float32 values"}]}

SCHEMAS = {
    "Message": {
        "type": "object", "required": ["role"], "description": "Other fields are variables of the chat template.",
        "properties": {
            "role": TEXT,
            "content": {"anyOf": [TEXT, {"type": "null"}, {"type": "array", "items": response("type text", type=fixed("text"), text=TEXT)}]},
            "name": TEXT,
            "tool_calls": {"type": "array", "items": OBJECT},
            "tool_call_id": TEXT}},
    **{name: {"type": "object", "properties": fields, **({"required": required} if required else {})} for name, (fields, required) in REQUESTS.items()},
    "Usage": response("prompt_tokens completion_tokens total_tokens", prompt_tokens=INTEGER, completion_tokens=INTEGER, total_tokens=INTEGER,
                      prompt_tokens_details=response("cached_tokens", cached_tokens=INTEGER),
                      completion_tokens_details=response("reasoning_tokens", reasoning_tokens=INTEGER)),
    "Error": response("error", error=response("message type param code", message=TEXT, type=TEXT, param={"type": ["string", "null"]}, code={"type": ["string", "null"]})),
    "CompletionLogprobs": response("tokens token_logprobs top_logprobs text_offset",
                                   tokens={"type": "array", "items": TEXT}, token_logprobs={"type": "array", "items": {"type": ["number", "null"]}},
                                   top_logprobs={"type": "array", "items": nullable({"type": "object", "additionalProperties": NUMBER})},
                                   text_offset={"type": "array", "items": INTEGER}),
    "ChatLogprobs": response("content", refusal={"type": "null"}, content={"type": "array", "items": response(
        "token logprob bytes top_logprobs", **CHAT_TOKEN, top_logprobs={"type": "array", "items": response("token logprob bytes", **CHAT_TOKEN)})}),
    "Completion": generated("text_completion", {"text": TEXT, "logprobs": nullable(ref("CompletionLogprobs")), "prompt_logprobs": PROMPT_LOGPROBS},
                            "index text logprobs finish_reason"),
    "ChatCompletion": generated("chat.completion", {
        "message": response("role content", role=fixed("assistant"), content={"type": ["string", "null"]}, refusal={"type": "null"},
                            tool_calls={"type": "array", "items": response("id type function", id=TEXT, type=fixed("function"), function=FUNCTION_CALL)},
                            function_call=FUNCTION_CALL, **REASONING),
        "logprobs": nullable(ref("ChatLogprobs"))}, "index message logprobs finish_reason"),
    "ChatCompletionChunk": generated("chat.completion.chunk", {
        "delta": response("", role=fixed("assistant"), content=TEXT, tool_calls={"type": "array", "items": response(
            "index function", index=INTEGER, id=TEXT, type=fixed("function"), function=FUNCTION_DELTA)}, function_call=FUNCTION_DELTA, **REASONING), "logprobs": nullable(ref("ChatLogprobs"))}, "index delta logprobs finish_reason"),
    "Embeddings": pooled("index object embedding", {"index": INTEGER, "object": fixed("embedding"), "embedding": VECTOR}, **LIST),
    "Pooled": pooled("index object data", {"index": INTEGER, "object": fixed("pooling"), "data": VECTOR}, **LIST),
    "Classes": pooled("index label probs num_classes", {
        "index": INTEGER, "label": {"type": ["string", "null"]}, "probs": {"type": "array", "items": NUMBER}, "num_classes": INTEGER}, **LIST),
    "Ranking": pooled("index relevance_score", {"index": INTEGER, "relevance_score": NUMBER, "document": response("text", text=TEXT)}, "results"),
    "Scores": pooled("index object score", {"index": INTEGER, "object": fixed("score"), "score": NUMBER}, **LIST),
    "Model": response("id object created owned_by", id=TEXT, object=fixed("model"), created=INTEGER, owned_by=fixed("quire"), root=TEXT,
                      parent={"type": ["string", "null"], "description": "the base model of an adapter"}, max_model_len=INTEGER, permission={"type": "array"}),
    "Models": response("object data", **LIST, data={"type": "array", "items": ref("Model")}),
    "Tokens": response("tokens", count=INTEGER, max_model_len=INTEGER, token_strs=nullable({"type": "array", "items": TEXT}),
                       tokens={"type": "array", "items": {"anyOf": [TOKEN, response("id piece", id=TOKEN, piece={
                           "anyOf": [TEXT, {"type": "array", "items": INTEGER, "description": "bytes that are not UTF-8"}]})]}}),
    "Text": response("prompt content", prompt=TEXT, content=TEXT),
    "Version": response("version", version=TEXT),
    "CacheReset": response("success in_use", success={"type": "boolean"},
                           in_use={"type": "boolean", "description": "Whether requests still used blocks, which are dropped when they end."}),
}

# method, paths (the first is the usual one), summary, request, response, streamed response, needs a key
OPERATIONS = [
    ("post", ["/v1/chat/completions", "/chat/completions"], "Continues a conversation.", "ChatCompletionRequest", "ChatCompletion", "ChatCompletionChunk", True),
    ("post", ["/v1/completions", "/completions"], "Continues texts.", "CompletionRequest", "Completion", "Completion", True),
    ("post", ["/v1/embeddings", "/embeddings"], "Embeddings of texts.", "EmbeddingRequest", "Embeddings", None, True),
    ("post", ["/v1/rerank", "/v2/rerank", "/rerank"], "Orders documents by their relevance to a query.", "RerankRequest", "Ranking", None, True),
    ("post", ["/v1/score", "/score"], "Scores of pairs of texts.", "ScoreRequest", "Scores", None, True),
    ("post", ["/classify"], "Label and probabilities of texts.", "ClassificationRequest", "Classes", None, True),
    ("post", ["/pooling"], "The result of the pooler: embeddings or scores.", "PoolingRequest", "Pooled", None, True),
    ("post", ["/tokenize", "/v1/tokenize"], "Token ids of a text or conversation.", "TokenizeRequest", "Tokens", None, True),
    ("post", ["/detokenize", "/v1/detokenize"], "The text of token ids.", "DetokenizeRequest", "Text", None, True),
    ("get", ["/v1/models", "/models"], "The names of the served model and of its adapters.", None, "Models", None, True),
    ("get", ["/v1/models/{model}"], "One of these names.", None, "Model", None, True),
    ("post", ["/reset_prefix_cache"], "Drops all cached prefixes.", None, "CacheReset", None, True),
    ("post", ["/v1/load_lora_adapter"], "Loads a LoRA adapter. Only with --allow-runtime-lora-updating.", "LoadAdapterRequest", "text/plain", None, True),
    ("post", ["/v1/unload_lora_adapter"], "Unloads a LoRA adapter. Only with --allow-runtime-lora-updating.", "UnloadAdapterRequest", "text/plain", None, True),
    ("get", ["/health", "/v1/health", "/ping"], "Status 200 and an empty body if the engine works, 503 if not or if the server is shutting down.", None, "", None, False),
    ("post", ["/ping"], "Same as GET.", None, "", None, False),
    ("get", ["/version"], "The version of the server.", None, "Version", None, False),
    ("get", ["/metrics"], "Metrics in Prometheus' text format. Needs no key with --metrics-without-key.", None, "text/plain", None, True),
    ("get", ["/openapi.json"], "This description.", None, "OpenAPI", None, False),
]


def operation(method, path, row):
    _, paths, summary, request, answer, streamed, needs_key = row
    words = path.replace("{model}", "name").strip("/").replace(".", "_").split("/")
    result = {"operationId": "_".join([method, *words]), "summary": summary}
    if path != paths[0]:
        result["description"] = f"Same as {paths[0]}."
    if "{model}" in path:
        result["parameters"] = [{"name": "model", "in": "path", "required": True, "schema": TEXT}]
    if request:
        result["requestBody"] = {"required": True, "content": {"application/json": {"schema": ref(request)}}}
    ok = {"description": summary}
    if answer == "text/plain":
        ok["content"] = {answer: {"schema": TEXT}}
    elif answer == "OpenAPI":
        ok["content"] = {"application/json": {"schema": OBJECT}}
    elif answer:
        ok["content"] = {"application/json": {"schema": ref(answer)}}
    if streamed:
        ok["content"]["text/event-stream"] = {"schema": {
            **TEXT, "description": f"With stream: events whose data is a {streamed}, or an Error if the request fails; the last one is [DONE]."}}
    error = {"description": "The error object of OpenAI.", "content": {"application/json": {"schema": ref("Error")}}}
    result["responses"] = {"200": ok, "default": error}
    result["security"] = [{"key": []}] if needs_key else []
    return result


def description():
    paths = {}
    for row in OPERATIONS:
        for path in row[1]:
            paths.setdefault(path, {})[row[0]] = operation(row[0], path, row)
    return {
        "openapi": "3.1.0",
        "info": {"title": "quire", "version": VERSION, "description": "The API of OpenAI with the additions of vLLM.", "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"}},
        "paths": paths,
        "components": {"schemas": SCHEMAS, "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "description": "Only if the server was started with API keys."}}},
    }


def type_of(schema):
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(type_of(each) for each in schema["anyOf"]))
    if "const" in schema:
        return f'`{json.dumps(schema["const"])}`'
    if "enum" in schema:
        return " or ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    if schema.get("type") == "array":
        return f'list of {plural(schema["items"])}' if schema["items"] else "list"
    return schema.get("type", schema.get("$ref", "").rpartition("/")[2].lower() or "any")


def plural(schema):
    if "anyOf" in schema:
        return " or ".join(plural(each) for each in schema["anyOf"])
    if schema.get("type") == "array":
        return f'lists of {plural(schema["items"])}'
    return type_of(schema) + "s"


def range_of(schema):
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum")
    name = {INT32_MIN: "-2³¹", INT32_MAX: "2³¹ - 1", -(2**63): "-2⁶³", 2**63 - 1: "2⁶³ - 1", 2**30: "2³⁰"}
    if low is None or schema.get("type") not in ("integer", "number"):
        return ""
    sign = ">" if "exclusiveMinimum" in schema else "≥"
    if high is None or high == INT32_MAX:
        return f"{sign} {name.get(low, low)}"
    return f"{'above ' if sign == '>' else ''}{name.get(low, low)} to {name.get(high, high)}"


def with_inner(fields):
    """The fields, and those within objects that are described."""
    for name, schema in fields.items():
        yield name, schema
        yield from ((f"{name}.{inner}", one) for inner, one in schema.get("properties", {}).items() if "description" in one)


def table(fields, required=()):
    lines = ["| field | type | range | default | |", "|---|---|---|---|---|"]
    for name, schema in with_inner(fields):
        default = f'`{json.dumps(schema["default"])}`' if "default" in schema else "required" if name in required else ""
        lines.append(f'| `{name}` | {type_of(schema)} | {range_of(schema)} | {default} | {schema.get("description", "")} |')
    return "\n".join(lines)


SECTIONS = [
    ("Chat completions", "ChatCompletionRequest"), ("Completions", "CompletionRequest"), ("Embeddings, pooling and classification", "EmbeddingRequest"),
    ("Reranking", "RerankRequest"), ("Scores", "ScoreRequest"), ("Tokenize", "TokenizeRequest"), ("Detokenize", "DetokenizeRequest"), ("Load an adapter", "LoadAdapterRequest"),
    ("Unload an adapter", "UnloadAdapterRequest")]
GROUPS = [("Sampling", "sampling", SAMPLING), ("Streaming, labels and truncation", "generation", {k: v for k, v in GENERATION.items() if k not in SAMPLING}),
          ("Chat template", "template", TEMPLATE), ("Pooling", "pooling", POOLING)]


def page():
    lines = ["# HTTP API", "", "This page is generated from the same tables as `/openapi.json` (OpenAPI 3.1) by `tools/make_openapi.py`; tests compare them with the",
             "server. [serving.md](serving.md) has examples. A field that is `null` counts as absent. Defaults of sampling fields can be different for a model",
             "with `generation_config.json`.", "", "## Endpoints", "", "| endpoint | | body |", "|---|---|---|"]
    for method, paths, summary, request, *_ in OPERATIONS:
        lines.append(f"| {', '.join(f'`{method.upper()} {path}`' for path in paths)} | {summary} | {request or ''} |")
    lines += ["", "Requests need `Authorization: Bearer KEY` if the server was started with API keys, except for `/health`, `/ping`, `/version` and",
              "`/openapi.json`. Errors are objects of OpenAI. Fields that OpenAI or vLLM have and this server does not support get status 400, with",
              "the name in `param` and the `code` `not_supported`, unless their value asks for nothing (`null`, `false`, 0 or empty).", "",
              "## Fields that several endpoints have"]
    for title, _, fields in GROUPS:
        lines += ["", f"### {title}", "", table(fields)]
    for title, request in SECTIONS:
        fields, required = REQUESTS[request]
        shared = [name for name, _, group in GROUPS if all(fields.get(key) == value for key, value in group.items())]
        hidden = {key for name, _, group in GROUPS if name in shared for key in group}
        if "Pooling" in shared:
            shared = [name for name in shared if name in ("Pooling", "Chat template")]
        if hidden:
            links = "; ".join(f"[{name.lower()}](#{name.lower().replace(' ', '-').replace(',', '')})" for name in shared)
            note = f"Also the fields of: {links}."
        lines += ["", f"## {title}", "", *([note, ""] if hidden else []), table({k: v for k, v in fields.items() if k not in hidden}, required)]
    lines += ["", "`dimensions` is a field of embeddings and pooling only.", ""]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare the files instead of writing them")
    args = parser.parse_args()
    failed = 0
    for path, text in ((JSON_FILE, json.dumps(description(), indent=1, ensure_ascii=False) + "\n"), (PAGE, page())):
        if not args.check:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            print(f"{path.relative_to(ROOT)} is out of date: run tools/make_openapi.py")
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
