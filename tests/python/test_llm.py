"""LLM: generation, chat, beam search, tokenizer, pooling, parameters and errors."""

import json
import math
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest
from quire import (
    LLM,
    BeamSearchParams,
    EngineArgs,
    FlatLogprobs,
    PoolingParams,
    QuireError,
    RepetitionDetectionParams,
    SamplingParams,
    StructuredOutputsParams,
    TokensPrompt,
    UnsupportedError,
    ValidationError,
)

GREEDY = SamplingParams(temperature=0, max_tokens=12)


def test_generate_returns_outputs_in_the_order_of_the_prompts(llm):
    prompts = ["Once upon a time", "The cat", "A dog and"]
    outputs = llm.generate(prompts, GREEDY, use_tqdm=False)
    assert [o.prompt for o in outputs] == prompts
    for prompt, output in zip(prompts, outputs):
        alone = llm.generate(prompt, GREEDY, use_tqdm=False)[0]
        assert output.outputs[0].token_ids == alone.outputs[0].token_ids
        assert output.finished and output.outputs[0].text
        assert output.prompt_token_ids == llm.get_tokenizer().encode(prompt)


def test_a_batch_may_be_larger_than_the_queue_of_the_server(llm):
    outputs = llm.generate([[1, 2]] * 5000, SamplingParams(max_tokens=1), use_tqdm=False)
    assert len(outputs) == 5000 and all(o.finished for o in outputs)


def test_generate_gives_the_tokens_of_the_program(llm):
    text = subprocess.run([os.environ["QUIRE_BINARY"], "generate", "--prompt", "Once upon a time", "--max-tokens", "12",
                           "--temperature", "0", "--threads", "1"], capture_output=True, text=True, check=True).stdout
    assert llm.generate("Once upon a time", GREEDY, use_tqdm=False)[0].outputs[0].text.strip() in text


def test_prompts_may_be_tokens_or_dictionaries(llm):
    ids = llm.get_tokenizer().encode("The cat")
    forms = ["The cat", ids, {"prompt": "The cat"}, {"prompt_token_ids": ids}, TokensPrompt(prompt_token_ids=ids)]
    outputs = llm.generate(forms, GREEDY, use_tqdm=False)
    assert len({tuple(o.outputs[0].token_ids) for o in outputs}) == 1
    assert [o.prompt for o in outputs] == ["The cat", None, "The cat", None, None]
    assert len(llm.generate(ids, GREEDY, use_tqdm=False)) == 1


def test_each_prompt_may_have_its_own_parameters(llm):
    params = [SamplingParams(temperature=0, max_tokens=n) for n in (1, 3, 5)]
    outputs = llm.generate(["Once"] * 3, params, use_tqdm=False)
    assert [len(o.outputs[0].token_ids) for o in outputs] == [1, 3, 5]
    with pytest.raises(ValidationError, match=r"prompts \(3\) and sampling_params \(2\)"):
        llm.generate(["Once"] * 3, params[:2])


def test_several_samples_and_seeds_are_reproducible(llm):
    params = SamplingParams(n=3, temperature=1, max_tokens=8, seed=7)
    first, second = (llm.generate("The", params, use_tqdm=False)[0] for _ in range(2))
    assert [o.index for o in first.outputs] == [0, 1, 2]
    assert [o.token_ids for o in first.outputs] == [o.token_ids for o in second.outputs]


def test_stop_reasons(llm):
    text = llm.generate("Once upon a time", GREEDY, use_tqdm=False)[0].outputs[0]
    assert (text.finish_reason, text.stop_reason) == ("length", None)
    stopped = llm.generate("Once upon a time", SamplingParams(temperature=0, max_tokens=12, stop="little"),
                           use_tqdm=False)[0].outputs[0]
    assert (stopped.finish_reason, stopped.stop_reason) == ("stop", "little")
    assert stopped.text == text.text[: text.text.index("little")]
    token = text.token_ids[2]
    by_token = llm.generate("Once upon a time", SamplingParams(temperature=0, max_tokens=12, stop_token_ids=[token]),
                            use_tqdm=False)[0].outputs[0]
    assert (by_token.finish_reason, by_token.stop_reason) == ("stop", token)


