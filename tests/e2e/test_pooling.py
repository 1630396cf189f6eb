"""Embeddings, rerankers and classifiers through the real clients: what transformers computed, in the forms that they ask for."""

import base64
import json
import struct

import openai
import pytest
from golden_checkpoints import golden_checkpoint
from server_process import ServerProcess


def golden(name):
    return json.loads((golden_checkpoint(f"pooling/{name}") / "golden.json").read_text())


def serve(name):
    server = ServerProcess(str(golden_checkpoint(f"pooling/{name}")))
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def embedder():
    yield from serve("bert")


@pytest.fixture(scope="module")
def reranker():
    yield from serve("bert-reranker")


@pytest.fixture(scope="module")
def classifier():
    yield from serve("bert-classifier")


def near(vector, expected):
    scale = max(map(abs, expected))
    return len(vector) == len(expected) and all(abs(a - b) <= 2e-5 * scale for a, b in zip(vector, expected))


def test_embeddings_are_those_of_transformers(embedder):
    texts = golden("bert")["texts"]
    client = embedder.client()
    # The client asks for base64 by itself; then for numbers.
    for options in ({}, {"encoding_format": "float"}):
        answer = client.embeddings.create(model="bert", input=[t["text"] for t in texts], **options)
        assert answer.object == "list" and answer.model == "bert"
        assert [d.index for d in answer.data] == list(range(len(texts)))
        for data, text in zip(answer.data, texts):
            assert data.object == "embedding"
            assert near(data.embedding, text["vector"])
        assert answer.usage.prompt_tokens == answer.usage.total_tokens == sum(len(t["ids"]) for t in texts)


def test_embeddings_of_one_text_of_tokens_and_of_many_tokens(embedder):
    texts = golden("bert")["texts"]
    client = embedder.client()
    one = client.embeddings.create(model="bert", input=texts[0]["text"]).data[0].embedding
    assert client.embeddings.create(model="bert", input=texts[0]["ids"]).data[0].embedding == one
    many = client.embeddings.create(model="bert", input=[t["ids"] for t in texts])
    assert many.data[0].embedding == one and len(many.data) == len(texts)


def test_base64_holds_the_same_numbers(embedder):
    body = {"model": "bert", "input": "rain", "encoding_format": "base64"}
    packed = base64.b64decode(embedder.post("/v1/embeddings", json=body).json()["data"][0]["embedding"])
    numbers = embedder.post("/v1/embeddings", json=body | {"encoding_format": "float"}).json()["data"][0]["embedding"]
    assert list(struct.unpack(f"<{len(packed) // 4}f", packed)) == pytest.approx(numbers, rel=1e-7)


def test_dimensions_prompts_and_truncation(embedder):
    client = embedder.client()
    whole = client.embeddings.create(model="bert", input="rain").data[0].embedding
    part = client.embeddings.create(model="bert", input="rain", dimensions=4).data[0].embedding
    assert len(part) == 4 and sum(x * x for x in part) == pytest.approx(1.0, abs=1e-6)
    assert part[1] / part[0] == pytest.approx(whole[1] / whole[0], rel=1e-4)
    query = client.embeddings.create(model="bert", input="rain", extra_body={"prompt_name": "query"}).data[0].embedding
    assert query == client.embeddings.create(model="bert", input="query: rain").data[0].embedding
    long = "rain " * 200
    with pytest.raises(openai.BadRequestError, match="tokens; the maximum is 64"):
        client.embeddings.create(model="bert", input=long)
    cut = client.embeddings.create(model="bert", input=long, extra_body={"truncate_prompt_tokens": -1})
    assert cut.usage.prompt_tokens == 64
    # [CLS] and [SEP] stay around what is left.
    same = client.embeddings.create(model="bert", input="rain " * 62)
    assert cut.data[0].embedding == same.data[0].embedding


def test_wrong_requests_say_so(embedder, classifier):
    client = embedder.client()
    for body, words in [({"input": []}, "input must be"), ({"input": "a", "dimensions": 1000}, "dimensions is 1000"),
                        ({"input": "a", "encoding_format": "int4"}, "encoding_format"), ({"input": [[1], "a", 3]}, "input must be"),
                        ({"input": [5, 99999]}, "input"), ({"input": "a", "prompt_name": "poem"}, "document, query")]:
        answer = embedder.post("/v1/embeddings", json={"model": "bert"} | body)
        assert answer.status_code == 400 and words in answer.json()["error"]["message"], (body, answer.text)
    with pytest.raises(openai.BadRequestError, match="returns embeddings and does not generate text"):
        client.completions.create(model="bert", prompt="a", max_tokens=4)
    answer = classifier.post("/v1/embeddings", json={"input": "a"})
    assert answer.status_code == 400 and "is a classification or reranking model" in answer.json()["error"]["message"]


def test_rerank(reranker):
    pairs = golden("bert-reranker")["texts"]
    query, documents = pairs[0]["text"][0], [p["text"][1] for p in pairs]
    scores = [p["vector"][0] for p in pairs]
    body = {"model": "bert-reranker", "query": query, "documents": documents}
    for path in ("/rerank", "/v1/rerank", "/v2/rerank"):
        answer = reranker.post(path, json=body).json()
        assert [r["index"] for r in answer["results"]] == sorted(range(3), key=lambda i: -scores[i])
        for result in answer["results"]:
            assert result["relevance_score"] == pytest.approx(scores[result["index"]], rel=1e-5)
            assert result["document"]["text"] == documents[result["index"]]
        assert answer["usage"]["total_tokens"] == sum(len(p["ids"]) for p in pairs)
    best = reranker.post("/rerank", json=body | {"top_n": 1, "return_documents": False}).json()["results"]
    assert len(best) == 1 and "document" not in best[0]


def test_scores_of_pairs_and_of_embeddings(reranker, embedder):
    pairs = golden("bert-reranker")["texts"]
    body = {"text_1": pairs[0]["text"][0], "text_2": [p["text"][1] for p in pairs]}
    data = reranker.post("/score", json=body).json()["data"]
    assert [d["score"] for d in data] == pytest.approx([p["vector"][0] for p in pairs], rel=1e-5)
    texts = golden("bert")["texts"]
    data = embedder.post("/v1/score", json={"queries": texts[0]["text"], "documents": [t["text"] for t in texts]}).json()["data"]
    dots = [sum(a * b for a, b in zip(texts[0]["vector"], t["vector"])) for t in texts]
    assert [d["score"] for d in data] == pytest.approx(dots, rel=1e-4)


def test_classify_and_pooling(classifier):
    texts = golden("bert-classifier")["texts"]
    answer = classifier.post("/classify", json={"input": [t["text"] for t in texts]}).json()
    labels = ["good", "bad", "neither"]
    for data, text in zip(answer["data"], texts):
        assert data["probs"] == pytest.approx(text["vector"], abs=1e-5)
        assert data["label"] == labels[text["vector"].index(max(text["vector"]))] and data["num_classes"] == 3
    pooled = classifier.post("/pooling", json={"input": texts[0]["text"]}).json()
    assert pooled["data"][0]["data"] == pytest.approx(answer["data"][0]["probs"], abs=1e-7)


def test_metrics_count_the_tokens_and_nothing_is_left(embedder):
    before = embedder.metric("quire:prompt_tokens_total")
    used = embedder.client().embeddings.create(model="bert", input=["rain", "the cat"]).usage.prompt_tokens
    assert embedder.metric("quire:prompt_tokens_total") == before + used
    assert embedder.metric("quire:num_requests_running") == 0
    assert embedder.metric("quire:kv_cache_usage_perc") == 0
