"""vLLM's module name for `AsyncLLM`."""

from quire.async_llm import AsyncLLM

__all__ = ["AsyncLLM"]
