#!/usr/bin/env python3
"""Sums the test reports of GoogleTest and pytest (JUnit XML): prints "PASSED FAILED SKIPPED".

    count_tests.py FILE...

A file that is missing or incomplete counts as one failed test: the program crashed before it wrote its report.
"""
import sys
import xml.etree.ElementTree as ElementTree


def count(path):
    try:
        suites = list(ElementTree.parse(path).getroot().iter("testsuite"))
    except (OSError, ElementTree.ParseError):
        return 0, 1, 0
    total = {name: sum(int(suite.get(name, 0)) for suite in suites)
             for name in ("tests", "failures", "errors", "skipped", "disabled")}
    failed = total["failures"] + total["errors"]
    skipped = total["skipped"] + total["disabled"]
    return total["tests"] - failed - skipped, failed, skipped


def main():
    counts = [count(path) for path in sys.argv[1:]]
    print(*(sum(column) for column in zip(*counts)) if counts else (0, 0, 0))


if __name__ == "__main__":
    main()
