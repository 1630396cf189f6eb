"""Results of requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Union

from quire.exceptions import ValidationError
from quire.logprobs import PromptLogprobs, SampleLogprobs

if TYPE_CHECKING:
    from quire.lora.request import LoRARequest
    import numpy as np
    import numpy.typing as npt


@dataclass(slots=True)
class RequestStateStats:
    """Times of a request on the monotonic clock (`time.monotonic()`), in seconds; 0 = has not happened."""

    num_generation_tokens: int = 0
    arrival_time: float = 0.0
    queued_ts: float = 0.0
    scheduled_ts: float = 0.0
    first_token_ts: float = 0.0
    last_token_ts: float = 0.0
    first_token_latency: float = 0.0


@dataclass(slots=True)
class CompletionOutput:
    """One output of a request.

    Attributes:
        index: Index of the output in the request.
        text: Generated text.
        token_ids: Generated tokens, [num_tokens].
        cumulative_logprob: Sum of the log-probabilities of the generated tokens; None unless
            `SamplingParams.logprobs` is set.
        logprobs: One entry per generated token; None unless `SamplingParams.logprobs` is set.
        finish_reason: "stop", "length", "abort", or None while the output is generated.
        stop_reason: Stop string or stop token that ended the output; None for an end-of-sequence token.
    """

    index: int
    text: str
    token_ids: Sequence[int]
    cumulative_logprob: float | None
    logprobs: SampleLogprobs | None
    routed_experts: None = None
    finish_reason: str | None = None
    stop_reason: Union[int, str, None] = None
    lora_request: None = None
    sampling_mask: None = None
    spec_decode_metrics: None = None
    weight_versions: None = None

    def finished(self) -> bool:
        return self.finish_reason is not None


class RequestOutput:
    """The outputs of a generation request.

    Attributes:
        request_id: Id of the request.
        prompt: Prompt text; None if the prompt was given as token ids.
        prompt_token_ids: Tokens of the prompt, [num_prompt_tokens].
        prompt_logprobs: One entry per prompt token, the first is None; None unless
            `SamplingParams.prompt_logprobs` is set.
        outputs: The outputs, [n].
        finished: Whether all outputs are complete.
        metrics: Times of the request.
        num_cached_tokens: Prompt tokens found in the prefix cache.
        future: Ignored, so that code for later versions of vLLM runs.
    """

    __slots__ = ("request_id", "prompt", "prompt_token_ids", "prompt_logprobs", "outputs", "finished", "metrics",
                 "lora_request", "encoder_prompt", "encoder_prompt_token_ids", "num_cached_tokens",
                 "num_cache_creation_tokens", "prompt_token_id_logprobs", "kv_transfer_params", "ec_transfer_params")

    def __init__(
        self,
        request_id: str,
        prompt: str | None,
        prompt_token_ids: list[int] | None,
        prompt_logprobs: PromptLogprobs | None,
        outputs: list[CompletionOutput],
        finished: bool,
        metrics: RequestStateStats | None = None,
        lora_request: LoRARequest | None = None,
        encoder_prompt: str | None = None,
        encoder_prompt_token_ids: list[int] | None = None,
        num_cached_tokens: int | None = None,
        num_cache_creation_tokens: int | None = None,
        *,
        prompt_token_id_logprobs: Any = None,
        kv_transfer_params: dict[str, Any] | None = None,
        ec_transfer_params: dict[str, Any] | None = None,
        **future: Any,
    ) -> None:
        self.request_id = request_id
        self.prompt = prompt
        self.prompt_token_ids = prompt_token_ids
        self.prompt_logprobs = prompt_logprobs
        self.outputs = outputs
        self.finished = finished
        self.metrics = metrics
        self.lora_request = lora_request
        self.encoder_prompt = encoder_prompt
        self.encoder_prompt_token_ids = encoder_prompt_token_ids
        self.num_cached_tokens = num_cached_tokens
        self.num_cache_creation_tokens = num_cache_creation_tokens
        self.prompt_token_id_logprobs = prompt_token_id_logprobs
        self.kv_transfer_params = kv_transfer_params
        self.ec_transfer_params = ec_transfer_params

    def add(self, next_output: RequestOutput, aggregate: bool) -> None:
        """Merges a later output into this one. `aggregate`: the later one is a delta and is appended."""
        self.finished = self.finished or next_output.finished
        known = {completion.index: i for i, completion in enumerate(self.outputs)}
        for new in next_output.outputs:
            place = known.get(new.index)
            if place is None:
                self.outputs.append(new)
            elif not aggregate:
                self.outputs[place] = new
            else:
                old = self.outputs[place]
                old.text += new.text
                old.token_ids = [*old.token_ids, *new.token_ids]
                if old.logprobs is not None and new.logprobs is not None:
                    old.logprobs += new.logprobs  # type: ignore[operator]
                old.cumulative_logprob = new.cumulative_logprob
                old.finish_reason, old.stop_reason = new.finish_reason, new.stop_reason

    def __repr__(self) -> str:
        return (f"RequestOutput(request_id={self.request_id}, prompt={self.prompt!r}, "
                f"prompt_token_ids={self.prompt_token_ids}, prompt_logprobs={self.prompt_logprobs}, "
                f"outputs={self.outputs}, finished={self.finished}, metrics={self.metrics}, "
                f"num_cached_tokens={self.num_cached_tokens})")


@dataclass
class PoolingOutput:
    """Result of a pooling request.

    Attributes:
        data: An embedding, [embedding_size], or one score per label, [num_labels]; float32.
    """

    data: npt.NDArray[np.float32]

    def __eq__(self, other: object) -> bool:
        import numpy as np

        return isinstance(other, PoolingOutput) and bool(np.array_equal(self.data, other.data))


_O = TypeVar("_O")


class PoolingRequestOutput(Generic[_O]):
    """The result of a pooling request.

    Attributes:
        request_id: Id of the request.
        outputs: The result.
        prompt_token_ids: Tokens of the prompt, [num_prompt_tokens].
        num_cached_tokens: Prompt tokens found in the prefix cache.
        finished: Always True.
    """

    def __init__(self, request_id: str, outputs: _O, prompt_token_ids: list[int], num_cached_tokens: int,
                 finished: bool) -> None:
        self.request_id = request_id
        self.outputs = outputs
        self.prompt_token_ids = prompt_token_ids
        self.num_cached_tokens = num_cached_tokens
        self.finished = finished

    def __repr__(self) -> str:
        return (f"{type(self).__name__}(request_id={self.request_id!r}, outputs={self.outputs!r}, "
                f"prompt_token_ids={self.prompt_token_ids}, num_cached_tokens={self.num_cached_tokens}, "
                f"finished={self.finished})")


def _common(base: PoolingRequestOutput[Any]) -> dict[str, Any]:
    return {"request_id": base.request_id, "prompt_token_ids": base.prompt_token_ids,
            "num_cached_tokens": base.num_cached_tokens, "finished": base.finished}


@dataclass
class EmbeddingOutput:
    """An embedding, [embedding_size]."""

    embedding: list[float]

    @property
    def hidden_size(self) -> int:
        return len(self.embedding)

    def __repr__(self) -> str:
        return f"EmbeddingOutput(hidden_size={self.hidden_size})"


class EmbeddingRequestOutput(PoolingRequestOutput[EmbeddingOutput]):
    """The embedding of one prompt."""

    @staticmethod
    def from_base(base: PoolingRequestOutput[PoolingOutput]) -> EmbeddingRequestOutput:
        return EmbeddingRequestOutput(outputs=EmbeddingOutput(base.outputs.data.tolist()), **_common(base))


@dataclass
class ClassificationOutput:
    """One probability per label, [num_labels]."""

    probs: list[float]

    @property
    def num_classes(self) -> int:
        return len(self.probs)

    def __repr__(self) -> str:
        return f"ClassificationOutput(num_classes={self.num_classes})"


class ClassificationRequestOutput(PoolingRequestOutput[ClassificationOutput]):
    """The class probabilities of one prompt."""

    @staticmethod
    def from_base(base: PoolingRequestOutput[PoolingOutput]) -> ClassificationRequestOutput:
        return ClassificationRequestOutput(outputs=ClassificationOutput(base.outputs.data.tolist()), **_common(base))


@dataclass
class ScoringOutput:
    """The score of one pair."""

    score: float


class ScoringRequestOutput(PoolingRequestOutput[ScoringOutput]):
    """The score of one pair of texts."""

    @staticmethod
    def from_base(base: PoolingRequestOutput[PoolingOutput]) -> ScoringRequestOutput:
        if base.outputs.data.size != 1:
            raise ValidationError("Scoring API is only enabled for num_labels == 1: the model gives "
                                  f"{base.outputs.data.size} scores")
        return ScoringRequestOutput(outputs=ScoringOutput(float(base.outputs.data.reshape(-1)[0])), **_common(base))


@dataclass
class BeamSearchSequence:
    """One sequence of a beam search.

    Attributes:
        tokens: Tokens of prompt and output.
        logprobs: Log-probability of each generated token.
        cum_logprob: Sum of the log-probabilities of the generated tokens.
        text: Text of prompt and output.
    """

    orig_prompt: Any
    tokens: list[int]
    logprobs: SampleLogprobs
    lora_request: None = None
    cum_logprob: float = 0.0
    text: str | None = None
    finish_reason: str | None = None
    stop_reason: Union[int, str, None] = None


@dataclass
class BeamSearchOutput:
    """The sequences of a beam search, best first, [beam_width]."""

    sequences: list[BeamSearchSequence]
