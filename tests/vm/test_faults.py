"""Three real faults on another kernel, each with a healthy run beside it: what is in the cases, and what the verdicts say.

Time in an emulated machine means nothing by itself: phases of one boot and drives of one machine are compared.
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median

import pytest

from tests.vm.cases import (
    chains,
    check_named,
    check_volume,
    check_whole,
    reads_per_device,
    rows,
    to_peers,
    typical_us,
)
from tests.vm.faults import Run

pytestmark = pytest.mark.vm


@pytest.mark.parametrize("level", ["raid0", "raid5"])
def test_throttled_member_of_an_array(arrays: Run, level: str) -> None:
    run = arrays
    slow = run.device("nvme2")
    for phase in ("healthy", "sick"):
        case = run.case(f"{level}-{phase}")
        check_whole(case)
        # 256 KiB on 64 KiB chunks are four requests: one per member (raid0), or over all members in turn (raid5).
        reads = run.load(f"{level}-{phase}")[0]["reads"]
        counted = reads_per_device(case)
        members = {run.device(f"nvme{number}") for number in range(4)}
        if level == "raid0":
            assert {name: counted[name] for name in members} == dict.fromkeys(members, reads)
        else:
            assert sum(counted[name] for name in members) == 4 * reads
        volume = f"md{level[-1]}"
        assert counted[volume] == reads, "one row of the volume for each read"
        links = chains(case)
        assert links[("call", volume)] == reads
        # Reads of whole chunks go past raid5's stripes, so both are tied one to one.
        assert sum(links[(volume, name)] for name in members) == 4 * reads
        check_volume(case, volume)
    sick = run.case(f"{level}-sick")
    typical = {name: at for name, at in typical_us(sick, "latency_ns").items() if name in members}
    assert max(typical, key=lambda name: typical[name]) == slow
    assert to_peers(typical, slow) > 4
    healthy = typical_us(run.case(f"{level}-healthy"), "latency_ns")
    assert to_peers({name: healthy[name] for name in members}, slow) < 3
    in_device = typical_us(sick, "device_ns")[slow] / typical_us(sick, "latency_ns")[slow]
    assert in_device > 0.8, "the excess sits in the drive"


def test_slow_handler_on_a_shared_line(shared_line: Run) -> None:
    victim = shared_line.device("nvme0")
    for phase in ("healthy", "sick"):
        check_whole(shared_line.case(phase))
        counted = reads_per_device(shared_line.case(phase))
        wanted = {Path(reader["path"]).name: reader["reads"] for reader in shared_line.load(phase)}
        assert wanted == {shared_line.device(f"nvme{number}"): 307 for number in range(4)}
        assert counted == wanted
    assert 0.7 < to_peers(typical_us(shared_line.case("healthy"), "latency_ns"), victim) < 1.5
    sick = shared_line.case("sick")
    assert to_peers(typical_us(sick, "latency_ns"), victim) > 4
    whole = typical_us(sick, "latency_ns")
    excess_us = whole[victim] - median(value for name, value in whole.items() if name != victim)
    stage = typical_us(sick, "interrupt_ns")
    in_interrupt_us = stage[victim] - median(value for name, value in stage.items() if name != victim)
    assert in_interrupt_us > 0.8 * excess_us, "the excess sits in the interrupt, not in the drive"
    vectors = dict(rows(sick, "SELECT device, min(vector) FROM ops WHERE layer = 'block' GROUP BY ALL"))
    foreign = "SELECT avg(foreign_handler_ns) / 1e3 FROM ops WHERE layer = 'block' AND comm = 'load'"
    [(foreign_us,)] = rows(sick, f"{foreign} AND device = '{victim}'")
    assert foreign_us > 0.8 * in_interrupt_us, "it is the other handler's time"
    handlers = json.loads((sick / "system.json").read_text(encoding="utf-8"))["irqs"]
    assert "slowisr" in handlers[str(vectors[victim])][0]


def test_reads_larger_than_the_readahead(hdd: Run) -> None:
    requests_per_read = {}
    typical_ns = {}
    for phase, max_sectors_kb in (("max-sectors-1280", "1280"), ("max-sectors-128", "128")):
        case = hdd.case(phase)
        check_whole(case)
        queue = json.loads((case / "system.json").read_text(encoding="utf-8"))["devices"][hdd.device("hdd")][
            "queue"
        ]
        assert (queue["read_ahead_kb"], queue["max_sectors_kb"]) == ("128", max_sectors_kb)
        readers = hdd.load(phase)
        assert [reader["reads"] for reader in readers] == [151, 151]
        requests_per_read[phase] = reads_per_device(case)[hdd.device("hdd")] / 302
        typical_ns[phase] = median(reader["p50_ns"] for reader in readers)
    assert 1 <= requests_per_read["max-sectors-1280"] < 1.2, (
        "a request may be as large as the read: nothing is wrong"
    )
    assert 2.5 < requests_per_read["max-sectors-128"] < 3.5, "the rest of each read is a request of its own"
    assert typical_ns["max-sectors-128"] > 1.5 * typical_ns["max-sectors-1280"]


@pytest.mark.parametrize("name", ["slow_handler", "throttled_raid0", "throttled_raid5", "short_readahead"])
def test_the_fault_is_named_and_nobody_without_it(name: str, request: pytest.FixtureRequest) -> None:
    # Only the machine that is asked for boots.
    machine = {"slow_handler": "shared_line", "short_readahead": "hdd"}.get(name, "arrays")
    check_named(name, request.getfixturevalue(machine))
