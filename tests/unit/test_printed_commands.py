"""Each command line of README and docs is one that the program has: its command, its subcommand, every option. tests/e2e/test_printed.py runs them."""

from __future__ import annotations

import functools
import itertools
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import typer.main

from tests.printed import everywhere, within_sentences, without_brackets
from whodisk.cli import agent
from whodisk.cli.app import app

ROOT = Path(__file__).resolve().parents[2]


def commands() -> list[tuple[str, str]]:
    """Page and command line of each printed command of whodisk, without its name and the brackets of what may be left out."""
    found = []
    for printed in [*everywhere(), *within_sentences()]:
        name, _, rest = printed.line.partition("whodisk ")
        if re.fullmatch(r"(?:[A-Z_]+=\S+ )*(?:sudo )?(?:zcat \S+ \| )?(?:\.venv/bin/)?", name):
            # What another program says stands for one word.
            found.append((printed.page, re.sub(r"\$\([^)]*\)", "1", without_brackets(rest)).replace(")", "")))
    return found


@functools.cache
def help_of(*names: str) -> str:
    """What the binary prints about a command."""
    binary = os.environ.get("WHODISK_AGENT") or str(ROOT / ".venv/bin/whodisk-agent")
    done = subprocess.run([binary, *names, "--help"], capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""


@functools.cache
def options_of(*names: str) -> set[str]:
    """Every option of a command; empty if there is none such."""
    found = (
        set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", help_of(*names)))
        if names[0] in agent.COMMANDS
        else set()
    )
    command = typer.main.get_command(app).commands.get(names[0])  # type: ignore[attr-defined]
    if command is not None and len(names) == 1:
        found |= {name for one in command.params for name in [*one.opts, *one.secondary_opts]} | {"--help"}
    return found


def wrong(line: str) -> list[str]:
    """What of a command line the program does not have."""
    reader = shlex.shlex(line, posix=True, punctuation_chars="|>&;")
    reader.whitespace_split = True
    words = list(itertools.takewhile(lambda word: word[0] not in "|>&;", reader))
    if "--" in words:
        words = words[: words.index("--")]
    names: tuple[str, ...] = (words[0],)
    if (
        names[0] in agent.COMMANDS
        and "\nCommands:" in help_of(*names)
        and len(words) > 1
        and not words[1].startswith("-")
    ):
        names = (words[0], words[1])
    known = options_of(*names)
    if not known:
        return [" ".join(names)]
    return [
        word
        for word in words[len(names) :]
        if re.match(r"--?[a-zA-Z]", word) and word.partition("=")[0] not in known
    ]


@pytest.mark.skipif(not help_of(), reason="no whodisk-agent; make build")
def test_every_printed_command_is_one_of_the_program() -> None:
    lines = commands()
    assert len(lines) > 120
    found = [f"{page}: whodisk {line}: {wrong(line)}" for page, line in lines if wrong(line)]
    assert not found, "\n".join(found)


def test_every_printed_target_is_one_of_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    lines = [p for p in [*everywhere(), *within_sentences()] if p.line.startswith("make ")]
    assert len(lines) > 15
    assert [f"{p.page}: {p.line}" for p in lines if p.line.split()[1] not in targets] == []


def test_a_wrong_option_is_seen() -> None:
    assert wrong("solve x.case --no-such --all") == ["--no-such"]
    assert wrong("nothing x.case") == ["nothing"]
