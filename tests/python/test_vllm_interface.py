"""What programs written for vLLM rely on besides the results: values of fields, sequences, errors and arguments."""

import asyncio
import dataclasses
import math
import pathlib
import typing

import pytest
import quire
from golden_checkpoints import golden_checkpoint
from quire import (
    LLM,
    AsyncEngineArgs,
    AsyncLLM,
    EngineArgs,
    FlatLogprobs,
    LLMEngine,
    Logprob,
    PoolingParams,
    RequestOutput,
    RequestOutputKind,
    SamplingParams,
    UnsupportedError,
    ValidationError,
    exceptions,
)
from quire._stream import Stream
from quire.engine.vllm_args import HARMLESS, UNAVAILABLE
from quire.logprobs import append_logprobs_for_next_position, create_prompt_logprobs, create_sample_logprobs
from quire.utils.argparse_utils import FlexibleArgumentParser

ROOT = pathlib.Path(__file__).parents[2]
SMALL = {"kv_cache_memory_bytes": 8 << 20, "threads": 1, "max_model_len": 64}
GREEDY = SamplingParams(temperature=0, max_tokens=4)


@pytest.fixture(scope="module")
def classifier():
    return LLM(golden_checkpoint("pooling/bert-classifier"), threads=1)


# ---- Outputs -----------------------------------------------------------------------------------------------------


def test_the_sum_of_logprobs_is_there_if_logprobs_were_asked_for(llm):
    for logprobs in (None, 0, 2):
        params = SamplingParams(temperature=0, max_tokens=4, logprobs=logprobs)
        output = llm.generate("Once", params, use_tqdm=False)[0].outputs[0]
        assert (output.cumulative_logprob is None) == (logprobs is None)
        if logprobs is not None:
            chosen = [position[token].logprob for token, position in zip(output.token_ids, output.logprobs)]
            assert math.isclose(output.cumulative_logprob, sum(chosen), rel_tol=1e-5)


@pytest.mark.parametrize("mode", ["raw_logprobs", "raw_logits", "processed_logprobs", "processed_logits"])
def test_logprobs_mode_selects_raw_or_processed_logprobs_or_logits(mode):
    llm = LLM(logprobs_mode=mode, **SMALL)
    params = SamplingParams(temperature=0.5, top_k=3, seed=1, max_tokens=4, logprobs=5, prompt_logprobs=1)
    output = llm.generate("Once upon a time", params, use_tqdm=False)[0]
    chosen = [position[token] for token, position in zip(output.outputs[0].token_ids, output.outputs[0].logprobs)]
    for token, position in zip(chosen, output.outputs[0].logprobs):
        values = [entry.logprob for entry in position.values()]
        assert values.count(-math.inf) == (2 if mode.startswith("processed") else 0)
        if mode == "processed_logprobs":
            assert math.isclose(sum(math.exp(v) for v in values), 1, rel_tol=1e-5)
        assert (max(values) > 0) == mode.endswith("logits")
    assert (output.prompt_logprobs[1][output.prompt_token_ids[1]].logprob > 0) == mode.endswith("logits")
    assert math.isclose(output.outputs[0].cumulative_logprob, sum(one.logprob for one in chosen), rel_tol=1e-5)


def test_an_unknown_logprobs_mode_is_an_error():
    with pytest.raises(quire.QuireError, match="logprobs_mode is 'cooked'; it must be one of"):
        LLM(logprobs_mode="cooked", **SMALL)


ONE, TWO = {1: Logprob(-0.1, 1, "a")}, {2: Logprob(-0.2, 1, "b"), 3: Logprob(-0.3, 2, "c")}


def test_flat_logprobs_grow_as_lists_do():
    flat = FlatLogprobs()
    flat.append(ONE)
    flat.append(None)
    flat.extend([TWO, ONE])
    flat.append_fast([4], [-0.4], iter([1, 2]), iter(["d"]))
    assert list(flat) == [ONE, {}, TWO, ONE, {4: Logprob(-0.4, 1, "d")}]
    assert (flat.start_indices, flat.end_indices) == ([0, 1, 1, 3, 4], [1, 1, 3, 4, 5])
    other = FlatLogprobs()
    other.extend(flat)
    other += [TWO]
    assert list(other) == [*flat, TWO] and len(flat) == 5


