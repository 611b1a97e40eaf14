//! JSON of smartctl (`-j -a`, `-j -x`): a drive's own counters, as samples at the moment of each report; of `nvme smart-log -o json`, which has none.
//!
//! NVMe health log and ATA attributes. Source: smartmontools' and nvme-cli's JSON output; keys that are not there are not observed.
use crate::clock::Clock;
use crate::error::Bad;
use crate::format::{alone, Format, Head, Source};
use crate::records::json;
use crate::sink::Sink;
use crate::ImportError;
use case::schema::{NameId, SubjectKind};
use serde_json::Value;

/// The registry's line.
pub const FORMAT: Format = Format {
    name: "smart-json",
    about: "JSON of smartctl (-j -a or -x) and of nvme smart-log: a drive's own counters, as samples",
    not_carried: &[
        (
            "single operations and latencies",
            "SMART counts errors, wear and temperature",
        ),
        (
            "when a counter grew",
            "counters are since the drive's first day; two reports tell what grew between them",
        ),
    ],
    recognise,
    together: alone,
    read,
};

fn recognise(head: &Head) -> bool {
    let is_whole = head.is_json_with("smartctl") && head.is_json_with("json_format_version");
    // Collectors keep what is of the drive, and not who said it.
    is_whole
        || head.is_json_with("smart_status") && head.is_json_with("local_time")
        || head.is_json_with("critical_warning") && head.is_json_with("avail_spare")
        || is_text(head)
}

/// What smartctl prints for people: `smartctl 7.3 2022-02-28 r5338 [x86_64-linux-6.1.0] (local build)`.
fn is_text(head: &Head) -> bool {
    let first = head.filled_lines().next().unwrap_or("");
    first.starts_with("smartctl ") && first.contains(" [")
}

/// Where a counter stands, its metric, and what one is in it.
const COUNTERS: [(&str, &str, f64); 23] = [
    ("/temperature/current", "temperature_c", 1.0),
    ("/power_on_time/hours", "power_on_hours", 1.0),
    ("/power_cycle_count", "power_cycles", 1.0),
    ("/ata_smart_error_log/summary/count", "logged_errors", 1.0),
    (
        "/nvme_smart_health_information_log/critical_warning",
        "critical_warning",
        1.0,
    ),
    (
        "/nvme_smart_health_information_log/available_spare",
        "available_spare_ratio",
        0.01,
    ),
    (
        "/nvme_smart_health_information_log/percentage_used",
        "used_ratio",
        0.01,
    ),
    // Units of 1,000 blocks of 512 bytes.
    (
        "/nvme_smart_health_information_log/data_units_read",
        "read_bytes",
        512_000.0,
    ),
    (
        "/nvme_smart_health_information_log/data_units_written",
        "write_bytes",
        512_000.0,
    ),
    (
        "/nvme_smart_health_information_log/host_reads",
        "read_operations",
        1.0,
    ),
    (
        "/nvme_smart_health_information_log/host_writes",
        "write_operations",
        1.0,
    ),
    (
        "/nvme_smart_health_information_log/controller_busy_time",
        "busy_ns",
        60e9,
    ),
    (
        "/nvme_smart_health_information_log/unsafe_shutdowns",
        "unsafe_shutdowns",
        1.0,
    ),
    (
        "/nvme_smart_health_information_log/media_errors",
        "media_errors",
        1.0,
    ),
    (
        "/nvme_smart_health_information_log/num_err_log_entries",
        "logged_errors",
        1.0,
    ),
    (
        "/nvme_smart_health_information_log/warning_temp_time",
        "warning_temperature_ns",
        60e9,
    ),
    (
        "/nvme_smart_health_information_log/critical_comp_time",
        "critical_temperature_ns",
        60e9,
    ),
    ("/scsi_grown_defect_list", "grown_defects", 1.0),
    (
        "/scsi_error_counter_log/read/total_uncorrected_errors",
        "read_errors",
        1.0,
    ),
    (
        "/scsi_error_counter_log/read/errors_corrected_by_eccdelayed",
        "reads_corrected_with_delay",
        1.0,
    ),
    (
        "/scsi_error_counter_log/read/errors_corrected_by_rereads_rewrites",
        "reads_repeated",
        1.0,
    ),
    (
        "/scsi_error_counter_log/write/total_uncorrected_errors",
        "write_errors",
        1.0,
    ),
    (
        "/scsi_error_counter_log/write/errors_corrected_by_rereads_rewrites",
        "writes_repeated",
        1.0,
    ),
];

