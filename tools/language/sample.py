#!/usr/bin/env python3
"""Prints random headers, functions, error messages and help lines, to be read next to those of other projects.

    tools/language/sample.py [--seed 1] [--count 20] [PATH...]    PATH: only files below these folders
"""

import argparse
import pathlib
import random
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
MAX_LINES = 30  # printed per function
ERROR = re.compile(r"\b(?:throw \w*(?:Error|Failure)\w*|fail\w*|invalid_argument|require|refuse|bad)\(")
KEYWORDS = ("return", "if", "for", "while", "else", "throw", "using", "switch", "static_assert", "namespace", "#", "//", "case")
# The first line of a definition outside of functions: a return type, a name and parameters.
FUNCTION = re.compile(r"^(?: {2})?[A-Za-z_][\w:<>,*& \[\]]* [*&]?[\w:]+\([^;]*$")


def files(paths):
    listed = subprocess.run(["git", "ls-files", "--", *(paths or ["src", "include"])], cwd=ROOT, capture_output=True,
                            text=True, check=True)
    return [name for name in sorted(listed.stdout.splitlines()) if name.endswith((".h", ".cc"))]


def header(lines):
    """The comment at the start of a file."""
    end = 0
    while end < len(lines) and lines[end].startswith("//"):
        end += 1
    return "\n".join(lines[:end])


def functions(lines):
    """The functions of a file with their comments: (line number, text)."""
    for i, line in enumerate(lines):
        if not FUNCTION.match(line) or line.lstrip().startswith(KEYWORDS):
            continue
        head = next((j for j in range(i, min(i + 6, len(lines))) if lines[j].endswith(("{", ";", "}"))), i)
        if not lines[head].endswith("{"):
            continue  # a declaration or a call
        begin = i
        while begin > 0 and lines[begin - 1].lstrip().startswith(("//", "template")):
            begin -= 1
        closing = line[:len(line) - len(line.lstrip())] + "}"
        end = next((j for j in range(head, len(lines)) if lines[j] == closing), None)
        if end is None or end - head < 3:
            continue
        shown = lines[begin:min(end + 1, begin + MAX_LINES)]
        yield begin + 1, "\n".join(shown + (["  ..."] if end + 1 > begin + MAX_LINES else []))


def errors(text):
    """The messages of a file: the strings of each call that reports an error, with … for the values between them."""
    for match in ERROR.finditer(text):
        end = text.find(";", match.end())
        call = re.sub(r'"\s*\n\s*"', "", text[match.end():end])
        pieces = re.findall(r'"((?:[^"\\]|\\.)*)"', call)
        message = "…".join(piece for piece in pieces if piece)
        if len(message.split()) >= 3:
            yield text.count("\n", 0, match.start()) + 1, message


def help_lines():
    """The flags in the reference of the command line, which is generated from the program's help."""
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8").splitlines()
    return [line for line in page if line.startswith("| `-")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=20, help="number of samples of each kind")
    args = parser.parse_args()
    generator = random.Random(args.seed)

    headers, bodies, messages = [], [], []
    for name in files(args.paths):
        text = (ROOT / name).read_text(encoding="utf-8")
        lines = text.splitlines()
        if name.endswith(".h") and header(lines):
            headers.append((name, header(lines)))
        bodies += [(f"{name}:{line}", body) for line, body in functions(lines)]
        messages += [(f"{name}:{line}", message) for line, message in errors(text)]
    for title, pool in (("Headers", headers), ("Functions", bodies), ("Error messages", messages),
                        ("Help lines", [("docs/cli.md", line) for line in help_lines()])):
        print(f"== {title} ==\n")
        for name, text in generator.sample(pool, min(args.count, len(pool))):
            print(f"{name}\n{text}\n")


if __name__ == "__main__":
    main()
