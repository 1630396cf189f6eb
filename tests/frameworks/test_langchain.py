"""The OpenAI classes of LangChain."""

import asyncio

import pytest
from conftest import CALLER, MODEL, NO_REASONING, QUESTION, Weather
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings


@pytest.fixture(scope="module")
def chat(url):
    return ChatOpenAI(base_url=url, api_key="none", model=MODEL, temperature=0, max_tokens=16, max_retries=0)


def test_chat(chat, expected):
    message = chat.invoke(QUESTION)
    assert message.content == expected
    assert message.usage_metadata["output_tokens"] == 16
    assert message.response_metadata["finish_reason"] == "length"
    assert message.response_metadata["model_name"] == MODEL


def test_a_conversation_with_a_system_message(chat):
    message = chat.invoke([("system", "You tell stories."), ("human", "Hello!"), ("ai", "Hi."), ("human", QUESTION)])
    assert message.content


def test_stream(chat, expected):
    chunks = list(chat.stream(QUESTION, stream_usage=True))
    assert len(chunks) > 8
    assert "".join(chunk.content for chunk in chunks) == expected
    total = chunks[0]
    for chunk in chunks[1:]:
        total += chunk
    assert total.usage_metadata["output_tokens"] == 16


def test_async_calls(chat, expected):
    async def main():
        streamed = [chunk.content async for chunk in chat.astream(QUESTION)]
        return "".join(streamed), [m.content for m in await asyncio.gather(*(chat.ainvoke(QUESTION) for _ in range(8)))]

    assert asyncio.run(main()) == (expected, [expected] * 8)


def test_batch_and_chain(chat, expected):
    chain = ChatPromptTemplate.from_messages([("human", "Tell me a story about a {animal}.")]) | chat
    cat, dog = chain.batch([{"animal": "cat"}, {"animal": "dog"}])
    assert cat.content == expected and dog.content != expected


def test_parameters(chat):
    assert len(chat.bind(logprobs=True, top_logprobs=2).invoke(QUESTION).response_metadata["logprobs"]["content"]) == 16
    assert "e" not in chat.bind(stop=["e"]).invoke(QUESTION).content
    sampled = chat.model_copy(update={"temperature": 1.0, "seed": 5})
    assert sampled.invoke(QUESTION).content == sampled.invoke(QUESTION).content
    assert len(chat.model_copy(update={"temperature": 1.0, "n": 2}).generate([[HumanMessage(QUESTION)]]).generations[0]) == 2


@pytest.fixture(scope="module")
def caller(caller_url):
    return ChatOpenAI(base_url=caller_url, api_key="none", model=CALLER, temperature=1.2, seed=3, max_tokens=200, max_retries=0,
                      logit_bias=NO_REASONING)


def test_tools_are_called_and_their_results_read(caller):
    tools = caller.bind_tools([Weather], tool_choice="any", parallel_tool_calls=False)
    message = tools.invoke(QUESTION)
    [call] = message.tool_calls
    assert call["name"] == "Weather" and Weather.model_validate(call["args"])
    total = None
    for chunk in tools.stream(QUESTION):
        total = chunk if total is None else total + chunk
    assert total.tool_calls[0]["args"] == call["args"]
    answer = caller.bind_tools([Weather], tool_choice="none").invoke([HumanMessage(QUESTION), message, ToolMessage("sunny", tool_call_id=call["id"])])
    assert answer.content and not answer.tool_calls


@pytest.mark.parametrize("method", ["json_schema", "function_calling"])
def test_structured_output(caller, method):
    model = caller.with_structured_output(Weather, method=method)
    assert isinstance(model.invoke(QUESTION), Weather)
    assert isinstance(list(model.stream(QUESTION))[-1], Weather)


def test_completion(url):
    model = OpenAI(base_url=url, api_key="none", model=MODEL, temperature=0, max_tokens=16)
    text = model.invoke("Once upon a time")
    assert text and "".join(model.stream("Once upon a time")) == text
    assert asyncio.run(model.ainvoke("Once upon a time")) == text


def test_embeddings(embedding_url, embedding):
    # Otherwise LangChain sends token ids of an OpenAI tokenizer.
    model = OpenAIEmbeddings(base_url=embedding_url, api_key="none", model=MODEL, check_embedding_ctx_length=False)
    assert model.embed_query(QUESTION) == pytest.approx(embedding, abs=1e-6)
    documents = model.embed_documents([QUESTION, "A dog."])
    assert documents[0] == pytest.approx(embedding, abs=1e-6) and documents[1] != documents[0]
    assert asyncio.run(model.aembed_query(QUESTION)) == pytest.approx(embedding, abs=1e-6)
