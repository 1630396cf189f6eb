"""LoRA adapters in Python: lora_request as in vLLM, with the outputs of PEFT."""

import asyncio
import json
import shutil

import pytest
from golden_checkpoints import golden_checkpoint
from quire import LLM, AsyncEngineArgs, AsyncLLM, EngineArgs, LLMEngine, SamplingParams, ValidationError
from quire.exceptions import LoRAAdapterNotFoundError
from quire.lora.request import LoRARequest

NAMES = ["qwen3-attention", "qwen3-rslora"]
OPTIONS = {"kv_cache_memory_bytes": 32 << 20, "generation_config": "none"}


def golden(name):
    return json.loads((golden_checkpoint(f"lora/{name}") / "golden.json").read_text())["cases"][-1]


def request(name, number):
    return LoRARequest(name, number, str(golden_checkpoint(f"lora/{name}")))


def greedy(case):
    return SamplingParams(temperature=0, max_tokens=len(case["greedy"]), ignore_eos=True)


@pytest.fixture(scope="module")
def lora_llm():
    return LLM(str(golden_checkpoint("models/qwen3")), enable_lora=True, max_loras=2, **OPTIONS)


def test_each_prompt_may_have_an_adapter(lora_llm):
    base = json.loads((golden_checkpoint("models/qwen3") / "golden.json").read_text())["cases"][-1]
    cases = [golden(name) for name in NAMES] + [base]
    loras = [request(name, i + 1) for i, name in enumerate(NAMES)] + [None]
    outputs = lora_llm.generate([{"prompt_token_ids": case["prompt"]} for case in cases], [greedy(case) for case in cases], lora_request=loras)
    assert [output.outputs[0].token_ids for output in outputs] == [case["greedy"] for case in cases]
    assert [output.lora_request for output in outputs] == loras
    # One adapter for all prompts.
    case = cases[0]
    outputs = lora_llm.generate([{"prompt_token_ids": case["prompt"]}] * 3, greedy(case), lora_request=loras[0])
    assert [output.outputs[0].token_ids for output in outputs] == [case["greedy"]] * 3
    with pytest.raises(ValidationError, match="lengths"):
        lora_llm.generate([{"prompt_token_ids": [1]}] * 3, lora_request=loras[:2])


def test_another_path_replaces_an_adapter(lora_llm):
    first, second = (golden(name) for name in NAMES)
    one = LoRARequest("own", 7, str(golden_checkpoint("lora/qwen3-attention")))
    other = LoRARequest("own", 7, str(golden_checkpoint("lora/qwen3-rslora")))
    for lora, case in ((one, first), (other, second), (one, first)):
        output = lora_llm.generate({"prompt_token_ids": case["prompt"]}, greedy(case), lora_request=lora)[0]
        assert output.outputs[0].token_ids == case["greedy"]


def test_adapters_that_cannot_be_used_are_errors(lora_llm, tmp_path):
    prompt = {"prompt_token_ids": [1, 2]}
    with pytest.raises(LoRAAdapterNotFoundError, match="missing"):
        lora_llm.generate(prompt, lora_request=LoRARequest("missing", 9, str(tmp_path / "missing")))
    with pytest.raises(ValidationError, match="c_attn"):
        lora_llm.generate(prompt, lora_request=LoRARequest("other", 9, str(golden_checkpoint("lora/gpt2-transposed"))))
    with pytest.raises(ValidationError, match="LoRARequest"):
        lora_llm.generate(prompt, lora_request="own")
    with pytest.raises(ValueError, match="id must be > 0"):
        LoRARequest("zero", 0, "/tmp")
    with pytest.raises(ValidationError, match="enable_lora"):
        LLM(str(golden_checkpoint("models/qwen3")), **OPTIONS).generate(prompt, lora_request=request(NAMES[0], 1))


def test_paths_may_be_relative_to_a_directory_of_adapters():
    case = golden(NAMES[0])
    directory = golden_checkpoint(f"lora/{NAMES[0]}").parent
    llm = LLM(str(golden_checkpoint("models/qwen3")), lora_dir=directory, max_cpu_loras=1, **OPTIONS)
    output = llm.generate({"prompt_token_ids": case["prompt"]}, greedy(case), lora_request=LoRARequest("own", 1, NAMES[0]))[0]
    assert output.outputs[0].token_ids == case["greedy"]


def test_a_damaged_adapter_is_an_error(lora_llm, tmp_path):
    shutil.copytree(golden_checkpoint(f"lora/{NAMES[0]}"), tmp_path / "bad")
    weights = tmp_path / "bad" / "adapter_model.safetensors"
    weights.chmod(0o644)
    weights.write_bytes(weights.read_bytes()[:-4] + b"\xff\xff\xff\xff")
    with pytest.raises(ValidationError, match="not a finite number"):
        lora_llm.generate({"prompt_token_ids": [1, 2]}, lora_request=LoRARequest("bad", 9, str(tmp_path / "bad")))


def test_engines_add_list_and_remove_adapters():
    case = golden(NAMES[0])
    engine = LLMEngine.from_engine_args(EngineArgs(str(golden_checkpoint("models/qwen3")), enable_lora=True, **OPTIONS))
    lora = request(NAMES[0], 5)
    assert engine.add_lora(lora) and engine.list_loras() == {5} and engine.pin_lora(5)
    engine.add_request("a", {"prompt_token_ids": case["prompt"]}, greedy(case), lora_request=lora)
    assert engine.remove_lora(5) and not engine.remove_lora(5) and engine.list_loras() == set()
    while engine.has_unfinished_requests():
        outputs = engine.step()
    assert outputs[0].outputs[0].token_ids == case["greedy"]


def test_an_asynchronous_engine_loads_adapters():
    case = golden(NAMES[1])

    async def run():
        engine = AsyncLLM.from_engine_args(AsyncEngineArgs(str(golden_checkpoint("models/qwen3")), enable_lora=True, **OPTIONS))
        last = None
        async for output in engine.generate({"prompt_token_ids": case["prompt"]}, greedy(case), "a", lora_request=request(NAMES[1], 3)):
            last = output
        assert await engine.list_loras() == {3}
        engine.shutdown()
        return last.outputs[0].token_ids

    assert asyncio.run(run()) == case["greedy"]
