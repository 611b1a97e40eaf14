//! JSON of `iostat -o JSON` and of `sadf -j`.
use super::calendar::{date_ns, time_of_day_ns};
use super::sysstat_lines::western;
use super::{stamps, sysstat_rows};
use crate::clock::Clock;
use crate::error::Bad;
use crate::format::{alone, Format, Head, Source};
use crate::records::{bad_record, json};
use crate::sink::Sink;
use crate::ImportError;
use serde_json::Value;

/// The registry's line.
pub const FORMAT: Format = Format {
    name: "sysstat-json",
    about: "JSON of iostat -x -o JSON and of sadf -j -- -d: samples per device",
    not_carried: &[(
        "single operations",
        "sampled counters hold averages over a sampling period; outliers inside a period cannot be seen",
    )],
    recognise: is_sysstat,
    together: alone,
    read,
};

const SECOND: i64 = 1_000_000_000;

fn is_sysstat(head: &Head) -> bool {
    head.is_json_with("sysstat")
}

fn read(source: &Source, sink: &mut Sink) -> Result<(), ImportError> {
    let path = source.path();
    let documents = json(path, sink)?;
    let mut hosts = Vec::new();
    for (number, document) in documents.all.iter().enumerate() {
        let Some(some) = document["sysstat"]["hosts"].as_array() else {
            let bad = Bad::none("sysstat.hosts", "the list that iostat and sadf print");
            documents.lacks(number, bad, sink)?;
            continue;
        };
        hosts.extend(some);
    }
    let reports = |host: &Value| host["statistics"].as_array().cloned().unwrap_or_default();
    let has_moments = hosts
        .iter()
        .flat_map(|host| reports(host))
        .any(|report| moment(&report).is_some());
    sink.clock(if has_moments {
        Clock::unix(SECOND)
    } else {
        Clock::own("iostat's first report", SECOND)
    });
    let mut groups = sysstat_rows::Groups::default();
    let mut impossible = sysstat_rows::Impossible::default();
    for host in hosts {
        let name = host["nodename"].as_str().unwrap_or("");
        let all = reports(host);
        for (number, report) in all.iter().enumerate() {
            let is_iostat = report.get("avg-cpu").is_some() || report["disk"][0].get("disk_device").is_some();
            if is_iostat && number == 0 {
                if all.len() > 1 {
                    sink.unseen(
                        "what the first report says",
                        "iostat's first report averages since the machine's start (unless -y was given)",
                    );
                    continue;
                }
                sink.unseen(
                    "what the devices did lately",
                    "a run of iostat has one report, which averages since the machine's start (unless -y was given)",
                );
            }
            let time_ns = match moment(report) {
                Some(ns) => ns,
                None if has_moments || !report["timestamp"].is_null() => {
                    let found = report["timestamp"].to_string();
                    let bad = Bad::new("timestamp", "a date and a time of day", &found);
                    bad_record(path, &format!("report {}", number + 1), bad, sink)?;
                    continue;
                }
                None => number as i64 * SECOND,
            };
            for disk in report["disk"].as_array().into_iter().flatten() {
                row(time_ns, name, disk, (&mut groups, &mut impossible), sink)?;
            }
        }
    }
    groups.tell(sink);
    impossible.tell(sink);
    if !has_moments {
        sink.unseen(
            "when the samples were taken",
            "iostat prints moments with -t only; they are put one second apart",
        );
    }
    Ok(())
}

fn row(
    time_ns: i64,
    host: &str,
    disk: &Value,
    (groups, impossible): (&mut sysstat_rows::Groups, &mut sysstat_rows::Impossible),
    sink: &mut Sink,
) -> Result<(), ImportError> {
    let device = disk["disk_device"]
        .as_str()
        .or_else(|| disk["disk-device"].as_str());
    let (Some(device), Some(columns)) = (device, disk.as_object()) else {
        sink.record_without_row();
        return Ok(());
    };
    let is_group = device.starts_with(' ');
    let device = device.trim();
    if !groups.is_read(device, is_group) {
        sink.record_without_row();
        return Ok(());
    }
    let values: Vec<(&str, f64)> = columns
        .iter()
        .filter_map(|(column, value)| Some((column.as_str(), value.as_f64()?)))
        .collect();
    sysstat_rows::write(time_ns, host, device, &values, impossible, sink)
}

