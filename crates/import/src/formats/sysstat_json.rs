//! JSON of `iostat -o JSON` and of `sadf -j`.
use super::calendar::{date_ns, time_of_day_ns};
use super::sysstat_rows;
use crate::clock::Clock;
use crate::format::{alone, Format, Head, Source};
use crate::records::json;
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
    for document in &documents {
        let Some(some) = document["sysstat"]["hosts"].as_array() else {
            let hint = "check that the file is of iostat or sadf";
            return Err(ImportError::content(
                path,
                "sysstat.hosts",
                "a list",
                "none",
                hint,
            ));
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
            let time_ns = moment(report).unwrap_or(number as i64 * SECOND);
            for disk in report["disk"].as_array().into_iter().flatten() {
                row(time_ns, name, disk, sink)?;
            }
        }
    }
    if !has_moments {
        sink.unseen(
            "when the samples were taken",
            "iostat prints moments with -t only; they are put one second apart",
        );
    }
    Ok(())
}

fn row(time_ns: i64, host: &str, disk: &Value, sink: &mut Sink) -> Result<(), ImportError> {
    let device = disk["disk_device"]
        .as_str()
        .or_else(|| disk["disk-device"].as_str());
    let (Some(device), Some(columns)) = (device, disk.as_object()) else {
        sink.record_without_row();
        return Ok(());
    };
    let values: Vec<(&str, f64)> = columns
        .iter()
        .filter_map(|(column, value)| Some((column.as_str(), value.as_f64()?)))
        .collect();
    sysstat_rows::write(time_ns, host, device, &values, sink)
}

fn moment(report: &Value) -> Option<i64> {
    match &report["timestamp"] {
        Value::String(text) => {
            let mut words = text.split([' ', 'T']);
            let date = date_ns(words.next()?)?;
            let time = words.next()?;
            Some(date + time_of_day_ns(time.get(..8).unwrap_or(time), words.next().unwrap_or(""))?)
        }
        stamp => Some(date_ns(stamp["date"].as_str()?)? + time_of_day_ns(stamp["time"].as_str()?, "")?),
    }
}
