#!/usr/bin/env python3
"""Writes the table of JSON-Schema-Test-Suite into docs/structured-output.md, from the program `test_grammar`.

    tools/make_schema_table.py [--tests build/release/tests/test_grammar]
"""

import argparse
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "structured-output.md"
BEGIN, END = "<!-- suite table -->\n", "<!-- end of suite table -->"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tests", default=ROOT / "build" / "release" / "tests" / "test_grammar")
    arguments = parser.parse_args()
    run = subprocess.run([arguments.tests, "--gtest_filter=SchemaSuite.JudgesDraft2020"], capture_output=True, text=True, check=True)
    rows = re.findall(r"^suite: (\S+) (\d+) (\d+) (\d+) (\d+)$", run.stdout, re.MULTILINE)
    if not rows:
        raise SystemExit("the test printed no table; is the suite there?")
    lines = ["| keyword | groups | exact | too strict | wrongly accepted | refused |", "|---|---|---|---|---|---|"]
    totals = [0] * 5
    for keyword, *counts in rows:
        numbers = [sum(map(int, counts)), *map(int, counts)]
        totals = [a + b for a, b in zip(totals, numbers)]
        lines.append(f"| `{keyword}` | " + " | ".join(map(str, numbers)) + " |")
    lines.append("| **all** | " + " | ".join(map(str, totals)) + " |")
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(before + BEGIN + "\n".join(lines) + "\n" + END + after)


if __name__ == "__main__":
    main()