fn moment(report: &Value) -> Option<i64> {
    match &report["timestamp"] {
        Value::String(text) => {
            let text = western(text);
            stamps::moment(&text.split_whitespace().collect::<Vec<_>>())
        }
        stamp => Some(date_ns(stamp["date"].as_str()?)? + time_of_day_ns(stamp["time"].as_str()?, "")?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_of_devices_is_none() {
        let disk = |name: &str| format!("{{\"disk_device\": \"{name}\", \"r/s\": 1.00}}");
        let log = |names: [&str; 2]| {
            let report = format!("{{\"disk\": [{}]}}", names.map(disk).join(","));
            format!("{{\"sysstat\": {{\"hosts\": [{{\"nodename\": \"vm\", \"statistics\": [{report}, {report}]}}]}}}}")
        };
        let said = |names| {
            let summary = crate::testing::import(&FORMAT, &log(names)).unwrap();
            let what = summary.not_observed.iter().map(|unseen| unseen.what.clone());
            (
                summary.rows,
                what.filter(|what| what.contains("group")).collect::<Vec<_>>(),
            )
        };
        assert_eq!(said(["vda", " all"]), (1, vec!["groups of devices (all)".into()]));
        assert_eq!(
            said([" a", " b"]),
            (2, vec!["which device of a group (a, b) did what".into()])
        );
    }

    #[test]
    fn moments_are_read_in_any_language_and_bad_ones_are_told() {
        let report = |stamp: &str| {
            format!("{{\"timestamp\": \"{stamp}\", \"disk\": [{{\"disk_device\": \"sda\", \"r/s\": 1.00}}]}}")
        };
        let log = |stamps: [&str; 3]| {
            let reports = stamps.map(report).join(",");
            format!("{{\"sysstat\": {{\"hosts\": [{{\"nodename\": \"vm\", \"statistics\": [{reports}]}}]}}}}")
        };
        let import = |stamps| crate::testing::import(&FORMAT, &log(stamps));
        for stamps in [
            [
                "11/24/2026 10:54:31 AM",
                "11/24/2026 10:54:32 AM",
                "11/24/2026 10:54:33 AM",
            ],
            [
                "24.11.2026 10:54:31",
                "24.11.2026 10:54:32",
                "24.11.2026 10:54:33",
            ],
            [
                "2026\u{5e74}11\u{6708}24\u{65e5} 10\u{65f6}54\u{5206}31\u{79d2}",
                "2026\u{5e74}11\u{6708}24\u{65e5} 10\u{65f6}54\u{5206}32\u{79d2}",
                "2026\u{5e74}11\u{6708}24\u{65e5} 10\u{65f6}54\u{5206}33\u{79d2}",
            ],
            [
                "2026-11-24T11:54:31+0100",
                "2026-11-24T11:54:32+0100",
                "2026-11-24T11:54:33+0100",
            ],
        ] {
            let summary = import(stamps).unwrap();
            assert_eq!(
                (summary.start_unix_ns, summary.end_ns),
                (Some(1_795_517_672 * SECOND), SECOND),
                "{stamps:?}"
            );
        }
        let error = import([
            "11/24/2026 10:54:31",
            "11/24/2026 25:54:32",
            "11/24/2026 10:54:33",
        ])
        .unwrap_err()
        .to_string();
        assert!(
            error.contains("report 2, timestamp: expected a date and a time of day")
                && error.contains("25:54"),
            "{error}"
        );
    }
}