def test_slices_of_flat_logprobs_are_flat_logprobs():
    flat = FlatLogprobs()
    flat.extend([ONE, TWO, None, ONE])
    for part in (slice(None), slice(1, 3), slice(-2, None), slice(None, None, 2), slice(None, None, -1), slice(4, 9)):
        assert isinstance(flat[part], FlatLogprobs)
        assert list(flat[part]) == [ONE, TWO, {}, ONE][part]
    assert flat[1:3].start_indices == [0, 2]
    assert flat[-1] == ONE and flat.index(TWO) == 1
    with pytest.raises(IndexError):
        flat[4]
    with pytest.raises(TypeError):
        flat["a"]


def test_positions_of_flat_logprobs_cannot_be_changed_or_removed():
    flat = FlatLogprobs()
    flat.append(ONE)
    for change in (lambda: flat.__setitem__(0, TWO), lambda: flat.__delitem__(0), lambda: flat.insert(0, TWO), flat.pop):
        with pytest.raises(TypeError):
            change()
    assert list(flat) == [ONE]


@pytest.mark.parametrize("flat", [False, True])
def test_logprobs_are_made_by_functions_with_the_names_of_vllm(flat):
    prompt, sample = create_prompt_logprobs(flat), create_sample_logprobs(flat)
    assert (len(prompt), len(sample)) == (1, 0) and isinstance(sample, FlatLogprobs if flat else list)
    append_logprobs_for_next_position(sample, [7, 8], [-0.5, -0.1], ["x", "y"], rank=5, num_logprobs=-1)
    assert list(sample) == [{7: Logprob(-0.5, 5, "x"), 8: Logprob(-0.1, 1, "y")}]


def test_without_detokenization_there_are_no_texts(llm):
    params = SamplingParams(temperature=0, max_tokens=3, detokenize=False, logprobs=1, prompt_logprobs=1)
    output = llm.generate("Once upon", params, use_tqdm=False)[0]
    assert output.outputs[0].text == "" and len(output.outputs[0].token_ids) == 3
    entries = [e for position in [*output.outputs[0].logprobs, *output.prompt_logprobs[1:]] for e in position.values()]
    assert len(entries) >= 4 and all(entry.decoded_token is None for entry in entries)


def test_without_a_tokenizer_prompts_are_tokens_and_texts_are_empty():
    llm = LLM(skip_tokenizer_init=True, **SMALL)
    output = llm.generate({"prompt_token_ids": [1, 2, 3]}, SamplingParams(max_tokens=4), use_tqdm=False)[0].outputs[0]
    assert output.text == "" and output.token_ids
    for call in (lambda: llm.generate("abc"), lambda: llm.generate({"prompt": "abc"}), llm.get_tokenizer,
                 lambda: llm.generate([1], SamplingParams(stop="a"))):
        with pytest.raises(ValueError, match="`skip_tokenizer_init=True`"):
            call()


def test_outputs_ignore_arguments_of_later_versions():
    output = RequestOutput(request_id="1", prompt="a", prompt_token_ids=[1], prompt_logprobs=None, outputs=[],
                           finished=False, kv_transfer_params={"a": 1}, an_argument_of_the_future="value")
    assert output.request_id == "1" and output.kv_transfer_params == {"a": 1}


# ---- Requests ----------------------------------------------------------------------------------------------------


def test_priorities_have_no_effect_without_the_policy(llm):
    outputs = llm.generate(["Once", "The"], GREEDY, priority=[1, -1], use_tqdm=False)
    assert [o.outputs[0].token_ids for o in outputs] == \
        [o.outputs[0].token_ids for o in llm.generate(["Once", "The"], GREEDY, use_tqdm=False)]
    assert llm.generate("Once", GREEDY, priority=3, use_tqdm=False)[0].finished
    by_priority = LLM(scheduling_policy="priority", **SMALL)
    assert by_priority.generate(["Once", "The"], GREEDY, priority=[1, -1], use_tqdm=False)[1].finished


