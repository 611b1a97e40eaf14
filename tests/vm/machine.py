"""Boots the machine, runs one scenario in it, brings out what the scenario left."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import tarfile
import threading
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from tests.vm import image
from tests.vm.hdd import Disk, DiskServer

OUTPUT_BYTES = 1 << 30
DRIVE_BYTES = 256 << 20
NVME_COUNT = 4
#: PCI slots 4 to 7 lie on four interrupt lines of their own, slot 8 on that of slot 4; the others elsewhere.
NVME_SLOT, SLOW_HANDLER_SLOT, BAD_SLOT, VIRTIO_SLOT, OUTPUT_SLOT, SCSI_SLOT = 4, 8, 9, 0x10, 0x1A, 0x1B
#: Of the bad drive, in sectors of 512 bytes: the first read of the one fails, every read of the other.
BAD_ONCE_512, BAD_512 = 8192, 16384
#: One CPU whose clock counts instructions. With clocks of its own a kernel calibrates them against each other while
#: the host runs somebody else, and then lives in a wrong time, or hangs. With the plain CPU model `max` the kernel
#: takes the CPU for one with an old AMD erratum, and idles accordingly.
ONE_CPU = ["-accel", "tcg,thread=single", "-smp", "1", "-icount", "shift=1,sleep=on"]
CPU_MODEL = "max,vendor=GenuineIntel"


class MachineError(Exception):
    """The machine did not do what was asked; the text ends with the last lines of its console."""


@dataclass(frozen=True)
class Hardware:
    """What differs between machines."""

    #: One of image.KERNELS.
    kernel: str = image.KERNEL
    #: More than one have clocks of their own (see ONE_CPU): good for counts, not for times.
    cpus: int = 1
    #: Drives behind virtio-blk, beside those behind NVMe.
    virtio_drives: int = 0
    #: Drives hold data in a file and can be throttled; otherwise every read gives zeros at once.
    stored_drives: bool = False
    #: PCI interrupt lines instead of messages, and a device with a slow handler on the first drive's line.
    shared_line: bool = False
    #: A disk with one arm.
    hdd: bool = False
    #: A drive with bad places.
    bad_drive: bool = False
    seed: int = 1

    @property
    def serials(self) -> list[str]:
        """Serial numbers of the drives; they are the same on every boot, kernel names are not."""
        others = [name for name, there in (("hdd", self.hdd), ("bad", self.bad_drive)) if there]
        virtio = [f"virtio{number}" for number in range(self.virtio_drives)]
        return [f"nvme{number}" for number in range(NVME_COUNT)] + virtio + others

    def processor(self) -> list[str]:
        """What QEMU is told of CPUs."""
        # In turns: emulated CPUs that really run at once execute, in QEMU before 8.1, what is being patched (decisions/0123).
        several = ["-accel", "tcg,thread=single", "-smp", str(self.cpus)]
        return [*(ONE_CPU if self.cpus == 1 else several), "-cpu", CPU_MODEL]


@dataclass(frozen=True)
class Machine:
    """One machine, for one boot."""

    hardware: Hardware
    image: image.Image
    agent: Path
    work: Path
    #: For each scenario. A quiet host needs a tenth of it.
    scenario_timeout_s: float = 300.0
    #: Variables of the scenarios, `NAME=VALUE`.
    variables: tuple[str, ...] = ()

    def run(self, *scenarios: str) -> Path:
        """Boots, runs guest/scenario/SCENARIO.sh one after the other, and gives the folder with what it left in /out.

        Raises MachineError if the machine does not end in time or a step of the scenario fails.
        """
        timeout_s = self.scenario_timeout_s * len(scenarios)
        self.work.mkdir(parents=True, exist_ok=True)
        overlay = self._overlay()
        output = self.work / "output.tar"
        with output.open("wb") as file:
            file.truncate(OUTPUT_BYTES)
        with ExitStack() as stack:
            port = (
                stack.enter_context(DiskServer(Disk(), self.hardware.seed)).port if self.hardware.hdd else 0
            )
            monitor, monitor_end = socket.socketpair()
            talk, talk_end = socket.socketpair()
            for end in (monitor, monitor_end, talk, talk_end):
                stack.enter_context(end)
            command = self._command(
                scenarios, overlay, output, port, (monitor_end.fileno(), talk_end.fileno())
            )
            fds = (monitor_end.fileno(), talk_end.fileno())
            process = stack.enter_context(_started(command, fds, self.work / "qemu.log"))
            monitor_end.close()
            talk_end.close()
            listener = threading.Thread(target=_answer, args=(talk, monitor), daemon=True)
            listener.start()
            try:
                process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                raise MachineError(f"{scenarios}: not done after {timeout_s} s\n{self._console()}") from None
            finally:
                process.kill()
        return self._unpack(output)

    def _overlay(self) -> Path:
        """The second archive: agent and scenarios, which change more often than the rest."""
        tree = self.work / "overlay"
        shutil.rmtree(tree, ignore_errors=True)
        shutil.copytree(image.HERE / "guest", tree / "guest", ignore=shutil.ignore_patterns("*.c"))
        (tree / "guest" / "init").rename(tree / "init")
        (tree / "init").chmod(0o755)
        (tree / "bin").mkdir()
        shutil.copy(self.agent, tree / "bin" / "whodisk-agent")
        archive = self.work / "overlay.cpio"
        image.pack(tree, archive)
        shutil.rmtree(tree)
        whole = self.work / "initramfs"
        with whole.open("wb") as file:
            for part in (self.image.initramfs, archive):
                with part.open("rb") as source:
                    shutil.copyfileobj(source, file)
        archive.unlink()
        return whole

    def _command(
        self, scenarios: tuple[str, ...], initramfs: Path, output: Path, port: int, fds: tuple[int, int]
    ) -> list[str]:
        lines = ["pci=nomsi"] if self.hardware.shared_line else []
        if self.hardware.cpus > 1:
            # On a busy host the timer's interrupts come too late for the kernel's check of their wiring, and it panics.
            lines.append("no_timer_check")
        disks = ",".join(["out", *self.hardware.serials])
        words = [
            "console=ttyS0 loglevel=5 panic=-1 rdinit=/init",
            *lines,
            f"SCENARIOS={','.join(scenarios)} DISKS={disks}",
            *self.variables,
        ]
        command = ["qemu-system-x86_64", "-machine", "q35", "-m", "1024", "-nodefaults", "-display", "none"]
        command += ["-no-reboot", "-kernel", str(self.image.kernel), "-initrd", str(initramfs)]
        command += ["-append", " ".join(words), *self.hardware.processor()]
        command += ["-serial", f"file:{self.work / 'console.log'}"]
        command += ["-chardev", f"socket,id=monitor,fd={fds[0]}", "-mon", "chardev=monitor,mode=control"]
        command += ["-chardev", f"socket,id=talk,fd={fds[1]}", "-serial", "chardev:talk"]
        command += ["-blockdev", f"driver=file,node-name=output,filename={output}"]
        command += ["-device", f"virtio-blk-pci,drive=output,serial=out,addr={OUTPUT_SLOT:x},romfile="]
        for number in range(NVME_COUNT):
            command += self._drive("nvme", f"nvme{number}", NVME_SLOT + number)
        for number in range(self.hardware.virtio_drives):
            command += self._drive("virtio-blk-pci", f"virtio{number}", VIRTIO_SLOT + number)
        if self.hardware.shared_line:
            command += ["-device", f"edu,addr={SLOW_HANDLER_SLOT:x}"]
        if self.hardware.bad_drive:
            command += self._bad_drive()
        if self.hardware.hdd:
            server = f"server.type=inet,server.host=127.0.0.1,server.port={port}"
            command += ["-blockdev", f"driver=nbd,node-name=hdd,{server}"]
            command += ["-device", f"virtio-scsi-pci,id=scsi,addr={SCSI_SLOT:x},romfile="]
            command += ["-device", "scsi-hd,bus=scsi.0,drive=hdd,serial=hdd,rotation_rate=7200"]
        return command

    def _drive(self, driver: str, name: str, slot: int) -> list[str]:
        command = []
        if self.hardware.stored_drives:
            file = self.work / f"{name}.img"
            with file.open("wb") as created:
                created.truncate(DRIVE_BYTES)
            command += ["-object", f"throttle-group,id=limit-{name}"]
            command += ["-blockdev", f"driver=file,node-name=file-{name},filename={file}"]
            command += [
                "-blockdev",
                f"driver=throttle,node-name={name},throttle-group=limit-{name},file=file-{name}",
            ]
        else:
            command += _zeros(name)
        return [*command, "-device", f"{driver},drive={name},serial={name},addr={slot:x},romfile="]

    def _bad_drive(self) -> list[str]:
        rules = ",".join(
            f"inject-error.{rule}.{setting}"
            for rule, (sector, once) in enumerate(((BAD_ONCE_512, "on"), (BAD_512, "off")))
            for setting in ("event=none", "iotype=read", "errno=5", f"sector={sector}", f"once={once}")
        )
        command = [
            *_zeros("bad-zeros"),
            "-blockdev",
            f"driver=blkdebug,node-name=bad,image=bad-zeros,{rules}",
        ]
        return [*command, "-device", f"nvme,drive=bad,serial=bad,addr={BAD_SLOT:x},romfile="]

    def _unpack(self, output: Path) -> Path:
        folder = self.work / "out"
        shutil.rmtree(folder, ignore_errors=True)
        try:
            with tarfile.open(output, "r:") as archive:
                archive.extractall(folder, filter="data")
            status = (folder / "status").read_text(encoding="utf-8").strip()
        except (tarfile.TarError, FileNotFoundError) as error:
            raise MachineError(f"nothing came out ({error})\n{self._console()}") from error
        for used in [output, self.work / "initramfs", *self.work.glob("*.img")]:
            used.unlink()
        if status != "0":
            log = (folder / "log").read_text(encoding="utf-8", errors="replace")
            raise MachineError(f"a step failed with exit {status}\n{log[-4000:]}\n{self._console()}")
        return folder

    def _console(self) -> str:
        texts = []
        for name in ("qemu.log", "console.log"):
            path = self.work / name
            if path.is_file():
                texts.append(path.read_text(encoding="utf-8", errors="replace")[-12000:])
        return "\n".join(texts)


def _zeros(name: str) -> list[str]:
    return ["-blockdev", f"driver=null-co,node-name={name},size={DRIVE_BYTES},read-zeroes=on"]


def agent_path() -> Path | None:
    """The static binary: the one that WHODISK_AGENT names if that is an ELF file, else this tree's build."""
    built = image.HERE.parents[1] / "target" / "x86_64-unknown-linux-gnu" / "release" / "whodisk-agent"
    for path in (Path(os.environ.get("WHODISK_AGENT", "")), built):
        if path.is_file():
            with path.open("rb") as file:
                if file.read(4) == b"\x7fELF":
                    return path
    return None


