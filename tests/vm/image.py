"""Builds what the machine boots: one of Debian 12's kernels, and an initramfs made of Debian packages and of our sources.

    python -m tests.vm.image        builds all (what has changed) and prints where they are

No root, no disk image, nothing installed: packages are downloaded by `apt-get download` and unpacked below `build/vm`.
They are downloaded again when the folder is gone, or their list has changed.
"""

from __future__ import annotations

import hashlib
import lzma
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
#: Series of Debian 12's kernels -> the package that always names its newest build.
KERNELS = {"6.1": "linux-image-amd64", "6.12": "linux-image-6.12-amd64"}
#: The series that is booted unless another one is asked for.
KERNEL = "6.1"
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
    "mirrors": ("raid1",),
    "overlay": ("overlay",),
    "ext4": ("ext4",),
    "xfs": ("xfs",),
    "btrfs": ("btrfs",),
    "schedulers": ("mq-deadline", "bfq"),
}


class BuildError(Exception):
    """The machine cannot be built on this host; the text says what is missing and what to do."""


@dataclass(frozen=True)
class Image:
    """What QEMU boots."""

    kernel: Path
    #: Everything but the agent and the scenarios; those are added as a second archive for each run.
    initramfs: Path
    #: `6.1.0-56-amd64`, `6.12.117+deb12-amd64`.
    release: str


def obstacle(*series: str) -> str | None:
    """Why the machine cannot be built or run here with these kernels (all of KERNELS if none is named); None if it can."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    missing = [program for program in PROGRAMS if shutil.which(program, path=path) is None]
    if missing:
        return f"not installed: {', '.join(missing)} (scripts/packages.sh test-vm installs what is missing)"
    for one in series or KERNELS:
        try:
            kernel_release(one)
        except BuildError as error:
            return str(error)
    return None


def build(series: str = KERNEL) -> Image:
    """The image with this kernel, built if it is not there or if its sources changed.

    Raises BuildError.
    """
    release = kernel_release(series)
    place = CACHE / f"kernel-{series}"
    kernel = unpacked(place / "root", kernel_packages(release))
    (place / "release").write_text(release, encoding="utf-8")
    programs = unpacked(CACHE / "programs", GUEST_PACKAGES)
    sources = [HERE / "image.py", HERE / "guest" / "load.c", *sorted((HERE / "slowisr").iterdir())]
    parts = [path.read_bytes() for path in sources] + [release.encode()]
    key = hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]
    image = Image(kernel / "boot" / f"vmlinuz-{release}", place / f"base-{key}.cpio", release)
    if not image.initramfs.is_file():
        tree = place / "tree"
        shutil.rmtree(tree, ignore_errors=True)
        _fill(tree, place, programs, release)
        pack(tree, image.initramfs)
        for old in place.glob("base-*.cpio"):
            if old != image.initramfs:
                old.unlink()
    return image


def kernel_release(series: str) -> str:
    """Release of this kernel: the one in the cache, else what this host's package lists offer; raises BuildError."""
    kept = CACHE / f"kernel-{series}" / "release"
    if kept.is_file():
        return kept.read_text(encoding="utf-8")
    package = KERNELS[series]
    said = _run(["apt-cache", "depends", package])
    found = re.search(r"linux-image-(\S+)", said.split("Depends:", 1)[-1])
    release = found.group(1) if found else "none"
    if not release.startswith(series + "."):
        raise BuildError(
            f"apt-cache: expected {package} of Debian 12 (kernel {series}), found {release}; "
            "add Debian 12 and its security updates to the package sources and run apt-get update"
        )
    return release


def kernel_packages(release: str) -> tuple[str, ...]:
    """The kernel, and the headers and tools that a module of ours is built with."""
    headers = f"linux-headers-{release}"
    needs = _run(["apt-cache", "depends", headers])
    tools = re.findall(r"Depends: (linux-(?:headers|kbuild)-\S+)", needs)
    return (f"linux-image-{release}", headers, *tools)


