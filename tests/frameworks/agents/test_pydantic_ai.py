"""Agents of Pydantic AI: outputs as tools, as response formats and in the prompt, tools of functions, and streams."""

import asyncio
import contextlib
from typing import Annotated

import pytest
from conftest import CALLER, NO_REASONING, Weather
from pydantic import Field
from pydantic_ai import Agent, NativeOutput, ToolOutput
from pydantic_ai.exceptions import UsageLimitExceeded
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import UsageLimits


def agent(url, **options):
    model = OpenAIChatModel(CALLER, provider=OpenAIProvider(base_url=url, api_key="none"))
    return Agent(model, model_settings=ModelSettings(temperature=1.2, max_tokens=200, seed=3, logit_bias=NO_REASONING), **options)


def test_a_text(caller_url):
    result = agent(caller_url).run_sync("Tell me a story.")
    assert result.output and result.usage.output_tokens > 0


@pytest.mark.parametrize("kind", [ToolOutput, NativeOutput])
def test_an_output_has_its_type(caller_url, kind):
    result = agent(caller_url, output_type=kind(Weather)).run_sync("How is the weather?")
    assert isinstance(result.output, Weather)
    assert result.usage.requests == 1  # the first answer was valid


@pytest.mark.parametrize("kind", [ToolOutput, NativeOutput])
def test_an_output_is_streamed(caller_url, kind):
    async def main():
        async with agent(caller_url, output_type=kind(Weather)).run_stream("How is the weather?") as result:
            return [part async for part in result.stream_output(debounce_by=None)]

    parts = asyncio.run(main())
    assert len(parts) > 1 and isinstance(parts[-1], Weather)


def test_functions_are_called_with_valid_arguments(caller_url):
    calls = []
    assistant = agent(caller_url, output_type=ToolOutput(Weather))

    @assistant.tool_plain
    def forecast(city: Annotated[str, Field(max_length=12)], days: Annotated[int, Field(ge=1, le=9)]) -> str:
        calls.append((city, days))
        return "sunny"

    # Every answer calls the function or gives the output; which of them is left to chance.
    for seed in range(8):
        with contextlib.suppress(UsageLimitExceeded):
            limits = UsageLimits(request_limit=3)
            result = assistant.run_sync("How is the weather?", model_settings=ModelSettings(seed=seed), usage_limits=limits)
            assert isinstance(result.output, Weather)
    assert calls and all(isinstance(city, str) and 1 <= days <= 9 for city, days in calls)
