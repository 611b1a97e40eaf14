"""Builds what the machine boots: Debian 12's kernel, and an initramfs made of Debian packages and of our sources.

    python -m tests.vm.image        builds it (if anything changed) and prints where it is

No root, no disk image, nothing installed: packages are downloaded by `apt-get download` and unpacked below `build/vm`.
They are downloaded again when the folder is gone, or their list has changed.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
CACHE = HERE.parents[1] / "build" / "vm"
#: Programs of this host that the build and the machine need.
PROGRAMS = ("qemu-system-x86_64", "apt-get", "dpkg-deb", "depmod", "cpio", "make", "cc")
#: The kernel comes through the package that always names the newest build of Debian 12's kernel.
KERNEL_META_PACKAGE = "linux-image-amd64"
KERNEL_SERIES = "6.1"
#: What runs inside besides our own: a shell, and the tools that set up arrays and stacked devices, with their libraries.
GUEST_PACKAGES = (
    "busybox-static",
    "mdadm",
    "dmsetup",
    "libc6",
    "libudev1",
    "libdevmapper1.02.1",
    "libselinux1",
    "libpcre2-8-0",
    # mkfs of three file systems, and what it needs.
    "e2fsprogs",
    "libext2fs2",
    "libcom-err2",
    "xfsprogs",
    "libinih1",
    "liburcu8",
    "btrfs-progs",
    "libblkid1",
    "libuuid1",
)
GUEST_FILES = (
    "bin/busybox",
    "sbin/mdadm",
    "sbin/dmsetup",
    "lib64/ld-linux-x86-64.so.2",
    "lib/x86_64-linux-gnu/libc.so.6",
    "lib/x86_64-linux-gnu/libm.so.6",
    "usr/lib/x86_64-linux-gnu/libudev.so.1",
    "lib/x86_64-linux-gnu/libdevmapper.so.1.02.1",
    "lib/x86_64-linux-gnu/libselinux.so.1",
    "usr/lib/x86_64-linux-gnu/libpcre2-8.so.0",
    "sbin/mke2fs",
    "sbin/mkfs.xfs",
    "sbin/mkfs.btrfs",
    "lib/x86_64-linux-gnu/libext2fs.so.2",
    "lib/x86_64-linux-gnu/libe2p.so.2",
    "lib/x86_64-linux-gnu/libcom_err.so.2",
    "usr/lib/x86_64-linux-gnu/libblkid.so.1",
    "usr/lib/x86_64-linux-gnu/libuuid.so.1",
    "usr/lib/x86_64-linux-gnu/libinih.so.1",
    "usr/lib/x86_64-linux-gnu/liburcu.so.8",
)
#: Groups of modules, each loaded in this order, a module after those that it depends on. The first ones are asked for by
#: others only at run time; `slowisr` comes before the drives, because handlers that share a line are called in the
#: order in which they were registered.
MODULES = {
    "base": (
        "crc32c_generic",
        "crct10dif_generic",
        "virtio_pci",
        "virtio_blk",
        "virtio_scsi",
        "sd_mod",
        "slowisr",
        "nvme",
    ),
    "stacked": ("raid0", "raid456", "dm-mod"),
    "ext4": ("ext4",),
    "xfs": ("xfs",),
    "btrfs": ("btrfs",),
}


class BuildError(Exception):
    """The machine cannot be built on this host; the text says what is missing and what to do."""


@dataclass(frozen=True)
class Image:
    """What QEMU boots."""

    kernel: Path
    #: Everything but the agent and the scenarios; those are added as a second archive for each run.
    initramfs: Path
    #: `6.1.0-56-amd64`.
    release: str


def obstacle() -> str | None:
    """Why the machine cannot be built or run here; None if it can."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    missing = [program for program in PROGRAMS if shutil.which(program, path=path) is None]
    if missing:
        return f"not installed: {', '.join(missing)} (scripts/packages.sh test-vm installs what is missing)"
    if not (CACHE / "release").is_file():
        try:
            kernel_release()
        except BuildError as error:
            return str(error)
    return None


