"""The outputs of one request, collected while they arrive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quire import _core, _engine
from quire.logprobs import _extend, _prompt_logprobs, create_sample_logprobs
from quire.outputs import CompletionOutput, RequestOutput
from quire.sampling_params import RequestOutputKind, SamplingParams

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class Stream:
    """What has arrived of a request and what of it was not yet returned to the caller."""

    def __init__(self, params: SamplingParams, interval: int) -> None:
        self.params = params
        self.interval = max(interval, params.stream_interval or 1)
        self.outputs: dict[int, CompletionOutput] = {}
        self.prompt_logprobs: Any = None
        self.pooled: npt.NDArray[np.float32] | None = None
        self.num_cached_tokens = 0
        self.num_new_tokens = 0
        self.num_tokens = 0
        self.times: _core._Times = (0.0, 0.0, 0.0, 0.0)
        self.finished = False
        self.failure: str | None = None

    def add(self, item: Any) -> bool:
        """Adds an item of `Engine.take`. Returns whether the caller should get an output."""
        _, outputs, prompt_logprobs, pooled, self.num_cached_tokens, self.finished, self.failure, self.times = item
        params = self.params
        if prompt_logprobs is not None:
            self.prompt_logprobs = _prompt_logprobs(prompt_logprobs, params.flat_logprobs, params.detokenize)
        if pooled is not None:
            self.pooled = pooled
        for index, text, token_ids, cumulative, logprobs, finish_reason, stop_reason in outputs:
            known = self.outputs.get(index)
            if known is None:
                found = create_sample_logprobs(params.flat_logprobs) if params._wants_logprobs else None
                known = self.outputs[index] = CompletionOutput(index, "", [], None, found)
            if params.detokenize:
                known.text += text
            assert isinstance(known.token_ids, list)
            known.token_ids += token_ids
            if known.logprobs is not None:
                _extend(known.logprobs, logprobs or (), params.detokenize)
                known.cumulative_logprob = cumulative
            known.finish_reason, known.stop_reason = finish_reason, stop_reason
            self.num_new_tokens += len(token_ids)
            self.num_tokens += len(token_ids)
        first = self.num_tokens == self.num_new_tokens
        final_only = params.output_kind is RequestOutputKind.FINAL_ONLY
        return self.finished or (not final_only and (first or self.num_new_tokens >= self.interval))

    def take_outputs(self) -> list[CompletionOutput]:
        self.num_new_tokens = 0
        made = [self.outputs[index] for index in sorted(self.outputs)]
        if self.params.output_kind is RequestOutputKind.DELTA:
            self.outputs = {}
            return made
        if self.finished:
            return made
        copies = []
        for one in made:
            logprobs = None if one.logprobs is None else one.logprobs[:]
            copies.append(CompletionOutput(one.index, one.text, list(one.token_ids), one.cumulative_logprob, logprobs,
                                           None, one.finish_reason, one.stop_reason))
        return copies

    def request_output(self, request_id: str, prompt: str | None, prompt_ids: list[int]) -> RequestOutput:
        outputs = self.take_outputs()
        return RequestOutput(request_id, prompt, prompt_ids, self.prompt_logprobs, outputs, self.finished,
                             _engine.request_stats(self.times, self.num_tokens),
                             num_cached_tokens=self.num_cached_tokens)
