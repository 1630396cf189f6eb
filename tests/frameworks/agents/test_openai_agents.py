"""The agents SDK of OpenAI over the chat API: typed outputs, tools of functions whose results come back, and streams."""

import asyncio

import agents
import openai
import pytest
from conftest import CALLER, NO_REASONING, Weather

agents.set_tracing_disabled(True)


@pytest.fixture  # for each test, because a client belongs to one event loop
def options(caller_url):
    model = agents.OpenAIChatCompletionsModel(CALLER, openai.AsyncOpenAI(base_url=caller_url, api_key="none", max_retries=0))
    return {"name": "assistant", "model": model}


def settings(**fields):
    return agents.ModelSettings(temperature=1.2, max_tokens=200, extra_body={"seed": 3, "logit_bias": NO_REASONING}, **fields)


def test_a_text(options):
    result = agents.Runner.run_sync(agents.Agent(**options, model_settings=settings()), "Tell me a story.")
    assert isinstance(result.final_output, str) and result.final_output


def test_an_output_has_its_type(options):
    assistant = agents.Agent(**options, model_settings=settings(), output_type=Weather)
    assert isinstance(agents.Runner.run_sync(assistant, "How is the weather?").final_output, Weather)


def test_an_output_is_streamed(options):
    async def main():
        result = agents.Runner.run_streamed(agents.Agent(**options, model_settings=settings(), output_type=Weather), "How is the weather?")
        events = [event async for event in result.stream_events()]
        return result.final_output, sum(event.type == "raw_response_event" for event in events)

    output, raw = asyncio.run(main())
    assert isinstance(output, Weather) and raw > 8


def test_a_function_is_called_and_its_result_read(options):
    calls = []

    @agents.function_tool
    def forecast(city: str, days: int) -> str:
        """The weather of the next days."""
        calls.append((city, days))
        return "sunny"

    assistant = agents.Agent(**options, model_settings=settings(tool_choice="required", parallel_tool_calls=False), tools=[forecast])
    result = agents.Runner.run_sync(assistant, "How is the weather?", max_turns=6)
    assert calls and isinstance(calls[0][0], str) and isinstance(calls[0][1], int)
    assert "tool_call_output_item" in [item.type for item in result.new_items]
    assert result.final_output
