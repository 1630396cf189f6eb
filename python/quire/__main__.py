"""`python -m quire ...` runs the program `quire`."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sys
import sysconfig
from collections.abc import Iterator


def _candidates() -> Iterator[str]:
    yield os.environ.get("QUIRE_BINARY", "")
    try:
        for file in importlib.metadata.files("quire") or ():
            if file.name == "quire":
                yield str(file.locate())
    except importlib.metadata.PackageNotFoundError:
        pass
    yield os.path.join(sysconfig.get_path("scripts"), "quire")
    yield shutil.which("quire") or ""


def main() -> None:
    """Replaces this process by the program."""
    for path in _candidates():
        if os.path.isfile(path) and os.access(path, os.X_OK):
            os.execv(path, ["quire", *sys.argv[1:]])
    sys.exit("quire: the program was not found: install the package, or set QUIRE_BINARY to its path")


if __name__ == "__main__":
    main()
