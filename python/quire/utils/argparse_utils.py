"""vLLM's parser of command lines."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from typing import Any


class FlexibleArgumentParser(argparse.ArgumentParser):
    """An ArgumentParser that also takes flags with underscores: `--max_model_len` is `--max-model-len`."""

    def parse_known_args(
        self, args: Iterable[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        given = sys.argv[1:] if args is None else list(args)
        return super().parse_known_args([self._with_dashes(arg) for arg in given], namespace)

    def _with_dashes(self, arg: str) -> str:
        name, equals, value = arg.partition("=")
        if not name.startswith("--") or name in self._option_string_actions:
            return arg
        return name.replace("_", "-") + equals + value
