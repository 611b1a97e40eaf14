"""What a drive says of itself: SMART, without operations."""

from __future__ import annotations

from pathlib import Path

from tests.unit.test_sampled_account import summed
from whodisk.verdict.solve import solve


def told(path: Path, reports: dict[str, list[dict[str, float]]]) -> list[str]:
    """What a verdict says of drives with these reports, a minute apart."""
    rows = [
        (60 * at, "device", drive, metric, value)
        for drive, all_of_it in reports.items()
        for at, report in enumerate(all_of_it)
        for metric, value in report.items()
    ]
    return solve(summed(path, rows)).summary


def test_what_a_drive_counts_of_its_troubles(tmp_path: Path) -> None:
    once = {"media_errors": 2.0, "logged_errors": 0.0}
    said = "sda counts 2 media errors so far; one snapshot does not say since when."
    assert said in told(tmp_path / "one", {"sda": [once]})
    later = {"media_errors": 5.0, "logged_errors": 0.0}
    said = "sda counts 5 media errors (3 more than in its first report)."
    assert said in told(tmp_path / "two", {"sda": [once, later]})
    said = "sda counts 5 media errors, no more than in its first report."
    assert said in told(tmp_path / "same", {"sda": [later, later]})


def test_the_reports_of_one_drive_hide_nothing_of_another(tmp_path: Path) -> None:
    clean, bad = {"media_errors": 0.0}, {"media_errors": 7.0}
    summary = told(tmp_path / "case", {"nvme0": [clean, clean], "nvme1": [bad]})
    assert "nvme1 counts 7 media errors so far; one snapshot does not say since when." in summary
    assert "nvme0 counts none of: media errors." in summary


def test_a_drive_that_fails_comes_first_with_what_to_do(tmp_path: Path) -> None:
    failing = {
        "ata_reallocated_sector_ct": 1975.0,
        "ata_reallocated_sector_ct_at_threshold": 1.0,
        "ata_airflow_temperature_cel_was_at_threshold": 1.0,
        "smart_failed": 1.0,
    }
    summary = told(tmp_path / "case", {"sda": [{"media_errors": 1.0}], "sdb": [failing]})
    [first, second] = [sentence for sentence in summary if sentence.startswith("sd")]
    assert first == (
        "sdb says of itself that it fails (at its maker's threshold: reallocated_sector_ct): copy its data now, and replace it. "
        "It counts 1,975 reallocated sectors so far; one snapshot does not say since when. "
        "It was once at its maker's threshold: airflow_temperature_cel."
    )
    assert second.startswith("sda counts 1 media error so far")


def test_age_and_use_foretell_no_failure(tmp_path: Path) -> None:
    used = {"ata_airflow_temperature_cel_at_threshold_of_use": 1.0, "smart_failed": 0.0}
    assert "sda is at its maker's threshold: airflow_temperature_cel." in told(
        tmp_path / "case", {"sda": [used]}
    )


def test_an_nvme_drive_warns_by_bits(tmp_path: Path) -> None:
    low = {"critical_warning": 1.0, "available_spare_ratio": 0.05, "available_spare_threshold_ratio": 0.1}
    said = "nvme0 warns: its spare is at 5 %, below its threshold of 10 %. Copy its data now, and replace it."
    assert said in told(tmp_path / "low", {"nvme0": [low]})
    hot = {"critical_warning": 2.0, "warning_temperature_ns": 50 * 60e9, "critical_temperature_ns": 0.0}
    [said] = [s for s in told(tmp_path / "hot", {"nvme0": [hot]}) if "nvme0" in s]
    assert said == (
        "nvme0 warns of its temperature in its last report. It was at its warning temperature or above for 50 minutes, in all its life."
    )
    [said] = [
        s for s in told(tmp_path / "fails", {"nvme0": [{**hot, "smart_failed": 1.0}]}) if "cool it" in s
    ]
    assert said.startswith("nvme0 says of itself that it fails, and the only warning is its temperature")
    worn = {"used_ratio": 1.04, "media_errors": 0.0, "smart_failed": 0.0}
    assert "nvme0 has used 104 % of the life that its maker rates it for." in told(
        tmp_path / "worn", {"nvme0": [worn]}
    )


def test_clean_drives_have_a_sentence(tmp_path: Path) -> None:
    clean = {"media_errors": 0.0, "logged_errors": 0.0, "smart_failed": 0.0}
    assert "sda, sdb count none of: media errors, logged errors; SMART status PASSED." in told(
        tmp_path / "case", {"sdb": [clean], "sda": [clean]}
    )
    refused = {"media_errors": 0.0, "logged_errors": 9.0}
    assert (
        "sda counts 9 logged errors so far; one snapshot does not say since when. Commands that a drive refuses are logged errors, too."
        in told(tmp_path / "refused", {"sda": [refused]})
    )


