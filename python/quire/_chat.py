"""Conversations for the chat template."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any

from quire import _core
from quire.exceptions import ChatTemplateResolutionError, ValidationError


def render(core: _core.Engine, messages: Any, *, chat_template: str | None = None, content_format: str = "auto",
           add_generation_prompt: bool = True, continue_final_message: bool = False, tools: Any = None,
           documents: Any = None, kwargs: Mapping[str, Any] | None = None, keep_media: bool = False) -> str:
    """Renders a conversation with the chat template. The messages have the forms of the server's."""
    if chat_template is None and not core.info()["has_chat_template"]:
        raise ChatTemplateResolutionError(f"{core.info()['name']}: has no chat template; pass chat_template",
                                          parameter="chat_template")
    # A template, or the file of one.
    if chat_template is not None and "{" not in chat_template and os.path.exists(chat_template):
        with open(chat_template, encoding="utf-8") as file:
            chat_template = file.read()
    fields = {"messages": list(messages), "tools": tools, "documents": documents, "chat_template_kwargs": kwargs,
              "chat_template": chat_template, "add_generation_prompt": add_generation_prompt,
              "continue_final_message": continue_final_message}
    return core.render_chat(json.dumps(fields, default=_plain), content_format, keep_media)


def _plain(value: Any) -> Any:
    """Values that json does not know: other mappings, messages of clients (pydantic), dataclasses, numpy's numbers."""
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "dtype") and getattr(value, "ndim", 1) == 0:
        return value.item()
    if callable(getattr(value, "model_dump", None)):
        return value.model_dump()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    raise ValidationError(f"the conversation contains a value of type {type(value).__name__}, which is not JSON")
