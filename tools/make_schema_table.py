#!/usr/bin/env python3
"""Writes the table of JSON-Schema-Test-Suite into docs/structured-output.md: quire's columns come from the program `test_grammar`, those of
llguidance from its Python package (pip install llguidance==1.9.1), which gets the same instances byte by byte.

    tools/make_schema_table.py [--tests build/release/tests/test_grammar] [--check]

--check writes nothing and fails if the page has another table.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import subprocess

import llguidance

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "structured-output.md"
SHARED = pathlib.Path(os.environ.get("QUIRE_SHARED", ROOT.parent / "shared"))
SUITE = SHARED / "data" / "schemas" / "JSON-Schema-Test-Suite" / "tests" / "draft2020-12"
BEGIN, END = "<!-- suite table -->\n", "<!-- end of suite table -->"
VERDICTS = ["exact", "too strict", "wrongly accepted", "refused"]


def verdicts_of_quire(tests):
    """{keyword: numbers of groups by VERDICTS}"""
    run = subprocess.run([tests, "--gtest_filter=SchemaSuite.JudgesDraft2020"], capture_output=True, text=True, check=True)
    rows = re.findall(r"^suite: (\S+) (\d+) (\d+) (\d+) (\d+)$", run.stdout, re.MULTILINE)
    if not rows:
        raise SystemExit("the test printed no table; is the suite there?")
    return {keyword: list(map(int, counts)) for keyword, *counts in rows}


def verdict_of_llguidance(group, tokenizer):
    none_valid = not any(test["valid"] for test in group["tests"])
    grammar = llguidance.LLMatcher.grammar_from_json_schema(json.dumps(group["schema"]))
    matcher = llguidance.LLMatcher(tokenizer, grammar, log_level=0)
    if matcher.is_error():
        return "exact" if none_valid and "nsatisfiable" in matcher.get_error() else "refused"
    exact = True
    for test in group["tests"]:
        tokens = tokenizer.tokenize_str(json.dumps(test["data"], separators=(",", ":"), ensure_ascii=False))
        matcher = llguidance.LLMatcher(tokenizer, grammar, log_level=0)
        accepted = matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting()
        if accepted and not test["valid"]:
            return "wrongly accepted"
        exact = exact and accepted == test["valid"]
    return "exact" if exact else "too strict"


def verdicts_of_llguidance():
    tokenizer = llguidance.LLTokenizer("byte")
    result = {}
    for path in sorted(SUITE.glob("*.json")):
        counts = collections.Counter(verdict_of_llguidance(group, tokenizer) for group in json.loads(path.read_text()))
        result[path.stem] = [counts[verdict] for verdict in VERDICTS]
    return result


def table(tests):
    quire, peer = verdicts_of_quire(tests), verdicts_of_llguidance()
    headings = ["keyword", "groups", *VERDICTS, f"llguidance {llguidance.__version__}: exact", "wrongly accepted", "refused"]
    lines = ["| " + " | ".join(headings) + " |", "|---" * len(headings) + "|"]
    totals = [0] * (len(headings) - 1)
    for keyword, counts in quire.items():
        exact, _, wrong, refused = peer[keyword]
        numbers = [sum(counts), *counts, exact, wrong, refused]
        totals = [a + b for a, b in zip(totals, numbers, strict=True)]
        lines.append(f"| `{keyword}` | " + " | ".join(map(str, numbers)) + " |")
    lines.append("| **all** | " + " | ".join(map(str, totals)) + " |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tests", default=ROOT / "build" / "release" / "tests" / "test_grammar")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    before, rest = PAGE.read_text().split(BEGIN)
    old, after = rest.split(END)
    new = table(arguments.tests)
    if not arguments.check:
        PAGE.write_text(before + BEGIN + new + END + after)
    elif new != old:
        raise SystemExit(f"{PAGE}: the table of the suite is another one now; run {pathlib.Path(__file__).name}")


if __name__ == "__main__":
    main()
