"""The documentation agrees with the program: commands in it work, links lead somewhere, the list of flags is complete."""

import functools
import os
import pathlib
import re
import shlex
import subprocess
import sys

import pytest

from server_process import BINARY

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "src").rglob("README.md"),
                *(ROOT / "models").rglob("README.md"), *(ROOT / ".github").rglob("*.md")])

# Commands that are not run, as (pattern, reason). Every other line that starts with "$ " in a console block runs.
NOT_RUN = [
    (r"^(\./test\b|\./run *(#.*)?$)", "builds and tests the repository"),
    (r"^tools/build\.sh ", "builds the repository"),
    (r"path/to/", "needs a model that is not part of the repository"),
    (r"^quire run Qwen/", "needs the Hugging Face hub; test_hub.py runs such commands"),
    (r"^(\./run|quire) (serve|chat)\b", "interactive; test_documented_pages.py starts the servers"),
    (r"^(curl .*:8000|quire (bench serve|top)\b)", "needs a running server; test_documented_pages.py runs these commands"),
    (r"^export PATH=", "the test sets PATH"),
    (r"^(sudo|docker|man) ", "changes the system or needs Docker; tools/check_packages.py installs a package"),
    (r"^(cpack|tools/check_packages\.py) ", "packs the program; ./test package does that"),
]


def console_commands():
    """(page, command) for each command in a console block."""
    found = []
    for page in PAGES:
        for block in re.findall(r"^```console\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
            for line in re.findall(r"^\$ (.*)$", block, re.MULTILINE):
                found.append((str(page.relative_to(ROOT)), line))
    return found


def is_run(command):
    return not any(re.search(pattern, command) for pattern, _ in NOT_RUN)


@pytest.fixture(scope="module")
def workplace(tmp_path_factory):
    """A directory in which commands see the repository's models and find the program as quire and as ./run."""
    path = tmp_path_factory.mktemp("documentation")
    (path / "bin").mkdir()
    (path / "bin" / "quire").symlink_to(pathlib.Path(BINARY).resolve())
    (path / "run").write_text(f'#!/bin/sh\nexec {shlex.quote(str(pathlib.Path(BINARY).resolve()))} "$@"\n')
    (path / "run").chmod(0o755)
    (path / "models").symlink_to(ROOT / "models")
    return path


@pytest.mark.parametrize("command", dict.fromkeys(command for _, command in console_commands() if is_run(command)))
def test_a_documented_command_succeeds(workplace, command):
    environment = {**os.environ, "PATH": f"{workplace / 'bin'}:{os.environ['PATH']}"}
    run = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=workplace, env=environment, capture_output=True, text=True,
                         timeout=300, stdin=subprocess.DEVNULL)
    assert run.returncode == 0, f"{command}\n{run.stderr}"


