"""`whodisk locate`."""

from __future__ import annotations

import dataclasses
import json as json_text
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from whodisk.machine.drive import Drive

HELP = """Show where a drive is, and light its LED.

Examples:

  whodisk locate nvme3n1

  whodisk locate /dev/disk/by-id/wwn-0x5000c500a1b2c3d4 --apply

Nothing is changed without --apply. The exit code is 2 if the LED was to be lit and cannot be.
"""


def locate(
    device: Annotated[
        str, typer.Argument(help="Kernel name, path or link of the drive.", show_default=False)
    ],
    apply: Annotated[bool, typer.Option("--apply", help="Light the LED now.")] = False,
    off: Annotated[bool, typer.Option("--off", help="With --apply: turn the LED off.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the facts as JSON.")] = False,
) -> None:
    """Prints the facts first: they help even if the LED cannot be lit."""
    from whodisk.machine.drive import find, light

    drive = find(device)
    if json:
        facts = dataclasses.asdict(drive)
        facts["light"] = drive.led.sentence(not off) if drive.led else None
        typer.echo(json_text.dumps(facts, indent=1))
    else:
        _print(drive, off)
    if apply:
        done = light(drive, not off)
        typer.echo(f"done: {done}", err=json)


def _print(drive: Drive, off: bool) -> None:
    from whodisk import words

    size = words.size(drive.size_bytes) if drive.size_bytes is not None else None
    place = ", ".join(
        text
        for text in (
            f"enclosure {drive.enclosure}" if drive.enclosure else "",
            f"slot {drive.slot}" if drive.slot else "",
            f"PCI {drive.pci_address}" if drive.pci_address else "",
        )
        if text
    )
    rows = [
        ("drive", drive.name),
        ("model", drive.model),
        ("serial", drive.serial),
        ("size", size),
        ("transport", drive.transport),
        ("place", place or None),
        *[(kind, "\n           ".join(names)) for kind, names in drive.links.items()],
    ]
    for label, value in rows:
        typer.echo(f"{label:<10} {value if value else 'not known'}")
    if drive.led is not None:
        typer.echo(f"{'LED':<10} {drive.led.sentence(not off)}")
        typer.echo(f"{'':<10} (whodisk locate {drive.name}{' --off' if off else ''} --apply does it)")
    else:
        typer.echo(f"{'LED':<10} cannot be lit: {drive.no_led_because}")