def test_max_tokens_none_fills_the_context():
    llm = LLM(max_model_len=32, kv_cache_memory_bytes=8 << 20, threads=1)
    output = llm.generate("Once", SamplingParams(max_tokens=None, ignore_eos=True), use_tqdm=False)[0]
    assert len(output.prompt_token_ids) + len(output.outputs[0].token_ids) == 32


def test_logprobs_of_output_and_prompt(llm):
    params = SamplingParams(temperature=0, max_tokens=4, logprobs=2, prompt_logprobs=1)
    output = llm.generate("Once upon a time", params, use_tqdm=False)[0]
    completion = output.outputs[0]
    assert len(completion.logprobs) == 4 and len(output.prompt_logprobs) == len(output.prompt_token_ids)
    assert output.prompt_logprobs[0] is None
    chosen = [position[token] for token, position in zip(completion.token_ids, completion.logprobs)]
    assert all(entry.rank == 1 for entry in chosen)
    assert "".join(entry.decoded_token for entry in chosen) == completion.text
    assert math.isclose(sum(entry.logprob for entry in chosen), completion.cumulative_logprob, rel_tol=1e-5)
    for token, position in zip(output.prompt_token_ids[1:], output.prompt_logprobs[1:]):
        assert token in position


def test_flat_logprobs_equal_the_dictionaries(llm):
    plain, flat = (llm.generate("Once", SamplingParams(temperature=0, max_tokens=3, logprobs=2, prompt_logprobs=1,
                                                       flat_logprobs=f), use_tqdm=False)[0] for f in (False, True))
    assert isinstance(flat.outputs[0].logprobs, FlatLogprobs)
    assert list(flat.outputs[0].logprobs) == plain.outputs[0].logprobs
    assert list(flat.prompt_logprobs)[1:] == plain.prompt_logprobs[1:]
    assert list(flat.outputs[0].logprobs[1:]) == plain.outputs[0].logprobs[1:]


def test_chat_renders_the_template(llm):
    messages = [{"role": "user", "content": "Hello"}]
    output = llm.chat(messages, GREEDY, use_tqdm=False)[0]
    text = llm.get_tokenizer().apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert output.prompt == text
    assert output.prompt_token_ids == llm.get_tokenizer().apply_chat_template(messages, add_generation_prompt=True)
    parts = [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}]
    assert len(llm.chat([messages, parts], GREEDY, use_tqdm=False)) == 2
    own = llm.chat(messages, GREEDY, use_tqdm=False, chat_template="{{ messages[0].content }}!")[0]
    assert own.prompt == "Hello!"
    with pytest.raises(UnsupportedError, match="image_url"):
        llm.chat([{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}])
    with pytest.raises(ValidationError, match="messages\\[1\\].role"):
        llm.chat([*messages, {"content": "a"}])


def test_beam_search_ranks_its_sequences(llm):
    [output] = llm.beam_search(["Once upon"], BeamSearchParams(beam_width=3, max_tokens=5))
    scores = [s.cum_logprob / len(s.logprobs) for s in output.sequences]
    assert len(scores) == 3 and scores == sorted(scores, reverse=True)
    prompt = llm.get_tokenizer().encode("Once upon")
    for sequence in output.sequences:
        assert sequence.tokens[: len(prompt)] == prompt and sequence.text.startswith("Once upon")
        assert math.isclose(sequence.cum_logprob, sum(p[t].logprob for p, t in zip(
            sequence.logprobs, sequence.tokens[len(prompt):])), rel_tol=1e-5)


def test_enqueued_prompts_are_returned_together(llm):
    llm.enqueue(["Once"], GREEDY)
    llm.enqueue(["The cat", "A dog"], GREEDY)
    assert [o.prompt for o in llm.wait_for_completion(use_tqdm=False)] == ["Once", "The cat", "A dog"]


