"""What `LLM` and `AsyncLLM` share: the loaded engine, prompts and the conversion of results."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from quire import _core
from quire.engine.arg_utils import EngineArgs
from quire.exceptions import UnsupportedError, ValidationError
from quire.inputs import PromptType
from quire.logprobs import _prompt_logprobs, _sample_logprobs
from quire.outputs import CompletionOutput, RequestOutput, RequestStateStats
from quire.sampling_params import SamplingParams
from quire.tokenizer import Tokenizer

_engines: weakref.WeakSet[LoadedEngine] = weakref.WeakSet()


def counted(count: int, noun: str) -> str:
    """"1 prompt", "2 prompts"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _close_all() -> None:
    """At interpreter exit: ends the engine threads before the interpreter is destroyed."""
    _core.begin_exit()
    for engine in list(_engines):
        engine.core.close()


atexit.register(_close_all)


class _DownloadBar:
    """A tqdm bar of bytes, which appears if a download takes longer than half a second."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._bar: Any = None

    def __call__(self, done: int, total: int, file: str, waiting: bool) -> None:
        if self._bar is None:
            from tqdm.auto import tqdm

            disable = os.environ.get("HF_HUB_DISABLE_PROGRESS_BARS", "").upper() in ("1", "ON", "YES", "TRUE")
            self._bar = tqdm(total=total, desc=self._name, unit="B", unit_scale=True, dynamic_ncols=True, delay=0.5,
                             disable=disable)
        self._bar.total = total
        self._bar.set_postfix_str("waiting for another process" if waiting else file, refresh=False)
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


def _fetch(args: EngineArgs, options: dict[str, Any]) -> None:
    """Downloads a model given by name unless it is in the cache. A model in a directory of its own is then
    loaded by path: the engine searches the Hugging Face cache only."""
    if not options["model"]:
        return
    token = "" if args.hf_token is False else args.hf_token if isinstance(args.hf_token, str) else None
    cache = None if args.download_dir is None else os.fspath(args.download_dir)
    bar = _DownloadBar(options["model"])
    try:
        found = _core.fetch(options["model"], options["revision"], token, cache, bar)
    finally:
        bar.close()
    if found is not None:
        options["model"] = found[0] if cache is None else found[1]


class LoadedEngine:
    """A loaded model with what is asked of it often."""

    def __init__(self, args: EngineArgs) -> None:
        self.args = args
        options = args._to_core()
        _fetch(args, options)
        self.core = _core.Engine(options, None)
        self.info = self.core.info()
        self.tokenizer = Tokenizer(self.core, self.info) if self.info["has_tokenizer"] else None
        _engines.add(self)

    @property
    def max_model_len(self) -> int:
        return cast(int, self.info["max_model_len"])

    @property
    def task(self) -> str:
        return cast(str, self.info["task"])

    def require(self, task: str, method: str) -> None:
        """Raises ValidationError unless the model has the task."""
        if self.task == task:
            return
        advice = {"generate": "", "embed": "; runner='pooling' makes embeddings with any text model"}.get(task, "")
        raise ValidationError(f"{method} needs a model for the task '{task}', but {self.info['name']} "
                              f"({self.info['architecture']}) is one for '{self.task}'{advice}")

    def get_tokenizer(self) -> Tokenizer:
        if self.tokenizer is None:
            raise ValidationError(f"{self.info['name']}: has no tokenizer files")
        return self.tokenizer

    def default_sampling_params(self) -> SamplingParams:
        return SamplingParams(**self.core.default_sampling())

    def sampling(self, params: SamplingParams | Sequence[SamplingParams], count: int) -> list[_core.SamplingParams]:
        """One record for all prompts, or one per prompt. Equal objects are converted once."""
        if isinstance(params, SamplingParams):
            return [params._to_core(self.max_model_len)]
        if len(params) != count:
            raise ValidationError(f"{counted(count, 'prompt')}, but sampling parameters for {len(params)}")
        made: dict[int, _core.SamplingParams] = {}
        for one in params:
            if id(one) not in made:
                made[id(one)] = one._to_core(self.max_model_len)
        return [made[id(one)] for one in params]


def wait(batch: _core.Batch, progress: Callable[[int, int, int], None] | None) -> None:
    """Waits until a batch has finished. An exception, such as KeyboardInterrupt, aborts its requests."""
    total = len(batch)
    # Signal handlers run in the main thread, between two calls.
    seconds = 0.1 if progress or threading.current_thread() is threading.main_thread() else -1.0
    try:
        while True:
            done = batch.wait(seconds)
            if progress:
                progress(*done)
            if done[0] == total:
                return
    except BaseException:
        batch.abort()
        raise


def tokenize_options(kwargs: Mapping[str, Any] | None) -> tuple[bool | None, int, bool]:
    """(add_special_tokens or None, number of tokens to keep or -1, keep the last ones) from vLLM's
    `tokenization_kwargs`."""
    options = dict(kwargs or {})
    add = options.pop("add_special_tokens", None)
    keep = options.pop("truncate_prompt_tokens", None)
    if options.pop("truncation", False):
        keep = options.pop("max_length", keep)
    options.pop("max_length", None)
    side = options.pop("truncation_side", None) or "left"
    if options:
        raise UnsupportedError(f"tokenization_kwargs: {', '.join(options)} not supported")
    return add, -1 if keep is None else int(keep), side == "left"


def refuse_lora(lora_request: object) -> None:
    if lora_request is not None:
        raise UnsupportedError("lora_request is not supported; leave it at None")


def prompt_text(prompt: PromptType) -> str | None:
    if isinstance(prompt, str):
        return prompt
    return prompt.get("prompt") if isinstance(prompt, dict) else None


def completion_output(raw: _core._Completion, params: SamplingParams) -> CompletionOutput:
    index, text, token_ids, cumulative, logprobs, finish_reason, stop_reason = raw
    if not params.detokenize:
        text = ""
    found = None if params.logprobs is None else _sample_logprobs(logprobs, params.flat_logprobs)
    return CompletionOutput(index, text, token_ids, cumulative, found, None, finish_reason, stop_reason)


def request_stats(times: _core._Times, num_tokens: int) -> RequestStateStats:
    arrival, scheduled, first, last = times
    latency = first - arrival if first else 0.0
    return RequestStateStats(num_tokens, arrival, arrival, scheduled, first, last, latency)


def request_output(request_id: str, prompt: str | None, raw: Any, params: SamplingParams) -> RequestOutput:
    prompt_ids, prompt_logprobs, outputs, num_cached, times = raw
    made = [completion_output(one, params) for one in outputs]
    found = None
    if params.prompt_logprobs is not None:
        found = _prompt_logprobs(prompt_logprobs, params.flat_logprobs)
    stats = request_stats(times, sum(len(one.token_ids) for one in made))
    return RequestOutput(request_id, prompt, prompt_ids, found, made, True, stats, None, None, None, num_cached)