/// The same of `nvme smart-log`.
const OF_NVME: [(&str, &str, f64); 14] = [
    ("/critical_warning", "critical_warning", 1.0),
    ("/avail_spare", "available_spare_ratio", 0.01),
    ("/percent_used", "used_ratio", 0.01),
    ("/data_units_read", "read_bytes", 512_000.0),
    ("/data_units_written", "write_bytes", 512_000.0),
    ("/host_read_commands", "read_operations", 1.0),
    ("/host_write_commands", "write_operations", 1.0),
    ("/controller_busy_time", "busy_ns", 60e9),
    ("/power_cycles", "power_cycles", 1.0),
    ("/power_on_hours", "power_on_hours", 1.0),
    ("/unsafe_shutdowns", "unsafe_shutdowns", 1.0),
    ("/media_errors", "media_errors", 1.0),
    ("/num_err_log_entries", "logged_errors", 1.0),
    ("/warning_temp_time", "warning_temperature_ns", 60e9),
];

/// What nvme-cli counts temperatures from.
const KELVIN_OF_0_C: f64 = 273.0;

fn read(source: &Source, sink: &mut Sink) -> Result<(), ImportError> {
    let path = source.path();
    if is_text(&Head::read(path)?) {
        let hint = "take it with smartctl -j -x DEVICE";
        return Err(ImportError::content(
            path,
            "begin",
            "smartctl's JSON",
            "its text",
            hint,
        ));
    }
    let reports = json(path, sink)?;
    let has_moments = reports.all.iter().any(|report| moment_s(report).is_some());
    sink.clock(if has_moments {
        Clock::unix(1_000_000_000)
    } else {
        Clock::own("the report", 1_000_000_000)
    });
    for (number, report) in reports.all.iter().enumerate() {
        if let Err(bad) = sample(source, report, sink)? {
            reports.lacks(number, bad, sink)?;
        }
    }
    Ok(())
}

fn moment_s(report: &Value) -> Option<i64> {
    report.pointer("/local_time/time_t").and_then(Value::as_i64)
}

/// The name of a drive. Those behind a controller share its name: their place there (`sat+megaraid,1`) tells them apart.
fn name_of(report: &Value) -> Option<String> {
    let name = report
        .pointer("/device/name")?
        .as_str()?
        .trim_start_matches("/dev/");
    let kind = report
        .pointer("/device/type")
        .and_then(Value::as_str)
        .unwrap_or("");
    Some(match kind.split('+').find(|part| part.contains(',')) {
        Some(place) => format!("{name} [{place}]"),
        None => name.to_owned(),
    })
}

