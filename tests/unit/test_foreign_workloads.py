"""fio jobs, Iometer configurations and diskspd profiles as access specifications. Fixtures are written from the formats' descriptions."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from whodisk.errors import WhodiskError
from whodisk.experiment import loads, plan
from whodisk.experiment.foreign import access_specification

AGENT = Path(sys.executable).parent / "whodisk-agent"

FIO = """
; the VM server pattern
[global]
ioengine=libaio
direct=1
bs=4k
group_reporting
[vm]
filename=/mnt/a:/mnt/b
rw=randrw
rwmixread=60
percentage_random=55
iodepth=16
numjobs=4
size=1g
time_based
runtime=30
ramp_time=2s
[log]
directory=/mnt
rw=write
bssplit=4k/90:16k/10
ioengine=psync
iodepth=8
fdatasync=1
number_ios=500
rate_iops=100
"""

ICF = """Version 1.1.0
'TEST SETUP ====================================================================
'Run Time
'\thours      minutes    seconds
\t0          30         0
'Ramp Up Time (s)
\t600
'END test setup
'ACCESS SPECIFICATIONS =========================================================
'Access specification name,default assignment
\tVM server, as published,NONE
'size,% of size,% reads,% random,delay,burst,align,reply
\t4096,100,60,55,0,1,4096,0
'Access specification name,default assignment
\tTwo sizes,NONE
'size,% of size,% reads,% random,delay,burst,align,reply
\t4096,70,60,100,0,1,0,0
\t65536,30,60,100,0,1,0,0
'Access specification name,default assignment
\tEverything,NONE
'size,% of size,% reads,% random,delay,burst,align,reply
\t4096,50,100,0,0,1,0,0
\t4096,50,0,0,0,1,0,0
'END access specifications
'MANAGER LIST ==================================================================
'Manager ID, manager name
\t1,HOST
'Worker
\tWorker 1
'Worker type
\tDISK
'Number of outstanding IOs,test connection rate,transactions per connection,use fixed seed,fixed seed value
\t16,DISABLED,1,ENABLED,77
'Disk maximum size,starting sector,Data pattern
\t2097152,0,0
'Worker
\tWorker 2
'Worker type
\tDISK
'Number of outstanding IOs,test connection rate,transactions per connection,use fixed seed,fixed seed value
\t16,DISABLED,1,DISABLED,0
'Disk maximum size,starting sector,Data pattern
\t2097152,0,0
'Worker
\tNet 1
'Worker type
\tNETWORK
'Number of outstanding IOs,test connection rate,transactions per connection,use fixed seed,fixed seed value
\t1,DISABLED,1,DISABLED,0
'END manager list
Version 1.1.0
"""

OLD_ICF = """Version 1998.01.05
'test setup ====================================================================
'RUN TIME
'\thours      minutes    seconds
\t0          0          3
'ACCESS SPECIFICATIONS =========================================================
'size, % of size, % reads, % random, delay, burst
2048 100 67 100 0 1
'END access specifications
"""

XML = """<Profile><ResultFormat>xml</ResultFormat><TimeSpans><TimeSpan><MeasureLatency>true</MeasureLatency>
<Duration>60</Duration><Warmup>30</Warmup><RandSeed>5</RandSeed>
<Targets><Target><Path>*1</Path><BlockSize>4096</BlockSize><Random>4096</Random><RandomRatio>55</RandomRatio>
<RequestCount>16</RequestCount><WriteRatio>40</WriteRatio><DisableOSCache>true</DisableOSCache><WriteThrough>true</WriteThrough>
<BaseFileOffset>0</BaseFileOffset><Throughput unit="IOPS">500</Throughput><ThreadsPerFile>4</ThreadsPerFile>
</Target></Targets></TimeSpan></TimeSpans></Profile>"""


def table(tmp_path: Path, name: str, text: str, part: str | None = None, **over: Any) -> dict[str, Any]:
    (tmp_path / name).write_text(text, encoding="utf-8")
    return access_specification(tmp_path / name, part, over)


def test_a_fio_job_becomes_an_access_specification(tmp_path: Path) -> None:
    assert table(tmp_path, "a.fio", FIO, "vm") == {
        "targets": ["/mnt/a", "/mnt/b"],
        "block_sizes": {"4KiB": "100%"},
        "read": "60%",
        "random": "55%",
        "io": "direct",
        "queue_depth": 16,
        "workers": 4,
        "seed": 1,
        "file_size": "1GiB",
        "ramp": "2s",
        "duration": "30s",
    }
    log = table(tmp_path, "a.fio", FIO, "log")
    assert (log["targets"], log["queue_depth"], log["read"]) == (["/mnt/log.0.0"], 1, "0%"), (
        "psync has one in flight"
    )
    assert log["block_sizes"] == {"4KiB": "90%", "16KiB": "10%"} and log["operations"] == 500
    assert (log["sync_every_writes"], log["sync_kind"], log["rate"]) == (1, "fdatasync", "100/s")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[a]\nrw=read\nverify=crc32c\nsize=1m\n", "option 'verify': expected one that our engine can do"),
        ("[a]\nrw=trim\nsize=1m\n", "option 'rw': expected one of read"),
        ("[a]\nrw=read\nbs=4k,8k\nsize=1m\n", "one size for reads and writes"),
        ("[a]\nrw=read\nbs=4kb\nsize=1m\n", "units of 1024"),
        ("[a]\nrw=read\nioengine=rbd\nsize=1m\n", "option 'ioengine'"),
        (
            "[a]\nrw=read\niodepth=many\nioengine=libaio\nsize=1m\n",
            "option 'iodepth': expected a number, found 'many'",
        ),
        ("[a]\nrw=read\n", "nobody knows when it ends"),
        ("[a]\nrw=read\n[b]\nrw=write\n", "expected one job of a, b, found none given"),
        ("rw=read\n", "expected a fio job file"),
    ],
)
def test_what_our_engine_cannot_do_is_refused_by_name(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(WhodiskError, match=said) as error:
        table(tmp_path, "a.fio", text)
    assert "a.fio" in str(error.value)


def test_an_iometer_configuration_becomes_an_access_specification(tmp_path: Path) -> None:
    found = table(tmp_path, "a.icf", ICF, "VM server, as published", targets=["/mnt/file"])
    assert found == {
        "targets": ["/mnt/file"],
        "block_sizes": {"4096B": "100%"},
        "read": "60%",
        "random": "55%",
        "align": "4096B",
        "io": "direct",
        "queue_depth": 16,
        "workers": 2,
        "file_size": "1073741824B",
        "duration": "1800s",
        "ramp": "600s",
        "seed": 77,
    }
    two = table(tmp_path, "a.icf", ICF, "Two sizes", targets=["x"])
    assert two["block_sizes"] == {"4096B": "70%", "65536B": "30%"} and two["align"] == "512B"


def test_an_iometer_configuration_of_the_first_versions_is_read(tmp_path: Path) -> None:
    found = table(tmp_path, "a.icf", OLD_ICF, targets=["x"])
    assert found["block_sizes"] == {"2048B": "100%"} and found["read"] == "67%" and found["duration"] == "3s"


@pytest.mark.parametrize(
    ("text", "part", "said"),
    [
        (
            ICF,
            "Everything",
            r"line 23: .*expected the reads and random percentages of line 22 \(100, 0\), found 0, 0",
        ),
        (ICF, None, "expected one access specification of VM server, as published, Two sizes, Everything"),
        (ICF.replace("4096,70,60", "4096,60,60"), "Two sizes", "sum to 100, found 90"),
        (ICF.replace("0,1,4096,0", "5,1,4096,0"), "VM server, as published", "found 5, 1, 0"),
        (
            ICF.replace("4096,100,60", "4096,all,60"),
            "VM server, as published",
            "line 13: expected 6 whole numbers",
        ),
        ("[global]\n", None, "line 1: expected 'Version"),
    ],
)
def test_an_iometer_configuration_that_cannot_be_done_says_its_line(
    tmp_path: Path, text: str, part: str | None, said: str
) -> None:
    with pytest.raises(WhodiskError, match=said):
        table(tmp_path, "a.icf", text, part, targets=["x"])


def test_a_target_of_another_machine_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(WhodiskError, match="expected a target of this machine"):
        table(tmp_path, "a.icf", OLD_ICF)
    with pytest.raises(WhodiskError, match="expected a target of this machine"):
        table(tmp_path, "a.xml", XML)


def test_a_diskspd_profile_becomes_an_access_specification(tmp_path: Path) -> None:
    assert table(tmp_path, "a.xml", XML, targets=["/mnt/f"]) == {
        "targets": ["/mnt/f"],
        "block_sizes": "4096B",
        "align": "4096B",
        "read": "60%",
        "random": "55%",
        "io": "direct",
        "queue_depth": 16,
        "workers": 4,
        "duration": "60s",
        "ramp": "30s",
        "seed": 5,
        "sync_kind": "o_dsync",
        "rate": "2000/s",
    }
    with pytest.raises(WhodiskError, match="Target/InterlockedSequential"):
        text = XML.replace(
            "<BaseFileOffset>0<", "<InterlockedSequential>true</InterlockedSequential><BaseFileOffset>0<"
        )
        table(tmp_path, "a.xml", text, targets=["x"])
    with pytest.raises(WhodiskError, match=r"expected XML, found: .*line 1"):
        table(tmp_path, "a.xml", "<Profile>", targets=["x"])


@pytest.mark.parametrize(
    ("name", "text", "part"), [("a.fio", FIO, "vm"), ("a.icf", ICF, "Two sizes"), ("a.xml", XML, None)]
)
def test_the_engine_runs_what_comes_out(tmp_path: Path, name: str, text: str, part: str | None) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    over = {"targets": ["null"], "duration": "20ms", "ramp": "0s", "operations": 2000}
    arm = plan.Arm("a", {"spec": str(tmp_path / name), "part": part, "override": over, "observe": "app"})
    words = loads.command_line(arm, tmp_path / "c.case", tmp_path, 1)
    done = subprocess.run([AGENT, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    spec = json.loads((tmp_path / "c.case" / "case.json").read_text())["workload"]["spec"]
    assert spec["read_ppm"] == 600_000 and spec["queue_depth"] == 16
