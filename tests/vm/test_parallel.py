"""Several CPUs and drives at once, on Linux 6.12: nothing is lost or left over, and nothing breaks the kernel."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.vm import image
from tests.vm.cases import chains, reads_per_device, rows
from tests.vm.faults import Run
from tests.vm.machine import Hardware, Machine, agent_path

pytestmark = pytest.mark.vm

#: Recordings in one boot, unless WHODISK_STARTS says it; `make test-starts` asks for 200.
STARTS = 3


@pytest.mark.parametrize("name", ["parallel", "parallel-2"])
def test_every_read_of_four_drives_is_tied_to_its_request(parallel: Run, name: str) -> None:
    case = parallel.case(name)
    probes = json.loads((case / "case.json").read_text(encoding="utf-8"))["probes"]
    assert {probe: account["lost"] for probe, account in probes.items() if account["lost"]} == {}
    drives = [parallel.device(f"virtio{number}") for number in range(4)]
    assert reads_per_device(case) == dict.fromkeys(drives, 1009)
    assert chains(case) == {("call", drive): 1009 for drive in drives}
    assert rows(case, "SELECT sum(unknown_ns) FROM ops WHERE layer = 'syscall' AND comm = 'load'") == [(0,)]


@pytest.mark.parametrize("kernel", sorted(image.KERNELS))
def test_recordings_begin_and_end_while_all_cpus_do_io(kernel: str, tmp_path: Path) -> None:
    agent, because = agent_path(), image.obstacle(kernel)
    if because is not None or agent is None:
        pytest.skip(because or "no static whodisk-agent: run make agent, or set WHODISK_AGENT")
    starts = int(os.environ.get("WHODISK_STARTS", STARTS))
    hardware = Hardware(kernel=kernel, cpus=2, virtio_drives=4)
    timeout_s = 300.0 + 60.0 * starts
    machine = Machine(hardware, image.build(kernel), agent, tmp_path, timeout_s, (f"STARTS={starts}",))
    folder = machine.run("starts")
    assert len((folder / "starts" / "starts").read_text(encoding="utf-8").splitlines()) == starts
    # TAINT_DIE: the kernel has oopsed.
    assert int((folder / "starts" / "tainted").read_text(encoding="utf-8")) & 1 << 7 == 0