def test_tokenizer_round_trip(llm):
    tokenizer = llm.get_tokenizer()
    ids = tokenizer.encode("The cat sat.", add_special_tokens=False)
    assert tokenizer.decode(ids) == "The cat sat."
    assert tokenizer.convert_tokens_to_ids(tokenizer.convert_ids_to_tokens(ids)) == ids
    assert tokenizer("The cat")["input_ids"] == tokenizer.encode("The cat")
    assert tokenizer.eos_token_id in tokenizer.all_special_ids
    assert len(tokenizer.get_vocab()) <= len(tokenizer)


def test_truncation_keeps_the_last_tokens(llm):
    ids = llm.get_tokenizer().encode("Once upon a time there was")
    output = llm.generate("Once upon a time there was", GREEDY, use_tqdm=False,
                          tokenization_kwargs={"truncate_prompt_tokens": 3})[0]
    assert output.prompt_token_ids == ids[-3:]


def test_prompts_without_prefix_cache_reads(llm):
    prompt = "Once upon a time there was a little girl who liked to play in the park with her small brown dog."
    llm.generate(prompt, GREEDY, use_tqdm=False)
    assert llm.generate(prompt, GREEDY, use_tqdm=False)[0].num_cached_tokens > 0
    fresh = SamplingParams(temperature=0, max_tokens=4, skip_reading_prefix_cache=True)
    assert llm.generate(prompt, fresh, use_tqdm=False)[0].num_cached_tokens == 0


def test_progress_bar_counts_prompts(llm):
    bars = []

    def make(**kwargs):
        from tqdm.auto import tqdm

        bars.append(tqdm(**kwargs, file=open(os.devnull, "w")))
        return bars[-1]

    llm.generate(["Once", "The"], GREEDY, use_tqdm=make)
    assert (bars[0].total, bars[0].n, bars[0].desc) == (2, 2, "Processed prompts")
    assert "output: " in bars[0].postfix


def test_embeddings_have_unit_length(embedder):
    one, two = embedder.embed(["The cat", "A dog"], use_tqdm=False)
    assert one.outputs.hidden_size == embedder.get_model_info()["embedding_size"]
    assert math.isclose(np.linalg.norm(one.outputs.embedding), 1, rel_tol=1e-3)
    raw = embedder.encode("The cat", PoolingParams(use_activation=False), pooling_task="embed", use_tqdm=False)[0]
    assert isinstance(raw.outputs.data, np.ndarray) and raw.outputs.data.dtype == np.float32
    assert not math.isclose(np.linalg.norm(raw.outputs.data), 1, rel_tol=1e-2)
    cut = embedder.embed("The cat", pooling_params=PoolingParams(dimensions=8), use_tqdm=False)[0]
    assert cut.outputs.hidden_size == 8
    same, other = embedder.score("The cat", ["The cat", "A dog"], use_tqdm=False)
    assert math.isclose(same.outputs.score, 1, rel_tol=1e-3) and other.outputs.score < same.outputs.score


def test_methods_name_the_task_that_they_need(llm, embedder):
    with pytest.raises(ValidationError, match="runner='pooling'"):
        llm.embed("The cat")
    with pytest.raises(ValidationError, match="needs a model for the task 'classify'"):
        embedder.classify("The cat")
    with pytest.raises(ValidationError, match="needs a model for the task 'generate'"):
        embedder.generate("The cat")


@pytest.mark.parametrize("fields", [{"temperature": 3}, {"top_p": 0}, {"top_k": -2}, {"min_p": 2}, {"n": 0},
                                    {"max_tokens": 0}, {"min_tokens": 17}, {"stop": [""]}, {"logprobs": -2},
                                    {"presence_penalty": 3}, {"repetition_penalty": 0}, {"temperature": math.nan},
                                    {"temperature": 0, "n": 2}, {"stop": "a", "detokenize": False}])
def test_invalid_parameters_are_rejected(fields):
    with pytest.raises(ValueError):
        SamplingParams(**fields)


