"""quire: LLM inference with vLLM's Python interface."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from quire import _core
from quire.engine.arg_utils import AsyncEngineArgs, EngineArgs
from quire.engine.llm_engine import LLMEngine
from quire.exceptions import EngineDeadError, QueueOverflowError, QuireError, UnsupportedError, ValidationError
from quire.inputs import PromptType, TextPrompt, TokensPrompt
from quire.llm import LLM
from quire.logprobs import FlatLogprobs, Logprob
from quire.outputs import (
    BeamSearchOutput,
    BeamSearchSequence,
    ClassificationOutput,
    ClassificationRequestOutput,
    CompletionOutput,
    EmbeddingOutput,
    EmbeddingRequestOutput,
    PoolingOutput,
    PoolingRequestOutput,
    RequestOutput,
    ScoringOutput,
    ScoringRequestOutput,
)
from quire.pooling_params import PoolingParams
from quire.sampling_params import (
    BeamSearchParams,
    RepetitionDetectionParams,
    RequestOutputKind,
    SamplingParams,
    StructuredOutputsParams,
)
from quire.tokenizer import Tokenizer

if TYPE_CHECKING:
    from quire.async_llm import AsyncLLM, AsyncLLMEngine

__version__: str = _core.version

_core.set_log_level(os.environ.get("QUIRE_LOGGING_LEVEL", "warning").lower())


def __getattr__(name: str) -> Any:
    # asyncio, numpy and tqdm take most of the time of an import, so that they are imported when they are used.
    if name in ("AsyncLLM", "AsyncLLMEngine"):
        from quire import async_llm

        value = globals()[name] = getattr(async_llm, name)
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__all__ = [
    "AsyncEngineArgs",
    "AsyncLLM",
    "AsyncLLMEngine",
    "BeamSearchOutput",
    "BeamSearchParams",
    "BeamSearchSequence",
    "ClassificationOutput",
    "ClassificationRequestOutput",
    "CompletionOutput",
    "EmbeddingOutput",
    "EmbeddingRequestOutput",
    "EngineArgs",
    "EngineDeadError",
    "FlatLogprobs",
    "LLM",
    "LLMEngine",
    "Logprob",
    "PoolingOutput",
    "PoolingParams",
    "PoolingRequestOutput",
    "PromptType",
    "QueueOverflowError",
    "QuireError",
    "RepetitionDetectionParams",
    "RequestOutput",
    "RequestOutputKind",
    "SamplingParams",
    "ScoringOutput",
    "ScoringRequestOutput",
    "StructuredOutputsParams",
    "TextPrompt",
    "Tokenizer",
    "TokensPrompt",
    "UnsupportedError",
    "ValidationError",
    "__version__",
]
