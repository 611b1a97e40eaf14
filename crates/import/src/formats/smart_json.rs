//! JSON of smartctl (`-j -a`, `-j -x`): a drive's own counters, as samples at the moment of each report; of `nvme smart-log -o json`, which has none.
//!
//! NVMe health log and ATA attributes. Source: smartmontools' and nvme-cli's JSON output; keys that are not there are not observed. All reports of an
//! import are read together: serial numbers tell which reports under one name are of one drive.
use crate::clock::Clock;
use crate::error::Bad;
use crate::format::{Format, Head, Source};
use crate::records::{json, Documents};
use crate::sink::Sink;
use crate::ImportError;
use case::schema::{NameId, SubjectKind};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

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
    together,
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

/// nvme-cli's reports have no moments, and are read by themselves.
fn together(path: &Path) -> Option<PathBuf> {
    let head = Head::read(path).ok()?;
    let has_moments = head.is_json_with("local_time");
    Some(PathBuf::from(if has_moments { "smartctl" } else { "nvme" }))
}

/// What smartctl prints for people: `smartctl 7.3 2022-02-28 r5338 [x86_64-linux-6.1.0] (local build)`.
fn is_text(head: &Head) -> bool {
    let first = head.filled_lines().next().unwrap_or("");
    first.starts_with("smartctl ") && first.contains(" [")
}

/// Where a counter stands, its metric, and what one is in it.
const COUNTERS: [(&str, &str, f64); 26] = [
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
        "/nvme_smart_health_information_log/available_spare_threshold",
        "available_spare_threshold_ratio",
        0.01,
    ),
    (
        "/nvme_smart_health_information_log/percentage_used",
        "used_ratio",
        0.01,
    ),
    // Of any drive, since smartctl 7.5.
    ("/endurance_used/current_percent", "used_ratio", 0.01),
    ("/scsi_percentage_used_endurance_indicator", "used_ratio", 0.01),
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
    (GROWN_DEFECTS, "grown_defects", 1.0),
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
const OF_NVME: [(&str, &str, f64); 18] = [
    ("/critical_warning", "critical_warning", 1.0),
    ("/avail_spare", "available_spare_ratio", 0.01),
    ("/spare_thresh", "available_spare_threshold_ratio", 0.01),
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
    ("/critical_comp_time", "critical_temperature_ns", 60e9),
    // Seconds in which the drive slowed itself down for its heat, a little and much.
    ("/thm_temp1_total_time", "throttled_little_ns", 1e9),
    ("/thm_temp2_total_time", "throttled_much_ns", 1e9),
];

/// Attributes of ATA drives that stand for trouble. Makers give them names of their own, and some use the number for something else: what the name
/// must hold, and the metric.
const ATTRIBUTES: [(u64, &[&str], &str); 6] = [
    (5, &["realloc", "retired"], "ata_reallocated_sector_ct"),
    (187, &["uncorrect"], "ata_reported_uncorrect"),
    (188, &["timeout"], "ata_command_timeout"),
    (
        197,
        &["pending_sector", "pending_sect"],
        "ata_current_pending_sector",
    ),
    (198, &["uncorrect"], "ata_offline_uncorrectable"),
    (199, &["crc"], "ata_udma_crc_error_count"),
];
const COMMAND_TIMEOUT: u64 = 188;

/// The metric of an attribute.
fn metric_of(attribute: &Value) -> Option<String> {
    let name = attribute["name"].as_str()?.to_ascii_lowercase();
    let known = ATTRIBUTES.iter().find(|(id, parts, _)| {
        attribute["id"].as_u64() == Some(*id) && parts.iter().any(|part| name.contains(part))
    });
    Some(known.map_or_else(|| format!("ata_{name}"), |(_, _, metric)| (*metric).to_owned()))
}

/// The raw value of an attribute. Several numbers may be packed into it; smartctl prints the one that counts first (`22 (0 19 0 0 0)`), but for three of
/// 16 bits side by side (`0 0 5`, its format raw16), which stand from the high one to the low one (ata_format_attr_raw_value in its atacmds.cpp).
fn raw_of(attribute: &Value) -> Option<f64> {
    let printed = attribute
        .pointer("/raw/string")
        .and_then(Value::as_str)
        .unwrap_or("");
    let digits = printed.bytes().take_while(u8::is_ascii_digit).count();
    let words: Vec<&str> = printed.split_whitespace().collect();
    if let [_, _, low] = words[..] {
        if words.iter().all(|word| word.parse::<u16>().is_ok()) {
            return low.parse().ok();
        }
    }
    let is_number = digits > 0 && !printed[digits..].starts_with(['x', '.']);
    let first = is_number.then(|| printed[..digits].parse::<f64>().ok()).flatten();
    let raw = first.or_else(|| attribute.pointer("/raw/value").and_then(number))?;
    // Three of 16 bits, the last of which counts all.
    let is_packed = attribute["id"].as_u64() == Some(COMMAND_TIMEOUT) && raw > f64::from(u32::MAX);
    Some(if is_packed { raw % 65_536.0 } else { raw })
}

