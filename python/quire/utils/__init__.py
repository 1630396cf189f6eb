"""Helpers under vLLM's module names."""

from __future__ import annotations

import uuid


def random_uuid() -> str:
    """Returns a random request id."""
    return uuid.uuid4().hex


__all__ = ["random_uuid"]
