"""vLLM's parser of command lines."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from typing import Any


class FlexibleArgumentParser(argparse.ArgumentParser):
    """An ArgumentParser that also takes flags with underscores, and keys of JSON objects as flags: `--max_model_len` is
    `--max-model-len`, and `--hf-overrides.rope.factor 2` is `--hf-overrides '{"rope": {"factor": 2}}'`."""

    def parse_known_args(
        self, args: Iterable[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        given = sys.argv[1:] if args is None else list(args)
        return super().parse_known_args(self._with_objects([self._with_dashes(arg) for arg in given]), namespace)

    def _with_objects(self, args: list[str]) -> list[str]:
        rest: list[str] = []
        objects: dict[str, Any] = {}
        remaining = iter(args)
        for arg in remaining:
            name, equals, value = arg.partition("=")
            flag, dot, path = name.partition(".")
            if not dot or flag not in self._option_string_actions:
                rest.append(arg)
                continue
            target = objects.setdefault(flag, {})
            *outer, last = path.split(".")
            for key in outer:
                target = target.setdefault(key, {})
            target[last] = _json_value(value if equals else next(remaining, ""))
        return rest + [f"{flag}={json.dumps(value)}" for flag, value in objects.items()]

    def _with_dashes(self, arg: str) -> str:
        name, equals, value = arg.partition("=")
        if not name.startswith("--") or name in self._option_string_actions:
            return arg
        flag, dot, path = name.partition(".")
        return flag.replace("_", "-") + dot + path + equals + value


def _json_value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