def test_streams_of_asyncio_follow_the_same_rules():
    async def main():
        llm = AsyncLLM(skip_tokenizer_init=True, **SMALL)
        params = SamplingParams(temperature=0, max_tokens=3, prompt_logprobs=0)
        outputs = [output async for output in llm.generate([1, 2], params, "1", priority=5)]
        with pytest.raises(ValueError, match="`skip_tokenizer_init=True`"):
            await anext(llm.generate("Once", params, "2"))
        with pytest.raises(ValidationError, match="sampling_params must be SamplingParams, not int"):
            await anext(llm.generate([1], 3, "3"))
        return outputs[-1]

    output = asyncio.run(main())
    [completion] = output.outputs
    assert (completion.text, completion.cumulative_logprob, len(completion.token_ids)) == ("", None, 3)
    assert [entry.decoded_token for entry in output.prompt_logprobs[1].values()] == [None]


def test_a_pooling_task_of_another_model_is_a_value_error(llm, embedder, classifier):
    for call in (lambda: classifier.embed("a"), lambda: classifier.encode("a", pooling_task="embed"),
                 lambda: classifier.encode("a", pooling_task="token_embed"), lambda: llm.embed("a")):
        with pytest.raises(ValueError, match="Embedding API is not supported by this model"):
            call()
    for call in (lambda: classifier.encode("a", PoolingParams(task="embed")),
                 lambda: embedder.score("a", "b", pooling_params=PoolingParams(task="classify"))):
        with pytest.raises(ValueError, match="You cannot overwrite"):
            call()
    for model, task in ((embedder, "token_embed"), (classifier, "token_classify")):
        with pytest.raises(ValueError, match="Try switching the model's pooling_task via"):
            model.encode("a", pooling_task=task)
    for call in (lambda: embedder.classify("a"), lambda: embedder.encode("a", pooling_task="classify"),
                 lambda: embedder.encode("a", pooling_task="token_classify")):
        with pytest.raises(ValueError, match="Classification API is not supported by this model"):
            call()
    with pytest.raises(ValueError, match=r"LLM.encode\(\) is only supported for pooling models"):
        llm.encode("a", pooling_task="embed")
    with pytest.raises(ValueError, match=r"LLM.generate\(\) is only supported for generative models"):
        embedder.generate("a")
    with pytest.raises(ValueError, match="Unsupported task: 'paint'"):
        embedder.encode("a", pooling_task="paint")
    with pytest.raises(ValueError, match="Scoring API is only enabled for num_labels == 1"):
        classifier.score("a", "b", use_tqdm=False)
    assert classifier.encode("a", pooling_task="classify", use_tqdm=False)[0].outputs.data.size > 1


def test_a_chat_template_may_be_text_or_a_file(tmp_path):
    text = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
    file = tmp_path / "template.jinja"
    file.write_text(text)
    messages = [{"role": "user", "content": "Hi"}]
    for template in (text, file, str(file)):
        llm = LLM(chat_template=template, **SMALL)
        assert llm.chat(messages, GREEDY, use_tqdm=False)[0].prompt == "<user>Hi"
        assert llm.get_tokenizer().chat_template == text
        assert llm.get_tokenizer().apply_chat_template(messages, tokenize=False) == "<user>Hi"
    with pytest.raises(quire.QuireError, match="no-such.jinja"):
        LLM(chat_template=tmp_path / "no-such.jinja", **SMALL)


@pytest.mark.parametrize("args", [{"a": 2**64}, {"a": [1, {"b": -(2**63) - 1}]}, {2**64: "a"}])
def test_extra_args_with_integers_above_64_bits_are_an_error(args):
    with pytest.raises(ValueError, match="extra_args integers must be from"):
        SamplingParams(extra_args=args)


def test_extra_args_with_other_values_are_accepted():
    loop = [2**64 - 1, -(2**63), "a", None, 1.5]
    loop.append(loop)
    assert SamplingParams(extra_args={"a": loop}).extra_args["a"] is loop


