"""Writes tests/fixtures/templates/*.json: small templates, one per behaviour, and their output in jinja2.

usage: make_template_fixtures.py OUT_DIR

Each template is rendered by transformers' own environment (ImmutableSandboxedEnvironment with trim_blocks, lstrip_blocks,
loop controls, the generation tag and its globals) with the clock at 2026-01-15 12:00:00. A file is
{"made_with": versions, "now": ..., "context": variables of all, "cases": [{"name", "template", "expected" | "error" + "error_type"}]}.
"""
import datetime, json, sys
from pathlib import Path

import jinja2, transformers
from transformers.utils import chat_template_utils as ctu

from template_fixture_cases import CONTEXT, GROUPS


class Frozen(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2026, 1, 15, 12, 0, 0, tzinfo=tz)


def render(template, kwargs):
    compiled = ctu._cached_compile_jinja_template(template)
    return compiled.render(messages=[], tools=None, documents=None, add_generation_prompt=False, **kwargs)


def main():
    ctu.datetime = Frozen
    out = Path(sys.argv[1])
    versions = {"python": sys.version.split()[0], "jinja2": jinja2.__version__, "transformers": transformers.__version__}
    for group, cases in GROUPS.items():
        rows = []
        for number, template in enumerate(cases):
            row = {"name": f"{group}_{number}", "template": template}
            try:
                row["expected"] = render(template, CONTEXT)
            except Exception as error:
                row["error"] = str(error)
                if type(error) is not jinja2.exceptions.TemplateError:
                    row["error_type"] = type(error).__name__
            rows.append(row)
        body = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
        head = json.dumps({"made_with": versions, "now": "2026-01-15T12:00:00", "context": CONTEXT}, ensure_ascii=False)[:-1]
        (out / f"{group}.json").write_text(f'{head}, "cases": [\n{body}\n]}}\n', encoding="utf8")


main()
