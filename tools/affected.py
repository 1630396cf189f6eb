#!/usr/bin/env python3
"""Prints the stages of `./test --all` that `./test` leaves out and that a change can affect, one per line, followed by the layers or sources
concerned.

    tools/affected.py            the change since the commit in .ci/verified, for which ./test --all passed; includes uncommitted changes
    tools/affected.py COMMIT     the change since COMMIT
    tools/affected.py --all      everything

A layer is affected if its sources or its unit tests differ. Threads of all layers use `base`, so a change of `base` affects all layers that
start threads. clang-tidy takes 4 s for each source, so it reads the sources that differ, and for each header that differs a source that
includes it; all sources if its configuration differs.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
THREADED_LAYERS = ["base", "exec", "engine", "backends", "server"]
# What the Python package and clients of the server depend on beyond the layers.
CLIENT_FOLDERS = ("python/", "pyproject.toml", "packaging/", "src/server/", "tests/wheel/", "tests/frameworks/", "tools/build_wheel.sh")
BUILD_FILES = ("CMakeLists.txt", "CMakePresets.json", "cmake/", "tests/CMakeLists.txt", "tools/build.sh")


def tested_layers():
    """The layers that have unit tests, in the order of tools/layers.txt. `project` is none: its tests read the sources."""
    names = [line.split(":")[0] for line in (ROOT / "tools/layers.txt").read_text().splitlines() if re.match("[a-z]", line)]
    return [name for name in names if any((ROOT / "tests/unit" / name).glob("*.cc"))]


def including_source(header):
    """A source that includes the header: the one with its name, or else one of its layer if possible. None if there is none."""
    own = header.removesuffix(".h") + ".cc"
    if (ROOT / own).is_file():
        return own
    layer, line = header.split("/")[1], f'#include "{header.removeprefix("src/")}"'
    for folder in (ROOT / "src" / layer, ROOT / "src"):
        for source in sorted(folder.rglob("*.cc")):
            if line in source.read_text():
                return str(source.relative_to(ROOT))
    return None


def sources_to_read(files):
    """The sources that clang-tidy reads for the changed files."""
    existing = [file for file in files if file.startswith("src/") and (ROOT / file).is_file()]
    sources = {file for file in existing if file.endswith(".cc")}
    sources |= {including_source(file) for file in existing if file.endswith(".h")}
    return sorted(sources - {None})


def affected(files, tested):
    """{stage: layers or sources} for the changed files. A stage that has no parts has an empty list."""
    changed = {match[1] for file in files if not file.endswith(".md") and (match := re.match(r"(?:src|tests/unit)/([a-z_]+)/", file))}
    sanitized = set(changed)
    if any(file.startswith(BUILD_FILES) for file in files):
        sanitized.add("base")  # the smallest layer shows whether the builds with sanitizers still work
    stages = {"asan": [layer for layer in tested if layer in sanitized],
              "tsan": [layer for layer in THREADED_LAYERS if layer in sanitized or "base" in changed]}
    stages["tidy"] = source_layers() if ".clang-tidy" in files else sources_to_read(files)
    stages = {stage: parts for stage, parts in stages.items() if parts}
    if any(file.startswith("tests/fuzz/") for file in files):
        stages["fuzz"] = []
    if any(file.startswith("bench/gpu/") for file in files):
        stages["emulate"] = []
    if any(file.startswith(CLIENT_FOLDERS) for file in files):
        stages |= {"wheel": [], "frameworks": []}
    return stages


def source_layers():
    return sorted(path.name for path in (ROOT / "src").iterdir() if path.is_dir())


def everything(tested):
    return {"asan": tested, "tsan": tested, "tidy": source_layers(), "fuzz": [], "emulate": [], "wheel": [], "frameworks": []}


def changed_files(commit):
    """Paths that differ from the commit, or None if it is not in the repository, for example in a shallow clone."""
    command = ["git", "-C", str(ROOT), "diff", "--name-only", "--no-renames", commit, "--"]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout.splitlines() if done.returncode == 0 else None


def main():
    tested = tested_layers()
    if sys.argv[1:] == ["--all"]:
        stages = everything(tested)
    else:
        commit = sys.argv[1] if len(sys.argv) > 1 else (ROOT / ".ci/verified").read_text().split()[0]
        files = changed_files(commit)
        if files is None:
            print(f"commit {commit} is not in this clone, so everything counts as changed", file=sys.stderr)
        stages = everything(tested) if files is None else affected(files, tested)
    for stage, parts in stages.items():
        print(stage, *parts)


if __name__ == "__main__":
    main()