@pytest.mark.parametrize("call, message", [
    (lambda llm: llm.generate(3), "prompts must be .*, not int"),
    (lambda llm: llm.generate(None), "prompts must be .*, not NoneType"),
    (lambda llm: llm.generate(b"ab"), "prompts must be .*, not bytes"),
    (lambda llm: llm.generate(["a", 2.5]), "prompt 1 must be a string, a list of token ids or a dictionary, not float"),
    (lambda llm: llm.generate("a", 3), "sampling_params must be SamplingParams or a sequence of them, not int"),
    (lambda llm: llm.generate(["a"], ["b"]), r"sampling_params\[0\] must be SamplingParams, not str"),
    (lambda llm: llm.generate(["a"] * 3, [GREEDY] * 2), r"lengths of prompts \(3\) and sampling_params \(2\) must be"),
    (lambda llm: llm.generate(["a"] * 2, GREEDY, priority=[]), r"lengths of prompts \(2\) and priority \(0\) must be"),
    (lambda llm: llm.generate(["a"], GREEDY, priority="high"), "priority must be int or a sequence of them, not str"),
    (lambda llm: llm.chat("Hello"), "messages must be a conversation .*, not str"),
    (lambda llm: llm.chat([["Hello"]]), r"messages\[0\] must be an object, not a string"),
    (lambda llm: LLM(3), "model must be a path or the name of a model, not int"),
    (lambda llm: SamplingParams(temperature="hot"), "temperature must be a number, but is 'hot'"),
    (lambda llm: SamplingParams(top_p=None), "top_p must be a number, but is None"),
])
def test_errors_name_the_argument(llm, call, message):
    with pytest.raises(ValidationError, match=message):
        call(llm)


@pytest.mark.parametrize("call, message", [
    (lambda llm: llm.embed(["a"] * 2, pooling_params=[PoolingParams()]), r"prompts \(2\) and pooling_params \(1\)"),
    (lambda llm: llm.embed("a", pooling_params=GREEDY), "pooling_params must be PoolingParams"),
    (lambda llm: llm.score(["a", "b"], ["a", "b", "c"]), "either 1:1, 1:N or N:N: data_1 has 2 texts and data_2 3"),
    (lambda llm: llm.score("a", []), "data_2 must be a text or at least one text"),
    (lambda llm: llm.score(3, "a"), "data_1 must be a text or at least one text"),
])
def test_errors_of_pooling_name_the_argument(embedder, call, message):
    with pytest.raises(ValidationError, match=message):
        call(embedder)


def test_errors_have_the_names_of_vllm(llm):
    from quire.v1.engine.exceptions import EngineDeadError, EngineGenerateError

    with pytest.raises(exceptions.VLLMValidationError) as caught:
        SamplingParams(top_p=2)
    assert (caught.value.parameter, caught.value.value) == ("top_p", 2)
    for kind in (exceptions.VLLMClientError, exceptions.VLLMError, ValueError):
        assert isinstance(caught.value, kind)
    assert not isinstance(caught.value, exceptions.VLLMServerError)
    for kind in (EngineDeadError, EngineGenerateError, exceptions.GenerationError, exceptions.RetryableRequestError):
        assert issubclass(kind, exceptions.VLLMServerError)
    for kind in (exceptions.QueueOverflowError, exceptions.MaxQueuedTokensError, exceptions.ProfilerAlreadyActiveError):
        assert isinstance(kind(), exceptions.GracefulHTTPError) and 400 <= kind().http_status < 600
    assert str(caught.value) == "top_p must be in (0, 1], but is 2"
    error = exceptions.VLLMValidationError("wrong", parameter="n", value=0)
    assert str(error) == "wrong (parameter=n, value=0)" and str(exceptions.VLLMValidationError("wrong")) == "wrong"
    assert "lora-7" in str(exceptions.LoRAAdapterNotFoundError("lora-7", "/lora"))
    assert issubclass(exceptions.VLLMUnprocessableEntityError, exceptions.VLLMClientError)
    assert issubclass(exceptions.ChatTemplateResolutionError, exceptions.VLLMClientError)


