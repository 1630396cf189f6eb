"""Everything a user of the openai client does."""

import openai
import pytest

PROMPT = "Once upon a time there was a"
CHAT = [{"role": "user", "content": "Hello! Who are you?"}]


def test_models(client, model):
    card = client.models.retrieve(model)
    assert card.id == model
    assert card.object == "model"
    assert card.max_model_len > 0
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("no-such-model")


def test_completion(client, model):
    answer = client.completions.create(model=model, prompt=PROMPT, max_tokens=8, temperature=0)
    assert answer.object == "text_completion"
    assert answer.id.startswith("cmpl-")
    assert answer.model == model
    assert len(answer.choices) == 1
    assert answer.choices[0].finish_reason in ("length", "stop")
    assert answer.usage.completion_tokens <= 8
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert answer.usage.prompt_tokens_details.cached_tokens >= 0


def test_completion_repeats_itself_where_it_is_greedy_or_seeded(client, model):
    for options in ({"temperature": 0}, {"temperature": 1, "seed": 11}):
        texts = {client.completions.create(model=model, prompt=PROMPT, max_tokens=24, **options).choices[0].text for _ in range(3)}
        assert len(texts) == 1


def test_streamed_completion_is_the_whole_answer(client, model):
    options = {"model": model, "prompt": PROMPT, "max_tokens": 40, "temperature": 1, "seed": 3}
    whole = client.completions.create(**options)
    chunks = list(client.completions.create(**options, stream=True, stream_options={"include_usage": True}))
    assert "".join(c.choices[0].text for c in chunks[:-1]) == whole.choices[0].text
    assert chunks[-2].choices[0].finish_reason == whole.choices[0].finish_reason
    assert chunks[-1].choices == []
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert chunks[-1].usage.prompt_tokens == whole.usage.prompt_tokens
    assert all(c.usage is None for c in chunks[:-1])
    assert len({c.id for c in chunks}) == 1


BEAMS = {"use_beam_search": True, "best_of": 4, "length_penalty": 0.7, "early_stopping": "never"}


def test_beam_search_gives_its_best_texts_first(client, model, server):
    options = {"model": model, "prompt": PROMPT, "max_tokens": 20, "n": 3, "logprobs": 2}
    answer = client.completions.create(**options, extra_body=BEAMS)
    assert [c.index for c in answer.choices] == [0, 1, 2]
    assert len({c.text for c in answer.choices}) == 3
    scores = [sum(c.logprobs.token_logprobs) / len(c.logprobs.tokens) ** 0.7 for c in answer.choices]
    assert scores == sorted(scores, reverse=True)
    assert answer.usage.completion_tokens == sum(len(c.logprobs.tokens) for c in answer.choices)
    again = client.completions.create(**options, extra_body=BEAMS | {"temperature": 0})
    assert [c.text for c in again.choices] == [c.text for c in answer.choices]
    server.becomes_idle()


def test_beam_search_of_one_beam_is_greedy(client, model):
    options = {"model": model, "messages": CHAT, "max_tokens": 16}
    beam = client.chat.completions.create(**options, extra_body={"use_beam_search": True})
    greedy = client.chat.completions.create(**options, temperature=0)
    assert beam.choices[0].message.content == greedy.choices[0].message.content
    assert beam.choices[0].finish_reason == greedy.choices[0].finish_reason


@pytest.mark.parametrize("fields, param", [
    ({**BEAMS, "stream": True}, "stream"), ({**BEAMS, "top_p": 0.5}, "top_p"), ({**BEAMS, "n": 5}, "best_of"),
    ({**BEAMS, "stop": ["x"]}, "stop"), ({**BEAMS, "best_of": 100000}, "best_of"), ({"best_of": 3}, "best_of"),
    ({**BEAMS, "early_stopping": "soon"}, "early_stopping"), ({**BEAMS, "presence_penalty": 1}, "presence_penalty")])
def test_beam_search_says_what_it_does_not_take(client, model, fields, param):
    with pytest.raises(openai.BadRequestError) as error:
        client.completions.create(model=model, prompt=PROMPT, max_tokens=4, extra_body=fields)
    assert error.value.param == param


def test_chat(client, model):
    answer = client.chat.completions.create(model=model, messages=CHAT, max_tokens=8)
    assert answer.object == "chat.completion"
    assert answer.id.startswith("chatcmpl-")
    assert answer.choices[0].message.role == "assistant"
    assert isinstance(answer.choices[0].message.content, str)
    assert answer.choices[0].message.tool_calls is None
    assert answer.usage.completion_tokens <= 8


