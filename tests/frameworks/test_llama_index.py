"""The OpenAI-compatible classes of LlamaIndex."""

import asyncio

import pytest
from conftest import MODEL, QUESTION
from llama_index.core.llms import ChatMessage
from llama_index.embeddings.openai_like import OpenAILikeEmbedding
from llama_index.llms.openai_like import OpenAILike

MESSAGES = [ChatMessage(role="user", content=QUESTION)]


def model(url, **options):
    return OpenAILike(model=MODEL, api_base=url, api_key="none", temperature=0, max_tokens=16, max_retries=0, context_window=512,
                      **options)


@pytest.fixture(scope="module")
def chat(url):
    return model(url, is_chat_model=True)


def test_chat(chat, expected):
    response = chat.chat(MESSAGES)
    assert response.message.content == expected
    assert response.raw.usage.completion_tokens == 16
    assert chat.complete(QUESTION).text == expected


def test_stream(chat, expected):
    responses = list(chat.stream_chat(MESSAGES))
    assert len(responses) > 8
    assert "".join(response.delta for response in responses) == responses[-1].message.content == expected


def test_async_calls(chat, expected):
    async def main():
        streamed = [response.delta async for response in await chat.astream_chat(MESSAGES)]
        return "".join(streamed), [r.message.content for r in await asyncio.gather(*(chat.achat(MESSAGES) for _ in range(8)))]

    assert asyncio.run(main()) == (expected, [expected] * 8)


def test_completion(url):
    text = model(url, is_chat_model=False).complete("Once upon a time").text
    assert text
    assert "".join(r.delta for r in model(url, is_chat_model=False).stream_complete("Once upon a time")) == text


def test_embeddings(embedding_url, embedding):
    embedder = OpenAILikeEmbedding(model_name=MODEL, api_base=embedding_url, api_key="none", max_retries=0)
    assert embedder.get_text_embedding(QUESTION) == pytest.approx(embedding, abs=1e-6)
    batch = embedder.get_text_embedding_batch([QUESTION, "A dog."] * 8)
    assert len(batch) == 16 and batch[0] == pytest.approx(embedding, abs=1e-6) and batch[1] != batch[0]
    assert asyncio.run(embedder.aget_query_embedding(QUESTION)) == pytest.approx(embedding, abs=1e-6)
