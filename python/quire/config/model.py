"""Properties of a loaded model under vLLM's names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

LogprobsMode = Literal["raw_logprobs", "raw_logits", "processed_logprobs", "processed_logits"]


@dataclass(frozen=True)
class ModelConfig:
    """Properties that programs read from vLLM's `model_config`. `LLM.get_model_info` has more.

    Attributes:
        model: Directory or file of the model, or its name.
        dtype: Type of the weights.
        max_model_len: Tokens per sequence.
        vocab_size: Number of token ids.
        embedding_size: Size of embeddings; 0 for models that generate.
        runner_type: "generate" or "pooling".
    """

    model: str
    dtype: str
    max_model_len: int
    vocab_size: int
    embedding_size: int
    runner_type: str

    def get_vocab_size(self) -> int:
        return self.vocab_size