def test_the_progress_bar_is_made_before_the_first_submission(llm, embedder, monkeypatch):
    events = []

    class Core:
        def __init__(self, core):
            self.core = core

        def __getattr__(self, name):
            if name.startswith("submit"):
                events.append("submit")
            return getattr(self.core, name)

    def bar(**kwargs):
        from tqdm.auto import tqdm

        events.append("bar")
        return tqdm(**kwargs, disable=True)

    for model in (llm, embedder):
        monkeypatch.setattr(model._engine, "core", Core(model._engine.core))
    llm.generate(["Once", "The"], GREEDY, use_tqdm=bar)
    llm.chat([{"role": "user", "content": "Hi"}], GREEDY, use_tqdm=bar)
    embedder.embed(["Once", "The"], use_tqdm=bar)
    embedder.score("Once", ["The"], use_tqdm=bar)
    assert events == ["bar", "submit"] * 4


# ---- Arguments of engines ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [EngineArgs, AsyncEngineArgs])
def test_engine_args_take_the_arguments_of_vllm(kind):
    args = kind("model", enforce_eager=True, gpu_memory_utilization=0.5, trust_remote_code=True, tensor_parallel_size=1,
                max_num_seqs=4, enable_log_requests=True, limit_mm_per_prompt={"image": 0})
    assert (args.model, args.enforce_eager, args.gpu_memory_utilization, args.max_num_seqs) == ("model", True, 0.5, 4)
    assert (args.cpu_offload_gb, args.pipeline_parallel_size) == (0, 1)
    with pytest.raises(AttributeError):
        args.no_such_argument
    assert dataclasses.replace(args, max_num_seqs=8).max_num_seqs == 8
    for name, default in HARMLESS.items():
        assert getattr(kind(**{name: "anything"}), name) == "anything" and getattr(kind(), name) == default
    with pytest.raises(TypeError, match="unexpected argument 'modle'"):
        kind(modle="a")


@pytest.mark.parametrize("name", UNAVAILABLE)
def test_arguments_that_are_not_available_say_why(name):
    harmless, reason = UNAVAILABLE[name]
    for value in harmless:
        assert getattr(EngineArgs(**{name: value}), name) == value
    for make in (EngineArgs, AsyncEngineArgs, LLM):
        with pytest.raises(UnsupportedError, match=f"{name}='other' is not supported: ") as caught:
            make(**{name: "other"})
        assert reason in str(caught.value)


def test_arguments_may_be_changed_before_the_engine_is_made():
    args = EngineArgs(**SMALL)
    args.enforce_eager = True
    args.max_model_len = 48
    assert LLM.from_engine_args(args).get_model_info()["max_model_len"] == 48
    args.tensor_parallel_size = 2
    with pytest.raises(UnsupportedError, match="tensor_parallel_size=2"):
        LLM.from_engine_args(args)


def test_engine_args_can_be_passed_to_llm_as_a_dictionary():
    args = EngineArgs(enforce_eager=True, trust_remote_code=True, **SMALL)
    assert LLM(**dataclasses.asdict(args)).get_model_info()["max_model_len"] == 64


@pytest.mark.parametrize("flags, name, value", [
    ([], "tensor_parallel_size", 1), (["-tp", "1"], "tensor_parallel_size", 1),
    (["--enforce-eager"], "enforce_eager", True), (["--max-model-len", "32k"], "max_model_len", 32000),
    (["--max-model-len", "1.5K"], "max_model_len", 1536), (["--max-model-len", "auto"], "max_model_len", "auto"),
    (["--gpu-memory-utilization", "0.5"], "gpu_memory_utilization", 0.5),
    (["--compilation-config", '{"mode": 3}'], "compilation_config", {"mode": 3}),
    (["--override-generation-config", '{"top_p": 0.5}'], "override_generation_config", {"top_p": 0.5}),
    (["--logprobs-mode", "raw_logits"], "logprobs_mode", "raw_logits"), (["-O2"], "optimization_level", 2),
    (["-cc.mode=3", "-cc.pass_config.fuse", "true"], "compilation_config", {"mode": 3, "pass_config": {"fuse": True}}),
    (["--attention_config.backend", "FLASH_ATTN", "--seed=1"], "attention_config", {"backend": "FLASH_ATTN"}),
])
def test_command_lines_have_a_flag_for_each_argument(flags, name, value):
    parsed = EngineArgs.add_cli_args(FlexibleArgumentParser()).parse_args(flags)
    assert getattr(EngineArgs.from_cli_args(parsed), name) == value
    assert set(HARMLESS) | set(UNAVAILABLE) <= set(vars(parsed)) | {"task"}


