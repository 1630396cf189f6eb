"""Helpers under vLLM's module names."""

from __future__ import annotations

import uuid

from quire.utils.argparse_utils import FlexibleArgumentParser


def random_uuid() -> str:
    """Returns a random request id."""
    return uuid.uuid4().hex


__all__ = ["FlexibleArgumentParser", "random_uuid"]