def test_commands_of_quire_are_in_console_blocks():
    """Other blocks are not run. A synopsis with options in brackets is not a command."""
    wrong = []
    for page in PAGES:
        text = re.sub(r"^```(?!sh\n|bash\n|shell\n)[a-z]+\n.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        code = re.findall(r"^```(?:sh|bash|shell)?\n(.*?)^```", text, re.MULTILINE | re.DOTALL) + re.findall(r"^ {4}.*\n", text, re.MULTILINE)
        wrong += [f"{page.relative_to(ROOT)}: {line.strip()}" for block in code for line in block.splitlines()
                  if re.match(r"\s*(\$ )?(\./run|quire) ", line) and "[" not in line]
    assert not wrong, "\n".join(wrong)


def test_exceptions_are_few_and_needed():
    assert len(NOT_RUN) <= 10
    commands = [command for _, command in console_commands()]
    for pattern, reason in NOT_RUN:
        assert any(re.search(pattern, command) for command in commands), f"no command matches {pattern} ({reason})"


@functools.cache
def help_of(*words):
    """The complete help of a command; None if there is no such command."""
    run = subprocess.run([BINARY, *words, "--help-all"], capture_output=True, text=True)
    return run.stdout if run.returncode == 0 else None


def test_documented_flags_exist():
    """Every --flag of a quire command in code of the pages is one that the command has."""
    wrong = []
    for page in PAGES:
        if page.name == "CHANGELOG.md":
            continue
        text = page.read_text()
        snippets = re.findall(r"`([^`\n]*quire [^`\n]*)`", text) + re.findall(r"^(?:    |\$ )(.*quire .*)$", text, re.MULTILINE)
        for snippet in snippets:
            words = re.search(r"\bquire ([a-z]+)(?: (latency|throughput|serve|steps))?", snippet)
            if not words or help_of(words[1]) is None:
                continue
            command = tuple(word for word in words.groups() if word) if words[1] == "bench" else (words[1],)
            for flag in re.findall(r"(?<=[\s\[])(--[a-z][a-z0-9-]*)", snippet[words.start():].split(" | ")[0]):
                if not re.search(re.escape(flag) + r"(?![a-z0-9-])", help_of(*command) or help_of(words[1])):
                    wrong.append(f"{page.relative_to(ROOT)}: {' '.join(command)} has no {flag}: {snippet}")
    assert not wrong, "\n".join(wrong)


def test_documented_flags_of_scripts_exist():
    """Every --flag of a script in bench or tools in code of the pages is one that the script or a module next to it defines."""
    wrong = []
    for page in [*PAGES, *(ROOT / "bench").rglob("README.md"), *(ROOT / "tools").rglob("README.md")]:
        text = page.read_text()
        snippets = re.findall(r"`((?:bench|tools)/[^`\n]*\.py[^`\n]*)`", text)
        snippets += re.findall(r"^(?:    |\$ )(?:\./)?((?:bench|tools)/\S*\.py .*)$", text, re.MULTILINE)
        for snippet in snippets:
            name, _, arguments = snippet.split("  #")[0].partition(" ")
            script = ROOT / name
            if "*" in name:
                continue
            if not script.exists():
                wrong.append(f"{page.relative_to(ROOT)}: {name} does not exist")
                continue
            modules = "".join(module.read_text() for module in script.parent.glob("*.py"))
            for flag in re.findall(r"(?<!\S)(--[a-z][a-z0-9-]*)", arguments.split(" -- ")[0]):
                if f'"{flag}"' not in modules:
                    wrong.append(f"{page.relative_to(ROOT)}: {name} has no {flag}: {snippet}")
    assert not wrong, "\n".join(wrong)


def anchors_of(page):
    """Anchors of the headings of a page, as GitHub forms them."""
    found = set()
    for heading in re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        found.add(re.sub(r"[^\w\- ]", "", text).replace(" ", "-"))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(page):
    broken = []
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        if not path.exists():
            broken.append(target)
        elif anchor and path.suffix == ".md" and anchor not in anchors_of(path):
            broken.append(target)
    assert not broken, f"{page.relative_to(ROOT)}: broken links {broken}"


def test_named_files_exist():
    """Files of the repository that are named in backticks in README.md and docs exist."""
    missing = []
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for name in re.findall(r"`((?:src|tests|tools|bench|include|models|examples|cmake)/[\w./-]+)`", page.read_text()):
            if not (ROOT / name).exists() and not (ROOT / "src" / name).exists():
                missing.append(f"{page.name}: {name}")
    assert not missing, missing


def test_named_tests_exist():
    """The table of the tests of the page and the terminal."""
    text = (ROOT / "tests" / "page" / "README.md").read_text()
    code = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    code += "\n".join(path.read_text() for path in (ROOT / "tests" / "unit" / "cli").glob("*.cc"))
    names = set(re.findall(r"`(test_\w+|[A-Z]\w+)`", text))
    assert len(names) > 30
    assert [name for name in names if f"def {name}(" not in code and f", {name})" not in code] == []
    files = set(re.findall(r"`(\w[\w/]*/[\w.]+\.(?:py|cc))`", text))
    assert files and [name for name in files if not (ROOT / name).exists()] == []


def test_documented_metrics_exist():
    """Every metric `quire:NAME` or `vllm:NAME` of the pages is registered. A counter's exported name ends in _total."""
    sources = "".join(path.read_text() for path in (ROOT / "src").rglob("*.cc"))
    registered = re.findall(r'\b(counter|gauge|histogram|info)\(\s*"(\w+)"', sources)
    names = {name + ("_total" if kind == "counter" else "") for kind, name in registered}
    names |= set(re.findall(r'"quire:(\w+)"', sources))
    unknown = []
    for page in PAGES:
        for name, wildcard in re.findall(r"`(?:quire|vllm):(\w+)(\*?)(?:\{[^}`]*\})?`", page.read_text()):
            if not any(known.startswith(name) if wildcard else known == name for known in names):
                unknown.append(f"{page.relative_to(ROOT)}: {name}{wildcard}")
    assert not unknown, unknown


def test_readme_is_an_overview():
    assert len((ROOT / "README.md").read_bytes()) < 8000


def test_list_of_flags_is_current():
    run = subprocess.run([sys.executable, ROOT / "tools" / "make_cli_reference.py", "--binary", BINARY, "--print"],
                         capture_output=True, text=True, check=True)
    assert run.stdout == (ROOT / "docs" / "cli.md").read_text(), "run tools/make_cli_reference.py"


def test_version_agrees_with_the_changelog():
    version = subprocess.run([BINARY, "version"], capture_output=True, text=True, check=True).stdout.split()[1]
    assert re.fullmatch(r"\d+\.\d+\.\d+", version)
    released = re.findall(r"^## (\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert released and released[0] == version


def test_version_agrees_with_the_build():
    """CMakeLists.txt is the only place that sets the version; the program reports it everywhere."""
    version = re.search(r"project\(\w+ VERSION (\d+\.\d+\.\d+)", (ROOT / "CMakeLists.txt").read_text())[1]
    for words in (["version"], ["--version"]):
        run = subprocess.run([BINARY, *words], capture_output=True, text=True, check=True)
        assert run.stdout.split()[1] == version, words
