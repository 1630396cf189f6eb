"""Online inference under asyncio."""

from __future__ import annotations

import asyncio
import itertools
import weakref
from collections.abc import AsyncGenerator, Iterable
from typing import Any

from quire import _core, _engine
from quire._stream import Stream
from quire.config.model import ModelConfig
from quire.engine.arg_utils import AsyncEngineArgs, EngineArgs
from quire.exceptions import EngineDeadError, ValidationError
from quire.inputs import PromptType
from quire.lora.request import LoRARequest
from quire.outputs import PoolingOutput, PoolingRequestOutput, RequestOutput
from quire.pooling_params import PoolingParams
from quire.sampling_params import RequestOutputKind, SamplingParams
from quire.tokenizer import Tokenizer

# Longer prompts are tokenized on another thread, so that the event loop keeps running.
_LONG_PROMPT = 1 << 16


class _Request(Stream):
    """The state of one request between the loop's reader and the task that waits for outputs."""

    def __init__(self, params: SamplingParams, interval: int) -> None:
        super().__init__(params, interval)
        self.batch: _core.Batch | None = None
        self.changed = asyncio.Event()


class _Channel:
    """The running requests of one event loop. Reads their outputs whenever the engine has written some."""

    def __init__(self, core: _core.Engine, loop: asyncio.AbstractEventLoop) -> None:
        self._core = core
        self._loop = loop
        self._keys = itertools.count()
        self.outbox = _core.Outbox()
        self.requests: dict[int, _Request] = {}

    def open(self, request: _Request) -> int:
        if not self.requests:
            self._loop.add_reader(self.outbox.fd, self._read)
        key = next(self._keys)
        self.requests[key] = request
        return key

    def close(self, key: int) -> None:
        if self.requests.pop(key, None) is not None and not self.requests:
            self._loop.remove_reader(self.outbox.fd)

    def _read(self) -> None:
        try:
            items = self._core.take(self.outbox)
        except Exception as error:
            for request in self.requests.values():
                request.finished, request.failure = True, str(error)
                request.changed.set()
            return
        for item in items:
            request_or_none = self.requests.get(item[0])
            if request_or_none is not None and request_or_none.add(item):
                request_or_none.changed.set()


