"""`quire chat` in a pseudo-terminal."""

import json
import shlex
import subprocess

import pytest

from server_process import BINARY
from slow_model import TINY, slow_model
from terminal import Terminal

FLAGS = ["--kv-cache-memory", "64MiB", "--temperature", "0"]


@pytest.fixture
def chat(tmp_path):
    """Starts `quire chat` with flags; sessions of a test share their history and working directory."""
    started = []

    def start(*flags, model=None, wait=True, columns=80, **environment):
        command = [str(BINARY), "chat", *([str(model)] if model else []), *FLAGS, *flags]
        environment = {"XDG_STATE_HOME": str(tmp_path / "state"), "HOME": str(tmp_path), **environment}
        started.append(Terminal(command, columns=columns, environment=environment, cwd=tmp_path))
        if wait:
            started[-1].wait_for_line(">")
        return started[-1]

    yield start
    for terminal in started:
        terminal.close()


@pytest.fixture(scope="module")
def markdown_model(tmp_path_factory):
    """quire-tiny with a tokenizer that spells one token of its greeting in Markdown: Hi is decoded as **Hi**."""
    path = tmp_path_factory.mktemp("markdown_model")
    for file in TINY.iterdir():
        if file.name != "tokenizer.json":
            (path / file.name).symlink_to(file)
    tokenizer = json.loads((TINY / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    # Merges still produce Hi: its name goes to the last token, which no merge produces any more.
    last = max(vocabulary, key=vocabulary.get)
    vocabulary["**Hi**"], vocabulary["Hi"] = vocabulary["Hi"], vocabulary.pop(last)
    merges = tokenizer["model"]["merges"]
    tokenizer["model"]["merges"] = [m for m in merges if "".join(m.split(" ") if isinstance(m, str) else m) != last]
    (path / "tokenizer.json").write_text(json.dumps(tokenizer))
    return path


def history_of(tmp_path):
    return [json.loads(line) for line in (tmp_path / "state" / "quire" / "chat_history").read_text().splitlines()]


def test_responds_and_ends_at_ctrl_d(chat):
    terminal = chat()
    terminal.send("Hello\r")
    terminal.wait_for("How can I help you?")
    terminal.wait_for_line(">")
    terminal.send("\x04")
    assert terminal.wait_for_end() == 0


def test_markdown_is_rendered_in_a_terminal(chat, markdown_model):
    terminal = chat(model=markdown_model)
    terminal.send("Hello\r")
    terminal.wait_for("Hi! How can I help you?")
    row = next(y for y, line in enumerate(terminal.lines()) if line.startswith("Hi!"))
    assert terminal.screen.buffer[row][0].bold and not terminal.screen.buffer[row][2].bold


@pytest.mark.parametrize("flags, environment", [([], {"NO_COLOR": "1"}), (["--no-markdown"], {}), ([], {"TERM": "dumb"})])
def test_markdown_is_printed_as_it_is_on_request(chat, markdown_model, flags, environment):
    terminal = chat(*flags, model=markdown_model, **environment)
    terminal.send("Hello\r")
    terminal.wait_for("**Hi**! How can I help you?")


def test_a_pipe_gets_the_text_of_the_model(markdown_model, tmp_path):
    run = subprocess.run([BINARY, "chat", markdown_model, *FLAGS], input="Hello\n", capture_output=True, text=True, timeout=60,
                         env={"XDG_STATE_HOME": str(tmp_path)})
    assert (run.returncode, run.stdout) == (0, "**Hi**! How can I help you?\n"), run.stderr
    assert not (tmp_path / "quire").exists(), "the history has messages that were not typed"


def test_ctrl_c_stops_the_response_and_not_the_program(chat):
    terminal = chat("--ignore-eos", model=slow_model(), QUIRE_CPU_ISA="generic")
    terminal.send("Tell me a story\r")
    terminal.wait_until(lambda: any(line and not line.startswith(">") and "ready" not in line for line in terminal.lines()),
                        "response")
    terminal.send("\x03")
    terminal.wait_for("[stopped]")
    terminal.wait_for_line(">")
    terminal.send("/exit\r")
    assert terminal.wait_for_end() == 0


def test_ctrl_c_discards_the_message(chat, tmp_path):
    terminal = chat()
    terminal.send("Hel")
    terminal.wait_for_line("> Hel")
    terminal.send("\x03")
    terminal.wait_for_line(">")
    terminal.send("/exit\r")
    assert terminal.wait_for_end() == 0
    assert history_of(tmp_path) == ["/exit"]


def test_suspending_restores_the_terminal_and_continues(tmp_path):
    environment = {"XDG_STATE_HOME": str(tmp_path), "PS1": "shell: "}
    terminal = Terminal(["/bin/bash", "--norc", "-i"], environment=environment)
    try:
        terminal.wait_for_line("shell:")
        terminal.send(shlex.join([str(BINARY), "chat", *FLAGS]) + "\r")
        terminal.wait_for_line(">")
        terminal.send("Hel")
        terminal.wait_for_line("> Hel")
        terminal.send("\x1a")
        terminal.wait_for("Stopped")
        terminal.send("echo visible\rfg\r")
        terminal.wait_for("echo visible")
        terminal.wait_for_line("> Hel")
        terminal.send("lo\r")
        terminal.wait_for("How can I help you?")
    finally:
        terminal.close()


def test_messages_can_have_several_lines(chat, tmp_path):
    terminal = chat()
    terminal.send("one\x1b\r")  # Alt-Enter
    terminal.send("two\n")  # Ctrl-J
    terminal.send("three\\\r")
    terminal.send("\x1b[200~four\rfive\x1b[201~")  # pasted
    terminal.wait_for("five")
    terminal.send("\x1b[A\x1b[A!")  # Up twice: the third line
    terminal.wait_for("thre")
    terminal.send("\r")
    terminal.wait_until(lambda: (tmp_path / "state" / "quire" / "chat_history").exists(), "history")
    assert history_of(tmp_path) == ["one\ntwo\nthre!e\nfour\nfive"]


def test_history_is_kept_and_searched(chat):
    first = chat()
    first.send("/system one\r/system two\r/help\r/exit\r")
    assert first.wait_for_end() == 0
    second = chat()
    second.send("\x1b[A\x1b[A")
    second.wait_for_line("> /help")
    second.send("\x15\x12one")  # Ctrl-R
    second.wait_for("/system one")
    second.send("\x07\x04")
    third = chat("--no-history")
    third.send("\x1b[Ax")
    third.wait_for_line("> x")


def test_commands_and_paths_are_completed(chat, tmp_path):
    (tmp_path / "notes").mkdir()
    for name in ["alpha.txt", "alpine.txt", "two words.txt"]:
        (tmp_path / "notes" / name).write_text("x\n")
    terminal = chat()
    terminal.send("/res\t")
    terminal.wait_for_line("> /reset")
    terminal.send("\x15read @no\t")
    terminal.wait_for_line("> read @notes/")
    terminal.send("a\t")
    terminal.wait_for_line("> read @notes/alp")
    terminal.send("\t")
    terminal.wait_for("alpha.txt   alpine.txt")
    terminal.send("h\t!")
    terminal.wait_for_line("> read @notes/alpha.txt !")
    terminal.send("\x15see @notes/t\t")
    terminal.wait_for_line('> see @"notes/two words.txt"')
    terminal.send("\x15/file notes/alpi\t")
    terminal.wait_for_line("> /file notes/alpine.txt")


def test_files_are_attached_to_messages(chat, tmp_path):
    (tmp_path / "large.txt").write_text("the cat sat on the mat and looked at the dog. " * 100)
    (tmp_path / "image.png").write_bytes(b"\x89PNG\0")
    terminal = chat(columns=120)
    too_long = "the conversation exceeds the maximum length"
    cases = [("Read @large.txt", too_long), ("/file large.txt\rRead it", too_long),
             ("@image.png", "cannot attach image.png: not a UTF-8 text file"), ("/file none", "cannot read none: no such file")]
    for message, error in cases:
        terminal.send(message + "\r")
        terminal.wait_for(error)
        terminal.wait_for_line(">")
        terminal.send("\x0c")  # Ctrl-L clears the screen
        terminal.wait_until(lambda: error not in terminal.text(), "empty screen")
    # A message that was refused is not part of the conversation, but its attachment is until /reset.
    terminal.send("/reset\rHello\r")
    terminal.wait_for("How can I help you?")


def test_the_input_line_follows_the_window_size(chat):
    terminal = chat()
    terminal.send("x" * 70)
    terminal.wait_for("x" * 70)
    terminal.resize(50, 24)
    terminal.send("yz")
    terminal.wait_for("yz")
    terminal.send("\x15Hello\r")
    terminal.wait_for("How can I help you?")
