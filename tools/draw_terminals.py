#!/usr/bin/env python3
"""Draws what a terminal shows in docs/images, or in a folder, as SVG: a chat with quire-tiny (terminal-chat.svg), and `quire top` at a server
with 24 clients (terminal-top.svg).

    build/venv/bin/python tools/draw_terminals.py [FOLDER]

Needs a release build and the Python packages of tests/e2e/requirements.txt."""

import html
import itertools
import pathlib
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

import httpx  # noqa: E402
from server_process import BINARY, ServerProcess  # noqa: E402
from terminal import Terminal  # noqa: E402

COLUMN, ROW, MARGIN = 8.4, 19, 16  # pixels
BACKGROUND, FOREGROUND = "#1e1e2e", "#d8dee9"
COLOURS = {"black": "#45475a", "red": "#f38ba8", "green": "#a6e3a1", "brown": "#f9e2af", "yellow": "#f9e2af", "blue": "#89b4fa",
           "magenta": "#f5c2e7", "cyan": "#94e2d5", "white": "#ffffff", "brightblack": "#8a8fa3", "default": FOREGROUND}
NUM_CLIENTS = 24
PREFIX = "Once upon a time, there was a girl named Mia. She had a small dog and a red ball. " * 4


def colour(name):
    """A colour of pyte: a name, or six hexadecimal digits."""
    return COLOURS.get(name.removeprefix("bright"), FOREGROUND) if name.isalpha() and name not in COLOURS else COLOURS.get(name, f"#{name}")


def draw_run(x, y, cells):
    """Neighbouring cells of the same style."""
    text, style = "".join(cell.data for cell in cells), cells[0]
    front, back = colour(style.fg), BACKGROUND if style.bg == "default" else colour(style.bg)
    if style.reverse:
        front, back = back, front
    width = COLUMN * len(text)
    drawn = ""
    if back != BACKGROUND:
        drawn += f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{ROW}" fill="{back}"/>'
    if text.strip():
        weight = ' font-weight="bold"' if style.bold else ""
        drawn += f'<text x="{x:.1f}" y="{y + 14}" textLength="{width:.1f}" fill="{front}"{weight}>{html.escape(text)}</text>'
    return drawn


def draw(screen, title):
    """The screen down to its last line with text."""
    rows = [[screen.buffer[y][x] for x in range(screen.columns)] for y in range(screen.lines)]
    while len(rows) > 1 and not "".join(cell.data for cell in rows[-1]).strip():
        rows.pop()
    width, height = COLUMN * screen.columns + 2 * MARGIN, ROW * len(rows) + 2 * MARGIN
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" height="{height}" role="img">',
           f"<title>{html.escape(title)}</title>",
           "<style>text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;white-space:pre}</style>",
           f'<rect width="{width:.0f}" height="{height}" rx="8" fill="{BACKGROUND}"/>']
    for y, row in enumerate(rows):
        x = 0
        for _, run in itertools.groupby(row, key=lambda cell: cell._replace(data="")):
            cells = list(run)
            out.append(draw_run(MARGIN + COLUMN * x, MARGIN + ROW * y, cells))
            x += len(cells)
    return "\n".join([line for line in out if line] + ["</svg>"]) + "\n"


def chat():
    with tempfile.TemporaryDirectory() as state:
        terminal = Terminal([str(BINARY), "chat", "--seed", "6"], columns=90, rows=30, environment={"XDG_STATE_HOME": state})
        terminal.wait_for(">")
        for turn, message in enumerate(["Tell me a story about a cat and a red ball.", "Thank you!"]):
            terminal.send(message + "\r")
            terminal.wait_until(lambda count=turn + 1: terminal.text().count("tokens/s") >= count, "the end of the answer")
        drawn = draw(terminal.screen, "A chat with quire-tiny in the terminal")
        terminal.close()
    return drawn


def client(url, number):
    """Sends one request after another until the server stops."""
    try:
        for turn in range(number, 10000, 7):
            httpx.post(url + "/v1/completions", timeout=120, json={
                "prompt": f"{PREFIX if turn % 3 else turn}One day {turn}", "max_tokens": 60 + 50 * (turn % 5), "ignore_eos": True})
    except httpx.HTTPError:
        pass


def top():
    server = ServerProcess("--kv-cache-memory", "3MiB")
    for number in range(NUM_CLIENTS):
        threading.Thread(target=client, args=(server.url, number), daemon=True).start()
    terminal = Terminal([str(BINARY), "top", server.url], columns=100, rows=30)
    terminal.wait_for("running")
    end = time.monotonic() + 25
    terminal.wait_until(lambda: terminal.update() and time.monotonic() > end, "25 seconds of a load")
    drawn = draw(terminal.screen, "quire top at a server with 24 clients")
    terminal.close()
    server.stop()
    return drawn


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images"
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in {"terminal-chat.svg": chat, "terminal-top.svg": top}.items():
        (folder / name).write_text(make())
        print(folder / name)


if __name__ == "__main__":
    main()
