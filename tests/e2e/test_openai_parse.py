"""The helpers of the openai client that fill models of pydantic: parse() and stream(), for answers and for calls of tools."""

from typing import Literal

import openai
import pydantic
import pytest
from server_process import ServerProcess
from tool_model import marker_ids, tool_model


class Weather(pydantic.BaseModel):
    """The weather at a place."""

    city: str = pydantic.Field(max_length=12)
    days: int = pydantic.Field(ge=1, le=9)
    units: Literal["metric", "imperial"]
    note: str | None = pydantic.Field(max_length=8)


TOOL = openai.pydantic_function_tool(Weather)
OPTIONS = {"model": "caller", "messages": [{"role": "user", "content": "How is the weather?"}], "max_tokens": 300, "temperature": 1.2,
           "logit_bias": {str(marker_ids()["<think>"]): -100}}
CALL = {"tools": [TOOL], "tool_choice": "required", "parallel_tool_calls": False}


@pytest.fixture(scope="module")
def client():
    process = ServerProcess(str(tool_model()), "--served-model-name", "caller")
    yield process.client()
    process.stop()


@pytest.mark.parametrize("seed", range(4))
def test_an_answer_is_parsed(client, seed):
    choice = client.chat.completions.parse(response_format=Weather, seed=seed, **OPTIONS).choices[0]
    assert choice.finish_reason == "stop" and isinstance(choice.message.parsed, Weather)


@pytest.mark.parametrize("seed", range(4))
def test_the_arguments_of_a_call_are_parsed(client, seed):
    choice = client.chat.completions.parse(seed=seed, **CALL, **OPTIONS).choices[0]
    assert choice.finish_reason == "tool_calls"
    assert [type(call.function.parsed_arguments) for call in choice.message.tool_calls] == [Weather]


def test_a_streamed_answer_is_parsed(client):
    whole = client.chat.completions.parse(response_format=Weather, seed=3, **OPTIONS).choices[0].message
    with client.chat.completions.stream(response_format=Weather, seed=3, **OPTIONS) as stream:
        events = list(stream)
        assert stream.get_final_completion().choices[0].message.parsed == whole.parsed
    assert "".join(event.delta for event in events if event.type == "content.delta") == whole.content
    assert [event.parsed for event in events if event.type == "content.done"] == [whole.parsed]


def test_streamed_arguments_are_parsed(client):
    whole = client.chat.completions.parse(seed=3, **CALL, **OPTIONS).choices[0].message.tool_calls[0].function
    with client.chat.completions.stream(seed=3, **CALL, **OPTIONS) as stream:
        events = list(stream)
    assert "".join(event.arguments_delta for event in events if event.type.endswith("arguments.delta")) == whole.arguments
    assert [event.parsed_arguments for event in events if event.type.endswith("arguments.done")] == [whole.parsed_arguments]
