"""All raw values of a run, in one JSON file that is complete after every measurement."""
from __future__ import annotations

import json
import os
import pathlib
import time

import machine
import measure
import tasks

KEY = ("model", "workload", "case", "format", "engine", "variant")


class Results:
    """Owner of DIR/results.json."""

    def __init__(self, out: pathlib.Path, resume: bool) -> None:
        """`resume`: keep the existing results."""
        self.path = out / "results.json"
        there = json.loads(self.path.read_text(encoding="utf-8")) if resume and self.path.exists() else {}
        self.about: dict = there.get("about", {})
        self.limits: list[dict] = there.get("limits", [])
        self.limits_error: str = there.get("limits_error", "")
        self.measurements: list[dict] = there.get("measurements", [])
        self.skips: list[dict] = there.get("skipped", [])

    def save(self) -> None:
        text = json.dumps({"about": self.about, "limits": self.limits, "limits_error": self.limits_error, "skipped": self.skips,
                           "measurements": self.measurements}, indent=1)
        partial = self.path.with_suffix(".partial")
        partial.write_text(text + "\n", encoding="utf-8")
        os.replace(partial, self.path)

    def describe(self, about: dict) -> None:
        for name, value in about.items():
            old = self.about.get(name)
            self.about[name] = {**old, **value} if isinstance(old, dict) and isinstance(value, dict) and name != "unavailable" else value
        self.save()

    def forget_failures(self) -> None:
        """Removes failed measurements, so that they are repeated."""
        self.measurements = [m for m in self.measurements if "error" not in m]

    def has(self, cell: tasks.Cell) -> bool:
        return any(m["run"] == cell.run and self.key(m) == cell.key for m in self.measurements)

    def failed(self, key: tuple[str, ...]) -> bool:
        return any("error" in m and self.key(m) == key for m in self.measurements)

    @staticmethod
    def key(m: dict) -> tuple[str, ...]:
        return tuple(m[name] for name in KEY)

    def add(self, cell: tasks.Cell, **figures) -> None:
        self.measurements.append({**dict(zip(KEY, cell.key, strict=True)), "run": cell.run, "time": time.strftime("%Y-%m-%dT%H:%M:%S"),
                                  "batch": cell.task.batch, "prompt": cell.task.prompt, "output": cell.task.output, **figures})
        self.save()

    def skip(self, key: tuple[str, ...], why: str) -> None:
        entry = {**dict(zip(KEY, key, strict=True)), "why": why}
        if entry not in self.skips:
            self.skips.append(entry)

    def add_limits(self, bench_ops: pathlib.Path, threads: int) -> None:
        try:
            self.limits.append(machine.limits(bench_ops, {1, threads}))
        except (measure.Failed, ValueError, OSError) as error:
            self.limits_error = str(error)
        self.save()
