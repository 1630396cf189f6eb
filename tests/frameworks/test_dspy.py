"""The language model and embedding classes of DSPy."""

import asyncio

import dspy
import pytest
from conftest import MODEL, QUESTION


@pytest.fixture(scope="module")
def lm(url):
    return dspy.LM(f"openai/{MODEL}", api_base=url, api_key="none", temperature=0, max_tokens=16, cache=False, num_retries=0)


def test_chat(lm, expected):
    assert lm(QUESTION) == [expected]
    assert lm.history[0]["usage"]["completion_tokens"] == 16


def test_several_outputs(lm):
    assert len(lm(QUESTION, n=3, temperature=1.0, seed=3)) == 3


def test_async_calls(lm, expected):
    async def main():
        return await asyncio.gather(*(lm.acall(QUESTION) for _ in range(8)))

    assert asyncio.run(main()) == [[expected]] * 8


def test_text_completion(url):
    model = dspy.LM(f"text-completion-openai/{MODEL}", model_type="text", api_base=url, api_key="none", temperature=0, max_tokens=16,
                    cache=False, num_retries=0)
    assert model("Once upon a time")[0]


class EchoAdapter(dspy.ChatAdapter):
    """A model of 4 million parameters does not keep to a format: the whole response is the value of the output field."""

    def parse(self, signature, completion):
        return dict.fromkeys(signature.output_fields, completion)


def test_a_module_is_given_the_response(lm):
    with dspy.context(lm=lm, adapter=EchoAdapter()):
        prediction = dspy.Predict("question -> answer")(question=QUESTION)
    assert prediction.answer


def test_a_stream_of_a_module(lm):
    async def main():
        with dspy.context(lm=lm, adapter=EchoAdapter()):
            program = dspy.streamify(dspy.Predict("question -> answer"))
            return [item async for item in program(question=QUESTION)]

    items = asyncio.run(main())
    assert len(items) > 8 and isinstance(items[-1], dspy.Prediction)
    text = "".join(item.choices[0].delta.content or "" for item in items[:-1] if hasattr(item, "choices"))
    assert text == items[-1].answer


def test_embeddings(embedding_url, embedding):
    embedder = dspy.Embedder(f"openai/{MODEL}", api_base=embedding_url, api_key="none", caching=False)
    vectors = embedder([QUESTION, "A dog."])
    assert vectors.shape == (2, len(embedding))
    assert vectors[0] == pytest.approx(embedding, abs=1e-6)
