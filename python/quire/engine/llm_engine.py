"""An engine that is driven step by step, with vLLM's `LLMEngine` interface."""

from __future__ import annotations

import select
from collections.abc import Iterable
from typing import Any, Union

from quire import _core, _engine
from quire._stream import Stream
from quire.config.model import ModelConfig
from quire.engine.arg_utils import EngineArgs
from quire.exceptions import EngineDeadError, ValidationError
from quire.inputs import PromptType
from quire.lora.request import LoRARequest
from quire.outputs import PoolingOutput, PoolingRequestOutput, RequestOutput
from quire.pooling_params import PoolingParams
from quire.sampling_params import RequestOutputKind, SamplingParams
from quire.tokenizer import Tokenizer

_Output = Union[RequestOutput, PoolingRequestOutput[PoolingOutput]]


class _Request(Stream):
    def __init__(self, request_id: str, params: SamplingParams, pooling: bool, interval: int) -> None:
        super().__init__(params, interval)
        self.request_id = request_id
        self.pooling = pooling
        self.prompt: str | None = None
        self.prompt_ids: list[int] = []
        self.batch: _core.Batch | None = None

    def take(self) -> _Output:
        if not self.pooling:
            return self.request_output(self.request_id, self.prompt, self.prompt_ids)
        if self.pooled is None:
            raise EngineDeadError(f"request {self.request_id} was aborted")
        return PoolingRequestOutput(self.request_id, PoolingOutput(self.pooled), self.prompt_ids,
                                    self.num_cached_tokens, True)


class LLMEngine:
    """A loaded model whose requests are added one by one. `step` returns what is new.

    The engine computes in a thread of its own, also between the calls of `step`. An object is used by one thread at
    a time.
    """

    def __init__(self, engine: _engine.LoadedEngine) -> None:
        self._engine = engine
        self._outbox = _core.Outbox()
        self._requests: dict[int, _Request] = {}  # by the key of their outputs
        self._keys: dict[str, int] = {}
        self._next_key = 0

    @classmethod
    def from_engine_args(cls, engine_args: EngineArgs, usage_context: Any = None, stat_loggers: Any = None,
                         enable_multiprocessing: bool = False) -> LLMEngine:
        """Loads a model."""
        return cls(_engine.LoadedEngine(engine_args))

    def add_request(
        self,
        request_id: str,
        prompt: PromptType,
        params: SamplingParams | PoolingParams,
        arrival_time: float | None = None,
        lora_request: LoRARequest | None = None,
        tokenization_kwargs: dict[str, Any] | None = None,
        trace_headers: Any = None,
        priority: int = 0,
        session_id: str | None = None,
        prompt_text: str | None = None,
    ) -> str:
        """Submits a request and returns its id."""
        if not isinstance(request_id, str):
            raise TypeError(f"request_id must be a string, not {type(request_id).__name__}")
        if request_id in self._keys:
            raise ValidationError(f"request_id {request_id!r} belongs to a request that has not finished",
                                  parameter="request_id", value=request_id)
        engine = self._engine
        engine.check_prompts([prompt])
        add, keep, keep_last = _engine.tokenize_options(tokenization_kwargs)
        sampling, pooling = None, None
        if isinstance(params, PoolingParams):
            engine.require_pooling(None, "LLMEngine.add_request")
            engine.check_pooling_params(params)
            pooling = params._to_core()
            params = SamplingParams(output_kind=RequestOutputKind.FINAL_ONLY)
        elif isinstance(params, SamplingParams):
            engine.require("generate", "LLMEngine.add_request")
            params = engine.own_params(params)
            sampling = params._to_core(engine.max_model_len)
        else:
            raise ValidationError("params must be SamplingParams or PoolingParams, not "
                                  f"{type(params).__name__}", parameter="params")
        request = _Request(request_id, params, pooling is not None, engine.args.stream_interval)
        request.prompt = prompt_text if prompt_text is not None else _engine.prompt_text(prompt)
        asked = engine.with_lora([prompt], lora_request)[0]
        key = self._next_key
        self._next_key += 1
        request.batch = engine.core.submit_stream(
            self._outbox, key, asked, sampling, pooling, priority, add is not False, keep, keep_last)
        request.prompt_ids = request.batch.prompt(0)
        self._requests[key] = request
        self._keys[request_id] = key
        return request_id

    def add_lora(self, lora_request: LoRARequest) -> bool:
        """Loads an adapter before a request uses it."""
        self._engine.add_lora(lora_request)
        return True

    def remove_lora(self, lora_id: int) -> bool:
        """Unloads an adapter; requests that use it keep it. Returns False if there is none with this number."""
        return self._engine.remove_lora(lora_id)

    def list_loras(self) -> set[int]:
        """Returns the numbers of the adapters that are loaded."""
        return self._engine.list_loras()

    def pin_lora(self, lora_id: int) -> bool:
        """Returns whether requests can use the adapter. Its weights may be evicted from memory while none does."""
        return lora_id in self._engine.list_loras()

    def step(self) -> list[_Output]:
        """Waits until there are outputs, and returns one for each request that has some. Returns an empty list if no
        request is unfinished."""
        changed: dict[int, _Request] = {}
        while self._requests and not changed:
            # Signal handlers run while this waits.
            select.select([self._outbox.fd], [], [])
            for item in self._engine.core.take(self._outbox):
                request = self._requests.get(item[0])
                if request is not None and request.add(item):
                    changed[item[0]] = request
        outputs: list[_Output] = []
        for key, request in changed.items():
            if request.finished:
                self._forget(key)
            if request.failure is not None:
                raise EngineDeadError(request.failure)
            outputs.append(request.take())
        return outputs

    def _forget(self, key: int) -> None:
        del self._keys[self._requests.pop(key).request_id]

    def abort_request(self, request_ids: str | Iterable[str], internal: bool = False) -> None:
        """Ends requests. `step` returns nothing of them any more. Ids of finished requests are ignored."""
        for request_id in [request_ids] if isinstance(request_ids, str) else list(request_ids):
            key = self._keys.get(request_id)
            if key is not None:
                batch = self._requests[key].batch
                if batch is not None:
                    batch.abort()
                self._forget(key)

    def get_num_unfinished_requests(self) -> int:
        return len(self._requests)

    def has_unfinished_requests(self) -> bool:
        return bool(self._requests)

    @property
    def model_config(self) -> ModelConfig:
        """Properties of the model under vLLM's names."""
        return self._engine.model_config

    def get_model_config(self) -> ModelConfig:
        return self._engine.model_config

    @property
    def engine_core(self) -> LLMEngine:
        """vLLM's name for the part that `shutdown` ends."""
        return self

    @property
    def tokenizer(self) -> Tokenizer | None:
        return self._engine.tokenizer

    def get_tokenizer(self) -> Tokenizer:
        """Returns the model's tokenizer."""
        return self._engine.get_tokenizer()

    def get_supported_tasks(self) -> tuple[str, ...]:
        return (self._engine.task,)

    def get_metrics(self) -> str:
        """Returns the metrics in Prometheus's text format."""
        return self._engine.core.metrics()

    def do_log_stats(self) -> None:
        """Does nothing: the engine logs its statistics itself."""

    def reset_prefix_cache(self, reset_running_requests: bool = False, reset_connector: bool = False) -> bool:
        """Removes all cached prefixes. Returns False while requests use some of them."""
        return self._engine.core.reset_prefix_cache()

    def shutdown(self) -> None:
        """Ends all requests and frees the model."""
        self._engine.core.close()