/// Whether an attribute is at its threshold now, and whether it ever was.
fn failed(attribute: &Value) -> (bool, bool) {
    let (value, threshold) = (attribute["value"].as_u64(), attribute["thresh"].as_u64());
    match attribute["when_failed"].as_str() {
        Some(when) => {
            let when = when.to_ascii_lowercase();
            (when.contains("now"), when.contains("past"))
        }
        None => {
            let is_at = threshold.is_some_and(|least| least > 0 && value.is_some_and(|value| value <= least));
            (is_at, false)
        }
    }
}

/// A number; as text (`2,752,848`, in groups of three), too, and where nvme-cli takes it apart, the whole of it.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => of_text(text.trim()),
        Value::Object(parts) => parts
            .get("value")
            .filter(|whole| !whole.is_object())
            .and_then(number),
        _ => None,
    }
}

fn of_text(text: &str) -> Option<f64> {
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let mut groups = text.split([',', '.', '\'', ' ', '\u{a0}', '\u{202f}']);
    let first = groups.next()?;
    let rest: Vec<&str> = groups.collect();
    let is_whole = is_digits(first) && rest.iter().all(|part| part.len() == 3 && is_digits(part));
    is_whole
        .then(|| format!("{first}{}", rest.concat()).parse().ok())
        .flatten()
}

/// What nvme-cli counts temperatures from.
const KELVIN_OF_0_C: f64 = 273.0;

fn read(source: &Source, sink: &mut Sink) -> Result<(), ImportError> {
    let mut files: Vec<Documents> = Vec::new();
    for path in &source.files {
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
        files.push(json(path, sink)?);
    }
    let reports = || {
        files
            .iter()
            .flat_map(|documents| documents.all.iter().flat_map(parts))
    };
    let first_s = reports().find_map(moment_s);
    sink.clock(match first_s {
        Some(_) => Clock::unix(SECOND),
        None => Clock::own("the report", SECOND),
    });
    let names = Names::of(source, &files);
    // Reports without a moment are put at the one before; if none has one, a second apart.
    let mut last_s = first_s.unwrap_or(-1);
    let (mut count, mut guessed) = (0, 0);
    for (file, documents) in files.iter().enumerate() {
        for (number, document) in documents.all.iter().enumerate() {
            for report in parts(document) {
                last_s = match (moment_s(report), first_s) {
                    (Some(s), _) => s,
                    (None, Some(_)) => last_s,
                    (None, None) => last_s + 1,
                };
                guessed += u64::from(moment_s(report).is_none());
                let name = names.name(report, &source.files[file], count);
                count += 1;
                if let Err(bad) = sample(&name, last_s, report, sink)? {
                    documents.lacks(number, bad, sink)?;
                }
            }
        }
    }
    if guessed > 0 && count > 1 {
        sink.unseen(
            "when some reports were taken",
            "nvme smart-log prints no moment: they are put in the order of the files, a second apart where none has one",
        );
    }
    names.tell(sink);
    Ok(())
}

const SECOND: i64 = 1_000_000_000;

/// The reports of a document: itself, or a list of them.
fn parts(document: &Value) -> &[Value] {
    match document.as_array() {
        Some(list) => list,
        None => std::slice::from_ref(document),
    }
}

/// Model and serial number (or the number that names it world-wide): which drive a report is of, whatever it is called.
fn identity_of(report: &Value) -> Option<String> {
    let text = |place: &str| report.pointer(place).and_then(Value::as_str).map(str::trim);
    let serial = text("/serial_number").map(str::to_owned).or_else(|| {
        let id = report.pointer("/wwn/id").and_then(Value::as_u64)?;
        Some(format!("{id:x}"))
    })?;
    let model = text("/model_name")
        .or_else(|| text("/scsi_model_name"))
        .unwrap_or("");
    Some(format!("{model} {serial}").trim().to_owned())
}