def unpacked(root: Path, packages: Iterable[str]) -> Path:
    """The packages, downloaded and unpacked in `root`; a file beside it, written last, says which ones are there."""
    listed, list_file = "\n".join(packages), root.with_suffix(".list")
    if list_file.is_file() and list_file.read_text(encoding="utf-8") == listed:
        return root
    downloads = root.with_suffix(".packages")
    for folder in (root, downloads):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    _run(["apt-get", "download", *listed.split()], downloads)
    for package in sorted(downloads.glob("*.deb")):
        _run(["dpkg-deb", "--extract", str(package), str(root)])
    shutil.rmtree(downloads)
    list_file.write_text(listed, encoding="utf-8")
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


def _fill(tree: Path, place: Path, programs: Path, release: str) -> None:
    for name in GUEST_FILES:
        target = tree / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(programs / name, target)
    (tree / "bin" / "sh").symlink_to("busybox")
    modules = tree / "modules"
    modules.mkdir()
    root = place / "root"
    _run(["depmod", "-b", str(root), release])
    built = {"slowisr": _build_module(place, release)}
    order: dict[str, Path] = {}
    for group, names in MODULES.items():
        needed: dict[str, Path] = {}
        _add_modules(needed, names, root / "lib" / "modules" / release, built)
        (modules / group).write_text("".join(f"{name}\n" for name in needed), encoding="utf-8")
        order |= needed
    for name, path in order.items():
        # Some of Debian's kernels have their modules compressed, which the shell's insmod does not understand.
        found = path.read_bytes()
        (modules / f"{name}.ko").write_bytes(lzma.decompress(found) if path.suffix == ".xz" else found)
    load = ["cc", "-O2", "-static", "-pthread", "-Wall", "-Werror"]
    _run([*load, "-o", str(tree / "bin" / "load"), str(HERE / "guest" / "load.c")])


def _build_module(place: Path, release: str) -> Path:
    """Builds slowisr.ko against the kernel's headers, which expect to lie in /usr/src."""
    source = place / "root" / "usr" / "src"
    headers = source / f"linux-headers-{release}"
    common = source / f"linux-headers-{release.replace('amd64', 'common')}"
    (headers / "Makefile").write_text(f"include {common}/Makefile\n", encoding="utf-8")
    work = place / "slowisr"
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(HERE / "slowisr", work)
    # Type information of its own would take one more tool, and nobody reads it.
    _run(["make", "-s", "-C", str(headers), f"M={work}", "CONFIG_DEBUG_INFO_BTF_MODULES=", "modules"])
    return work / "slowisr.ko"


def _add_modules(order: dict[str, Path], names: Iterable[str], folder: Path, built: dict[str, Path]) -> None:
    """Adds modules and what they depend on to `order`, name -> file, so that they can be loaded in that order.

    What is built into this kernel is left out.
    """
    needs: dict[str, list[str]] = {}
    files = dict(built)
    for line in (folder / "modules.dep").read_text(encoding="utf-8").splitlines():
        path, _, rest = line.partition(":")
        name = _module_name(path)
        files[name] = folder / path
        needs[name] = [_module_name(word) for word in rest.split()]
    builtin = {
        _module_name(line) for line in (folder / "modules.builtin").read_text(encoding="utf-8").splitlines()
    }

    def add(name: str) -> None:
        if name in order or name in builtin:
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


def _module_name(path: str) -> str:
    """`kernel/drivers/nvme/host/nvme.ko.xz` is `nvme`."""
    return Path(path).name.split(".", 1)[0]


def _run(command: list[str], cwd: Path | None = None) -> str:
    """Standard output of a command that must succeed."""
    environment = {**os.environ, "LC_ALL": "C", "PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin"}
    done = subprocess.run(command, check=False, cwd=cwd, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise BuildError(f"{' '.join(command)}: exit {done.returncode}: {done.stderr.strip()[-2000:]}")
    return done.stdout


if __name__ == "__main__":
    for name in KERNELS:
        found = build(name)
        print(f"{found.release}: {found.kernel} {found.initramfs}")