def build() -> Image:
    """The image, built if it is not there or if its sources changed.

    Raises BuildError.
    """
    CACHE.mkdir(parents=True, exist_ok=True)
    root = unpacked()
    release = (CACHE / "release").read_text(encoding="utf-8")
    sources = [HERE / "image.py", HERE / "guest" / "load.c", *sorted((HERE / "slowisr").iterdir())]
    key = hashlib.sha256(b"\0".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    image = Image(root / "boot" / f"vmlinuz-{release}", CACHE / f"base-{key}.cpio", release)
    if not image.initramfs.is_file():
        tree = CACHE / "tree"
        shutil.rmtree(tree, ignore_errors=True)
        _fill(tree, root, release)
        pack(tree, image.initramfs)
        for old in CACHE.glob("base-*.cpio"):
            if old != image.initramfs:
                old.unlink()
    return image


def kernel_release() -> str:
    """Release of the kernel that this host's package lists offer; raises BuildError if it is none of 6.1."""
    said = _run(["apt-cache", "depends", KERNEL_META_PACKAGE])
    found = re.search(r"linux-image-(\S+)", said.split("Depends:", 1)[-1])
    release = found.group(1) if found else "none"
    if not release.startswith(KERNEL_SERIES + "."):
        raise BuildError(
            f"apt-cache: expected {KERNEL_META_PACKAGE} of Debian 12 (kernel {KERNEL_SERIES}), found {release}; "
            "add Debian 12 to the package sources and run apt-get update"
        )
    return release


def unpacked() -> Path:
    """The packages, downloaded and unpacked; the files `release` and `unpacked` beside them say that all is there."""
    root, release_file, list_file = CACHE / "root", CACHE / "release", CACHE / "unpacked"
    listed = "\n".join(GUEST_PACKAGES)
    if release_file.is_file() and list_file.is_file() and list_file.read_text(encoding="utf-8") == listed:
        return root
    release = kernel_release()
    downloads = CACHE / "packages"
    for folder in (root, downloads):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    headers = f"linux-headers-{release}"
    kernel = [
        f"linux-image-{release}",
        headers,
        headers.replace("amd64", "common"),
        f"linux-kbuild-{KERNEL_SERIES}",
    ]
    _run(["apt-get", "download", *kernel, *GUEST_PACKAGES], downloads)
    for package in sorted(downloads.glob("*.deb")):
        _run(["dpkg-deb", "--extract", str(package), str(root)])
    shutil.rmtree(downloads)
    _run(["depmod", "-b", str(root), release])
    list_file.write_text(listed, encoding="utf-8")
    release_file.write_text(release, encoding="utf-8")
    return root


def pack(tree: Path, archive: Path) -> None:
    """Writes `tree` as an initramfs archive; the same files give the same bytes."""
    names = sorted(str(path.relative_to(tree)) for path in tree.rglob("*"))
    for path in [tree, *tree.rglob("*")]:
        os.utime(path, (0, 0), follow_symlinks=False)
    partial = archive.with_suffix(".tmp")
    command = ["cpio", "--quiet", "-o", "-H", "newc", "--reproducible", "--owner=0:0"]
    with partial.open("wb") as file:
        subprocess.run(command, input="\n".join(names).encode(), stdout=file, cwd=tree, check=True)
    partial.replace(archive)


def _fill(tree: Path, root: Path, release: str) -> None:
    for name in GUEST_FILES:
        target = tree / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / name, target)
    (tree / "bin" / "sh").symlink_to("busybox")
    modules = tree / "modules"
    modules.mkdir()
    built = {"slowisr": _build_module(root, release)}
    order: dict[str, Path] = {}
    for group, names in MODULES.items():
        needed: dict[str, Path] = {}
        _add_modules(needed, names, root / "lib" / "modules" / release, built)
        (modules / group).write_text("".join(f"{name}\n" for name in needed), encoding="utf-8")
        order |= needed
    for name, path in order.items():
        shutil.copy(path, modules / f"{name}.ko")
    load = ["cc", "-O2", "-static", "-pthread", "-Wall", "-Werror"]
    _run([*load, "-o", str(tree / "bin" / "load"), str(HERE / "guest" / "load.c")])


def _build_module(root: Path, release: str) -> Path:
    """Builds slowisr.ko against the kernel's headers, which expect to lie in /usr/src."""
    source = root / "usr" / "src"
    headers = source / f"linux-headers-{release}"
    common = source / f"linux-headers-{release.replace('amd64', 'common')}"
    (headers / "Makefile").write_text(f"include {common}/Makefile\n", encoding="utf-8")
    place = CACHE / "slowisr"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(HERE / "slowisr", place)
    _run(["make", "-s", "-C", str(headers), f"M={place}", "modules"])
    return place / "slowisr.ko"


def _add_modules(order: dict[str, Path], names: Iterable[str], folder: Path, built: dict[str, Path]) -> None:
    """Adds modules and what they depend on to `order`, name -> file, so that they can be loaded in that order."""
    needs: dict[str, list[str]] = {}
    files = dict(built)
    for line in (folder / "modules.dep").read_text(encoding="utf-8").splitlines():
        path, _, rest = line.partition(":")
        name = Path(path).stem
        files[name] = folder / path
        needs[name] = [Path(word).stem for word in rest.split()]

    def add(name: str) -> None:
        if name in order:
            return
        if name not in files:
            raise BuildError(
                f"{folder}: expected a module {name}, found none; MODULES names another kernel's"
            )
        for need in needs.get(name, []):
            add(need)
        order[name] = files[name]

    for name in names:
        add(name)


def _run(command: list[str], cwd: Path | None = None) -> str:
    """Standard output of a command that must succeed."""
    environment = {**os.environ, "LC_ALL": "C", "PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin"}
    done = subprocess.run(command, check=False, cwd=cwd, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise BuildError(f"{' '.join(command)}: exit {done.returncode}: {done.stderr.strip()[-2000:]}")
    return done.stdout


if __name__ == "__main__":
    found = build()
    print(f"{found.release}: {found.kernel} {found.initramfs}")