/// What the drives of all reports are called.
struct Names {
    device: Option<String>,
    /// Drives of each name.
    drives: BTreeMap<String, BTreeSet<Option<String>>>,
    /// Reports that name none.
    nameless: usize,
}

impl Names {
    fn of(source: &Source, files: &[Documents]) -> Names {
        let mut names = Names {
            device: source.device.clone(),
            drives: BTreeMap::new(),
            nameless: 0,
        };
        for report in files
            .iter()
            .flat_map(|documents| documents.all.iter().flat_map(parts))
        {
            match names.called(report) {
                Some(name) => {
                    names.drives.entry(name).or_default().insert(identity_of(report));
                }
                None => names.nameless += 1,
            }
        }
        names
    }

    fn called(&self, report: &Value) -> Option<String> {
        self.device
            .clone()
            .or_else(|| name_of(report))
            .or_else(|| identity_of(report))
    }

    /// The name of a report's drive. Where several drives have one name, model and serial number stand behind it. Of several reports that name no
    /// drive nothing tells which are of one.
    fn name(&self, report: &Value, path: &Path, number: usize) -> String {
        let Some(name) = self.called(report) else {
            let file = path
                .file_stem()
                .map_or("drive".into(), |stem| stem.to_string_lossy());
            return match self.nameless {
                0 | 1 => "drive".into(),
                _ => format!("report {} ({file})", number + 1),
            };
        };
        let is_one = self.drives.get(&name).is_none_or(|drives| drives.len() < 2);
        match identity_of(report) {
            _ if is_one => name,
            Some(identity) => format!("{name} [{identity}]"),
            None => format!("{name} [unknown]"),
        }
    }

