"""litellm as a client of the OpenAI API: chats, streams, tools, structured outputs and embeddings."""

import asyncio
import json

import jsonschema
import litellm
import pytest
from conftest import CALLER, MODEL, NO_REASONING, QUESTION, Weather

TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": Weather.model_json_schema(), "strict": True}}]
SAMPLED = {"temperature": 1.2, "max_tokens": 200, "seed": 3, "logit_bias": NO_REASONING, "api_key": "none"}


def ask(url, **fields):
    question = [{"role": "user", "content": QUESTION}]
    return litellm.completion(f"openai/{CALLER}", api_base=url, **{"messages": question, **SAMPLED, **fields})


def test_chat_and_stream(url, expected):
    options = {"messages": [{"role": "user", "content": QUESTION}], "api_base": url, "api_key": "none", "temperature": 0, "max_tokens": 16}
    response = litellm.completion(f"openai/{MODEL}", **options)
    assert response.choices[0].message.content == expected
    assert response.usage.completion_tokens == 16
    chunks = list(litellm.completion(f"openai/{MODEL}", **options, stream=True, stream_options={"include_usage": True}))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == expected
    assert litellm.stream_chunk_builder(chunks).usage.completion_tokens == 16

    async def main():
        return await asyncio.gather(*(litellm.acompletion(f"openai/{MODEL}", **options) for _ in range(8)))

    assert {answer.choices[0].message.content for answer in asyncio.run(main())} == {expected}


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "weather"}}])
def test_tools_are_called_streamed_and_not(caller_url, choice):
    fields = {"tools": TOOLS, "tool_choice": choice, "parallel_tool_calls": False}
    whole = ask(caller_url, **fields).choices[0]
    assert whole.finish_reason == "tool_calls"
    call = whole.message.tool_calls[0].function
    jsonschema.validate(json.loads(call.arguments), Weather.model_json_schema())
    built = litellm.stream_chunk_builder(list(ask(caller_url, **fields, stream=True))).choices[0]
    assert built.finish_reason == "tool_calls"
    assert [(c.function.name, c.function.arguments) for c in built.message.tool_calls] == [(call.name, call.arguments)]


def test_the_result_of_a_tool_is_sent_back(caller_url):
    question = [{"role": "user", "content": "Weather?"}]
    fields = {"tools": TOOLS, "parallel_tool_calls": False}
    first = ask(caller_url, messages=question, tool_choice="required", **fields)
    message = first.choices[0].message
    result = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "sunny"}
    answer = ask(caller_url, messages=[*question, message.model_dump(), result], tool_choice="none", **fields)
    assert answer.choices[0].message.content and not answer.choices[0].message.tool_calls


def test_structured_output(caller_url):
    for format in (Weather, {"type": "json_schema", "json_schema": {"name": "w", "schema": Weather.model_json_schema(), "strict": True}}):
        assert Weather.model_validate_json(ask(caller_url, response_format=format).choices[0].message.content)


def test_a_wrong_request_raises_the_error_of_its_status(caller_url):
    with pytest.raises(litellm.BadRequestError, match="no_such"):
        ask(caller_url, tools=TOOLS, tool_choice={"type": "function", "function": {"name": "no_such"}})
    with pytest.raises(litellm.NotFoundError):
        litellm.completion("openai/no-such-model", messages=[{"role": "user", "content": "x"}], api_base=caller_url, api_key="none")


def test_embeddings(embedding_url, embedding):
    answer = litellm.embedding(f"openai/{MODEL}", input=[QUESTION, "A dog."], api_base=embedding_url, api_key="none", encoding_format="float")
    assert answer.data[0]["embedding"] == pytest.approx(embedding, abs=1e-6)
