"""vLLM's module name for `AsyncLLMEngine`."""

from quire.async_llm import AsyncLLMEngine

__all__ = ["AsyncLLMEngine"]