    fn tell(&self, sink: &mut Sink) {
        if self.nameless > 1 {
            sink.unseen(
                "which reports are of one drive",
                "nvme smart-log names no drive, and nothing is subtracted; --device says that all are of one",
            );
        }
        for (name, drives) in self.drives.iter().filter(|(_, drives)| drives.len() > 1) {
            sink.unseen(
                format!("whether {name} is one drive"),
                format!(
                    "{} drives by their serial numbers were called so, and nothing of one is subtracted from another",
                    drives.len()
                ),
            );
        }
    }
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

/// Whether a report says a list's length in bytes, as smartctl did from r4816 on (7.0, 7.1) until r5064 (7.2): its text says the number of defects.
fn is_in_bytes(place: &str, report: &Value) -> bool {
    let revision = report.pointer("/smartctl/svn_revision").and_then(Value::as_str);
    let version = || report.pointer("/smartctl/version/1").and_then(Value::as_u64);
    let is_old = match revision.and_then(|revision| revision.parse::<u32>().ok()) {
        Some(revision) => (4816..5064).contains(&revision),
        None => {
            let is_7 = report.pointer("/smartctl/version/0").and_then(Value::as_u64) == Some(7);
            is_7 && matches!(version(), Some(0 | 1))
        }
    };
    place == GROWN_DEFECTS && is_old
}

/// Defects in a list of this many bytes: 8 each, or 4 where a drive answers with short places of blocks.
fn defects(bytes: f64) -> f64 {
    match bytes % 8.0 == 0.0 {
        true => bytes / 8.0,
        false => bytes / 4.0,
    }
}

const GROWN_DEFECTS: &str = "/scsi_grown_defect_list";

/// The counters of a report; inside, what is wrong with one that has none.
fn sample(
    device: &str,
    moment_s: i64,
    report: &Value,
    sink: &mut Sink,
) -> Result<Result<(), Bad>, ImportError> {
    let mut values: Vec<(NameId, f64)> = Vec::new();
    let is_of_nvme = report.get("avail_spare").is_some();
    let counters: &[_] = if is_of_nvme { &OF_NVME } else { &COUNTERS };
    if let (true, Some(kelvin)) = (is_of_nvme, number(&report["temperature"])) {
        values.push((sink.name("temperature_c"), kelvin - KELVIN_OF_0_C));
    }
    for &(place, metric, factor) in counters {
        let name = sink.name(metric);
        let is_said = values.iter().any(|(said, _)| *said == name);
        if let (Some(value), false) = (report.pointer(place).and_then(number), is_said) {
            let value = match is_in_bytes(place, report) {
                true => defects(value),
                false => value,
            };
            values.push((name, value * factor));
        }
    }
    let attributes = report
        .pointer("/ata_smart_attributes/table")
        .and_then(Value::as_array);
    for attribute in attributes.into_iter().flatten() {
        let Some(metric) = metric_of(attribute) else {
            continue;
        };
        let name = sink.name(&metric);
        if let (Some(raw), false) = (raw_of(attribute), values.iter().any(|(said, _)| *said == name)) {
            values.push((name, raw));
        }
        let (is_now, was) = failed(attribute);
        // Others than those that foretell a failure tell age and use.
        let foretells = attribute.pointer("/flags/prefailure").and_then(Value::as_bool) == Some(true);
        let endings = [
            (is_now && foretells, "at_threshold"),
            (is_now && !foretells, "at_threshold_of_use"),
            (was, "was_at_threshold"),
        ];
        for (has, ending) in endings {
            if has {
                values.push((sink.name(&format!("{metric}_{ending}")), 1.0));
            }
        }
    }
    let passed = report.pointer("/smart_status/passed").and_then(Value::as_bool);
    if let (Some(passed), false) = (passed, values.is_empty()) {
        values.push((sink.name("smart_failed"), f64::from(u8::from(!passed))));
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
    if passed == Some(false) {
        sink.unseen(
            format!("why {device} says of itself that it fails"),
            "its SMART status is 'failed'; the counters tell what it counted",
        );
    }
    let subject = sink.name(device);
    let time_ns = moment_s.saturating_mul(SECOND);
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

    #[test]
    fn a_list_of_defects_may_be_told_in_bytes() {
        let defects_of = |smartctl: &str, value: u32| {
            let log = format!(
                "{{\"json_format_version\": [1, 0], \"smartctl\": {{{smartctl}}}, \"local_time\": {{\"time_t\": 1681970000}}, \
                \"device\": {{\"name\": \"/dev/sdc\"}}, \"scsi_grown_defect_list\": {value}}}\n"
            );
            crate::testing::samples(&FORMAT, &log, "grown_defects")[0].2
        };
        for (smartctl, value, expected) in [
            ("\"version\": [7, 1], \"svn_revision\": \"5022\"", 240, 30.0),
            ("\"version\": [7, 0]", 240, 30.0),
            ("\"version\": [7, 1]", 12, 3.0),
            ("\"version\": [7, 1]", 0, 0.0),
            // Before the release.
            ("\"version\": [7, 2], \"svn_revision\": \"5063\"", 240, 30.0),
            ("\"version\": [7, 2], \"svn_revision\": \"5155\"", 240, 240.0),
            ("\"version\": [7, 4]", 240, 240.0),
        ] {
            assert_eq!(defects_of(smartctl, value), expected, "{smartctl}");
        }
    }

    fn report(name: &str, serial: &str, at: u32, log: &str) -> String {
        format!(
            "{{\"json_format_version\": [1, 0], \"smartctl\": {{\"version\": [7, 3]}}, \"local_time\": {{\"time_t\": {at}}}, \
            \"device\": {{\"name\": \"/dev/{name}\"}}, \"model_name\": \"M\", \"serial_number\": \"{serial}\", {log}}}\n"
        )
    }

    fn names_of(text: &str, device: Option<&str>) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.json");
        std::fs::write(&path, text).unwrap();
        let source = Source {
            files: vec![path.clone()],
            map: None,
            device: device.map(str::to_owned),
        };
        let (mut names, mut silent) = (case::sealed::Names::default(), |_: u64| {});
        let mut sink = Sink::survey(&mut names, &mut silent, false);
        let files = vec![json(&path, &mut sink).unwrap()];
        let names = Names::of(&source, &files);
        let all = files[0].all.iter().flat_map(parts).enumerate();
        all.map(|(number, report)| names.name(report, &path, number))
            .collect()
    }

    #[test]
    fn drives_of_one_name_are_told_apart() {
        let log = "\"temperature\": {\"current\": 41}";
        let one = format!("{}{}", report("nvme0", "A", 1, log), report("nvme0", "A", 2, log));
        assert_eq!(names_of(&one, None), ["nvme0", "nvme0"]);
        let two = format!("{}{}", report("nvme0", "A", 1, log), report("nvme0", "B", 2, log));
        assert_eq!(names_of(&two, None), ["nvme0 [M A]", "nvme0 [M B]"]);
        let summary = crate::testing::import(&FORMAT, &two).unwrap();
        let said: Vec<&str> = summary
            .not_observed
            .iter()
            .map(|unseen| unseen.what.as_str())
            .collect();
        assert!(said.contains(&"whether nvme0 is one drive"), "{said:?}");
        // In a list, too.
        let list = format!("[{}]", two.trim().replace("}\n{", "},\n{"));
        assert_eq!(names_of(&list, None), ["nvme0 [M A]", "nvme0 [M B]"]);
        let nameless = "{\"critical_warning\": 0, \"avail_spare\": 100}\n";
        assert_eq!(names_of(nameless, None), ["drive"]);
        assert_eq!(
            names_of(&nameless.repeat(2), None),
            ["report 1 (x)", "report 2 (x)"]
        );
        assert_eq!(names_of(&nameless.repeat(2), Some("nvme0")), ["nvme0", "nvme0"]);
    }

    #[test]
    fn numbers_may_be_texts_or_taken_apart() {
        let of = |value: Value| number(&value);
        assert_eq!(of(serde_json::json!("2,752,848")), Some(2_752_848.0));
        assert_eq!(of(serde_json::json!("2.752.848")), Some(2_752_848.0));
        assert_eq!(of(serde_json::json!("20")), Some(20.0));
        assert_eq!(of(serde_json::json!({"value": 4, "ro": 0})), Some(4.0));
        for other in [
            serde_json::json!("2,75"),
            serde_json::json!("x"),
            serde_json::json!({"ro": 1}),
            Value::Null,
        ] {
            assert_eq!(of(other.clone()), None, "{other}");
        }
        let log = "{\"critical_warning\": {\"value\": 0, \"ro\": 0}, \"temperature\": 303, \"avail_spare\": 100, \"spare_thresh\": 10,\n\
            \"data_units_read\": \"2,752,848\", \"power_on_hours\": \"20\", \"media_errors\": \"4\", \"thm_temp1_total_time\": 3000}\n";
        let summary = crate::testing::import(&FORMAT, log).unwrap();
        assert_eq!((summary.records, summary.rows), (1, 8));
    }

    #[test]
    fn attributes_are_known_by_their_number_and_their_name() {
        let metric = |id: u64, name: &str| metric_of(&serde_json::json!({"id": id, "name": name})).unwrap();
        assert_eq!(metric(199, "CRC_Error_Count"), "ata_udma_crc_error_count");
        assert_eq!(metric(5, "Retired_Block_Count"), "ata_reallocated_sector_ct");
        // Of some makers the number stands for something else.
        assert_eq!(metric(199, "Write_Sectors_Tot_Ct"), "ata_write_sectors_tot_ct");
        assert_eq!(
            metric(197, "Current_Pending_ECC_Cnt"),
            "ata_current_pending_ecc_cnt"
        );
        let raw = |id: u64, value: u64, string: &str| {
            raw_of(&serde_json::json!({"id": id, "raw": {"value": value, "string": string}}))
        };
        assert_eq!(raw(194, 81_604_378_646, "22 (0 19 0 0 0)"), Some(22.0));
        assert_eq!(raw(9, 5_000_000, "1234h+05m+12.000s"), Some(1234.0));
        assert_eq!(raw(188, 4_295_032_833, "4295032833"), Some(1.0));
        assert_eq!(raw(188, 5, "0 0 5"), Some(5.0));
        assert_eq!(raw(188, 4_295_032_834, "1 1 2"), Some(2.0));
        assert_eq!(raw(1, 7, "0/7"), Some(0.0));
        assert_eq!(raw(5, 7, "-"), Some(7.0));
        let when = |when: Value| failed(&serde_json::json!({"value": 1, "thresh": 5, "when_failed": when}));
        assert_eq!(when("now".into()), (true, false));
        assert_eq!(when("past".into()), (false, true));
        assert_eq!(when("".into()), (false, false));
        assert_eq!(when(Value::Null), (true, false));
    }

    #[test]
    fn a_drive_that_fails_says_by_what() {
        let log = "\"smart_status\": {\"passed\": false}, \"ata_smart_attributes\": {\"table\": [{\"id\": 5, \"name\": \"Reallocated_Sector_Ct\", \
            \"value\": 1, \"worst\": 1, \"thresh\": 5, \"when_failed\": \"now\", \"flags\": {\"prefailure\": true}, \"raw\": {\"value\": 1975, \"string\": \"1975\"}}]}";
        let summary = crate::testing::import(&FORMAT, &report("sda", "A", 1, log)).unwrap();
        // The count, that it is at its threshold, and the drive's own word.
        assert_eq!((summary.records, summary.rows), (1, 3));
    }
}
