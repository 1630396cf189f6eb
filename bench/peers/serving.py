"""Measures an OpenAI-compatible server under load with `quire bench serve`, in the same way for every engine."""
from __future__ import annotations

import json

import measure
import models
from tasks import SEED, Figure, Setup, Task, expect_all


def measured(setup: Setup, task: Task, command: list[str], url: str, settings: str,
             env: dict[str, str] | None = None) -> Figure:
    """Starts the server, sends the requests (all at once for offline, at `task.rate` for serve), and stops it."""
    client = [str(setup.quire), "bench", "serve", "--base-url", url, "--dataset", task.trace, "--num-prompts", str(len(task.requests)),
              "--vocab-size", str(models.SHAPES[task.model]["vocab_size"]), "--request-rate", task.rate or "inf", "--seed",
              str(SEED), "--json", "-", "--log-level", "error"]
    with measure.server(command, url, setup.limit_s, env):
        done = measure.run(client, setup.limit_s)
    report = json.loads(done.stdout)
    if report.get("num_failed"):
        raise measure.Failed(f"{report['num_failed']} requests failed: {report.get('errors') or report.get('error') or ''}")
    expect_all(report["output_tokens"], sum(r[1] for r in task.requests))
    value = report["total_tokens_per_s"] if task.workload == "offline" else report["output_tokens_per_s"]
    extra = {"report": report}
    return Figure(value, f"{settings}; through its server, requests {task.rate or 'inf'} a second", done.wall_s, extra)
