"""Boots the machine, two of them at a time: one has one CPU."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.vm import image
from tests.vm.faults import BAD, FAULTS, IRQ, RAID, Run, boot
from tests.vm.machine import Hardware, agent_path

#: Fixture -> its hardware and what is recorded in one boot. The longest first.
BOOTS: dict[str, tuple[Hardware, tuple[str, ...]]] = {
    "stored": (BAD, ("kernel", "errors", "cpu")),
    "journals": (RAID, ("journals", "logs", "overlay", "mirror")),
    "arrays": (RAID, ("raid",)),
    "hdd": (FAULTS["short_readahead"].hardware, ("readahead",)),
    "shared_line": (IRQ, ("irq",)),
    "schedulers_6_12": (Hardware(kernel="6.12", virtio_drives=3), ("schedulers",)),
    "schedulers_6_1": (Hardware(virtio_drives=3), ("schedulers",)),
    "parallel": (Hardware(kernel="6.12", cpus=2, virtio_drives=4), ("parallel",)),
}

Boots = dict[str, Future[dict[str, Run]]]


@pytest.fixture(scope="session")
def boots(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Boots]:
    """All that the selected tests need; skips where the machine cannot run."""
    wanted = {name for item in request.session.items for name in getattr(item, "fixturenames", ())}
    kernels = sorted({hardware.kernel for name, (hardware, _) in BOOTS.items() if name in wanted})
    because = image.obstacle(*kernels)
    if because is None and agent_path() is None:
        because = "no static whodisk-agent: run make agent, or set WHODISK_AGENT"
    if because is not None:
        pytest.skip(because)
    for kernel in kernels:
        image.build(kernel)
    folder: Path = tmp_path_factory.mktemp("vm")
    with ThreadPoolExecutor(2) as pool:
        yield {
            name: pool.submit(boot, hardware, folder / name, *scenarios)
            for name, (hardware, scenarios) in BOOTS.items()
            if name in wanted
        }
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def stored(boots: Boots) -> dict[str, Run]:
    return boots["stored"].result()


@pytest.fixture(scope="session")
def journals(boots: Boots) -> dict[str, Run]:
    return boots["journals"].result()


@pytest.fixture(scope="session")
def arrays(boots: Boots) -> Run:
    return boots["arrays"].result()["raid"]


@pytest.fixture(scope="session")
def hdd(boots: Boots) -> Run:
    return boots["hdd"].result()["readahead"]


@pytest.fixture(scope="session")
def shared_line(boots: Boots) -> Run:
    return boots["shared_line"].result()["irq"]


@pytest.fixture(scope="session")
def schedulers_6_1(boots: Boots) -> Run:
    return boots["schedulers_6_1"].result()["schedulers"]


@pytest.fixture(scope="session")
def schedulers_6_12(boots: Boots) -> Run:
    return boots["schedulers_6_12"].result()["schedulers"]


@pytest.fixture(scope="session")
def parallel(boots: Boots) -> Run:
    return boots["parallel"].result()["parallel"]
