"""Fixtures of the tests with LLM frameworks: `quire serve` with the embedded model, one server that generates, one that calls tools
and one that makes embeddings."""

import os
import pathlib
import sys
from typing import Literal

import pydantic
import pytest

# Before the frameworks are imported: they send usage statistics otherwise.
os.environ.update({"HAYSTACK_TELEMETRY_ENABLED": "False", "LANGSMITH_TRACING": "false", "LITELLM_LOCAL_MODEL_COST_MAP": "True"})
sys.path.append(str(pathlib.Path(__file__).parents[1] / "e2e"))
from server_process import ServerProcess  # noqa: E402
from tool_model import marker_ids, tool_model  # noqa: E402

MODEL = "quire-tiny"
CALLER = "caller"
QUESTION = "Tell me a story about a cat."
NO_REASONING = {str(marker_ids()["<think>"]): -100}  # logit_bias of requests whose answers must not begin with reasoning


class Weather(pydantic.BaseModel):
    """The weather at a place."""

    model_config = pydantic.ConfigDict(extra="forbid")
    city: str = pydantic.Field(min_length=2, max_length=12)
    days: int = pydantic.Field(ge=1, le=9)
    units: Literal["metric", "imperial"]


def serve(*flags):
    process = ServerProcess(*flags)
    yield process
    alive = process.process.poll() is None
    process.stop()
    assert alive, "the server died:\n" + "".join(process.log)


@pytest.fixture(scope="session")
def server():
    yield from serve()


@pytest.fixture(scope="session")
def url(server):
    return server.url + "/v1"


@pytest.fixture(scope="session")
def caller_url():
    """The /v1 of a model that has markers for reasoning and tool calls. It was not trained to call tools, so its calls are valid
    because the server constrains them."""
    for process in serve(str(tool_model()), "--served-model-name", CALLER):
        yield process.url + "/v1"


@pytest.fixture(scope="session")
def embedding_server():
    yield from serve("--runner", "pooling")


@pytest.fixture(scope="session")
def embedding_url(embedding_server):
    return embedding_server.url + "/v1"


@pytest.fixture(scope="session")
def expected(server):
    """The greedy response of 16 tokens to QUESTION, from the openai client."""
    messages = [{"role": "user", "content": QUESTION}]
    response = server.client().chat.completions.create(model=MODEL, messages=messages, max_tokens=16, temperature=0)
    return response.choices[0].message.content


@pytest.fixture(scope="session")
def embedding(embedding_server):
    """The embedding of QUESTION, from the openai client."""
    return embedding_server.client().embeddings.create(model=MODEL, input=QUESTION).data[0].embedding
