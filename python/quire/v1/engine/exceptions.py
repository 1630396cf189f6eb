"""vLLM's module name for the exceptions of an engine."""

from quire.exceptions import EngineDeadError, EngineGenerateError

__all__ = ["EngineDeadError", "EngineGenerateError"]
