"""How things are said."""

from __future__ import annotations

import pytest

from whodisk import words
from whodisk.findings import CULPRIT_KINDS


@pytest.mark.parametrize(
    ("culprit", "said"),
    [
        (("stage", "device", "device:nvme3"), "the stage device of nvme3"),
        (("stage", "unknown", None), "time that was not recorded"),
        (("device", "nvme3", None), "the device nvme3"),
        (("vector", "41", "handler:switchtec"), "interrupt vector 41"),
        (("vector", "cpu 3", "affinity"), "the interrupts of cpu 3"),
        (("process", "fsyncs", "stage:fs"), "the program fsyncs"),
        (("process", "fio", "silence of the submitter, state stopped"), "the submitter, fio,"),
        (("request_shape", "read of 8650752 bytes", None), "the shape of the requests (read of 8.25 MiB)"),
        (("layout", "fragmentation", "device:sda"), "the layout (fragmentation) of sda"),
        (("config", "read_ahead_kb of sda", "128 KiB"), "the setting read_ahead_kb of sda"),
    ],
)
def test_a_culprit_is_the_subject_of_a_sentence(culprit: tuple[str, str, str | None], said: str) -> None:
    assert words.accused(*culprit) == said


def test_every_kind_of_culprit_has_words() -> None:
    # What limits a workload is told in a sentence of its own, and is never accused.
    told = {kind for kind in CULPRIT_KINDS if words.accused(kind, "x", None) != f"{kind} x"}
    assert told | {"saturation", "host"} == set(CULPRIT_KINDS)


def test_long_lists_say_how_many_more_there_are() -> None:
    assert words.some(["a", "b"], 2) == "a, b"
    assert words.some(["a", "b", "c", "d"], 2) == "a, b and 2 more"
