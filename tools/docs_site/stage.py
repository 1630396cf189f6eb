#!/usr/bin/env python3
"""Copies the pages of the documentation into a directory, for MkDocs.

    tools/docs_site/stage.py DIRECTORY

The directory has the layout of the repository, so that relative links lead to the same files as on GitHub: README.md and other pages of the
root, docs, the READMEs of src, and the files that these link to, directly or not. A link to a file that does not exist is left for MkDocs
to report.
"""

import pathlib
import re
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Files of the site that no page links to.
EXTRA_FILES = (ROOT / "src" / "server" / "page" / "icon.svg", ROOT / "tools" / "docs_site" / "site.css")


def first_pages():
    found = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")]
    return [*found, *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "src").rglob("README.md"))]


def linked_files(page):
    """Files of the repository that a page links to."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        name = target.partition("#")[0]
        path = (page.parent / name).resolve()
        if name and not re.match(r"[a-z]+:", target) and path.is_file() and path.is_relative_to(ROOT):
            yield path


def main():
    target = pathlib.Path(sys.argv[1])
    shutil.rmtree(target, ignore_errors=True)
    waiting, copied = [*EXTRA_FILES, *first_pages()], set()
    while waiting:
        path = waiting.pop()
        if path in copied:
            continue
        copied.add(path)
        copy = target / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
        if path.suffix == ".md":
            waiting += linked_files(path)


if __name__ == "__main__":
    main()
