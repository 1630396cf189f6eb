"""Fixtures of the tests with LLM frameworks: `quire serve` with the embedded model, one server that generates and one that
makes embeddings."""

import os
import pathlib
import sys

import pytest

# Before the frameworks are imported: they send usage statistics otherwise.
os.environ.update({"HAYSTACK_TELEMETRY_ENABLED": "False", "LANGSMITH_TRACING": "false", "LITELLM_LOCAL_MODEL_COST_MAP": "True"})
sys.path.append(str(pathlib.Path(__file__).parents[1] / "e2e"))
from server_process import ServerProcess  # noqa: E402

MODEL = "quire-tiny"
QUESTION = "Tell me a story about a cat."


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
