#!/usr/bin/env python3
"""Finds wording that quire's documentation, comments and identifiers avoid.

    tools/language/lint.py                  check everything; exit code 1 if a folder has more findings than its ceiling
    tools/language/lint.py src/kv README.md print all findings below these paths
    tools/language/lint.py --update         lower the ceilings to today's counts (never raises one)
    tools/language/lint.py --selftest       check that every pattern of the table matches its own example

The tables are in the same folder; census.py checks identifiers:
    patterns.tsv    regular expression, what to write instead, an example that it must match
    exceptions.tsv  path, a piece of the line, why the wording is right there
    ceilings.tsv    folder, number of findings that are still allowed; folders without a row have 0
"""

import argparse
import collections
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SCOPE = ("src", "include", "docs", "tests", "tools", "bench", "examples", "models/quire-tiny/README.md", "run", "test",
         "CMakeLists.txt", "cmake", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", ".github", ".ci")
ENDINGS = {".h", ".cc", ".cu", ".cuh", ".py", ".pyi", ".md", ".sh", ".txt", ".cmake", ".html", ".js", ".yml", ".yaml", ""}
# Data (the sentences in tools/quire_tiny are the training corpus of the embedded model), and this lint with its tables.
IGNORED = ("tests/golden/", "tests/fixtures/", "tests/fuzz/corpus/", "tools/language/", "src/text/unicode/tables.cc",
           *(f"tools/quire_tiny/{name}.py" for name in ("beats", "chat", "facts", "plots_a", "plots_b", "words", "world")))
MAX_EXCEPTIONS = 59


def rows(name):
    """The rows of a table: [[column, ...], ...], without comments and empty lines."""
    path = HERE / name
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line.split("\t") for line in lines if line and not line.startswith("#")]


def patterns():
    """[(compiled expression, advice), ...]"""
    return [(re.compile(row[0], re.MULTILINE), row[1]) for row in rows("patterns.tsv")]


def files():
    """Paths of the checked files, relative to the root: those that git tracks or would add."""
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *SCOPE], cwd=ROOT,
                            capture_output=True, text=True)
    if listed.returncode == 0:
        names = listed.stdout.splitlines()
    else:  # a source archive
        names = [str(p.relative_to(ROOT)) for top in SCOPE for p in [ROOT / top, *(ROOT / top).rglob("*")] if p.is_file()]
    wanted = []
    for name in sorted(set(names)):
        if name.startswith(IGNORED) or pathlib.PurePath(name).suffix not in ENDINGS:
            continue
        if (ROOT / name).is_file():
            wanted.append(name)
    return wanted


def below(names, paths):
    """The names that are one of the paths or lie below one."""
    wanted = tuple(path.rstrip("/") for path in paths)
    return [name for name in names if name in wanted or name.startswith(tuple(path + "/" for path in wanted))]


def folder_of(name):
    """The folder that a file is counted in: src/kv, tests/unit/kv, docs, or "." for files at the top."""
    parts = name.split("/")[:-1]
    depth = 3 if parts[:2] == ["tests", "unit"] else 2
    return "/".join(parts[:depth]) or "."


def findings(names, table, exceptions):
    """Yields (path, line number, line, advice) for each line that a pattern matches; at most one per line."""
    excepted = collections.defaultdict(list)
    for row in exceptions:
        excepted[row[0]].append(row[1])
    for name in names:
        try:
            text = (ROOT / name).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found = {}
        for expression, advice in table:
            for match in expression.finditer(text):
                number = text.count("\n", 0, match.start()) + 1
                found.setdefault(number, advice)
        lines = text.split("\n") if found else []
        for number in sorted(found):
            line = lines[number - 1]
            if not any(piece in line for piece in excepted[name]):
                yield name, number, line.strip(), found[number]


def read_ceilings(name="ceilings.tsv"):
    return {row[0]: int(row[1]) for row in rows(name)}


def write_ceilings(ceilings, name="ceilings.tsv"):
    head = "".join(line + "\n" for line in (HERE / name).read_text().splitlines() if line.startswith("#"))
    # An empty line after each row lets changes of neighbouring folders merge.
    body = "".join(f"{folder}\t{count}\n\n" for folder, count in sorted(ceilings.items()) if count > 0)
    (HERE / name).write_text(head + "\n" + body)


def selftest():
    failed = 0
    for row in rows("patterns.tsv"):
        if len(row) < 3 or not re.search(row[0], row[2]):
            print(f"patterns.tsv: no matching example for {row[0]}")
            failed = 1
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", help="print the findings below these paths only")
    parser.add_argument("--update", action="store_true", help="lower the ceilings to today's counts")
    parser.add_argument("--selftest", action="store_true", help="check the table of patterns")
    args = parser.parse_args()
    if args.selftest:
        return selftest()

    exceptions = rows("exceptions.tsv")
    names = files()
    if args.paths:
        names = below(names, args.paths)
    found = list(findings(names, patterns(), exceptions))
    if args.paths:
        for name, number, line, advice in found:
            print(f"{name}:{number}: {line}\n    write: {advice}")
        print(f"{len(found)} findings")
        return 1 if found else 0

    ceilings = read_ceilings()
    counts = collections.Counter(folder_of(name) for name, *_ in found)
    failed = selftest()
    if len(exceptions) > MAX_EXCEPTIONS:
        print(f"exceptions.tsv has {len(exceptions)} rows; at most {MAX_EXCEPTIONS} are allowed")
        failed = 1
    for folder in sorted(set(counts) | set(ceilings)):
        allowed = ceilings.get(folder, 0)
        if counts[folder] > allowed:
            failed = 1
            print(f"{folder}: {counts[folder]} findings, {allowed} allowed:")
            for name, number, line, advice in found:
                if folder_of(name) == folder:
                    print(f"  {name}:{number}: {line}\n      write: {advice}")
        elif counts[folder] < allowed:
            print(f"{folder}: {counts[folder]} findings, {allowed} allowed; lower the ceiling with tools/language/lint.py --update")
            if args.update:
                ceilings[folder] = counts[folder]
    if args.update:
        write_ceilings(ceilings)
    print(f"{len(found)} findings in {len(names)} files, {len(exceptions)} exceptions")
    return failed


if __name__ == "__main__":
    sys.exit(main())
