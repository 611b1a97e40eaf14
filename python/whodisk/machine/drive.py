"""Where a drive is: names, serial, slot, and how to light its LED. Reads sysfs and udev's data base only."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from whodisk.errors import WhodiskError

#: Links in /dev/disk that name a drive.
LINKS = ("by-id", "by-path")


@dataclass(frozen=True)
class Led:
    """A way to light the locate LED: a file of sysfs to write 1 (on) or 0 (off) into, or a command."""

    #: `enclosure`, `pci` (native PCIe enclosure management) or `ledctl`.
    way: str
    file: str | None = None
    on: tuple[str, ...] = ()
    off: tuple[str, ...] = ()

    def sentence(self, lit: bool) -> str:
        """What a person would type."""
        if self.file is not None:
            return f"echo {int(lit)} > {self.file}"
        return " ".join(self.on if lit else self.off)


@dataclass(frozen=True)
class Drive:
    """What is known about a drive; None or empty = not known here."""

    name: str
    model: str | None = None
    serial: str | None = None
    size_bytes: int | None = None
    transport: str | None = None
    pci_address: str | None = None
    enclosure: str | None = None
    slot: str | None = None
    links: dict[str, list[str]] = field(default_factory=dict)
    led: Led | None = None
    #: Why the LED cannot be lit.
    no_led_because: str | None = None


def find(device: str, root: Path = Path("/")) -> Drive:
    """Facts about `device`: a kernel name, a path or a link to one; a partition stands for its disk.

    `root` is where `/sys`, `/dev` and `/run` are looked for (for tests). Raises WhodiskError if there is no such block device.
    """
    name = _disk_name(device, root)
    block = root / "sys/block" / name
    real = (block / "device").resolve() if (block / "device").exists() else None
    udev = _udev(block, root)
    pci = _pci_address(real)
    enclosure, slot, light = _enclosure(real, root)
    led = light or _pci_led(pci, root) or _ledctl(name, real)
    return Drive(
        name=name,
        model=_text(block / "device/model") or udev.get("ID_MODEL"),
        serial=_text(block / "device/serial")
        or udev.get("ID_SERIAL_SHORT")
        or _vital_product_serial(block)
        or _text(block / "serial"),
        size_bytes=_number(block / "size", 512),
        transport=_transport(name, real),
        pci_address=pci,
        enclosure=enclosure,
        slot=slot or _pci_slot(pci, root),
        links=_links(name, root),
        led=led,
        no_led_because=None if led else _why_no_led(name, real),
    )


def light(drive: Drive, lit: bool, root: Path = Path("/")) -> str:
    """Turns the LED on or off; returns what was done. Raises WhodiskError where that is not possible."""
    led = drive.led
    if led is None:
        raise WhodiskError(
            f"{drive.name}: expected a way to light its LED, found none: {drive.no_led_because}"
        )
    if led.file is not None:
        path = root / led.file.lstrip("/")
        try:
            path.write_text(f"{int(lit)}\n", encoding="ascii")
        except OSError as error:
            raise WhodiskError(
                f"{path}: cannot write: {error.strerror}; run it as root, and check that the enclosure answers"
            ) from None
        return led.sentence(lit)
    command = led.on if lit else led.off
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    except subprocess.CalledProcessError as error:
        said = (error.stderr or error.stdout or "").strip().splitlines()
        raise WhodiskError(
            f"{' '.join(command)}: failed with exit code {error.returncode}"
            f"{': ' + said[0] if said else ''}; it needs root and an enclosure that ledctl supports (ledctl --list-controllers)"
        ) from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise WhodiskError(f"{' '.join(command)}: cannot run: {error}; check the package ledmon") from None
    return led.sentence(lit)


# -- names --------------------------------------------------------------------------------------


def _disk_name(device: str, root: Path) -> str:
    path = Path(device)
    if path.is_absolute():
        inside = root / device.lstrip("/")
        name = inside.resolve().name if inside.exists() else path.name
    else:
        name = path.name
    if re.fullmatch(r"[\w!.-]+", name):
        if (root / "sys/block" / name).exists():
            return name
        # A partition is a folder inside its disk's.
        for disk in sorted((root / "sys/block").glob("*")):
            if (disk / name / "partition").exists():
                return disk.name
    known = (
        ", ".join(sorted(path.name for path in (root / "sys/block").glob("*"))) or "no block device at all"
    )
    raise WhodiskError(
        f"device '{device}': expected a block device, found none of that name; there are: {known}"
    )


def _links(name: str, root: Path) -> dict[str, list[str]]:
    found = {}
    for kind in LINKS:
        folder = root / "dev/disk" / kind
        names = [link for link in sorted(folder.glob("*")) if link.is_symlink()]
        mine = [f"/dev/disk/{kind}/{link.name}" for link in names if link.readlink().name == name]
        if mine:
            found[kind] = mine
    return found


def _udev(block: Path, root: Path) -> dict[str, str]:
    number = _text(block / "dev")
    try:
        text = (root / f"run/udev/data/b{number}").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    pairs = (line[2:].split("=", 1) for line in text.splitlines() if line.startswith("E:") and "=" in line)
    return {key: value for key, value in pairs if value}


# -- facts --------------------------------------------------------------------------------------


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").replace("\0", "").strip() or None
    except OSError:
        return None


def _number(path: Path, factor: int) -> int | None:
    text = _text(path)
    return int(text) * factor if text and text.isdigit() else None


def _vital_product_serial(block: Path) -> str | None:
    """SCSI: the unit serial number page (SPC-4, 7.8.18): four bytes of header, then text."""
    try:
        page = (block / "device/vpd_pg80").read_bytes()
    except OSError:
        return None
    return page[4:].decode("ascii", "replace").strip("\0 ") or None


def _transport(name: str, real: Path | None) -> str | None:
    if name.startswith("nvme"):
        return "nvme"
    if real is None:
        return None
    for part, kind in (("/virtio", "virtio"), ("/usb", "usb"), ("/ata", "sata"), ("/end_device-", "sas")):
        if part in str(real):
            return kind
    return "scsi" if "/host" in str(real) else None


def _pci_address(real: Path | None) -> str | None:
    addresses = re.findall(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", str(real or ""))
    return addresses[-1] if addresses else None


def _pci_slot(address: str | None, root: Path) -> str | None:
    if address is None:
        return None
    for slot in sorted((root / "sys/bus/pci/slots").glob("*")):
        if address.startswith((_text(slot / "address") or "-") + "."):
            return slot.name
    return None


# -- lights -------------------------------------------------------------------------------------


def _enclosure(real: Path | None, root: Path) -> tuple[str | None, str | None, Led | None]:
    """Enclosure, slot and LED of a drive in a SCSI enclosure (SES), where the kernel knows it."""
    if real is None:
        return None, None, None
    for component in sorted((root / "sys/class/enclosure").glob("*/*")):
        link = component / "device"
        if not link.exists() or link.resolve() != real:
            continue
        slot = _text(component / "slot") or component.name
        switch = component / "locate"
        name = component.parent.name
        file = f"/sys/class/enclosure/{name}/{component.name}/locate"
        return name, slot, Led("enclosure", file=file) if switch.exists() else None
    return None, None, None


def _pci_led(address: str | None, root: Path) -> Led | None:
    """Native PCIe enclosure management: the kernel (6.13 and newer) shows its indicators as LEDs."""
    if address is None:
        return None
    for switch in sorted((root / "sys/class/leds").glob(f"{address}:*:locate")):
        return Led("pci", file=f"/sys/class/leds/{switch.name}/brightness")
    return None


def _ledctl(name: str, real: Path | None) -> Led | None:
    program = shutil.which("ledctl")
    if program is None or real is None or _transport(name, real) in (None, "virtio", "usb"):
        return None
    return Led("ledctl", on=(program, f"locate=/dev/{name}"), off=(program, f"locate_off=/dev/{name}"))


def _why_no_led(name: str, real: Path | None) -> str:
    if real is None:
        return f"{name} is made by software; look at the devices below it"
    transport = _transport(name, real)
    if transport == "virtio":
        return f"{name} is a virtual disk; ask the host of this machine"
    if transport == "usb":
        return f"{name} is attached by USB, which has no locate LED"
    return "no enclosure in /sys/class/enclosure holds it (module ses), and ledctl (package ledmon) is not installed"
