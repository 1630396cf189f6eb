"""What `LLM` and `AsyncLLM` share: the loaded engine, prompts and the conversion of results."""

from __future__ import annotations

import atexit
import copy
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, cast

from quire import _core
from quire.config.model import ModelConfig
from quire.engine.arg_utils import EngineArgs
from quire.exceptions import LoRAAdapterNotFoundError, UnsupportedError, ValidationError
from quire.inputs import PromptType
from quire.logprobs import _prompt_logprobs, _sample_logprobs
from quire.lora.request import LoRARequest
from quire.outputs import CompletionOutput, RequestOutput, RequestStateStats
from quire.pooling_params import PoolingParams
from quire.sampling_params import SamplingParams
from quire.tokenizer import Tokenizer

_P = TypeVar("_P")
_engines: weakref.WeakSet[LoadedEngine] = weakref.WeakSet()


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
        self.core = _start(options)
        self.info = self.core.info()
        has_tokenizer = self.info["has_tokenizer"] and not args.skip_tokenizer_init
        self.tokenizer = Tokenizer(self.core, self.info) if has_tokenizer else None
        self._loras: dict[str, LoRARequest] = {}
        self._lora_lock = threading.Lock()
        _engines.add(self)

    @property
    def max_model_len(self) -> int:
        return cast(int, self.info["max_model_len"])

    @property
    def model_config(self) -> ModelConfig:
        info = self.info
        runner = "generate" if self.task == "generate" else "pooling"
        return ModelConfig(info["path"] or info["name"], info["weight_dtype"], info["max_model_len"],
                           info["vocab_size"], info["embedding_size"], runner)

    @property
    def task(self) -> str:
        return cast(str, self.info["task"])

    def add_lora(self, request: LoRARequest) -> None:
        """Registers an adapter unless it is registered."""
        if not isinstance(request, LoRARequest):
            raise ValidationError(f"lora_request must be LoRARequest, not {type(request).__name__}",
                                  parameter="lora_request", value=request)
        if not self.args.enable_lora and self.args.lora_dir is None:
            raise ValidationError("lora_request needs an engine with enable_lora=True", parameter="lora_request")
        with self._lora_lock:
            known = self._loras.get(request.lora_name)
            if known is not None and known.lora_path == request.lora_path and not request.load_inplace:
                return
            path = request.lora_path
            if not os.path.isdir(path) and self.args.lora_dir is not None:
                path = os.path.join(self.args.lora_dir, path)
            if not os.path.isdir(path):
                raise LoRAAdapterNotFoundError(request.lora_name, request.lora_path)
            self.core.load_lora(request.lora_name, path)
            self._loras[request.lora_name] = request

    def remove_lora(self, lora_id: int) -> bool:
        """Unloads the adapters with this number. Returns whether there was one."""
        with self._lora_lock:
            names = [name for name, request in self._loras.items() if request.lora_int_id == lora_id]
            for name in names:
                del self._loras[name]
                self.core.unload_lora(name)
            return bool(names)

    def list_loras(self) -> set[int]:
        with self._lora_lock:
            return {request.lora_int_id for request in self._loras.values()}

    def with_lora(self, prompts: list[PromptType], given: object) -> list[PromptType]:
        """Gives each prompt its adapter, after loading those that are new."""
        requests = each_lora(given, len(prompts))
        if all(one is None for one in requests):
            return prompts
        if len(requests) != len(prompts):
            raise ValidationError(f"The lengths of prompts ({len(prompts)}) and lora_request ({len(requests)}) must be "
                                  "the same", parameter="lora_request")
        for one in {id(request): request for request in requests if request is not None}.values():
            self.add_lora(one)
        return [p if one is None else keyed(p, "lora", one.lora_name) for p, one in zip(prompts, requests)]

    def require(self, task: str, method: str) -> None:
        """Raises ValidationError unless the model has the task."""
        if self.task == task:
            return
        advice = "; runner='pooling' makes embeddings with any text model" if task == "embed" else ""
        api = {"embed": "Embedding API is not supported by this model", "classify":
               "Classification API is not supported by this model"}.get(
                   task, f"{method}() is only supported for generative models")
        raise ValidationError(f"{api}: {method} needs a model for the task '{task}', but {self.info['name']} "
                              f"({self.info['architecture']}) is one for '{self.task}'{advice}",
                              parameter="model", value=self.info["name"])

    def require_pooling(self, task: str | None, method: str) -> None:
        """Raises ValidationError unless the model has the pooling task; None = any."""
        if self.task == "generate":
            raise ValidationError(f"{method}() is only supported for pooling models; runner='pooling' makes embeddings "
                                  "with any text model", parameter="model", value=self.info["name"])
        if task in (None, self.task):
            return
        kinds = {"embed": "embed", "token_embed": "embed", "classify": "classify", "token_classify": "classify"}
        kind = kinds.get(task or "")
        if kind is None:
            api = "No IOProcessor plugin installed" if task == "plugin" else f"Unsupported task: {task!r}"
        elif kind == self.task:
            api = f"There are no results per token. Try switching the model's pooling_task via pooling_task={kind!r}"
        else:
            api = f"{'Embedding' if kind == 'embed' else 'Classification'} API is not supported by this model"
        raise ValidationError(f"{api}: pooling_task is {task!r}, and the task of {self.info['name']} is '{self.task}'",
                              parameter="pooling_task", value=task)

    def check_pooling_params(self, params: PoolingParams) -> None:
        """Raises ValidationError if parameters are for another task than the model's."""
        if params.task not in (None, self.task):
            raise ValidationError(f"You cannot overwrite the task of {self.info['name']}, '{self.task}', by "
                                  f"PoolingParams(task={params.task!r})", parameter="task", value=params.task)

    def check_prompts(self, prompts: Iterable[PromptType]) -> None:
        """Raises ValidationError for texts if the engine takes token ids only."""
        if not self.args.skip_tokenizer_init:
            return
        for i, prompt in enumerate(prompts):
            if isinstance(prompt, str) or (isinstance(prompt, dict) and prompt.get("prompt_token_ids") is None):
                raise ValidationError(f"prompt {i}: you cannot pass text prompts when `skip_tokenizer_init=True`",
                                      parameter="prompts")

    def own_params(self, params: SamplingParams) -> SamplingParams:
        """The parameters of a request: without texts if the engine returns none."""
        if not self.args.skip_tokenizer_init:
            return params
        if params.stop:
            raise ValidationError("stop strings need a tokenizer, which `skip_tokenizer_init=True` leaves out",
                                  parameter="stop", value=params.stop)
        params = copy.copy(params)
        params.detokenize = False
        return params

    def get_tokenizer(self) -> Tokenizer:
        if self.args.skip_tokenizer_init:
            raise ValidationError("there is no tokenizer because of `skip_tokenizer_init=True`")
        if self.tokenizer is None:
            raise ValidationError(f"{self.info['name']}: has no tokenizer files")
        return self.tokenizer

    def default_sampling_params(self) -> SamplingParams:
        names = {"max_new_tokens": "max_tokens"}
        override = self.args.override_generation_config or {}
        return SamplingParams(**{**self.core.default_sampling(),
                                 **{names.get(name, name): value for name, value in override.items()}})

    def sampling(self, params: Sequence[SamplingParams]) -> list[_core.SamplingParams]:
        """One record for all prompts if their parameters are the same object, or one per prompt."""
        if params and all(one is params[0] for one in params):
            return [params[0]._to_core(self.max_model_len)]
        made: dict[int, _core.SamplingParams] = {}
        for one in params:
            if id(one) not in made:
                made[id(one)] = one._to_core(self.max_model_len)
        return [made[id(one)] for one in params]


