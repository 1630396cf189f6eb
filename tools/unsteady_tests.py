#!/usr/bin/env python3
"""Lists the tests that did not pass in each of several runs: "FILE: TEST passed 3 of 5". The exit status is 1 if there are any.

    tools/unsteady_tests.py DIRECTORY...    one directory of test reports (JUnit XML) for each run

A test that one run did not report did not pass in it. Skipped tests count as passed.
"""
import pathlib
import sys
import xml.etree.ElementTree as ElementTree


def passed_tests(directory):
    """{(report, test): whether it passed} for one run. A report that cannot be read counts as a test that failed."""
    results = {}
    for path in sorted(pathlib.Path(directory).glob("*.xml")):
        try:
            cases = list(ElementTree.parse(path).getroot().iter("testcase"))
        except ElementTree.ParseError:
            results[path.stem, "(the report is incomplete)"] = False
            continue
        for case in cases:
            name = f"{case.get('classname')}.{case.get('name')}"
            results[path.stem, name] = case.find("failure") is None and case.find("error") is None
    return results


def unsteady(runs):
    """[(report, test, number of runs in which it passed)] for tests that passed in fewer than all runs."""
    tests = sorted(set().union(*runs))
    numbers = [(*test, sum(run.get(test, False) for run in runs)) for test in tests]
    return [row for row in numbers if row[2] < len(runs)]


def main():
    runs = [passed_tests(directory) for directory in sys.argv[1:]]
    if not any(runs):
        print("no test reports", file=sys.stderr)
        return 1
    rows = unsteady(runs)
    for report, test, number in rows:
        print(f"{report}: {test} passed {number} of {len(runs)}")
    print(f"{len(set().union(*runs))} tests, {len(runs)} runs, {len(rows)} tests that did not always pass")
    return 1 if rows else 0


if __name__ == "__main__":
    sys.exit(main())
