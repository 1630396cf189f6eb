"""`quire chat` in a pseudo-terminal."""

import json
import re
import shlex
import subprocess

import pytest

from golden_checkpoints import golden_checkpoint
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


@pytest.fixture(scope="module")
def model_without_template(tmp_path_factory):
    path = tmp_path_factory.mktemp("model_without_template")
    for file in TINY.iterdir():
        if file.name == "tokenizer_config.json":
            settings = json.loads(file.read_text())
            settings.pop("chat_template", None)
            (path / file.name).write_text(json.dumps(settings))
        elif not file.name.startswith("chat_template"):
            (path / file.name).symlink_to(file)
    return path


def run_in_pipe(tmp_path, *arguments, text="", command="chat", flags=FLAGS):
    """quire chat with `text` as standard input."""
    return subprocess.run([BINARY, command, *arguments, *flags], input=text, capture_output=True, text=True, timeout=120,
                          env={"XDG_STATE_HOME": str(tmp_path), "HOME": str(tmp_path)}, cwd=tmp_path)


def say(terminal, message, reply):
    """Sends a message or a command at an empty prompt, and waits for the reply and for the next prompt."""
    terminal.send(message + "\r")
    terminal.wait_for(reply)
    terminal.wait_for_line(">")


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


STATS = re.compile(rb"\x1b\[2m\d+ tokens, [\d.]+ tokens/s, first token after [\d.]+ m?s\x1b\[0m")


def test_a_dim_line_has_the_speed_of_an_answer(chat):
    terminal = chat()
    say(terminal, "Hello", "first token after")
    assert len(STATS.findall(terminal.output)) == 1
    say(terminal, "/set stats off", "/set stats off")
    say(terminal, "/regen", "/regen")
    assert terminal.text().count("How can I help you?") == 2
    assert len(STATS.findall(terminal.output)) == 1


def test_the_speed_of_answers_can_be_left_out(chat):
    terminal = chat("--no-stats")
    say(terminal, "Hello", "How can I help you?")
    assert "tokens/s" not in terminal.text()


def test_stats_show_the_last_answer_and_the_context(chat):
    terminal = chat("--no-stats")
    say(terminal, "/stats", "Last answer    none")
    assert "Context        0 of " in terminal.text()
    say(terminal, "Hello", "How can I help you?")
    say(terminal, "/stats", "1 answer,")
    assert re.search(r"Last answer    \d+ tokens, [\d.]+ tokens/s, first token after", terminal.text())
    assert re.search(r"Context        [1-9]\d* of \d+ tokens", terminal.text())


def test_an_answer_is_replaced_by_another_one(tmp_path):
    commands = "/regen\nTell me a story\n/save a\n/regen\n/save b\n/regen\n/save c\n"
    flags = ["--kv-cache-memory", "64MiB", "--temperature", "1.5", "--sampling-seed", "3", "--max-tokens", "40", "--ignore-eos"]
    run = run_in_pipe(tmp_path, text=commands, flags=flags)
    assert "there is no answer to replace" in run.stderr
    messages = [json.loads((tmp_path / name).read_text())["messages"] for name in "abc"]
    assert all([m["role"] for m in conversation] == ["user", "assistant"] for conversation in messages)
    assert len({conversation[1]["content"] for conversation in messages}) == 3


def test_conversations_are_saved_and_loaded(chat, tmp_path):
    first = chat("--system", "Be kind.", columns=120)
    say(first, "Hello", "How can I help you?")
    say(first, "/save talk.json", "The conversation is in talk.json.")
    (tmp_path / "notes.json").write_text('["mine"]')
    say(first, "/save notes.json", "the file exists and is not a saved conversation")
    assert (tmp_path / "notes.json").read_text() == '["mine"]'
    saved = json.loads((tmp_path / "talk.json").read_text())["messages"]
    assert [m["role"] for m in saved] == ["system", "user", "assistant"]
    second = chat()
    say(second, "/load talk.json", "talk.json: 3 messages.")
    say(second, "Hello", "first token after")
    say(second, "/save talk.json", "The conversation is in talk.json.")
    longer = json.loads((tmp_path / "talk.json").read_text())["messages"]
    assert longer[:3] == saved and [m["role"] for m in longer[3:]] == ["user", "assistant"]
    say(second, "/load none.json", "cannot read none.json: no such file")