def _start(options: dict[str, Any]) -> _core.Engine:
    """Loads the model. A chat template may be given as text, where the engine expects a file."""
    template = options["chat_template"]
    if not is_template(template):
        return _core.Engine(options, None)
    import tempfile

    with tempfile.NamedTemporaryFile("w", prefix="chat_template-", suffix=".jinja", encoding="utf-8") as file:
        file.write(template)
        file.flush()
        return _core.Engine({**options, "chat_template": file.name}, None)


def is_template(text: str) -> bool:
    """Whether this is the text of a template, and not the path of one."""
    return ("{" in text or "\n" in text) and not os.path.exists(text)


def per_prompt(value: _P | Sequence[_P], count: int, kind: type[_P], name: str) -> list[_P]:
    """One object for all prompts, or a sequence with one for each, as a list."""
    if isinstance(value, kind):
        return [value] * count
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ValidationError(f"{name} must be {kind.__name__} or a sequence of them, not {type(value).__name__}",
                              parameter=name, value=value)
    if len(value) != count:
        raise ValidationError(f"The lengths of prompts ({count}) and {name} ({len(value)}) must be the same",
                              parameter=name)
    for i, one in enumerate(value):
        if not isinstance(one, kind):
            raise ValidationError(f"{name}[{i}] must be {kind.__name__}, not {type(one).__name__}", parameter=name,
                                  value=one)
    return list(value)


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
    if any(one is not None for one in each_lora(lora_request, 1)):
        raise UnsupportedError("lora_request is not supported here; leave it at None")


def each_lora(given: Any, count: int) -> Sequence[Any]:
    """One adapter or None for all prompts, or a sequence with one for each."""
    return given if isinstance(given, (list, tuple)) else [given] * count


def keyed(prompt: PromptType, key: str, value: str) -> PromptType:
    """The prompt as a dictionary with another entry."""
    if isinstance(prompt, dict):
        return cast(PromptType, {**prompt, key: value})
    return cast(PromptType, {"prompt" if isinstance(prompt, str) else "prompt_token_ids": prompt, key: value})


def prompt_text(prompt: PromptType) -> str | None:
    if isinstance(prompt, str):
        return prompt
    return prompt.get("prompt") if isinstance(prompt, dict) else None


def completion_output(raw: _core._Completion, params: SamplingParams) -> CompletionOutput:
    index, text, token_ids, cumulative, logprobs, finish_reason, stop_reason = raw
    if not params.detokenize:
        text = ""
    if not params._wants_logprobs:
        return CompletionOutput(index, text, token_ids, None, None, None, finish_reason, stop_reason)
    found = _sample_logprobs(logprobs, params.flat_logprobs, params.detokenize)
    return CompletionOutput(index, text, token_ids, cumulative, found, None, finish_reason, stop_reason)


def request_stats(times: _core._Times, num_tokens: int) -> RequestStateStats:
    arrival, scheduled, first, last = times
    latency = first - arrival if first else 0.0
    return RequestStateStats(num_tokens, arrival, arrival, scheduled, first, last, latency)


def request_output(request_id: str, prompt: str | None, raw: Any, params: SamplingParams,
                   lora_request: LoRARequest | None = None) -> RequestOutput:
    prompt_ids, prompt_logprobs, outputs, num_cached, times = raw
    made = [completion_output(one, params) for one in outputs]
    found = None
    if params._wants_prompt_logprobs:
        found = _prompt_logprobs(prompt_logprobs, params.flat_logprobs, params.detokenize)
    stats = request_stats(times, sum(len(one.token_ids) for one in made))
    return RequestOutput(request_id, prompt, prompt_ids, found, made, True, stats, lora_request,
                         num_cached_tokens=num_cached)