def _started(command: list[str], fds: tuple[int, int], log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as file:
        return subprocess.Popen(
            command, pass_fds=fds, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT
        )


def _answer(talk: socket.socket, monitor: socket.socket) -> None:
    """Does what the scenario asks for, line by line: `limit SERIAL IOPS`, where 0 means no limit."""
    try:
        with (
            talk.makefile("rw", encoding="utf-8") as lines,
            monitor.makefile("rw", encoding="utf-8") as commands,
        ):
            commands.readline()
            _command_monitor(commands, "qmp_capabilities", {})
            for line in lines:
                lines.write(_do(line.split(), commands) + "\n")
                lines.flush()
    except (OSError, ValueError):
        pass  # the machine was switched off


def _do(words: list[str], commands: TextIO) -> str:
    if len(words) == 3 and words[0] == "limit":
        limits = {"iops-total": int(words[2])}
        arguments: dict[str, object] = {
            "path": f"/objects/limit-{words[1]}",
            "property": "limits",
            "value": limits,
        }
        return _command_monitor(commands, "qom-set", arguments)
    return f"expected `limit SERIAL IOPS`, found {words}"


def _command_monitor(commands: TextIO, name: str, arguments: dict[str, object]) -> str:
    commands.write(json.dumps({"execute": name, "arguments": arguments}) + "\n")
    commands.flush()
    for line in commands:
        answer = json.loads(line)
        if "return" in answer:
            return "ok"
        if "error" in answer:
            return str(answer["error"]["desc"])
    return "the monitor was closed"
