"""vLLM's module name for a function that scripts call between two models."""

from __future__ import annotations

import gc


def cleanup_dist_env_and_memory(shutdown_ray: bool = False) -> None:
    """Collects garbage, which frees models that are not referred to any more."""
    gc.collect()
