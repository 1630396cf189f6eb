#!/usr/bin/env python3
"""Finds identifiers that quire's code avoids, because the field has another name for the thing (docs/glossary.md).

    tools/language/census.py                  check everything; exit code 1 if a folder has more findings than its ceiling
    tools/language/census.py src/kv tests     print all findings below these paths
    tools/language/census.py --update         lower the ceilings to today's counts (never raises one)

Only code counts: C++ without comments and literals, and Python names. Each use of an identifier is a finding. lint.py checks comments
and texts. The tables are in the same folder:
    identifiers.tsv         regular expression of a whole identifier, folders, what to write instead
    identifier_ceilings.tsv folder, number of findings that are still allowed; folders without a row have 0
"""

import argparse
import collections
import io
import re
import sys
import tokenize

import lint

SCOPE = ("src/", "include/", "tests/", "tools/", "bench/", "examples/")
CPP_ENDINGS = (".h", ".cc", ".cu", ".cuh")
CEILINGS = "identifier_ceilings.tsv"
# Comments, raw strings, strings and characters; digit separators (1'000) are not the start of a character.
CPP_TEXT = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)


def banned():
    """[(compiled expression, folders, advice), ...]"""
    return [(re.compile(row[0]), tuple(folder + "/" for folder in row[1].split()), row[2]) for row in lint.rows("identifiers.tsv")]


def identifiers(name, text):
    """Yields (line number, identifier) for each use in the code of a file."""
    if name.endswith(CPP_ENDINGS):
        code = CPP_TEXT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
        for number, line in enumerate(code.split("\n"), 1):
            for word in re.findall(r"[A-Za-z_]\w*", line):
                yield number, word
    elif name.endswith(".py"):
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.NAME:
                yield token.start[0], token.string


def findings(names, table):
    """Yields (path, line number, identifier, advice) for each use of a banned identifier."""
    for name in names:
        here = [(expression, advice) for expression, folders, advice in table if not folders or name.startswith(folders)]
        advice_of = {}
        for number, word in identifiers(name, (lint.ROOT / name).read_text(encoding="utf-8")):
            if word not in advice_of:
                advice_of[word] = next((advice for expression, advice in here if expression.fullmatch(word)), None)
            if advice_of[word] is not None:
                yield name, number, word, advice_of[word]


def selftest():
    """Returns 1 if comments or literals are searched, or code is not."""
    samples = {
        "a.cc": ("int64_t most = 1'000;  // most\nauto s = \"most \\\" most\";\nchar c = '\"'; f(most); R\"(most)\" /* most\n most */", 2),
        "a.py": ("most = 1  # most\ns = 'most'\n", 1)}
    failed = 0
    for name, (text, expected) in samples.items():
        if sum(word == "most" for _, word in identifiers(name, text)) != expected:
            print(f"census.py: {name} of the self-test: wrong number of identifiers")
            failed = 1
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", help="print the findings below these paths only")
    parser.add_argument("--update", action="store_true", help="lower the ceilings to today's counts")
    args = parser.parse_args()

    names = [name for name in lint.files() if name.startswith(SCOPE) and name.endswith((*CPP_ENDINGS, ".py"))]
    if args.paths:
        names = lint.below(names, args.paths)
    found = list(findings(names, banned()))
    if args.paths:
        for name, number, word, advice in found:
            print(f"{name}:{number}: {word}\n    write: {advice}")
        print(f"{len(found)} uses of banned identifiers")
        return 1 if found else 0

    counts = collections.Counter(lint.folder_of(name) for name, *_ in found)
    failed = selftest()
    ceilings = lint.read_ceilings(CEILINGS)
    for folder in sorted(set(counts) | set(ceilings)):
        allowed = ceilings.get(folder, 0)
        if counts[folder] > allowed:
            failed = 1
            print(f"{folder}: {counts[folder]} uses of banned identifiers, {allowed} allowed; tools/language/census.py {folder} lists them")
        elif counts[folder] < allowed:
            print(f"{folder}: {counts[folder]} uses of banned identifiers, {allowed} allowed; lower the ceiling with --update")
            ceilings[folder] = counts[folder]
    if args.update:
        lint.write_ceilings(ceilings, CEILINGS)
    print(f"{len(found)} uses of banned identifiers in {len(names)} files")
    return failed


if __name__ == "__main__":
    sys.exit(main())
