"""Types of prompts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypedDict, Union, cast

from quire.exceptions import ValidationError


class _PromptOptions(TypedDict, total=False):
    cache_salt: str  # cached prefixes are shared only between requests with the same salt


class TextPrompt(_PromptOptions):
    """A prompt as text."""

    prompt: str


class _TokensPromptOptions(_PromptOptions, total=False):
    prompt: str  # returned with the output, not used


class TokensPrompt(_TokensPromptOptions):
    """A prompt as token ids."""

    prompt_token_ids: list[int]  # [num_prompt_tokens]


SingletonPrompt = Union[str, list[int], TextPrompt, TokensPrompt]
PromptType = SingletonPrompt


def prompt_to_seq(prompts: PromptType | Sequence[PromptType]) -> list[PromptType]:
    """Returns the prompts of a call as a list. A single prompt becomes a list of one."""
    if isinstance(prompts, (bytes, bytearray)) or not isinstance(prompts, Iterable):
        raise ValidationError("prompts must be a string, a list of token ids, a dictionary or a sequence of them, not "
                              f"{type(prompts).__name__}", parameter="prompts", value=prompts)
    single = isinstance(prompts, (str, dict))
    if isinstance(prompts, (list, tuple)) and prompts and isinstance(prompts[0], int):
        single = True
    return [cast(PromptType, prompts)] if single else list(cast("Sequence[PromptType]", prompts))
