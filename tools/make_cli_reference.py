#!/usr/bin/env python3
"""Writes docs/cli.md, the list of all commands and flags, from the help of the program.

    tools/make_cli_reference.py [--binary build/release/quire]          write docs/cli.md
    tools/make_cli_reference.py [--binary build/release/quire] --print  print it instead
"""

import argparse
import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "cli.md"
# Groups that several commands share are listed once, under these titles.
SHARED = {"Engine": "Engine flags", "Sampling": "Sampling flags"}
HEAD = """# Commands and flags

This page is generated from `quire COMMAND --help-all` by `tools/make_cli_reference.py`; a test compares it with the program.

Every command has `--help` with its most important flags, `--help-all`, `--log-level` and `--config FILE`, a YAML file with the names and values
of flags; flags on the command line take precedence. Flags of vLLM, llama.cpp and Ollama are accepted where quire has the same thing or does not
need them. Sizes are written as `4GiB`, `512MiB` or in bytes, durations as `250ms`, `1.5s` or in seconds. Exit codes: 0 = success,
1 = failure, 2 = wrong usage.

Environment variables: `QUIRE_CPU_ISA=generic|avx2|avx512|avx512_vnni|avx512_bf16|amx` forces a lower instruction set than the best one;
`QUIRE_NOW=2026-01-15T12:00:00` fixes the time that chat templates see; `QUIRE_API_KEY` is the default of `quire serve --api-key`.
"""


def help_of(binary, *words):
    """The complete help. Lines are not wrapped."""
    run = subprocess.run([binary, *words, "--help-all"], capture_output=True, text=True, check=True, env={**os.environ, "COLUMNS": "9999"})
    return run.stdout


def sections_of(text):
    """{"": [summary], title: [[flag, description], ...], ...} of the help of a command."""
    sections = {"": []}
    title = ""
    for line in text.splitlines():
        if not line.strip() or line.startswith("Usage:"):
            continue
        if not line.startswith(" "):
            heading = re.fullmatch(r"([A-Z][A-Za-z ]*?(?: \(.*\))?):", line)
            if heading:
                title = line[:-1]
                sections.setdefault(title, [])
            else:
                sections[title].append(line)
        elif re.match(r"  \S", line):
            flag, _, description = line.strip().partition("  ")
            sections[title].append([flag, description.strip()])
        elif sections[title]:
            entry = sections[title][-1]
            entry[1] = (entry[1] + " " + line.strip()).strip()
    return sections


def flag_cells(flag, description):
    """(names, values, default, description) of a flag: "-o, --output FILE", "Directory of the output [required]"."""
    names, value = re.fullmatch(r"(-[\w-]+(?:, -[\w-]+)*) ?(.*)", flag).groups()
    value = value.strip("[]")
    default = ""
    remarks = re.search(r" \[((?:required|one of|default).*)\]$", description)
    if remarks:
        description = description[:remarks.start()]
        for remark in remarks[1].split("; "):
            if remark == "required":
                default = remark
            elif remark.startswith("one of "):
                value = remark.removeprefix("one of ")
            else:
                default = remark.removeprefix("default ")
    return names, value, default, description


def table_of(entries):
    rows = ["| flag | value | default | description |", "|---|---|---|---|"]
    for flag, description in entries:
        names, value, default, description = flag_cells(flag, description)
        cells = [f"`{names}`", value, f"`{default}`" if default not in ("", "required") else default, description]
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows)


def commands_of(binary):
    """[words, ...] of all commands, subcommands of bench included."""
    usages = re.findall(r"^Usage: quire ([a-z][a-z -]*?)(?= \[|$| [A-Z])(.*)$", help_of(binary), re.MULTILINE)
    return [words.split() for words, rest in usages if not rest.startswith(" COMMAND")]


def page_of(binary):
    parts = [HEAD]
    shared = {}
    for words in commands_of(binary):
        sections = sections_of(help_of(binary, *words))
        parts.append(f"## quire {' '.join(words)}\n\n{' '.join(sections[''])}.\n")
        positionals = [(flag, description.removesuffix(" [required]"), description.endswith(" [required]"))
                       for flag, description in sections.get("Arguments", [])]
        usage = " ".join(flag if required else f"[{flag}]" for flag, _, required in positionals)
        arguments = "".join(f" `{flag}`: {description}." for flag, description, _ in positionals)
        parts.append(f"Usage: `{' '.join(['quire', *words, usage]).strip()} [FLAGS]`.{arguments}\n")
        notes = []
        for title, entries in sections.items():
            if title in ("", "Arguments", "Examples"):
                continue
            key = next((name for name in SHARED if title.startswith(name)), None)
            if key:
                if shared.setdefault(key, (title, entries))[1] == entries:
                    anchor = SHARED[key].lower().replace(" ", "-")
                    notes.append(f"[{SHARED[key].lower()}](#{anchor})")
                    continue
            own = [entry for entry in entries if not entry[0].startswith(("-h, --help", "--help-all", "--config", "--log-level"))]
            if title == "Formats":
                lines = "\n".join(f"| `{flag}` | {description} |" for flag, description in
                                  ((f"{a} {b}".strip().split(None, 1)) for a, b in own))
                parts.append(f"| format | written as |\n|---|---|\n{lines}\n")
                continue
            if own:
                parts.append((f"{title}:\n\n" if title != "Flags" else "") + table_of(own) + "\n")
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
