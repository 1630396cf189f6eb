"""Structured outputs through instructor, in each of the modes that it has for the chat API."""

import asyncio

import instructor
import openai
import pytest
from conftest import CALLER, NO_REASONING, Weather
from instructor import Mode

MESSAGES = [{"role": "user", "content": "How is the weather in Bern?"}]
OPTIONS = {"model": CALLER, "messages": MESSAGES, "temperature": 1.2, "max_tokens": 200, "max_retries": 0}
# A call that is demanded, the same with a strict schema, and response_format.
MODES = [Mode.TOOLS, Mode.TOOLS_STRICT, Mode.JSON_SCHEMA]


def client(url, mode):
    return instructor.from_openai(openai.OpenAI(base_url=url, api_key="none", max_retries=0), mode=mode)


@pytest.mark.parametrize("mode", MODES)
def test_a_model_of_pydantic_is_filled(caller_url, mode):
    for seed in range(4):
        weather = client(caller_url, mode).chat.completions.create(response_model=Weather, seed=seed, logit_bias=NO_REASONING, **OPTIONS)
        assert isinstance(weather, Weather)


@pytest.mark.parametrize("mode", MODES)
def test_partial_objects_are_streamed(caller_url, mode):
    parts = list(client(caller_url, mode).chat.completions.create_partial(response_model=Weather, seed=3, logit_bias=NO_REASONING, **OPTIONS))
    assert len(parts) > 4
    assert Weather.model_validate(parts[-1].model_dump())


@pytest.mark.parametrize("mode", MODES)
def test_async_calls(caller_url, mode):
    asynchronous = instructor.from_openai(openai.AsyncOpenAI(base_url=caller_url, api_key="none", max_retries=0), mode=mode)

    async def main():
        return await asyncio.gather(*(asynchronous.chat.completions.create(response_model=Weather, seed=seed, logit_bias=NO_REASONING,
                                                                           **OPTIONS) for seed in range(6)))

    assert all(isinstance(weather, Weather) for weather in asyncio.run(main()))
