#!/usr/bin/env python3
"""Writes docs/cli.md, the list of all commands and flags, from the help of the program.

    tools/make_cli_reference.py [--binary build/release/quire]          write docs/cli.md
    tools/make_cli_reference.py [--binary build/release/quire] --print  print it instead
"""

import argparse
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "cli.md"
HELP_COLUMN = 30  # where CLI11 starts the description of a flag
# Groups that several commands share are listed once, under these titles.
SHARED = {"Engine": "Engine flags", "Sampling": "Sampling flags"}
HEAD = """# Commands and flags

This page is generated from `quire COMMAND --help` by `tools/make_cli_reference.py`; a test compares it with the program.

Every command has `--help`, `--log-level` and `--config FILE`, a YAML file with the names and values of flags; flags on the command line take
precedence. Sizes are written as `4GiB`, `512MiB` or in bytes, durations as `250ms`, `1.5s` or in seconds. Exit codes: 0 = success,
1 = failure, 2 = wrong usage.

Environment variables: `QUIRE_CPU_ISA=generic|avx2|avx512|avx512_vnni|avx512_bf16|amx` forces a lower instruction set than the best one;
`QUIRE_NOW=2026-01-15T12:00:00` fixes the time that chat templates see; `QUIRE_API_KEY` is the default of `quire serve --api-key`.
"""


def help_of(binary, *words):
    run = subprocess.run([binary, *words, "--help"], capture_output=True, text=True, check=True)
    return run.stdout


def sections_of(text):
    """{"": [summary lines], title: [(flag, description), ...], ...} of the help of a command."""
    sections = {"": []}
    title = ""
    for line in text.splitlines():
        if not line.strip():
            continue
        if not line.startswith(" "):
            heading = re.fullmatch(r"([A-Z][A-Za-z ]*?)(?: \(.*\))?:", line)
            if heading:
                title = line[:-1]
                sections.setdefault(title, [])
            elif title == "" and not line.startswith("Usage:"):
                sections[""].append(line)
            continue
        if title == "":
            continue
        if line.startswith("  ") and line[2] != " ":
            flag, description = line[2:HELP_COLUMN], line[HELP_COLUMN:]
            if line[HELP_COLUMN - 1:HELP_COLUMN] not in ("", " ") or flag.count("[") != flag.count("]") or flag.endswith(" in "):
                flag, description = line[2:], ""  # the flag is longer than its column
            sections[title].append([flag.strip(), description.strip()])
        elif sections[title]:
            entry = sections[title][-1]
            entry[1] = (entry[1] + " " + line.strip()).strip()
    return sections


def flag_cells(flag):
    """(names, values, default) of a flag as CLI11 prints it: "-o,--output FILE REQUIRED", "--n INT=1"."""
    flag = re.sub(r"\{false\}|=\[\]|\.\.\.|Needs:.*|Excludes:.*", "", flag).strip()
    required = flag.endswith(" REQUIRED")
    flag = flag.removesuffix(" REQUIRED")
    names, _, value = flag.partition(" ")
    value, has_default, default = value.strip().partition("=")
    choices = re.search(r"\{(.*)\}", value)
    if choices:
        value = choices[1].replace(",", ", ")
    else:
        value = value.split(":")[-1].split(" ")[0] if not value.startswith("TEXT:") else "TEXT"
        value = {"UINT": "INT", "POSITIVE": "FLOAT", "NONNEGATIVE": "FLOAT"}.get(value, value)
    default = default.strip() if has_default else ""
    if required:
        default = "required"
    return ", ".join(names.split(",")), value, default


def table_of(entries):
    rows = ["| flag | value | default | description |", "|---|---|---|---|"]
    for flag, description in entries:
        names, value, default = flag_cells(flag)
        description = description.removeprefix("... ")
        cells = [f"`{names}`", value, f"`{default}`" if default not in ("", "required") else default, description]
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows)


def commands_of(binary):
    """[(words, help), ...] of all commands, subcommands of bench included."""
    listed = re.findall(r"^  ([a-z]+) ", help_of(binary).split("Subcommands:")[1], re.MULTILINE)
    found = []
    for name in listed:
        text = help_of(binary, name)
        if "Subcommands:" in text:
            inner = re.findall(r"^  ([a-z]+) ", text.split("Subcommands:")[1], re.MULTILINE)
            found += [([name, word], help_of(binary, name, word)) for word in inner]
        else:
            found.append(([name], text))
    return found


def page_of(binary):
    parts = [HEAD]
    shared = {}
    for words, text in commands_of(binary):
        sections = sections_of(text)
        parts.append(f"## quire {' '.join(words)}\n\n{' '.join(sections[''])}.\n")
        positionals = sections.get("Positionals", [])
        usage = " ".join(f"[{flag.split(' ')[0]}]" if "REQUIRED" not in flag else flag.split(" ")[0] for flag, _ in positionals)
        arguments = "".join(f" `{flag.split(' ')[0]}`: {description}." for flag, description in positionals)
        parts.append(f"Usage: `{' '.join(['quire', *words, usage]).strip()} [FLAGS]`.{arguments}\n")
        notes = []
        for title, entries in sections.items():
            if title in ("", "Positionals"):
                continue
            key = next((name for name in SHARED if title.startswith(name)), None)
            if key:
                if shared.setdefault(key, (title, entries))[1] == entries:
                    anchor = SHARED[key].lower().replace(" ", "-")
                    notes.append(f"[{SHARED[key].lower()}](#{anchor})")
                    continue
            own = [entry for entry in entries if not entry[0].startswith(("-h,--help", "--help-all", "--config", "--log-level"))]
            if title == "Formats":
                lines = "\n".join(f"| `{flag}` | {description} |" for flag, description in
                                  ((f"{a} {b}".strip().split(None, 1)) for a, b in own))
                parts.append(f"| format | written as |\n|---|---|\n{lines}\n")
                continue
            if own:
                parts.append((f"{title}:\n\n" if title != "Options" else "") + table_of(own) + "\n")
        if notes:
            parts.append(f"Also accepts the {' and '.join(notes)}.\n")
    for key, (title, entries) in shared.items():
        parts.append(f"## {SHARED[key]}\n")
        if "(" in title:
            parts.append(title[title.index("(") + 1:title.rindex(")")].capitalize() + ".\n")
        parts.append(table_of(entries) + "\n")
    return "\n".join(part for part in parts if part)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ROOT / "build" / "release" / "quire"), help="the program")
    parser.add_argument("--print", action="store_true", dest="only_print", help="print the page instead of writing it")
    args = parser.parse_args()
    page = page_of(args.binary)
    if args.only_print:
        print(page, end="")
    else:
        PAGE.write_text(page)


if __name__ == "__main__":
    main()
