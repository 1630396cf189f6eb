"""Names of tasks, for annotations."""

from __future__ import annotations

from typing import Literal, Union

GenerationTask = Literal["generate"]
PoolingTask = Literal["embed", "classify"]
SupportedTask = Union[GenerationTask, PoolingTask]
