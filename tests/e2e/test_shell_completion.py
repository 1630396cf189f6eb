"""Completion in bash, zsh and fish, and the manual page. All of them are written by the program."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

from server_process import BINARY
from terminal import Terminal

PROGRAM = pathlib.Path(BINARY).resolve()
# The command line before the cursor, some of the words that are offered, and some that are not.
CASES = [
    ("quire ser", ["serve"], ["simulate"]),
    ("quire bench la", ["latency"], ["throughput"]),
    ("quire serve --kv-cache-d", ["--kv-cache-dtype"], ["--dtype"]),
    ("quire serve --kv-cache-dtype f", ["float32", "float16", "fp8_e4m3", "fp8_e5m2"], ["int8"]),
    ("quire bench serve --max-c", ["--max-concurrency"], ["--max-num-seqs"]),
    ("quire quantize --format gguf-q4", ["gguf-q4_0", "gguf-q4_1", "gguf-q4_k"], ["gptq"]),
    ("quire completion f", ["fish"], ["zsh"]),
    ("quire chat org/mod", ["org/model-a"], []),
    ("quire rm org/mod", ["org/model-a"], []),
    ("quire serve direc", ["directory/"], []),
    ("quire serve --chat-template templ", ["template.jinja"], []),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A directory with the program in bin, the completion scripts, files to complete, and a cache with a model."""
    path = tmp_path_factory.mktemp("completion")
    for folder in ("bin", "work/directory", "zsh", "cache/hub/models--org--model-a/snapshots/1", "cache/hub/models--org--model-a/refs"):
        (path / folder).mkdir(parents=True)
    (path / "bin" / "quire").symlink_to(PROGRAM)
    (path / "work" / "template.jinja").write_text("")
    (path / "cache/hub/models--org--model-a/snapshots/1/config.json").write_text("{}")
    (path / "cache/hub/models--org--model-a/refs/main").write_text("1")
    for shell, name in (("bash", "quire.bash"), ("zsh", "zsh/_quire"), ("fish", "quire.fish")):
        run = subprocess.run([PROGRAM, "completion", shell], capture_output=True, text=True, check=True)
        (path / name).write_text(run.stdout)
    return path


def environment_of(place):
    return {**os.environ, "PATH": f"{place / 'bin'}:{os.environ['PATH']}", "HF_HOME": str(place / "cache"), "HOME": str(place)}


def needs(shell):
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")


@pytest.mark.parametrize("line, offered, others", CASES, ids=[case[0] for case in CASES])
def test_bash_offers_words(place, line, offered, others):
    needs("bash")
    script = """source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _quire; printf '%s\\n' "${COMPREPLY[@]}" """
    run = subprocess.run(["bash", "--norc", "-c", script, "bash", place / "quire.bash", *line.split(" ")], cwd=place / "work",
                         env=environment_of(place), capture_output=True, text=True, timeout=60)
    words = [word.rstrip("/") for word in run.stdout.split()]
    assert run.stderr == ""
    assert {word.rstrip("/") for word in offered} <= set(words) and not set(others) & set(words), words


@pytest.mark.parametrize("line, offered, others", CASES, ids=[case[0] for case in CASES])
def test_fish_offers_words(place, line, offered, others):
    needs("fish")
    run = subprocess.run(["fish", "--no-config", "-c", f"source {place / 'quire.fish'}; complete -C {line!r}"], cwd=place / "work",
                         env=environment_of(place), capture_output=True, text=True, timeout=60)
    words = [entry.split("\t")[0] for entry in run.stdout.splitlines()]
    assert run.stderr == ""
    assert set(offered) <= set(words) and not set(others) & set(words), words


