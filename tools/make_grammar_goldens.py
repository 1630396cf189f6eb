#!/usr/bin/env python3
"""Writes tests/golden/grammar/regex.json: which texts random regular expressions match, by Python's `re` with re.ASCII.

Patterns are drawn from a small grammar over a few characters, so that random texts often match. `full` says for each text
whether re.fullmatch matches, `search` whether re.search does: a string of 0 and 1 each.

Needs Python 3.11 or later.  Usage: make_grammar_goldens.py [OUTPUT.json]
"""

import json
import pathlib
import random
import re
import sys

PATTERNS = 400
TEXTS = 20
ALPHABET = ["a", "b", "c", "A", "1", "_", "-", " ", "\n", "é", "あ", "😀"]
ATOMS = ["a", "b", "c", "é", "あ", ".", "[ab]", "[^a]", "[^\\n]", "[a-c1]", "\\d", "\\w", "\\s", "\\W", "\\S", "[\\w-]", "\\-", "[é-あ]",
         "\\x61", "\\u00e9", "[^\\W\\d]", "[]a]"]
QUANTIFIERS = ["*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{,2}", "{2,}", "{0}"]


def atom(rng, depth, repeated):
    kind = rng.random()
    if depth > 0 and kind < 0.3:
        body = alternatives(rng, depth - 1, repeated)
        return rng.choice(["(%s)", "(?:%s)", "(?P<g%d>%%s)" % rng.randrange(10**9), "(?s:%s)", "(?i:%s)"]) % body
    if depth > 0 and not repeated and kind < 0.36:
        return rng.choice(["(?=%s)", "(?!%s)"]) % alternatives(rng, depth - 1, False)
    if not repeated and kind < 0.42:
        return rng.choice(["^", "$", "\\A", "\\Z"])
    return rng.choice(ATOMS)


def sequence(rng, depth, repeated):
    parts = []
    for _ in range(rng.choice([0, 1, 1, 2, 2, 3, 4])):
        quantifier = rng.choice(QUANTIFIERS) if rng.random() < 0.35 else ""
        part = atom(rng, depth, repeated or quantifier not in ("", "?", "??"))
        if part in ("^", "$", "\\A", "\\Z") or part.startswith(("(?=", "(?!")):
            quantifier = ""
        parts.append(part + quantifier)
    return "".join(parts)


def alternatives(rng, depth, repeated):
    return "|".join(sequence(rng, depth, repeated) for _ in range(rng.choice([1, 1, 1, 2, 3])))


def text(rng):
    weights = [6, 6, 4, 1, 2, 1, 1, 1, 1, 2, 1, 1]
    return "".join(rng.choices(ALPHABET, weights, k=rng.choice([0, 1, 1, 2, 2, 3, 3, 4, 5, 6])))


def bits(values):
    return "".join("1" if value else "0" for value in values)


def main():
    rng = random.Random(7)
    cases = []
    seen = set()
    while len(cases) < PATTERNS:
        pattern = alternatives(rng, 2, False)
        if len(pattern) > 60 or pattern in seen:
            continue
        seen.add(pattern)
        compiled = re.compile(pattern, re.ASCII)
        texts = [text(rng) for _ in range(TEXTS)]
        full = bits(compiled.fullmatch(value) for value in texts)
        search = bits(compiled.search(value) for value in texts)
        # Patterns that occur in all texts or in none say little.
        if len(set(search)) < 2:
            continue
        cases.append({"pattern": pattern, "texts": texts, "full": full, "search": search})
    path = pathlib.Path(__file__).parent.parent / "tests/golden/grammar/regex.json"
    if len(sys.argv) > 1:
        path = pathlib.Path(sys.argv[1])
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    path.write_text("[\n" + lines + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
