"""Parameters of a pooling request: embeddings, classification and reranking."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from quire.exceptions import UnsupportedError


@dataclass
class PoolingParams:
    """Parameters of a pooling request.

    Attributes:
        use_activation: Apply the model's activation: scaling to unit length for embeddings, softmax or sigmoid
            for scores. None = the model's setting.
        dimensions: Embeddings: number of leading dimensions to return; None = all.
        normalize: Embeddings: overrides `use_activation`.
        task: "embed", "classify" or None = the model's task.
    """

    use_activation: bool | None = None
    dimensions: int | None = None
    step_tag_id: int | None = None
    returned_token_ids: list[int] | None = None
    task: str | None = None
    requires_token_ids: bool = False
    skip_reading_prefix_cache: bool | None = None
    extra_kwargs: dict[str, Any] | None = None
    normalize: bool | None = None

    def clone(self) -> PoolingParams:
        """Returns a deep copy."""
        return copy.deepcopy(self)

    def _to_core(self) -> tuple[int, bool | None, bool]:
        for name in ("step_tag_id", "returned_token_ids"):
            if getattr(self, name) is not None:
                raise UnsupportedError(f"PoolingParams.{name} is not supported; leave it at None")
        normalize = self.use_activation if self.normalize is None else self.normalize
        return (self.dimensions or 0, normalize, self.use_activation is not False)