class AsyncLLM:
    """A loaded model for asyncio programs. Names and semantics are those of vLLM's `AsyncLLM`.

    Requests of all tasks run in one batch. Cancelling the task that iterates, or closing the generator, aborts the
    request in the engine.

    Args:
        model: Model directory, GGUF file, or name on the Hugging Face hub; None = the embedded model.
        kwargs: See `EngineArgs`.
    """

    def __init__(self, model: Any = None, **kwargs: Any) -> None:
        self._start(AsyncEngineArgs(model, **kwargs))

    @classmethod
    def from_engine_args(cls, engine_args: EngineArgs, start_engine_loop: bool = True, usage_context: Any = None,
                         stat_loggers: Any = None) -> AsyncLLM:
        """Loads a model with prepared arguments."""
        llm = cls.__new__(cls)
        llm._start(engine_args)
        return llm

    def _start(self, args: EngineArgs) -> None:
        self._engine = _engine.LoadedEngine(args)
        self._channels: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Channel] = weakref.WeakKeyDictionary()
        self._running: dict[str, set[_core.Batch]] = {}  # by request id

    def _channel(self) -> _Channel:
        loop = asyncio.get_running_loop()
        channel = self._channels.get(loop)
        if channel is None:
            channel = self._channels[loop] = _Channel(self._engine.core, loop)
        return channel

    async def _updates(self, request: _Request, prompt: PromptType, sampling: _core.SamplingParams | None,
                       pooling: Any, request_id: str, priority: int,
                       tokenization_kwargs: dict[str, Any] | None) -> AsyncGenerator[list[int], None]:
        """Submits a request and yields its prompt tokens each time that there is new output."""
        self._engine.check_prompts([prompt])
        add, keep, keep_last = _engine.tokenize_options(tokenization_kwargs)
        channel = self._channel()
        key = channel.open(request)
        try:
            arguments = (channel.outbox, key, prompt, sampling, pooling, priority, add is not False, keep, keep_last)
            text = _engine.prompt_text(prompt)
            if text is not None and len(text) > _LONG_PROMPT:
                # If the task is cancelled during this call, the batch is dropped, which aborts its request.
                batch = await asyncio.get_running_loop().run_in_executor(
                    None, lambda: self._engine.core.submit_stream(*arguments))
            else:
                batch = self._engine.core.submit_stream(*arguments)
            request.batch = batch
            prompt_ids = batch.prompt(0)
            self._running.setdefault(request_id, set()).add(batch)
            while not request.finished:
                await request.changed.wait()
                request.changed.clear()
                if request.failure is not None:
                    raise EngineDeadError(request.failure)
                yield prompt_ids
        finally:
            channel.close(key)
            if request.batch is not None:
                batches = self._running.get(request_id, set())
                batches.discard(request.batch)
                if not batches:
                    self._running.pop(request_id, None)
                if not request.finished:
                    request.batch.abort()

    async def generate(
        self,
        prompt: PromptType,
        sampling_params: SamplingParams,
        request_id: str,
        *,
        prompt_text: str | None = None,
        lora_request: LoRARequest | None = None,
        tokenization_kwargs: dict[str, Any] | None = None,
        trace_headers: Any = None,
        priority: int = 0,
        data_parallel_rank: int | None = None,
    ) -> AsyncGenerator[RequestOutput, None]:
        """Generates outputs for one prompt and yields them while they grow.

        `sampling_params.output_kind` chooses what each `RequestOutput` contains: everything so far, what is new, or
        only the final output.
        """
        self._engine.require("generate", "AsyncLLM.generate")
        if not isinstance(sampling_params, SamplingParams):
            raise ValidationError(f"sampling_params must be SamplingParams, not {type(sampling_params).__name__}",
                                  parameter="sampling_params", value=sampling_params)
        params = self._engine.own_params(sampling_params)
        request = _Request(params, self._engine.args.stream_interval)
        sampling = params._to_core(self._engine.max_model_len)
        text = prompt_text if prompt_text is not None else _engine.prompt_text(prompt)
        asked = await self._with_lora(prompt, lora_request)
        updates = self._updates(request, asked, sampling, None, request_id, priority, tokenization_kwargs)
        try:
            async for prompt_ids in updates:
                yield request.request_output(request_id, text, prompt_ids)
        finally:
            await updates.aclose()

    async def encode(
        self,
        prompt: PromptType,
        pooling_params: PoolingParams,
        request_id: str,
        lora_request: LoRARequest | None = None,
        trace_headers: Any = None,
        priority: int = 0,
        tokenization_kwargs: dict[str, Any] | None = None,
    ) -> AsyncGenerator[PoolingRequestOutput[PoolingOutput], None]:
        """Computes an embedding or scores of one prompt and yields one output."""
        self._engine.require_pooling(None, "AsyncLLM.encode")
        self._engine.check_pooling_params(pooling_params)
        asked = await self._with_lora(prompt, lora_request)
        request = _Request(SamplingParams(output_kind=RequestOutputKind.FINAL_ONLY), 1)
        updates = self._updates(request, asked, None, pooling_params._to_core(), request_id, priority,
                                tokenization_kwargs)
        try:
            async for prompt_ids in updates:
                if request.pooled is None:
                    raise EngineDeadError(f"request {request_id} was aborted")
                yield PoolingRequestOutput(request_id, PoolingOutput(request.pooled), prompt_ids,
                                           request.num_cached_tokens, True)
        finally:
            await updates.aclose()

    async def _with_lora(self, prompt: PromptType, lora_request: LoRARequest | None) -> PromptType:
        if lora_request is None:
            return prompt
        loop = asyncio.get_running_loop()
        return (await loop.run_in_executor(None, self._engine.with_lora, [prompt], lora_request))[0]

    async def add_lora(self, lora_request: LoRARequest) -> bool:
        """Loads an adapter before a request uses it."""
        await asyncio.get_running_loop().run_in_executor(None, self._engine.add_lora, lora_request)
        return True

    async def remove_lora(self, lora_id: int) -> bool:
        """Unloads an adapter; requests that use it keep it. Returns False if there is none with this number."""
        return self._engine.remove_lora(lora_id)

    async def list_loras(self) -> set[int]:
        """Returns the numbers of the adapters that are loaded."""
        return self._engine.list_loras()

    async def pin_lora(self, lora_id: int) -> bool:
        """Returns whether requests can use the adapter. Its weights may be evicted from memory while none does."""
        return lora_id in self._engine.list_loras()

    async def abort(self, request_id: str | Iterable[str], internal: bool = False) -> None:
        """Ends requests. Their generators yield a last output with the finish reason "abort"."""
        for one in [request_id] if isinstance(request_id, str) else request_id:
            for batch in self._running.get(one, ()):
                batch.abort()

    @property
    def model_config(self) -> ModelConfig:
        """Properties of the model under vLLM's names."""
        return self._engine.model_config

    async def get_tokenizer(self) -> Tokenizer:
        """Returns the model's tokenizer."""
        return self._engine.get_tokenizer()

    @property
    def tokenizer(self) -> Tokenizer | None:
        return self._engine.tokenizer

    def get_default_sampling_params(self) -> SamplingParams:
        """Returns the sampling parameters of the model's generation_config.json."""
        return self._engine.default_sampling_params()

    def get_num_unfinished_requests(self) -> int:
        return sum(len(ids) for ids in self._running.values())

    def get_stats(self) -> dict[str, Any]:
        """Returns the engine's counters: requests, steps, tokens and blocks."""
        return self._engine.core.stats()

    async def check_health(self) -> None:
        """Raises EngineDeadError if the engine has failed."""
        if (reason := self._engine.core.failure()) is not None:
            raise EngineDeadError(reason)

    @property
    def errored(self) -> bool:
        return self._engine.core.failure() is not None

    @property
    def is_running(self) -> bool:
        return not self.errored

    async def reset_prefix_cache(self, reset_running_requests: bool = False, reset_connector: bool = False) -> bool:
        """Removes all cached prefixes. Returns False while requests use some of them."""
        return await asyncio.get_running_loop().run_in_executor(None, self._engine.core.reset_prefix_cache)

    async def do_log_stats(self) -> None:
        """Does nothing: the engine logs its statistics itself."""

    def shutdown(self, timeout: float | None = None) -> None:
        """Ends all requests and frees the model."""
        self._engine.core.close()


AsyncLLMEngine = AsyncLLM