@pytest.mark.parametrize("fields", [
    {"typical_p": 0.5}, {"top_n_sigma": 0.5}, {"top_p": 0.01, "min_keep": 5}, {"dynatemp_range": 0.9, "dynatemp_exponent": 0.1},
    {"xtc_probability": 1, "xtc_threshold": 0.05}, {"mirostat_mode": 2, "mirostat_tau": 0.5, "mirostat_eta": 0.9},
    {"samplers": ["top_k"], "top_k": 1},
    {"dry_multiplier": 5, "dry_base": 2, "dry_allowed_length": 0, "dry_penalty_last_n": 40, "dry_sequence_breakers": []},
])
def test_samplers_change_the_output_and_are_reproducible(llm, fields):
    def tokens(more):
        params = SamplingParams(n=4, max_tokens=32, seed=5, temperature=1.5, **more)
        return [o.token_ids for o in llm.generate("A cat. A cat. A cat. A", params, use_tqdm=False)[0].outputs]

    assert tokens(fields) == tokens(fields)
    assert tokens(fields) != tokens({})


def test_bad_words_do_not_appear(llm):
    word = llm.generate("Once upon a time, there was a", GREEDY, use_tqdm=False)[0].outputs[0].text.split()[0].strip(".,")
    params = SamplingParams(temperature=0, max_tokens=12, bad_words=[word])
    assert word not in llm.generate("Once upon a time, there was a", params, use_tqdm=False)[0].outputs[0].text.split()


def test_repetitions_end_the_output(llm):
    params = SamplingParams(temperature=0, max_tokens=50, logit_bias={5: 100}, repetition_detection=RepetitionDetectionParams(2, 1, 4))
    completion = llm.generate("Once", params, use_tqdm=False)[0].outputs[0]
    assert completion.token_ids == [5] * 4
    assert (completion.finish_reason, completion.stop_reason) == ("repetition", "repetition_detected")
    with pytest.raises(ValidationError, match="min_count"):
        RepetitionDetectionParams(2, 1, 1)


def test_logprobs_of_given_tokens(llm):
    params = SamplingParams(temperature=0, max_tokens=2, logprob_token_ids=[9, 5], prompt_logprob_token_ids=[7])
    output = llm.generate("Once upon", params, use_tqdm=False)[0]
    for token, position in zip(output.outputs[0].token_ids, output.outputs[0].logprobs):
        assert set(position) == {token, 9, 5}
        assert position[9].rank is None or token == 9
    assert all(7 in position for position in output.prompt_logprobs[1:])


SCHEMA = {"type": "object", "properties": {"age": {"type": "integer", "minimum": 1, "maximum": 9}}, "required": ["age"],
          "additionalProperties": False}


@pytest.mark.parametrize("constraint, valid", [
    ({"json": SCHEMA}, lambda text: 1 <= json.loads(text)["age"] <= 9),
    ({"json": json.dumps(SCHEMA), "disable_any_whitespace": True}, lambda text: re.fullmatch(r'\{"age": [1-9]\}', text)),
    ({"regex": r"[a-c]{4}"}, lambda text: re.fullmatch("[a-c]{4}", text)),
    ({"choice": ["red", "green"]}, lambda text: text in ("red", "green")),
    ({"grammar": 'root ::= "x" root "y" | "z"'}, lambda text: re.fullmatch("x*zy*", text)),
])
def test_structured_outputs_are_obeyed(llm, constraint, valid):
    params = SamplingParams(structured_outputs=StructuredOutputsParams(**constraint), max_tokens=200, temperature=1.5, n=4, seed=3)
    for output in llm.generate("Once", params)[0].outputs:
        assert output.finish_reason == "stop"
        assert valid(output.text), output.text


def test_structured_outputs_that_cannot_be_enforced_are_refused(llm):
    with pytest.raises(ValidationError, match="exactly one"):
        StructuredOutputsParams()
    with pytest.raises(UnsupportedError, match="whitespace_pattern"):
        llm.generate("Once", SamplingParams(structured_outputs=StructuredOutputsParams(json={}, whitespace_pattern=" ")))
    with pytest.raises(ValidationError, match="structured_outputs: "):
        llm.generate("Once", SamplingParams(structured_outputs=StructuredOutputsParams(regex="a(")))


