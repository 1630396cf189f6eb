"""The OpenAI components of Haystack."""

import asyncio

import pytest
from conftest import MODEL, QUESTION
from haystack import Document, Pipeline
from haystack.components.builders import ChatPromptBuilder
from haystack.components.embedders import OpenAIDocumentEmbedder, OpenAITextEmbedder
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.utils import Secret

KEY = Secret.from_token("none")
MESSAGES = [ChatMessage.from_user(QUESTION)]
GREEDY = {"temperature": 0, "max_tokens": 16}


def generator(url, **options):
    return OpenAIChatGenerator(api_key=KEY, model=MODEL, api_base_url=url, generation_kwargs=GREEDY, max_retries=0, **options)


def test_chat(url, expected):
    [reply] = generator(url).run(MESSAGES)["replies"]
    assert reply.text == expected
    assert reply.meta["usage"]["completion_tokens"] == 16
    assert reply.meta["finish_reason"] == "length" and reply.meta["model"] == MODEL


def test_several_replies(url):
    replies = generator(url).run(MESSAGES, generation_kwargs={"temperature": 1.0, "seed": 3, "n": 3})["replies"]
    assert len(replies) == 3 and len({reply.text for reply in replies}) > 1


def test_stream(url, expected):
    chunks = []
    [reply] = generator(url, streaming_callback=chunks.append).run(MESSAGES)["replies"]
    assert len(chunks) > 8
    assert "".join(chunk.content for chunk in chunks) == reply.text == expected


def test_async_calls(url, expected):
    async def main():
        model = generator(url)
        chunks = []

        async def receive(chunk):
            chunks.append(chunk.content)

        await model.run_async(MESSAGES, streaming_callback=receive)
        results = await asyncio.gather(*(model.run_async(MESSAGES) for _ in range(8)))
        return "".join(chunks), [result["replies"][0].text for result in results]

    assert asyncio.run(main()) == (expected, [expected] * 8)


def test_pipeline(url, expected):
    pipeline = Pipeline()
    template = [ChatMessage.from_user("Tell me a story about a {{animal}}.")]
    pipeline.add_component("prompt", ChatPromptBuilder(template=template, required_variables=["animal"]))
    pipeline.add_component("model", generator(url))
    pipeline.connect("prompt.prompt", "model.messages")
    assert pipeline.run({"prompt": {"animal": "cat"}})["model"]["replies"][0].text == expected


def test_embeddings(embedding_url, embedding):
    options = {"api_key": KEY, "model": MODEL, "api_base_url": embedding_url, "max_retries": 0}
    text = OpenAITextEmbedder(**options)
    assert text.run(QUESTION)["embedding"] == pytest.approx(embedding, abs=1e-6)
    assert asyncio.run(text.run_async(QUESTION))["embedding"] == pytest.approx(embedding, abs=1e-6)
    documents = OpenAIDocumentEmbedder(**options, progress_bar=False).run([Document(content=QUESTION), Document(content="A dog.")])
    assert documents["documents"][0].embedding == pytest.approx(embedding, abs=1e-6)