def test_streamed_chat_is_the_whole_answer(client, model):
    options = {"model": model, "messages": CHAT, "max_tokens": 40, "temperature": 1, "seed": 5}
    whole = client.chat.completions.create(**options)
    chunks = list(client.chat.completions.create(**options, stream=True, stream_options={"include_usage": True}))
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[0].choices[0].delta.content == ""
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == whole.choices[0].message.content
    assert [c.choices[0].finish_reason for c in chunks if c.choices and c.choices[0].finish_reason] == [whole.choices[0].finish_reason]
    assert chunks[-1].usage == whole.usage


def test_the_stream_helper_of_the_client_understands_the_stream(client, model):
    options = {"model": model, "messages": CHAT, "max_tokens": 40, "temperature": 1, "seed": 5}
    text = client.chat.completions.create(**options).choices[0].message.content
    # Ended by a stop string: the helper refuses answers that were cut by their length.
    with client.chat.completions.stream(**options, stop=text[len(text) // 2:len(text) // 2 + 2]) as stream:
        deltas = [event.delta for event in stream if event.type == "content.delta"]
        final = stream.get_final_completion()
    assert final.choices[0].finish_reason == "stop"
    assert "".join(deltas) == final.choices[0].message.content


def test_parallel_samples_and_prompts_are_numbered(client, model):
    options = {"model": model, "prompt": [PROMPT, "The dog and the"], "n": 2, "max_tokens": 20, "temperature": 1, "seed": 9}
    whole = client.completions.create(**options)
    assert [c.index for c in whole.choices] == [0, 1, 2, 3]
    texts = {i: "" for i in range(4)}
    finished = {}
    for chunk in client.completions.create(**options, stream=True):
        choice = chunk.choices[0]
        assert choice.index not in finished
        texts[choice.index] += choice.text
        if choice.finish_reason:
            finished[choice.index] = choice.finish_reason
    assert [texts[i] for i in range(4)] == [c.text for c in whole.choices]
    assert [finished[i] for i in range(4)] == [c.finish_reason for c in whole.choices]


def test_the_usage_of_samples_counts_the_prompt_once(client, model):
    one = client.completions.create(model=model, prompt=PROMPT, max_tokens=4)
    two = client.completions.create(model=model, prompt=PROMPT, max_tokens=4, n=3, extra_body={"ignore_eos": True})
    assert two.usage.prompt_tokens == one.usage.prompt_tokens
    assert two.usage.completion_tokens == 12


def test_logprobs_of_chat(client, model):
    answer = client.chat.completions.create(model=model, messages=CHAT, max_tokens=5, logprobs=True, top_logprobs=3, temperature=0)
    content = answer.choices[0].logprobs.content
    assert len(content) == answer.usage.completion_tokens
    for token in content:
        assert token.logprob <= 0
        assert len(token.top_logprobs) == 3
        assert [t.logprob for t in token.top_logprobs] == sorted((t.logprob for t in token.top_logprobs), reverse=True)
        assert token.logprob == token.top_logprobs[0].logprob  # greedy
    assert answer.choices[0].message.content.encode().startswith(bytes(content[0].bytes))


def test_echo_scores_a_prompt_as_evaluation_harnesses_ask(client, model, server):
    ids = server.http().post("/tokenize", json={"prompt": PROMPT}).json()["tokens"]
    answer = client.completions.create(model=model, prompt=ids, max_tokens=1, echo=True, logprobs=1, temperature=0)
    logprobs = answer.choices[0].logprobs
    assert len(logprobs.tokens) == len(ids) + 1
    assert logprobs.token_logprobs[0] is None
    assert all(p <= 0 for p in logprobs.token_logprobs[1:])
    assert logprobs.top_logprobs[0] is None
    for token, p, top in list(zip(logprobs.tokens, logprobs.token_logprobs, logprobs.top_logprobs))[1:]:
        assert top[token] == p
    assert len(logprobs.text_offset) == len(logprobs.tokens)
    assert logprobs.text_offset == sorted(logprobs.text_offset)
    scored = client.completions.create(model=model, prompt=ids, max_tokens=0, echo=True, logprobs=1, temperature=0)
    assert scored.choices[0].logprobs.token_logprobs == logprobs.token_logprobs[:-1]
    assert scored.usage.completion_tokens == 0


def test_stop_strings_are_cut_off(client, model):
    options = {"model": model, "prompt": PROMPT, "max_tokens": 60, "temperature": 1, "seed": 21}
    text = client.completions.create(**options).choices[0].text
    stop = text[len(text) // 2:len(text) // 2 + 3]
    expected = text[:text.index(stop)]
    answer = client.completions.create(**options, stop=[stop])
    assert answer.choices[0].text == expected
    assert answer.choices[0].finish_reason == "stop"
    assert answer.choices[0].stop_reason == stop
    streamed = "".join(c.choices[0].text for c in client.completions.create(**options, stop=[stop], stream=True))
    assert streamed == expected
    kept = client.completions.create(**options, stop=[stop], extra_body={"include_stop_str_in_output": True})
    assert kept.choices[0].text == expected + stop


def test_vllm_extras(client, model):
    body = {"top_k": 5, "min_p": 0.01, "repetition_penalty": 1.1, "ignore_eos": True, "min_tokens": 6, "skip_special_tokens": False,
            "return_token_ids": True, "prompt_logprobs": 1, "priority": 0, "cache_salt": "salt"}
    answer = client.completions.create(model=model, prompt=PROMPT, max_tokens=6, extra_body=body)
    choice = answer.choices[0]
    assert len(choice.token_ids) == 6
    assert len(choice.prompt_token_ids) == answer.usage.prompt_tokens
    assert choice.prompt_logprobs[0] is None
    assert len(choice.prompt_logprobs) == answer.usage.prompt_tokens
    allowed = client.completions.create(model=model, prompt=PROMPT, max_tokens=6,
                                        extra_body={"allowed_token_ids": choice.token_ids[:1], "return_token_ids": True, "ignore_eos": True})
    assert set(allowed.choices[0].token_ids) == {choice.token_ids[0]}


def test_parameters_that_nobody_knows_are_named(client, model):
    raw = client.completions.with_raw_response.create(model=model, prompt=PROMPT, max_tokens=1, user="me",
                                                      extra_body={"repeat_penalty": 2, "frobnicate": {}})
    assert raw.headers["x-ignored-params"] == "repeat_penalty, frobnicate"


@pytest.mark.parametrize("kwargs, error, param", [
    ({"temperature": 3}, openai.BadRequestError, "temperature"),
    ({"top_p": 0}, openai.BadRequestError, "top_p"),
    ({"presence_penalty": 9}, openai.BadRequestError, "presence_penalty"),
    ({"max_tokens": 0}, openai.BadRequestError, "max_tokens"),
    ({"max_tokens": 10**9}, openai.BadRequestError, "max_tokens"),
    ({"n": 0}, openai.BadRequestError, "n"),
    ({"logprobs": 1000}, openai.BadRequestError, "logprobs"),
    ({"stop": [""]}, openai.BadRequestError, "stop"),
    ({"logit_bias": {"99999999": 1}}, openai.BadRequestError, "logit_bias"),
    ({"prompt": ""}, None, None),
    ({"prompt": []}, openai.BadRequestError, "prompt"),
    ({"prompt": [10**9]}, openai.BadRequestError, "prompt"),
    ({"model": "gpt-4"}, openai.NotFoundError, "model"),
    ({"best_of": 4}, openai.BadRequestError, "best_of"),
    ({"extra_body": {"guided_regex": "a("}}, openai.BadRequestError, "guided_regex"),
    ({"extra_body": {"top_k": -5}}, openai.BadRequestError, "top_k"),
])
def test_bad_parameters_are_explained(client, model, kwargs, error, param):
    options = {"model": model, "prompt": PROMPT, "max_tokens": 4, **kwargs}
    if error is None:
        client.completions.create(**options)
        return
    with pytest.raises(error) as caught:
        client.completions.create(**options)
    assert caught.value.param == param
    assert len(caught.value.body["message"]) > 10
    client.completions.create(model=model, prompt=PROMPT, max_tokens=1)


def test_a_prompt_that_is_too_long_is_told_the_numbers(client, model):
    limit = client.models.retrieve(model).max_model_len
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(model=model, prompt=[5] * (limit + 7), max_tokens=1)
    assert str(limit + 7) in caught.value.message
    assert str(limit) in caught.value.message
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(model=model, messages=[{"role": "user", "content": "word " * 5000}])


def test_fields_that_are_not_supported_are_refused(client, model):
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model=model, messages=CHAT, extra_body={"prompt_embeds": ["cat"]})
    assert (caught.value.param, caught.value.code) == ("prompt_embeds", "not_supported")