def test_errors_of_the_engine_become_exceptions(llm):
    with pytest.raises(ValueError, match="prompt 1: The prompt has .* tokens; the maximum is"):
        llm.generate(["Once", "a " * 100000], GREEDY)
    with pytest.raises(ValidationError, match="prompt 0 must be a string"):
        llm.generate([3.5], GREEDY)
    with pytest.raises(ValidationError, match="out of vocabulary"):
        llm.generate([[10**6]], GREEDY)
    with pytest.raises(UnsupportedError, match="multi_modal_data"):
        llm.generate({"prompt": "a", "multi_modal_data": {"image": 1}}, GREEDY)
    with pytest.raises(ValidationError, match="max_tokens"):
        params = SamplingParams()
        params.max_tokens = "many"
        llm.generate("Once", params)
    assert llm.generate("Once", GREEDY, use_tqdm=False)[0].finished


def test_load_errors_name_the_file(tmp_path):
    with pytest.raises(QuireError, match="no-such-model"):
        LLM(tmp_path / "no-such-model")
    with pytest.raises(UnsupportedError, match="tensor_parallel_size=2 is not supported"):
        LLM(tensor_parallel_size=2)
    with pytest.raises(TypeError, match="unexpected argument 'modle'"):
        LLM(modle="x")


def test_arguments_of_vllm_without_effect_are_accepted():
    llm = LLM(dtype="float", enforce_eager=True, gpu_memory_utilization=0.9, trust_remote_code=True, swap_space=0,
              max_num_seqs=8, max_model_len=64, kv_cache_memory_bytes=8 << 20, threads=1, tensor_parallel_size=1)
    assert llm.get_model_info()["max_model_len"] == 64
    assert llm.get_model_info()["weight_dtype"] == "float32"
    again = LLM.from_engine_args(EngineArgs(max_model_len=48, kv_cache_memory_bytes=8 << 20, threads=1))
    assert again.get_model_info()["max_model_len"] == 48


def test_a_closed_engine_says_so():
    llm = LLM(kv_cache_memory_bytes=8 << 20, threads=1)
    llm.shutdown()
    with pytest.raises(QuireError, match="was shut down"):
        llm.generate("Once", GREEDY)


def test_an_ordinary_vllm_script_runs(run_script):
    source = """
from vllm import LLM, SamplingParams
from vllm.inputs import TokensPrompt
from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.v1.engine.async_llm import AsyncLLM
prompts = ["Hello, my name is", "The future of AI is"]
sampling_params = SamplingParams(temperature=0.8, top_p=0.95)
def main():
    llm = LLM(model="MODEL", enforce_eager=True)
    for output in llm.generate(prompts, sampling_params):
        print(f"Prompt: {output.prompt!r}, Generated text: {output.outputs[0].text!r}")
if __name__ == "__main__":
    main()
"""
    model = pathlib.Path(__file__).parents[2] / "models" / "quire-tiny"
    done = run_script(source.replace("vllm", "quire").replace("MODEL", str(model)))
    assert done.returncode == 0 and done.stdout.count("Generated text") == 2, done.stderr


def test_the_module_runs_the_program():
    done = subprocess.run([sys.executable, "-m", "quire", "version"], capture_output=True, text=True)
    assert done.returncode == 0 and "quire" in done.stdout
    assert subprocess.run([sys.executable, "-m", "quire", "no-such-command"], capture_output=True).returncode == 2


def test_types_pass_mypy_strict(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("""
from quire import LLM, RequestOutput, SamplingParams

def texts(llm: LLM) -> list[str]:
    outputs: list[RequestOutput] = llm.generate(["a"], SamplingParams(max_tokens=3, temperature=0))
    reveal_type(llm.embed("a")[0].outputs.embedding)
    return [one.text for output in outputs for one in output.outputs]
""")
    import quire

    package = pathlib.Path(quire.__file__).parent
    run = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache")]
    done = subprocess.run([*run, str(package), str(script)], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    assert "list[float]" in done.stdout


def test_a_mistyped_path_is_reported_before_the_name(tmp_path, monkeypatch):
    """"models/foo" could be both."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    (tmp_path / "models" / "food").mkdir(parents=True)
    with pytest.raises(QuireError, match="there is no file or directory models/foo, and on the hub: .*; did you mean models/food?"):
        LLM("models/foo")
    with pytest.raises(QuireError, match="no such directory or file"):
        LLM("models/foo/bar/baz")