def test_sampling_parameters_are_set(chat):
    terminal = chat("--no-stats")
    say(terminal, "/set temperature 9", "temperature must be a number of at least 0 and at most 2, not '9'")
    say(terminal, "/set top-p 0.7", "/set top-p 0.7")
    say(terminal, "/set max_tokens 2", "/set max_tokens 2")
    say(terminal, "/set", "seed                random")
    lines = terminal.lines()
    assert any(re.match(r"top_p +0\.7 ", line) for line in lines) and any(re.match(r"max_tokens +2 ", line) for line in lines)
    say(terminal, "Hello", "[stopped after 2 tokens")
    say(terminal, "/set max_tokens default", "/set max_tokens default")
    say(terminal, "\x0cHello", "How can I help you?")
    terminal.send("/set rep\t")
    terminal.wait_for_line("> /set repetition_penalty")


def test_help_lists_the_commands_and_bye_ends_the_chat(chat):
    terminal = chat()
    say(terminal, "/help", "/bye")
    for command in ("/regen", "/save FILE", "/load FILE", "/set NAME VALUE", "/stats"):
        assert command in terminal.text()
    terminal.send("/bye\r")
    assert terminal.wait_for_end() == 0


@pytest.mark.parametrize("command", ["chat", "run"])
@pytest.mark.parametrize("flag", [["--n", "3"], ["--use-beam-search"], ["--best-of", "2"], ["--length-penalty", "1"], ["--early-stopping"],
                                  ["--logprobs", "1"], ["--prompt-logprobs", "1"]], ids=lambda flag: flag[0])
def test_flags_without_effect_are_refused(command, flag):
    run = subprocess.run([BINARY, command, str(TINY), *flag], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert run.returncode == 2 and f"{flag[0]}: has no effect in a chat" in run.stderr
    help_text = subprocess.run([BINARY, command, "--help"], capture_output=True, text=True).stdout
    assert not re.search(rf"{flag[0]}\b(?!-)", help_text)


def test_a_model_without_a_template_continues_the_text(model_without_template, tmp_path):
    run = run_in_pipe(tmp_path, str(model_without_template), "--max-tokens", "8", text="Once upon a\nThen\n/save a.json\n")
    text = json.loads((tmp_path / "a.json").read_text())["prompt"]
    first, second = text.removeprefix("Once upon a").split("\nThen", 1)
    assert first and second and run.stdout.replace(" [stopped after 8 tokens, the value of max_tokens]", "").startswith(first + "\n" + second)
    assert run.stderr.count("has no chat template: it continues your text") == 1 and "--chat-template FILE" in run.stderr
    template = tmp_path / "template.jinja"
    template.write_text("{% for message in messages %}{{ message.content }}{% endfor %}")
    assert "no chat template" not in run_in_pipe(tmp_path, str(model_without_template), "--chat-template", template).stderr


@pytest.mark.parametrize("command", ["chat", "run"])
def test_an_encoder_is_refused(tmp_path, command):
    run = run_in_pipe(tmp_path, str(golden_checkpoint("pooling/bert")), text="Hello\n", command=command)
    assert run.returncode == 1 and run.stdout == ""
    assert "generates no text" in run.stderr and "quire serve" in run.stderr


def test_only_warnings_are_logged(tmp_path):
    quiet = run_in_pipe(tmp_path, "--weight-cache", tmp_path / "cache", text="Hello\n")
    assert quiet.stderr == ""
    assert "INFO" in run_in_pipe(tmp_path, "--weight-cache", tmp_path / "cache", "--log-level", "info").stderr