def test_arguments_with_a_counterpart_have_its_effect():
    llm = LLM(kv_offloading_size=0.01, max_model_len="auto", kv_cache_memory_bytes=8 << 20, threads=1,
              override_generation_config={"temperature": 0.25, "max_new_tokens": 7})
    params = llm.get_default_sampling_params()
    assert (params.temperature, params.max_tokens) == (0.25, 7)
    assert llm.get_model_info()["max_model_len"] > 64
    with pytest.raises(exceptions.ValidationError, match="at most 1 can wait"):
        LLM(max_num_queued_reqs=1, max_num_seqs=1, **SMALL).generate(["Once"] * 200, SamplingParams(ignore_eos=True))


def test_the_documentation_lists_the_arguments():
    text = (ROOT / "docs" / "moving-from-vllm.md").read_text()
    for name, (_, reason) in UNAVAILABLE.items():
        assert f"| `{name}` | {reason} |" in text
    for name in HARMLESS:
        assert f"`{name}`" in text


# ---- LLMEngine ---------------------------------------------------------------------------------------------------


@pytest.fixture
def engine(llm):
    return LLMEngine(llm._engine)


def finish(engine):
    outputs = []
    while engine.has_unfinished_requests():
        outputs += engine.step()
    return outputs


def test_an_engine_is_driven_step_by_step(engine, llm):
    prompts = {"0": "Once upon a time", "1": "The cat", "2": "A dog"}
    waiting, outputs = list(prompts.items()), []
    while waiting or engine.has_unfinished_requests():
        if waiting:
            assert engine.add_request(*waiting[0], GREEDY) == waiting.pop(0)[0]
        outputs += engine.step()
    assert engine.step() == []
    last = {output.request_id: output for output in outputs if output.finished}
    assert sorted(last) == sorted(prompts)
    for request_id, prompt in prompts.items():
        expected = llm.generate(prompt, GREEDY, use_tqdm=False)[0]
        assert last[request_id].prompt == prompt and last[request_id].prompt_token_ids == expected.prompt_token_ids
        assert last[request_id].outputs[0].text == expected.outputs[0].text


@pytest.mark.parametrize("kind", RequestOutputKind)
def test_an_engine_gives_the_kind_of_output_that_was_asked_for(engine, llm, kind):
    params = SamplingParams(temperature=0, max_tokens=8, logprobs=0, output_kind=kind)
    engine.add_request("a", "Once upon a time", params)
    outputs = finish(engine)
    expected = llm.generate("Once upon a time", params, use_tqdm=False)[0].outputs[0]
    texts = [output.outputs[0].text for output in outputs]
    assert ("".join(texts) if kind is RequestOutputKind.DELTA else texts[-1]) == expected.text
    assert (len(outputs) == 1) or kind is not RequestOutputKind.FINAL_ONLY
    assert math.isclose(outputs[-1].outputs[0].cumulative_logprob, expected.cumulative_logprob, rel_tol=1e-5)


@pytest.mark.parametrize("of_engine, of_request", [(3, None), (1, 3), (2, 3), (3, 2)])
def test_the_larger_stream_interval_applies(of_engine, of_request):
    stream = Stream(SamplingParams(stream_interval=of_request, max_tokens=8), of_engine)
    delivered = []
    for count in range(1, 9):
        item = (0, [(0, "a", [7], 0.0, None, "length" if count == 8 else None, None)], None, None, 0, count == 8, None,
                (0.0, 0.0, 0.0, 0.0))
        if stream.add(item):
            delivered.append(len(stream.take_outputs()[0].token_ids))
    assert delivered == [1, 4, 7, 8]