def test_errors_of_media_come_before_refused_commands(tmp_path: Path) -> None:
    summary = told(
        tmp_path / "case",
        {
            "a": [{"logged_errors": 8382.0}],
            "b": [{"ata_udma_crc_error_count": 3.0}],
            "c": [{"media_errors": 7.0}],
        },
    )
    assert [sentence[0] for sentence in summary if " counts " in sentence] == ["c", "b", "a"]


def test_an_array_tells_what_is_above_its_threshold(tmp_path: Path) -> None:
    rows = [
        (0, "component", "/vol/a9", "layout_measure", 6.0),
        (0, "component", "/vol/a9", "layout_threshold", 4.0),
        (0, "component", "/vol/a9", "layout_hotspot", 19.0),
        (0, "component", "/vol/b1", "layout_measure", 3.0),
        (0, "component", "/vol/b1", "layout_threshold", 4.0),
    ]
    summary = solve(summed(tmp_path / "layout", rows)).summary
    assert "/vol/a9: its layout measure is 6, above its threshold of 4, with a hotspot of 19." in summary
    assert not any("/vol/b1" in sentence for sentence in summary)


def test_an_array_tells_that_writes_come_too_fast(tmp_path: Path) -> None:
    rows = [
        (at, "component", "sysstat", metric, value)
        for at, values in enumerate(((0.0, 0.88), (1.0, 0.98), (0.0, 0.18)))
        for metric, value in zip(("back_to_back", "disk_busy_ratio"), values, strict=True)
    ]
    assert (
        "sysstat: consistency points came back to back in 1 of 3 samples: writes came faster than they reached the disks. "
        "In the worst of 3 samples each, its busiest disk was busy for 98 %."
    ) in solve(summed(tmp_path / "busy", rows)).summary
    # What people paste of a burst.
    few = [
        (0, "component", "fas1", metric, value)
        for metric, value in (
            ("back_to_back", 0.0),
            ("disk_busy_ratio", 0.88),
            ("consistency_point_ratio", 0.66),
            ("cpu_busy_ratio", 0.33),
        )
    ]
    assert (
        "fas1: in the only sample, its busiest disk was busy for 88 %, consistency points took 66 % of the time, its CPUs were busy for 33 %."
    ) in solve(summed(tmp_path / "few", few)).summary


def test_a_drive_whose_counters_nobody_knows_has_a_status_all_the_same(tmp_path: Path) -> None:
    """Of a drive without any of the usual error counters nothing was said."""
    plain = {"smart_failed": 0.0, "used_ratio": 0.03, "ata_power_on_hours": 29314.0}
    said = "sda: no counter of errors is known; SMART status PASSED; 3 % of the rated life used."
    assert said in told(tmp_path / "plain", {"sda": [plain]})
    counts = {"media_errors": 0.0, "smart_failed": 0.0}
    said = (
        "nvme0, nvme1 count none of: media errors; SMART status PASSED; 7 % of the rated life used at most."
    )
    both = {"nvme0": [{**counts, "used_ratio": 0.07}], "nvme1": [{**counts, "used_ratio": 0.01}]}
    assert said in told(tmp_path / "both", both)
    assert "sda counts 4 errors of its link so far; one snapshot does not say since when." in told(
        tmp_path / "link", {"sda": [{**plain, "ata_sata_phy_error_count": 4.0}]}
    )


def test_errors_that_a_host_counts_of_a_disk(tmp_path: Path) -> None:
    """The columns of Solaris' iostat -e: since the machine's start."""
    errors = {"hard_errors": 2.0, "transport_errors": 5.0, "operations_per_s": 7.2, "busy_ratio": 0.01}
    said = "c1t0d0 counts 2 hard errors and 5 transport errors so far; one snapshot does not say since when."
    idle = {"hard_errors": 0.0, "operations_per_s": 9.0, "busy_ratio": 0.02}
    # A short screen has one of these sentences.
    assert told(tmp_path / "case", {"c1t0d0": [errors], "c1t1d0": [idle]})[1] == said
    busy = told(tmp_path / "busy", {"c1t0d0": [errors], "c1t1d0": [{**idle, "busy_ratio": 0.99}]})
    assert busy[1].startswith("c1t1d0: ") and said in busy
