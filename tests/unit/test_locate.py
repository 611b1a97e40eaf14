"""Drives found in made-up sysfs trees."""

from __future__ import annotations

from pathlib import Path

import pytest

from whodisk.errors import WhodiskError
from whodisk.machine.drive import find, light

SCSI = "sys/devices/pci0000:00/0000:00:1c.0/0000:3b:00.0/host2/port-2:0/end_device-2:0:7/target2:0:7/2:0:7:0"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def shelf(root: Path) -> Path:
    """A SAS drive in slot 7 of an enclosure, with a partition and links."""
    device = root / SCSI
    block = device / "block/sdh"
    write(device / "model", "ST16000NM\n")
    (device / "vpd_pg80").write_bytes(b"\x00\x80\x00\x08ZL2ABCDE")
    write(block / "size", "2048\n")
    write(block / "sdh1/partition", "1\n")
    (block / "device").symlink_to(device)
    (root / "sys/block").mkdir(parents=True)
    (root / "sys/block/sdh").symlink_to(block)
    component = root / "sys/class/enclosure/2:0:9:0/Slot 07"
    write(component / "slot", "7\n")
    write(component / "locate", "0\n")
    (component / "device").symlink_to(device)
    for kind, name in (("by-id", "wwn-0x5000c500a1b2c3d4"), ("by-path", "pci-0000:3b:00.0-sas-phy7")):
        folder = root / "dev/disk" / kind
        folder.mkdir(parents=True)
        (folder / name).symlink_to("../../sdh")
    write(root / "dev/sdh", "")
    return component


@pytest.mark.parametrize("name", ["sdh", "/dev/sdh", "sdh1", "/dev/disk/by-id/wwn-0x5000c500a1b2c3d4"])
def test_a_drive_in_an_enclosure(tmp_path: Path, name: str) -> None:
    component = shelf(tmp_path)
    drive = find(name, tmp_path)
    assert (drive.name, drive.model, drive.serial, drive.slot) == ("sdh", "ST16000NM", "ZL2ABCDE", "7")
    assert (drive.size_bytes, drive.transport, drive.pci_address) == (1 << 20, "sas", "0000:3b:00.0")
    assert drive.links["by-path"] == ["/dev/disk/by-path/pci-0000:3b:00.0-sas-phy7"]
    assert light(drive, True, tmp_path).startswith("echo 1 > /sys/class/enclosure/")
    assert (component / "locate").read_text() == "1\n"
    light(drive, False, tmp_path)
    assert (component / "locate").read_text() == "0\n"


def test_an_nvme_drive_with_indicators(tmp_path: Path) -> None:
    device = tmp_path / "sys/devices/pci0000:00/0000:5e:00.0/nvme/nvme3"
    write(device / "serial", "S6XNNE0T\n")
    write(device / "nvme3n1/size", "8\n")
    (device / "nvme3n1/device").symlink_to(device)
    (tmp_path / "sys/block").mkdir(parents=True)
    (tmp_path / "sys/block/nvme3n1").symlink_to(device / "nvme3n1")
    write(tmp_path / "sys/bus/pci/slots/12/address", "0000:5e:00\n")
    write(tmp_path / "sys/class/leds/0000:5e:00.0:enclosure:locate/brightness", "0\n")
    drive = find("nvme3n1", tmp_path)
    assert (drive.serial, drive.slot, drive.transport) == ("S6XNNE0T", "12", "nvme")
    assert drive.led is not None
    assert drive.led.way == "pci"


def test_what_cannot_be_lit_is_said(tmp_path: Path) -> None:
    write(tmp_path / "sys/block/loop0/size", "8\n")
    drive = find("loop0", tmp_path)
    assert "made by software" in (drive.no_led_because or "")
    with pytest.raises(WhodiskError, match="made by software"):
        light(drive, True, tmp_path)


@pytest.mark.parametrize("name", ["sdz", "/dev/sdz", "", "../../etc", "/dev/disk/by-id/x"])
def test_unknown_devices_are_told(tmp_path: Path, name: str) -> None:
    write(tmp_path / "sys/block/loop0/size", "8\n")
    with pytest.raises(WhodiskError, match=r"expected a block device.*loop0"):
        find(name, tmp_path)
