"""vLLM's module name for `LLM`."""

from quire.llm import LLM

__all__ = ["LLM"]
