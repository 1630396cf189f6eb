#!/usr/bin/env python3
"""Plants faults into the sources, one at a time, and reports which tests find each.

    tools/plant_faults.py              all faults; takes an hour or two, most of it building
    tools/plant_faults.py NAME...      some faults; shell patterns are allowed, and a layer stands for its faults
    tools/plant_faults.py --list       list the faults
    tools/plant_faults.py --check      check that the table fits the sources; builds nothing

The faults are in planted_faults.toml next to this file. They are planted into a git worktree in build/faults, which has the current
commit and the uncommitted changes, or those of the checkout that --tree names. The exit code is 1 if a fault was not found. Run it
with `nice` if others use the machine. The output of builds and tests is in build/faults_logs.
"""

import argparse
import dataclasses
import fnmatch
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[1]
TABLE = ROOT / "tools/planted_faults.toml"
TREE = ROOT / "build/faults"
LOGS = ROOT / "build/faults_logs"
# Parts of quire outside of the layers of src/ that need a fault too, and where their code is.
OTHER_PARTS = {"python": "python/", "page": "src/server/page/"}
VENV = ROOT / "build/venv"


@dataclasses.dataclass(frozen=True)
class Fault:
    name: str
    layer: str   # of tools/layers.txt, "python" or "page"
    file: str
    before: str  # occurs exactly once in the file
    after: str
    harm: str    # what the fault does to a user
    test: str    # "test_kv", "test_kv KvManager.*" or the path of a Python test


@dataclasses.dataclass(frozen=True)
class Outcome:
    status: str  # "passed", "found", "hangs", "does not compile", "cannot run"
    tests: tuple[str, ...] = ()


def load_table(path=TABLE):
    with path.open("rb") as file:
        return [Fault(**entry) for entry in tomllib.load(file)["fault"]]


# --- the table ---


def layers_with_code(root):
    lines = (root / "tools/layers.txt").read_text().splitlines()
    names = [line.split(":")[0] for line in lines if line and not line.startswith("#")]
    return [name for name in names if any((root / "src" / name).glob("**/*.cc"))]


def folder_of(layer):
    return OTHER_PARTS.get(layer, f"src/{layer}/")


def test_problem(fault, root):
    """Why the test of a fault cannot run, or None."""
    test = fault.test.split()
    if len(test) > 2:
        return f"the test '{fault.test}' is not a program with a filter"
    if test[0].startswith("test_"):
        found = any((root / "tests/unit" / test[0].removeprefix("test_")).glob("*.cc"))
    else:
        path, _, name = fault.test.partition("::")
        found = (root / path).is_file()
        if found and name and f"def {name.split('[')[0].split('::')[-1]}(" not in (root / path).read_text():
            return f"{path} has no test {name}"
    return None if found else f"there is no test {test[0]}"


def problems_of(fault, root):
    problems = []
    if not fault.file.startswith(folder_of(fault.layer)):
        problems.append(f"{fault.file} is not a file of {fault.layer}")
    if fault.before == fault.after:
        problems.append("changes nothing")
    if not (root / fault.file).is_file():
        return problems + [f"there is no {fault.file}"]
    times = (root / fault.file).read_text().count(fault.before)
    if times != 1:
        problems.append(f"{fault.file} has the text {times} times: {fault.before.strip().splitlines()[0]}")
    problem = test_problem(fault, root)
    return problems + ([problem] if problem else [])


def check_table(faults, root):
    problems = [f"{fault.name}: {problem}" for fault in faults for problem in problems_of(fault, root)]
    names = [fault.name for fault in faults]
    problems += [f"{name}: the name is used twice" for name in sorted(set(names)) if names.count(name) > 1]
    covered = {fault.layer for fault in faults}
    problems += [f"{layer} has no fault" for layer in [*layers_with_code(root), *OTHER_PARTS] if layer not in covered]
    return problems


def select(faults, patterns):
    if not patterns:
        return faults
    for pattern in patterns:
        if not any(matches(fault, pattern) for fault in faults):
            sys.exit(f"no fault is called '{pattern}'; --list shows all")
    return [fault for fault in faults if any(matches(fault, pattern) for pattern in patterns)]


def matches(fault, pattern):
    return fnmatch.fnmatchcase(fault.name, pattern) or fault.layer == pattern


# --- the worktree ---


