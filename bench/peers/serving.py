"""Figures of an OpenAI-compatible server under load, taken by `quire bench serve` for every engine alike."""
from __future__ import annotations

import json
from typing import TYPE_CHECKING

import measure
import models

if TYPE_CHECKING:
    import engines


def measured(setup: engines.Setup, task: engines.Task, command: list[str], url: str, settings: str,
             env: dict[str, str] | None = None) -> engines.Figure:
    """Starts the server, sends the requests (all at once for offline, at `task.rate` for serve), and ends it."""
    import engines

    client = [str(setup.quire), "bench", "serve", "--base-url", url, "--dataset", task.trace, "--num-prompts", str(len(task.requests)),
              "--vocab-size", str(models.SHAPES[task.model]["vocab_size"]), "--request-rate", task.rate or "inf", "--seed",
              str(engines.SEED), "--json", "-", "--log-level", "error"]
    with measure.server(command, url, setup.limit_s, env):
        done = measure.run(client, setup.limit_s)
    report = json.loads(done.stdout)
    if report.get("num_failed"):
        raise measure.Failed(f"{report['num_failed']} requests failed: {report.get('errors') or report.get('error') or ''}")
    engines.expect_all(report["output_tokens"], sum(r[1] for r in task.requests))
    value = report["total_tokens_per_s"] if task.workload == "offline" else report["output_tokens_per_s"]
    extra = {"report": report}
    return engines.Figure(value, f"{settings}; through its server, requests {task.rate or 'inf'} a second", done.wall_s, extra)
