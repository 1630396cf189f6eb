"""SamplingParams.thinking_token_budget with a model that reasons."""

import pathlib
import sys

import pytest
from quire import LLM, SamplingParams, ValidationError
from quire.sampling_params import StructuredOutputsParams

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

from tool_model import marker_ids, tool_model  # noqa: E402

END = marker_ids()["</think>"]


@pytest.fixture(scope="module")
def thinker():
    return LLM(str(tool_model()), kv_cache_memory_bytes=32 << 20, threads=1)


def test_reasoning_of_prompts_and_chats_ends_after_the_budget(thinker):
    params = SamplingParams(temperature=1.5, seed=1, max_tokens=12, n=3, ignore_eos=True, thinking_token_budget=4)
    for output in thinker.generate("A cat<think>so ", params)[0].outputs:
        assert output.token_ids[4] == END and END not in output.token_ids[:4]
    chat = thinker.chat([{"role": "user", "content": "Hi"}], params, chat_template_kwargs={"enable_thinking": True})
    assert [list(output.token_ids).index(END) for output in chat[0].outputs] == [4, 4, 4]


def test_budgets_of_prompts_differ(thinker):
    params = [SamplingParams(temperature=0, ignore_eos=True, max_tokens=9, thinking_token_budget=budget) for budget in (0, 3, None, -1)]
    outputs = [list(output.outputs[0].token_ids) for output in thinker.generate(["A cat<think>so "] * 4, params)]
    assert outputs[0][0] == END and outputs[1][3] == END
    assert outputs[1][:3] == outputs[2][:3] and outputs[2] == outputs[3]


def test_wrong_budgets_are_refused(thinker, llm):
    for wrong in (-2, 1.5, "3"):
        with pytest.raises(ValidationError, match="thinking_token_budget"):
            SamplingParams(thinking_token_budget=wrong)
    with pytest.raises(ValueError, match="no format of reasoning is known"):
        llm.generate("a", SamplingParams(thinking_token_budget=3))
    with pytest.raises(ValueError, match="no format of reasoning is known"):
        llm.generate("a", SamplingParams(thinking_token_budget=3, structured_outputs=StructuredOutputsParams(regex="a")))


def test_a_constrained_answer_follows_the_reasoning(thinker):
    params = SamplingParams(temperature=1.5, seed=1, max_tokens=40, n=3, thinking_token_budget=4,
                            structured_outputs=StructuredOutputsParams(regex="[ab]{5}"))
    outputs = thinker.generate("A cat<think>so ", params)[0].outputs
    outputs += thinker.chat([{"role": "user", "content": "Hi"}], params, chat_template_kwargs={"enable_thinking": True})[0].outputs
    for output in outputs:
        assert list(output.token_ids).index(END) <= 7
        answer = output.text.partition("</think>")[2].strip()
        assert len(answer) == 5 and set(answer) <= {"a", "b"}
    with pytest.raises(ValueError, match="structured_outputs: byte 1"):
        thinker.generate("a", SamplingParams(thinking_token_budget=3, structured_outputs=StructuredOutputsParams(regex="a(")))