def git(folder, *arguments, text=None):
    # Without the variables that a hook of git sets, which name another repository.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    result = subprocess.run(["git", "-C", str(folder), *arguments], input=text, stdout=subprocess.PIPE, check=True,
                            env=environment)
    return result.stdout


def create_tree(source, tree):
    """Gives the worktree the commit and the uncommitted changes of a checkout. Files that are the same keep their times, so
    that little is built again."""
    if not (tree / ".git").exists():
        git(ROOT, "worktree", "prune")
        git(ROOT, "worktree", "add", "--quiet", "--detach", "--force", str(tree), "HEAD")
    git(tree, "reset", "--quiet", "--hard")
    git(tree, "clean", "--quiet", "-fd")
    git(tree, "fetch", "--quiet", str(source), "HEAD")
    git(tree, "checkout", "--quiet", "--detach", "FETCH_HEAD")
    changes = git(source, "diff", "--binary", "HEAD")
    if changes:
        git(tree, "apply", "--whitespace=nowarn", text=changes)
    for name in git(source, "ls-files", "-z", "--others", "--exclude-standard").decode().split("\0"):
        if name:
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, tree / name)


class Planted:
    """The fault is in the worktree while this context is open."""

    def __init__(self, fault, tree):
        self.fault = fault
        self.path = tree / fault.file

    def __enter__(self):
        self.text = self.path.read_text()
        self.path.write_text(self.text.replace(self.fault.before, self.fault.after))

    def __exit__(self, *_):
        self.path.write_text(self.text)


# --- building and running ---


def is_program(test):
    return test.startswith("test_")


def is_python_package(test):
    return test.startswith("tests/python/")


def target_of(test):
    if is_program(test):
        return test.split()[0]
    return "quire_python" if is_python_package(test) else "quire"


def targets_of(test):
    # The tests of the Python package also run the program.
    return [target_of(test), "quire"] if is_python_package(test) else [target_of(test)]


def prepare_python(tests, tree):
    """Creates the virtual environment for the tests in Python, which is that of ./test."""
    for folder in ("tests/e2e", "tests/python"):
        wanted = is_python_package if folder == "tests/python" else lambda test: not is_program(test)
        if any(wanted(test) for test in tests):
            subprocess.run([tree / "tools/make_venv.sh", tree / folder / "requirements.txt", VENV], check=True)
    if any(is_python_package(test) for test in tests):
        subprocess.run(["cmake", "--preset", "release", "-DQUIRE_PYTHON=ON", f"-DPython_EXECUTABLE={VENV}/bin/python"],
                       cwd=tree, check=True, stdout=subprocess.DEVNULL)


def run_logged(command, log, tree, timeout, environment=None):
    """Runs a command with its children in a process group of its own. Returns the exit code, None after the timeout, and the
    output."""
    with log.open("w") as file:
        process = subprocess.Popen(command, cwd=tree, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
                                   start_new_session=True, env={**os.environ, **(environment or {})})
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            end_group(process)
    return code, log.read_text(errors="replace")