/// The counters of a report; inside, what is wrong with one that has none.
fn sample(source: &Source, report: &Value, sink: &mut Sink) -> Result<Result<(), Bad>, ImportError> {
    let device = source.device.clone().or_else(|| name_of(report));
    let device = device.unwrap_or_else(|| "drive".into());
    let mut values: Vec<(NameId, f64)> = Vec::new();
    let is_of_nvme = report.get("avail_spare").is_some();
    let counters: &[_] = if is_of_nvme { &OF_NVME } else { &COUNTERS };
    if let (true, Some(kelvin)) = (is_of_nvme, report["temperature"].as_f64()) {
        values.push((sink.name("temperature_c"), kelvin - KELVIN_OF_0_C));
    }
    for &(place, metric, factor) in counters {
        if let Some(value) = report.pointer(place).and_then(Value::as_f64) {
            values.push((sink.name(metric), value * factor));
        }
    }
    let attributes = report
        .pointer("/ata_smart_attributes/table")
        .and_then(Value::as_array);
    for attribute in attributes.into_iter().flatten() {
        let raw = attribute.pointer("/raw/value").and_then(Value::as_f64);
        if let (Some(name), Some(raw)) = (attribute["name"].as_str(), raw) {
            values.push((sink.name(&format!("ata_{}", name.to_ascii_lowercase())), raw));
        }
    }
    if values.is_empty() {
        let said = report
            .pointer("/smartctl/messages/0/string")
            .and_then(Value::as_str);
        let expected = "counters of a drive that answers smartctl -j -x";
        return Ok(Err(match said {
            Some(said) => Bad::new("report", expected, said),
            None => Bad::none("report", expected),
        }));
    }
    if report.pointer("/smart_status/passed").and_then(Value::as_bool) == Some(false) {
        sink.unseen(
            format!("why {device} says of itself that it fails"),
            "its SMART status is 'failed'; the counters tell what it counted",
        );
    }
    let subject = sink.name(&device);
    let time_ns = moment_s(report).unwrap_or(0).saturating_mul(1_000_000_000);
    sink.sample(
        time_ns.clamp(0, i64::MAX / 4),
        None,
        SubjectKind::Device,
        subject,
        &values,
    )?;
    Ok(Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_known_and_what_makes_json_is_told() {
        let text =
            "smartctl 7.3 2022-02-28 r5338 [x86_64-linux-6.1.0] (local build)\nCopyright (C) 2002-22\n";
        let error = crate::testing::import(&FORMAT, text).unwrap_err().to_string();
        assert!(error.contains("smartctl -j -x"), "{error}");
    }

    #[test]
    fn what_nvme_cli_counts_is_read() {
        let log = "$ nvme smart-log /dev/nvme0 -o json\n{\n  \"critical_warning\" : 0,\n  \"temperature\" : 302,\n  \"avail_spare\" : 100,\n\
            \"percent_used\" : 3,\n  \"data_units_read\" : 2,\n  \"power_on_hours\" : 555\n}\n";
        let summary = crate::testing::import(&FORMAT, log).unwrap();
        assert_eq!(
            (summary.records, summary.rows, summary.start_unix_ns),
            (1, 6, None)
        );
    }

    #[test]
    fn drives_behind_a_controller_have_names_of_their_own() {
        let name =
            |kind: &str| name_of(&serde_json::json!({"device": {"name": "/dev/sda", "type": kind}})).unwrap();
        assert_eq!(
            (name("scsi"), name("sat+megaraid,1")),
            ("sda".into(), "sda [megaraid,1]".into())
        );
        assert_eq!(
            (name("cciss,0"), name_of(&serde_json::json!({}))),
            ("sda [cciss,0]".into(), None)
        );
    }

    #[test]
    fn reports_without_counters_are_told_and_those_before_a_cut_are_kept() {
        let report = |at: u32, log: &str| {
            format!(
                "{{\"json_format_version\": [1, 0], \"smartctl\": {{\"version\": [7, 3]}}, \"local_time\": {{\"time_t\": {at}}}, {log}}}\n"
            )
        };
        let whole = report(1_795_548_513, "\"temperature\": {\"current\": 41}");
        let next = report(1_795_548_573, "\"temperature\": {\"current\": 42}");
        let import = |text: &str| crate::testing::import(&FORMAT, text);
        assert_eq!(import(&format!("{whole}{next}")).unwrap().records, 2);
        // Cut behind its moment, before any counter.
        let cut = &next[..next.find("temperature").unwrap()];
        let summary = import(&format!("{whole}{cut}")).unwrap();
        assert_eq!((summary.records, summary.cut.len()), (1, 1));
        let error = import(cut).unwrap_err().to_string();
        assert!(
            error.contains("report: expected counters of a drive")
                && error.contains("where the file is cut off"),
            "{error}"
        );
        let asleep = report(1, "\"device\": {\"name\": \"/dev/sda\"}");
        let error = import(&format!("{whole}{asleep}")).unwrap_err().to_string();
        assert!(error.contains("document 2, report: expected counters"), "{error}");
    }

    #[test]
    fn a_scsi_drive_counts_what_it_repeated() {
        let report = serde_json::json!({
            "device": {"name": "/dev/sdg"},
            "scsi_grown_defect_list": 3,
            "scsi_error_counter_log": {
                "read": {"errors_corrected_by_eccdelayed": 410, "errors_corrected_by_rereads_rewrites": 7, "total_uncorrected_errors": 2},
                "write": {"errors_corrected_by_rereads_rewrites": 1, "total_uncorrected_errors": 0},
            },
        });
        let values = COUNTERS
            .iter()
            .filter_map(|(place, name, factor)| Some((*name, report.pointer(place)?.as_f64()? * factor)));
        assert_eq!(
            values.collect::<Vec<_>>(),
            [
                ("grown_defects", 3.0),
                ("read_errors", 2.0),
                ("reads_corrected_with_delay", 410.0),
                ("reads_repeated", 7.0),
                ("write_errors", 0.0),
                ("writes_repeated", 1.0),
            ]
        );
    }
}
