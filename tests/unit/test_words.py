"""How things are said."""

from __future__ import annotations

import pytest

from whodisk import words
from whodisk.findings import CULPRIT_KINDS


@pytest.mark.parametrize(
    ("culprit", "said"),
    [
        (("stage", "device", "device:nvme3"), "the device stage of nvme3"),
        (("stage", "unknown", None), "time that was not recorded"),
        (("device", "nvme3", None), "the device nvme3"),
        (("vector", "41", "handler:switchtec"), "interrupt vector 41"),
        (("vector", "cpu 3", "affinity"), "the interrupts of cpu 3"),
        (("process", "fsyncs", "stage:fs"), "the program fsyncs"),
        (("process", "rival", "device:sda"), "the program rival on sda"),
        (
            ("process", "fio (thread 4)", "silence of the submitter, state stopped"),
            "whoever stopped fio (thread 4)",
        ),
        (
            ("process", "fio (thread 4) and fio (thread 5)", "silence of the submitter, state stopped"),
            "whoever stopped fio (threads 4 and 5)",
        ),
        (
            ("process", "fio (thread 4) and fio (thread 5)", "silence of the submitter, state runnable"),
            "the submitters fio (threads 4 and 5)",
        ),
        (
            ("process", "8 submitting threads of fio", "silence of the submitter"),
            "8 submitting threads of fio",
        ),
        (("host", "hypervisor", "steal"), "the hypervisor"),
        (("config", "I/O limit of sda", "stage:throttle"), "the I/O limit of sda"),
        (("request_shape", "read of 8650752 bytes", None), "reads of 8.25 MiB"),
        (("request_shape", "size 64 KiB", None), "requests of 64 KiB"),
        (("request_shape", "alignment", "physical blocks of 4 KiB"), "the alignment of the requests"),
        (("process", "thread 4303", None), "thread 4303"),
        (("config", "limit of dirty pages", "stage:throttle"), "the limit of dirty pages"),
        (("config", "NUMA distance", "submitting cpu 1"), "the NUMA distance"),
        (("layout", "fragmentation", "device:sda"), "the layout (fragmentation) of sda"),
        (("config", "read_ahead_kb of sda", "128 KiB"), "the setting read_ahead_kb of sda"),
    ],
)
def test_a_culprit_is_the_subject_of_a_sentence(culprit: tuple[str, str, str | None], said: str) -> None:
    assert words.accused(*culprit) == said


@pytest.mark.parametrize(
    ("said", "verb"),
    [
        ("the device stage of sda", "is"),
        ("whoever stopped fio (thread 4)", "is"),
        ("the submitter fio (thread 4)", "is"),
        ("the submitters fio (threads 4 and 5)", "are"),
        ("8 submitting threads of fio", "are"),
        ("the interrupts of cpu 3", "are"),
        ("reads of 8.25 MiB", "are"),
        ("the alignment of the requests", "is"),
    ],
)
def test_a_culprit_has_its_verb(said: str, verb: str) -> None:
    assert words.is_or_are(said) == verb


def test_threads_of_one_name_stand_together() -> None:
    several = words.threads({(5, "fio"), (4, "fio"), (6, "fio")})
    assert words.threads_together(several) == "fio (threads 4, 5 and 6)"
    for same in (
        words.threads({(4, "fio")}),
        words.threads({(4, "fio"), (5, "pg")}),
        "4 submitting threads of fio",
    ):
        assert words.threads_together(same) == same


def test_what_is_cleared_stands_by_kind() -> None:
    assert words.cleared(["device:sda", "stage:fs", "stage:queue"]) == "device sda; stages fs, queue"


def test_a_thread_sleeps_in_a_function_and_waits_for_a_thing() -> None:
    assert words.slept("wait_current_trans") == "slept in wait_current_trans"
    assert words.slept("page under writeback") == "waited for the writeback of a page"


@pytest.mark.parametrize(
    ("share", "part", "promised"),
    [
        (0.0712, "7.1 %", "7.1 %"),
        (0.99, "99 %", "99 %"),
        (0.9963, "99.6 %", "99.63 %"),
        (0.99999952, "99.9 %", "99.999952 %"),
        (1.0, "100 %", "100 %"),
    ],
)
def test_parts_have_three_digits_and_promises_all_that_they_need(
    share: float, part: str, promised: str
) -> None:
    assert (words.percent(share), words.quantile(share)) == (part, promised)


def test_every_kind_of_culprit_has_words() -> None:
    # What limits a workload is told in a sentence of its own, and is never accused.
    told = {kind for kind in CULPRIT_KINDS if words.accused(kind, "x", None) != f"{kind} x"}
    assert told | {"saturation", "host"} == set(CULPRIT_KINDS)


def test_long_lists_say_how_many_more_there_are() -> None:
    assert words.some(["a", "b"], 2) == "a, b"
    assert words.some(["a", "b", "c", "d"], 2) == "a, b and 2 more"


def test_a_time_of_day_is_as_exact_as_it_has_to_be() -> None:
    noon = 43_200_000_000_000
    assert words.moment(noon, zero_of_day_ns=0) == "12:00:00"
    assert words.moment(noon + 500_000_000, zero_of_day_ns=0) == "12:00:00.5"
    assert words.moment(noon, zero_of_day_ns=0, places=3) == "12:00:00.000"
    assert words.moment(noon + 999_999_999, zero_of_day_ns=0, places=3) == "12:00:01.000"
    assert words.moment(2 * noon + 65_000_000_000, zero_of_day_ns=0) == "00:01:05 (day 2)"
    assert words.moment(noon, zero_of_day_ns=None) == "43,200 s"
    assert words.moment(noon, zero_of_day_ns=None, places=3) == "43200.000 s"