@pytest.fixture(scope="module")
def zsh(place):
    needs("zsh")
    terminal = Terminal(["zsh", "-f", "-i"], columns=160, rows=50, environment=environment_of(place), cwd=place / "work")
    terminal.send(f"PS1='> '; unsetopt beep; fpath=({place / 'zsh'} $fpath); autoload -Uz compinit; compinit -u -D; setopt list_rows_first\n")
    terminal.send("zstyle ':completion:*' list-prompt ''; LISTMAX=0; clear; echo rea''dy\n")
    terminal.wait_for("ready")
    yield terminal
    terminal.close()


@pytest.mark.parametrize("line, offered, others", CASES, ids=[case[0] for case in CASES])
def test_zsh_offers_words(zsh, line, offered, others):
    zsh.send("clear; echo read''y-again\n")
    # Before the prompt, the terminal itself would take Ctrl-D for the end of the input.
    zsh.wait_until(lambda: zsh.text().endswith("ready-again\n>"), "prompt")
    zsh.send(line)
    zsh.wait_for(line)
    if len(offered) == 1:
        zsh.send("\t")
        zsh.wait_for(offered[0])
    else:
        zsh.send("\x04")  # Ctrl-D lists the completions
        for word in offered:
            zsh.wait_for(word)
    text = zsh.text().split("ready-again")[-1]
    zsh.send("\x03")
    assert not [word for word in others if re.search(rf"(?<!\S){re.escape(word)}(?!\S)", text)], text


def test_bash_completes_at_the_tab_key(place):
    needs("bash")
    terminal = Terminal(["bash", "--norc", "-i"], columns=120, environment={**environment_of(place), "PS1": "> "}, cwd=place / "work")
    try:
        terminal.send(f"source {place / 'quire.bash'}; clear; echo rea''dy\n")
        terminal.wait_for("ready")
        terminal.send("quire serve --scheduling-policy=pri\t")
        terminal.wait_for("--scheduling-policy=priority")
        terminal.send("--kv-cache-dtype int\t")
        terminal.wait_for("--scheduling-policy=priority --kv-cache-dtype int8")
    finally:
        terminal.close()


def test_all_flags_are_in_each_text(place):
    """The help of all commands has the same flags as the completion scripts and the manual page."""
    run = subprocess.run([PROGRAM, "--help-all"], capture_output=True, text=True, check=True)
    flags = set(re.findall(r"^ *(?:-\w, )?(--[a-z][a-z0-9-]*)", run.stdout, re.MULTILINE))
    assert len(flags) > 100
    page = subprocess.run([PROGRAM, "man"], capture_output=True, text=True, check=True).stdout.replace("\\-", "-")
    texts = {"man": page, "bash": (place / "quire.bash").read_text(), "zsh": (place / "zsh/_quire").read_text()}
    for name, text in texts.items():
        assert not flags - set(re.findall(r"--[a-z][a-z0-9-]*", text)), name
    assert not {flag[2:] for flag in flags} - set(re.findall(r"-l (\S+)", (place / "quire.fish").read_text()))


def test_groff_accepts_the_manual_page():
    needs("groff")
    page = subprocess.run([PROGRAM, "man"], capture_output=True, text=True, check=True).stdout
    assert page.isascii()
    run = subprocess.run(["groff", "-man", "-ww", "-Tutf8"], input=page, capture_output=True, text=True, check=True)
    assert run.stderr == ""
    text = re.sub(".\b", "", run.stdout)  # bold text is overstruck
    assert "QUIRE(1)" in text and "--kv-cache-dtype" in re.sub("[\u2010\u2212]", "-", text)


def test_the_manual_page_names_all_environment_variables():
    sources = "".join(path.read_text() for path in (pathlib.Path(__file__).resolve().parents[2] / "src").rglob("*.cc"))
    names = set(re.findall(r'getenv\("([A-Z_]+)"\)', sources)) | set(re.findall(r'"((?:HF|HUGGING|SSL)[A-Z]*_[A-Z_]+)"', sources))
    page = subprocess.run([PROGRAM, "man"], capture_output=True, text=True, check=True).stdout
    assert not {name for name in names if name not in page} - {"HOME"}
