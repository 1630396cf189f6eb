"""Tasks, their results, and the settings common to all engines."""
from __future__ import annotations

import dataclasses
import pathlib

import measure
import models

SEED = 11


@dataclasses.dataclass(frozen=True)
class Task:
    model: str
    format: str      # one of models.FORMATS
    workload: str    # prefill, decode, offline, load, memory, serve
    batch: int = 1
    prompt: int = 32
    output: int = 1
    rate: str = ""   # serve: requests per second, or inf
    trace: str = ""  # offline and serve: CSV file with the lengths of the requests
    requests: tuple[tuple[int, int], ...] = ()


@dataclasses.dataclass(frozen=True)
class Cell:
    """One measurement: a task, an engine, a variant, and the number of the run."""
    task: Task
    case: str      # case of the workload: "1", "512", "mix", …
    engine: str
    variant: str
    run: int

    @property
    def key(self) -> tuple[str, ...]:
        return (self.task.model, self.task.workload, self.case, self.task.format, self.engine, self.variant)


@dataclasses.dataclass
class Figure:
    value: float
    settings: str
    wall_s: float
    extra: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Setup:
    """Paths and settings common to all engines."""
    quire: pathlib.Path
    peers_dir: pathlib.Path
    store: models.Store
    threads: int
    limit_s: float     # time limit of one measurement
    max_seqs: int = 32


def expect_all(got: float, asked: float) -> None:
    if got != asked:
        raise measure.Failed(f"generated {got} tokens instead of {asked}")
