"""Completes the options and subcommands of commands that the binary carries out, from the help that it prints."""

from __future__ import annotations

import re
import subprocess
from typing import Any

# Typer brings click along in a module of its own, and names it no other way.
from typer.core import CompletionItem, TyperCommand  # type: ignore[attr-defined]

from whodisk.cli import agent
from whodisk.errors import WhodiskError

#: An option with its help on the same line, and a subcommand with its own.
OPTION = re.compile(r"^ +(?:-\w, )?(--[a-z][\w-]*)(?: <[^>]*>)?(?:\.\.\.)?(?:  +(.*))?$", re.M)
SUBCOMMAND = re.compile(r"^  ([a-z][\w-]*)  +(.*)$", re.M)


def offered(words: list[str], incomplete: str) -> list[tuple[str, str]]:
    """What may follow these words (a command of the binary, then what was typed behind it), each with its help."""
    try:
        text = _help(words[:1])
        subcommands = SUBCOMMAND.findall(text.partition("\nCommands:\n")[2].partition("\n\n")[0])
        chosen = next((word for word in words[1:] if word in dict(subcommands)), None)
        if chosen is not None:
            text = _help([*words[:1], chosen])
    except (OSError, WhodiskError):
        return []
    behind = [] if chosen else subcommands
    found = OPTION.findall(text) if incomplete.startswith("-") else behind
    return [(name, said) for name, said in found if name.startswith(incomplete)]


def _help(words: list[str]) -> str:
    done = subprocess.run(
        ["whodisk", *words, "--help"], executable=agent.find(), capture_output=True, text=True, check=False
    )
    return done.stdout


class BinaryCommand(TyperCommand):
    """A command of the binary, or of both."""

    def shell_complete(self, ctx: Any, incomplete: str) -> list[CompletionItem]:
        """Adds what the binary knows to what is known here."""
        found = super().shell_complete(ctx, incomplete)
        known = {item.value for item in found}
        words = [self.name or "", *ctx.args]
        return found + [
            CompletionItem(name, help=said) for name, said in offered(words, incomplete) if name not in known
        ]
