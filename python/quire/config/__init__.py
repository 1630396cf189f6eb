"""Types of arguments, and properties of a loaded model under vLLM's names."""

from __future__ import annotations

from quire.config.model import LogprobsMode, ModelConfig

__all__ = ["LogprobsMode", "ModelConfig"]
