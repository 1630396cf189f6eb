"""Offline inference."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Union, cast

from quire import _chat, _core, _engine
from quire.config.model import ModelConfig
from quire.engine.arg_utils import EngineArgs
from quire.engine.llm_engine import LLMEngine
from quire.exceptions import UnsupportedError, ValidationError
from quire.inputs import PromptType, prompt_to_seq
from quire.lora.request import LoRARequest
from quire.outputs import (
    BeamSearchOutput,
    BeamSearchSequence,
    ClassificationRequestOutput,
    EmbeddingRequestOutput,
    PoolingOutput,
    PoolingRequestOutput,
    RequestOutput,
    ScoringRequestOutput,
)
from quire.pooling_params import PoolingParams
from quire.sampling_params import BeamSearchParams, SamplingParams
from quire.tokenizer import Tokenizer

_LoRA = Union[LoRARequest, Sequence[Union[LoRARequest, None]], None]
_UseTqdm = Union[bool, Callable[..., Any]]
_Submitted = tuple[_core.Batch, list[PromptType], list[SamplingParams], _LoRA]
_Messages = Union[Sequence[dict[str, Any]], Sequence[Sequence[dict[str, Any]]]]


class _Bar:
    """A tqdm bar with token rates, advanced by the totals of a batch. Its clock starts when it is made."""

    def __init__(self, use_tqdm: _UseTqdm, total: int) -> None:
        from tqdm.auto import tqdm

        make = use_tqdm if callable(use_tqdm) else tqdm
        self._bar = make(total=total, desc="Processed prompts", dynamic_ncols=True,
                         postfix="est. speed input: 0.00 toks/s, output: 0.00 toks/s")
        self._done = 0

    def __call__(self, num_finished: int, num_prompt_tokens: int, num_output_tokens: int) -> None:
        if num_finished == self._done:
            return
        elapsed = max(self._bar.format_dict["elapsed"], 1e-9)
        self._bar.postfix = (f"est. speed input: {num_prompt_tokens / elapsed:.2f} toks/s, "
                             f"output: {num_output_tokens / elapsed:.2f} toks/s")
        self._bar.update(num_finished - self._done)
        self._done = num_finished

    def close(self, failed: bool) -> None:
        if failed:
            self._bar.leave = False  # removes the bar from the terminal
        self._bar.close()


@contextlib.contextmanager
def _progress(use_tqdm: _UseTqdm, count: int) -> Iterator[_Bar | None]:
    """A bar for `count` requests that are submitted and waited for inside, or None."""
    if not use_tqdm:
        yield None
        return
    bar = _Bar(use_tqdm, count)
    failed = True
    try:
        yield bar
        failed = False
    finally:
        bar.close(failed)


def _run(submit: Callable[[], _core.Batch], count: int, use_tqdm: _UseTqdm) -> _core.Batch:
    """Submits `count` requests and waits for them."""
    with _progress(use_tqdm, count) as bar:
        batch = submit()
        _engine.wait(batch, bar)
    return batch


class LLM:
    """A loaded model for offline inference. Names, defaults and semantics are those of vLLM's `LLM`.

    All prompts of a call, and the calls of all threads, run in one batch. The GIL is released meanwhile. Ctrl-C
    aborts the requests of the call, and the object stays usable.

    Args:
        model: Model directory, GGUF file, or name on the Hugging Face hub; None = the embedded model.
        kwargs: See `EngineArgs`.
    """

    def __init__(self, model: Any = None, **kwargs: Any) -> None:
        self._start(EngineArgs(model, **kwargs))

    @classmethod
    def from_engine_args(cls, engine_args: EngineArgs) -> LLM:
        """Loads a model with prepared arguments."""
        llm = cls.__new__(cls)
        llm._start(engine_args)
        return llm

    def _start(self, args: EngineArgs) -> None:
        self._engine = _engine.LoadedEngine(args)
        self._ids = itertools.count()
        self._queued: list[_Submitted] = []

    def __repr__(self) -> str:
        return f"LLM(model={self._engine.info['path'] or self._engine.info['name']!r})"

    def get_tokenizer(self) -> Tokenizer:
        """Returns the model's tokenizer."""
        return self._engine.get_tokenizer()

    @functools.cached_property
    def llm_engine(self) -> LLMEngine:
        """The same model as an engine that is driven step by step."""
        return LLMEngine(self._engine)

    def get_default_sampling_params(self) -> SamplingParams:
        """Returns the sampling parameters of the model's generation_config.json."""
        return self._engine.default_sampling_params()

    @property
    def model_config(self) -> ModelConfig:
        """Properties of the model under vLLM's names."""
        return self._engine.model_config

    def get_model_info(self) -> dict[str, Any]:
        """Returns the model's properties: name, architecture, types, sizes, limits and KV cache."""
        return dict(self._engine.info)

    def get_metrics(self) -> str:
        """Returns the metrics in Prometheus's text format."""
        return self._engine.core.metrics()

    def get_stats(self) -> dict[str, Any]:
        """Returns the engine's counters: requests, steps, tokens and blocks."""
        return self._engine.core.stats()

    def reset_prefix_cache(self, reset_running_requests: bool = False, reset_connector: bool = False) -> bool:
        """Removes all cached prefixes. Returns False while requests use some of them."""
        return self._engine.core.reset_prefix_cache()

    def shutdown(self) -> None:
        """Ends all requests and frees the model."""
        self._engine.core.close()

    def generate(
        self,
        prompts: PromptType | Sequence[PromptType],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        use_tqdm: _UseTqdm = True,
        lora_request: _LoRA = None,
        priority: int | Sequence[int] | None = None,
        tokenization_kwargs: dict[str, Any] | None = None,
        mm_processor_kwargs: dict[str, Any] | None = None,
    ) -> list[RequestOutput]:
        """Generates outputs for prompts.

        Args:
            prompts: One prompt or a sequence of them: strings, lists of token ids, `TextPrompt` or `TokensPrompt`.
            sampling_params: One for all prompts, or one per prompt; None = the model's defaults.
            use_tqdm: Show a progress bar; a callable creates it.
            priority: Lower values are scheduled first with scheduling_policy="priority"; no effect otherwise.
            tokenization_kwargs: `add_special_tokens`, `truncate_prompt_tokens`, `truncation_side`.

        Returns:
            One `RequestOutput` per prompt, in the same order.
        """
        seq, params, submit = self._prepare(prompts, sampling_params, priority, tokenization_kwargs, lora_request)
        return self._outputs(_run(submit, len(seq), use_tqdm), seq, params, lora_request)

    def _prepare(
        self,
        prompts: PromptType | Sequence[PromptType],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None,
        priority: int | Sequence[int] | None,
        tokenization_kwargs: dict[str, Any] | None,
        lora_request: _LoRA,
    ) -> tuple[list[PromptType], list[SamplingParams], Callable[[], _core.Batch]]:
        """Checks arguments. Returns prompts, the parameters of each, and the function that submits them."""
        engine = self._engine
        engine.require("generate", "LLM.generate")
        seq = prompt_to_seq(prompts)
        engine.check_prompts(seq)
        given = self.get_default_sampling_params() if sampling_params is None else sampling_params
        each = _engine.per_prompt(given, len(seq), SamplingParams, "sampling_params")
        own = {id(one): engine.own_params(one) for one in each}
        params = [own[id(one)] for one in each]
        add, keep, keep_last = _engine.tokenize_options(tokenization_kwargs)
        core_params = engine.sampling(params)
        priorities = self._priorities(priority, len(seq))
        asked = _salted(engine.with_lora(seq, lora_request), params)
        return seq, params, lambda: engine.core.submit(asked, core_params, priorities, add is not False,
                                                       keep, keep_last)

    def _priorities(self, priority: int | Sequence[int] | None, count: int) -> list[int]:
        if priority is None:
            return []
        return _engine.per_prompt(priority, count, int, "priority")

    def _outputs(self, batch: _core.Batch, prompts: list[PromptType], params: Sequence[SamplingParams],
                 lora_request: _LoRA) -> list[RequestOutput]:
        raw = self._engine.core.results(batch)
        loras = _engine.each_lora(lora_request, len(prompts))
        return [_engine.request_output(str(next(self._ids)), _engine.prompt_text(p), r, s, lora)
                for p, r, s, lora in zip(prompts, raw, params, loras)]

    def enqueue(
        self,
        prompts: PromptType | Sequence[PromptType],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        lora_request: _LoRA = None,
        priority: int | Sequence[int] | None = None,
        use_tqdm: _UseTqdm = True,
        tokenization_kwargs: dict[str, Any] | None = None,
    ) -> list[str]:
        """Submits prompts without waiting. `wait_for_completion` returns their outputs, in the order of the calls.

        Returns:
            A label per prompt.
        """
        seq, params, submit = self._prepare(prompts, sampling_params, priority, tokenization_kwargs, lora_request)
        first = sum(len(queued[0]) for queued in self._queued)
        self._queued.append((submit(), seq, params, lora_request))
        return [str(first + i) for i in range(len(seq))]

    def wait_for_completion(self, output_type: Any = None, *, use_tqdm: _UseTqdm = True) -> list[RequestOutput]:
        """Waits for the prompts of all `enqueue` calls and returns their outputs."""
        queued, self._queued = self._queued, []
        outputs: list[RequestOutput] = []
        for batch, prompts, params, lora_request in queued:
            with _progress(use_tqdm, len(batch)) as bar:
                _engine.wait(batch, bar)
            outputs += self._outputs(batch, prompts, params, lora_request)
        return outputs

    def chat(
        self,
        messages: _Messages,
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        use_tqdm: _UseTqdm = True,
        lora_request: _LoRA = None,
        priority: int | Sequence[int] | None = None,
        chat_template: str | None = None,
        chat_template_content_format: str = "auto",
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        tools: list[dict[str, Any]] | None = None,
        chat_template_kwargs: dict[str, Any] | None = None,
        tokenization_kwargs: dict[str, Any] | None = None,
        mm_processor_kwargs: dict[str, Any] | None = None,
    ) -> list[RequestOutput]:
        """Generates responses to conversations, using the chat template.

        Args:
            messages: One conversation (a list of dictionaries with the fields of OpenAI's messages: "role",
                "content", "tool_calls", "tool_call_id", "reasoning_content", ...) or a list of them.
            sampling_params: One for all conversations, or one per conversation; None = the model's defaults.
            chat_template: Template, or file of one, in place of the model's.
            chat_template_content_format: "string" joins the texts of parts; "openai" passes lists of parts to the
                template, also for strings; "auto" passes the form that the template reads.
            add_generation_prompt: Begin the assistant's message.
            continue_final_message: Continue the last message.
            tools: Tools, given to the template.
            chat_template_kwargs: Further variables of the template.

        Returns:
            One `RequestOutput` per conversation, in the same order.
        """
        if isinstance(messages, str) or not isinstance(messages, Sequence):
            raise ValidationError("messages must be a conversation (a list of dictionaries) or a list of them, not "
                                  f"{type(messages).__name__}", parameter="messages", value=messages)
        conversations = [messages] if messages and not isinstance(messages[0], (list, tuple)) else messages
        core = self._engine.core
        rendered = [
            _chat.render(core, conversation, chat_template=chat_template,
                         content_format=chat_template_content_format, add_generation_prompt=add_generation_prompt,
                         continue_final_message=continue_final_message, tools=tools, kwargs=chat_template_kwargs)
            for conversation in conversations
        ]
        options = dict(tokenization_kwargs or {})
        with_special = bool(options.pop("add_special_tokens", False))
        prompts: list[PromptType] = [
            {"prompt": text, "prompt_token_ids": core.encode(text, True) if with_special else core.encode_rendered(text)}
            for text in rendered
        ]
        return self.generate(prompts, sampling_params, use_tqdm=use_tqdm, lora_request=lora_request,
                             priority=priority, tokenization_kwargs=options)

    def beam_search(
        self,
        prompts: Sequence[PromptType],
        params: BeamSearchParams,
        lora_request: _LoRA = None,
        use_tqdm: bool = False,
        concurrency_limit: int | None = None,
        priority: int | Sequence[int] | None = None,
    ) -> list[BeamSearchOutput]:
        """Runs a beam search for each prompt.

        Returns:
            One `BeamSearchOutput` per prompt with up to `beam_width` sequences, best first. Their tokens and texts
            include the prompt.
        """
        self._engine.require("generate", "LLM.beam_search")
        seq = prompt_to_seq(prompts)
        self._engine.check_prompts(seq)
        asked = self._engine.with_lora(seq, lora_request)
        core_params = [params._to_core()]
        priorities = self._priorities(priority, len(seq))
        step = concurrency_limit or max(1, len(seq))
        outputs = []
        for begin in range(0, len(seq), step):
            part = seq[begin : begin + step]
            chosen = asked[begin : begin + step]
            with _progress(use_tqdm, len(part)) as bar:
                batch = self._engine.core.submit(chosen, core_params, priorities[begin : begin + step], True, -1, True)
                _engine.wait(batch, bar)
            for prompt, raw in zip(part, self._engine.core.results(batch)):
                outputs.append(BeamSearchOutput([self._sequence(prompt, raw[0], one, params) for one in raw[2]]))
        return outputs

    def _sequence(self, prompt: PromptType, prompt_ids: list[int], raw: Any,
                  params: BeamSearchParams) -> BeamSearchSequence:
        made = _engine.completion_output(raw, SamplingParams(logprobs=0))
        tokens = prompt_ids + list(made.token_ids)
        tokenizer = self._engine.tokenizer
        text = tokenizer.decode(tokens, params.skip_special_tokens) if tokenizer else made.text
        assert made.logprobs is not None
        return BeamSearchSequence(prompt, tokens, made.logprobs, None, made.cumulative_logprob or 0.0, text,
                                  made.finish_reason, made.stop_reason)

    def encode(
        self,
        prompts: PromptType | Sequence[PromptType],
        pooling_params: PoolingParams | Sequence[PoolingParams] | None = None,
        *,
        use_tqdm: _UseTqdm = True,
        lora_request: _LoRA = None,
        pooling_task: str | None = None,
        tokenization_kwargs: dict[str, Any] | None = None,
    ) -> list[PoolingRequestOutput[PoolingOutput]]:
        """Computes embeddings or scores of prompts.

        Args:
            prompts: One prompt or a sequence of them.
            pooling_params: One for all prompts, or one per prompt.
            pooling_task: "embed", "classify" or None = the model's task.

        Returns:
            One output per prompt with a float32 array, [embedding_size] or [num_labels].
        """
        self._engine.require_pooling(pooling_task, "LLM.encode")
        seq = prompt_to_seq(prompts)
        self._engine.check_prompts(seq)
        given = PoolingParams() if pooling_params is None else pooling_params
        params = _engine.per_prompt(given, len(seq), PoolingParams, "pooling_params")
        for one in params:
            self._engine.check_pooling_params(one)
        add, keep, keep_last = _engine.tokenize_options(tokenization_kwargs)
        core_params = [one._to_core() for one in params]
        asked = self._engine.with_lora(seq, lora_request)
        return self._pooled(lambda: self._engine.core.submit_pooling(asked, core_params, add is not False, keep, keep_last),
                            len(seq), use_tqdm)

    def _pooled(self, submit: Callable[[], _core.Batch], count: int,
                use_tqdm: _UseTqdm) -> list[PoolingRequestOutput[PoolingOutput]]:
        batch = _run(submit, count, use_tqdm)
        return [PoolingRequestOutput(str(next(self._ids)), PoolingOutput(values), ids, num_cached, True)
                for ids, values, num_cached in self._engine.core.pooled(batch)]

    def embed(
        self,
        prompts: PromptType | Sequence[PromptType],
        *,
        use_tqdm: _UseTqdm = True,
        pooling_params: PoolingParams | Sequence[PoolingParams] | None = None,
        lora_request: _LoRA = None,
        tokenization_kwargs: dict[str, Any] | None = None,
    ) -> list[EmbeddingRequestOutput]:
        """Computes embeddings, each a list of floats, [embedding_size]."""
        self._engine.require("embed", "LLM.embed")
        items = self.encode(prompts, pooling_params, use_tqdm=use_tqdm, lora_request=lora_request,
                            tokenization_kwargs=tokenization_kwargs)
        return [EmbeddingRequestOutput.from_base(item) for item in items]

    def classify(
        self,
        prompts: PromptType | Sequence[PromptType],
        *,
        pooling_params: PoolingParams | Sequence[PoolingParams] | None = None,
        use_tqdm: _UseTqdm = True,
        lora_request: _LoRA = None,
        tokenization_kwargs: dict[str, Any] | None = None,
    ) -> list[ClassificationRequestOutput]:
        """Computes the probability of each label, [num_labels]."""
        self._engine.require("classify", "LLM.classify")
        items = self.encode(prompts, pooling_params, use_tqdm=use_tqdm, lora_request=lora_request,
                            tokenization_kwargs=tokenization_kwargs)
        return [ClassificationRequestOutput.from_base(item) for item in items]

    def score(
        self,
        data_1: str | Sequence[str],
        data_2: str | Sequence[str],
        /,
        *,
        use_tqdm: _UseTqdm = True,
        pooling_params: PoolingParams | None = None,
        lora_request: _LoRA = None,
        tokenization_kwargs: dict[str, Any] | None = None,
        chat_template: str | None = None,
    ) -> list[ScoringRequestOutput]:
        """Scores pairs of texts: 1 to 1, 1 to N or N to N.

        A reranker reads both texts together. With an embedding model the score is the cosine similarity of the two
        embeddings.

        Returns:
            One `ScoringRequestOutput` per text of `data_2`.
        """
        left, right = _texts(data_1, "data_1"), _texts(data_2, "data_2")
        if len(left) not in (1, len(right)):
            raise ValidationError(f"Input lengths must be either 1:1, 1:N or N:N: data_1 has {len(left)} texts and "
                                  f"data_2 {len(right)}", parameter="data_1")
        _engine.refuse_lora(lora_request)
        if chat_template is not None or tokenization_kwargs:
            raise UnsupportedError("LLM.score: chat_template and tokenization_kwargs are not supported")
        params = pooling_params or PoolingParams()
        self._engine.require_pooling(None, "LLM.score")
        self._engine.check_pooling_params(params)
        if self._engine.task == "embed":
            return self._cosine(left, right, params, use_tqdm)
        core_params = [params._to_core()]
        items = self._pooled(lambda: self._engine.core.submit_pairs(left, right, core_params), len(right), use_tqdm)
        return [ScoringRequestOutput.from_base(item) for item in items]

    def _cosine(self, left: list[str], right: list[str], params: PoolingParams,
                use_tqdm: _UseTqdm) -> list[ScoringRequestOutput]:
        import numpy as np

        items = self.encode(left + right, params, use_tqdm=use_tqdm)
        queries, documents = items[: len(left)], items[len(left) :]
        scores = []
        for i, document in enumerate(documents):
            query = queries[0 if len(left) == 1 else i]
            a, b = query.outputs.data, document.outputs.data
            norm = float(np.linalg.norm(a) * np.linalg.norm(b))
            value = np.array([float(a @ b) / norm if norm > 0 else 0.0], dtype=np.float32)
            scores.append(ScoringRequestOutput.from_base(PoolingRequestOutput(
                document.request_id, PoolingOutput(value), query.prompt_token_ids + document.prompt_token_ids,
                query.num_cached_tokens + document.num_cached_tokens, True)))
        return scores


def _texts(data: object, name: str) -> list[str]:
    texts = [data] if isinstance(data, str) else list(data) if isinstance(data, Iterable) else [data]
    if not texts or not all(isinstance(text, str) for text in texts):
        raise ValidationError(f"{name} must be a text or at least one text in a list", parameter=name, value=data)
    return cast("list[str]", texts)


def _salted(prompts: list[PromptType], each: Sequence[SamplingParams]) -> list[PromptType]:
    """Gives prompts that must not read the prefix cache a salt of their own."""
    if not any(one.skip_reading_prefix_cache for one in ({id(p): p for p in each}).values()):
        return prompts
    from quire.utils import random_uuid

    return [_engine.keyed(p, "cache_salt", random_uuid()) if one.skip_reading_prefix_cache else p for p, one in zip(prompts, each)]