def end_group(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def build(targets, log, tree):
    code, _ = run_logged(["tools/build.sh", "release", *targets], log, tree, None)
    return code == 0


def run_program(test, log, tree, timeout):
    program, *test_filter = test.split()
    command = [f"build/release/tests/{program}", "--gtest_fail_fast", f"--gtest_filter={(test_filter or ['*'])[0]}"]
    code, output = run_logged(command, log, tree, timeout)
    started = re.findall(r"^\[ RUN      \] (\S+)", output, re.MULTILINE)
    if not started:
        return Outcome("cannot run")
    if code == 0:
        return Outcome("passed")
    if code is None:
        return Outcome("hangs", (started[-1],))
    # A program that crashes reports no failure: the test that was running has found the fault.
    failed = re.findall(r"^\[  FAILED  \] ([^\s,]+)(?:, | \()", output, re.MULTILINE)
    return Outcome("found", tuple(dict.fromkeys(failed)) or (started[-1],))


def run_pytest(test, log, tree, timeout):
    command = [f"{VENV}/bin/python", "-m", "pytest", "-x", "-v", "-rfE", "-p", "no:cacheprovider", test]
    environment = {"QUIRE_BINARY": f"{tree}/build/release/quire", "PYTHONPATH": f"{tree}/build/release/python",
                   "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "200"}
    code, output = run_logged(command, log, tree, timeout, environment)
    if code == 0:
        return Outcome("passed" if re.search(r"^=.* \d+ passed", output, re.MULTILINE) else "cannot run")
    if code is None:
        return Outcome("hangs", tuple(re.findall(r"^(tests/\S+::\S+)", output, re.MULTILINE)[-1:]))
    failed = tuple(re.findall(r"^(?:FAILED|ERROR) (tests/\S+)", output, re.MULTILINE))
    return Outcome("found", failed) if code == 1 and failed else Outcome("cannot run")


def run_test(test, log, tree, timeout):
    run = run_program if is_program(test) else run_pytest
    return run(test, log, tree, timeout)


def log_of(name, what):
    return LOGS / f"{re.sub('[^A-Za-z0-9_.-]+', '_', name)}.{what}"


# --- the check ---


def verify_without_faults(tests, tree, timeout):
    """Builds everything and runs each test. Returns what does not pass."""
    targets = sorted({target for test in tests for target in targets_of(test)})
    print(f"building {' '.join(targets)} without a fault", flush=True)
    if not build(targets, log_of("no_fault", "build"), tree):
        return [f"it does not compile; see {log_of('no_fault', 'build')}"]
    problems = []
    for test in tests:
        # More time than with a fault, so that a slow machine does not count as a hang.
        outcome = run_test(test, log_of(test, "no_fault"), tree, 4 * timeout)
        status = "fails" if outcome.status == "found" else outcome.status
        if status != "passed":
            problems.append(f"{test}: {status} {' '.join(outcome.tests)}; see {log_of(test, 'no_fault')}")
        print(f"{status:10} {test} without a fault", flush=True)
    return problems


def try_fault(fault, tree, timeout):
    with Planted(fault, tree):
        if not build(targets_of(fault.test), log_of(fault.name, "build"), tree):
            return Outcome("does not compile")
        outcome = run_test(fault.test, log_of(fault.name, "test"), tree, timeout)
    return Outcome("NOT FOUND") if outcome.status == "passed" else outcome


def describe(fault, outcome, seconds, timeout):
    by = " ".join(outcome.tests)
    if outcome.status == "hangs":
        by = f"found only after {timeout:.0f} s: {by} does not end"
    return f"{outcome.status:16} {fault.layer:9} {fault.name:34} {by} ({seconds:.0f} s)"


def try_all(faults, tree, timeout):
    """Returns the lines of the summary, and how many faults were not found."""
    lines = []
    missed = 0
    for fault in faults:
        begin = time.monotonic()
        outcome = try_fault(fault, tree, timeout)
        missed += outcome.status not in ("found", "hangs")
        lines.append(describe(fault, outcome, time.monotonic() - begin, timeout))
        print(lines[-1], flush=True)
    return lines, missed


def run_all(faults, source, timeout):
    LOGS.mkdir(parents=True, exist_ok=True)
    create_tree(source, TREE)
    tests = list(dict.fromkeys(fault.test for fault in faults))
    prepare_python(tests, TREE)
    problems = verify_without_faults(tests, TREE, timeout)
    if problems:
        print("tests must pass without a fault:", *problems, sep="\n  ", file=sys.stderr)
        return 2
    lines, missed = try_all(faults, TREE, timeout)
    lines.append(f"{len(faults) - missed} of {len(faults)} faults were found")
    (LOGS / "summary").write_text("\n".join(lines) + "\n")
    print(f"{lines[-1]}; see {LOGS}/summary")
    return 1 if missed else 0


def list_faults(faults):
    for fault in faults:
        print(f"{fault.layer:9} {fault.name:34} {shlex.quote(fault.test) if ' ' in fault.test else fault.test:40} {fault.harm}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--tree", type=pathlib.Path, default=ROOT, metavar="DIR", help="the checkout whose tests are checked")
    parser.add_argument("--timeout", type=float, default=300, metavar="SECONDS", help="for one test, which else hangs")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends what runs, too
    faults = load_table()
    if options.list:
        list_faults(select(faults, options.names))
        return 0
    source = options.tree.resolve()
    problems = check_table(faults, source)
    if problems:
        print("tools/planted_faults.toml does not fit the sources:", *problems, sep="\n  ", file=sys.stderr)
        return 1
    return 0 if options.check else run_all(select(faults, options.names), source, options.timeout)


if __name__ == "__main__":
    sys.exit(main())