def test_aborted_requests_of_an_engine_give_no_outputs(engine):
    endless = SamplingParams(max_tokens=None, ignore_eos=True)
    for request_id in "abc":
        engine.add_request(request_id, "Once", endless)
    with pytest.raises(ValidationError, match="request_id 'a' belongs to a request that has not finished"):
        engine.add_request("a", "Once", endless)
    assert engine.get_num_unfinished_requests() == 3
    engine.step()
    engine.abort_request(["a", "b"])
    engine.abort_request("c")
    engine.abort_request(["a", "unknown"])
    assert not engine.has_unfinished_requests() and engine.step() == []


def test_an_engine_refuses_wrong_requests(engine):
    with pytest.raises(TypeError, match="request_id must be a string, not int"):
        engine.add_request(1, "Once", GREEDY)
    with pytest.raises(ValidationError, match="params must be SamplingParams or PoolingParams, not int"):
        engine.add_request("1", "Once", 3)
    with pytest.raises(ValidationError, match="prompt 0 must be a string"):
        engine.add_request("1", 2.5, GREEDY)
    with pytest.raises(ValidationError, match="only supported for pooling models"):
        engine.add_request("1", "Once", PoolingParams())
    assert not engine.has_unfinished_requests()


def test_the_engine_of_an_llm_is_one_object(llm):
    llm.llm_engine.add_request("a", "Once", GREEDY)
    assert llm.llm_engine.has_unfinished_requests()
    assert finish(llm.llm_engine)[-1].finished


def test_an_engine_is_made_from_arguments_and_pools():
    engine = LLMEngine.from_engine_args(EngineArgs(runner="pooling", enforce_eager=True, **SMALL))
    engine.add_request("a", "The cat", PoolingParams())
    [output] = finish(engine)
    assert output.request_id == "a" and output.outputs.data.size > 1 and output.finished


def test_modules_have_the_names_of_vllm(capsys):
    from quire.config import LogprobsMode
    from quire.distributed import cleanup_dist_env_and_memory
    from quire.engine.llm_engine import LLMEngine as one
    from quire.tasks import PoolingTask
    from quire.utils.print_utils import print_embeddings
    from quire.v1.engine.llm_engine import LLMEngine as other

    assert one is other is quire.LLMEngine
    assert "raw_logits" in typing.get_args(LogprobsMode) and "embed" in typing.get_args(PoolingTask)
    cleanup_dist_env_and_memory()
    print_embeddings([1, 2, 3, 4, 5], prefix="Vector")
    print_embeddings([0.5])
    assert capsys.readouterr().out == "Vector: [1.0, 2.0, 3.0, 4.0, ...] (size=5)\nEmbeddings: [0.5] (size=1)\n"


def test_model_config_has_properties_of_the_model(llm, embedder, engine):
    info = llm.get_model_info()
    for config in (llm.model_config, engine.model_config, engine.get_model_config()):
        assert (config.max_model_len, config.get_vocab_size()) == (info["max_model_len"], info["vocab_size"])
        assert config.runner_type == "generate"
    assert embedder.model_config.embedding_size == embedder.get_model_info()["embedding_size"] > 0
    assert embedder.model_config.runner_type == "pooling"


def test_samples_of_an_engine_grow_together(engine):
    for kind in RequestOutputKind:
        params = SamplingParams(n=3, max_tokens=6, ignore_eos=True, temperature=0.5, seed=3, output_kind=kind)
        engine.add_request("a", "Once", params)
        lengths = {0: [], 1: [], 2: []}
        for output in finish(engine):
            for completion in output.outputs:
                lengths[completion.index].append(len(completion.token_ids))
        for of_one in lengths.values():
            assert (sum(of_one) if kind is RequestOutputKind.DELTA else of_one[-1]) == 6
            assert kind is RequestOutputKind.DELTA or of_one == sorted(of_one)
