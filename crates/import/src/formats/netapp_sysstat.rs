//! `sysstat` of NetApp's 7-mode: untimed samples of an array, with a summary (minimum, average, maximum) at the end.
//!
//! The two header lines name the columns. Excerpts may have a name in brackets above them. A published mean is said with what it holds: idle
//! samples, drift between the excerpts, bursts.
use super::netapp_reallocate::Layouts;
use crate::clock::Clock;
use crate::error::Bad;
use crate::format::{alone, Format, Head, Source};
use crate::records::each_line;
use crate::sink::Sink;
use crate::text::number;
use crate::ImportError;
use case::schema::SubjectKind;

/// The registry's line.
pub const FORMAT: Format = Format {
    name: "netapp-sysstat",
    about: "sysstat of NetApp's arrays: samples, and the published summary",
    not_carried: &[
        (
            "single operations",
            "sampled counters hold averages over a sampling period; outliers inside a period cannot be seen",
        ),
        (
            "latency and queue depth",
            "sysstat does not print them: nothing here says how long an operation took",
        ),
        (
            "when the samples were taken",
            "sysstat prints no moments: they are put one second apart, and no period can be told",
        ),
    ],
    recognise,
    together: alone,
    read,
};

/// A sample with disk writes of this many times the excerpt's median is a burst.
const BURST_RATIO: f64 = 1.5;
/// Samples of this CPU load or more are called, percent.
const CPU_BUSY: f64 = 95.0;

/// The first of the two lines above the samples.
pub fn is_header(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    // `-u` has one column for all protocols.
    let has_operations = words.contains(&"NFS") || words.contains(&"Total");
    words.first() == Some(&"CPU") && has_operations && words.contains(&"Disk") && words.contains(&"kB/s")
}

fn recognise(head: &Head) -> bool {
    head.has_line(is_header)
}

#[derive(Default)]
struct Excerpt {
    name: String,
    nfs: Vec<f64>,
    writes: Vec<f64>,
    cpu: Vec<f64>,
}

#[derive(Default)]
struct Summary {
    samples: Option<u64>,
    min: Option<f64>,
    mean: Option<f64>,
    max: Option<f64>,
    cpu_max: Option<f64>,
    writes_max: Option<f64>,
}

#[derive(Default, PartialEq, Clone, Copy)]
enum Part {
    #[default]
    Samples,
    Min,
    Mean,
    Max,
}

/// The columns in their order: the header's first line of `sysstat` with any option. What is followed by its unit has two columns; others
/// that are not known have one.
fn columns(first: &str) -> Vec<&'static str> {
    let mut names = vec![];
    let words: Vec<&str> = first.split_whitespace().collect();
    for (at, word) in words.iter().enumerate() {
        let is_pair = words.get(at + 1) == Some(&"kB/s");
        match *word {
            "CPU" => names.push("cpu"),
            "NFS" => names.push("nfs"),
            "CIFS" => names.push("cifs"),
            "HTTP" => names.push("http"),
            "Total" if !is_pair => names.push("total"),
            "Net" => names.extend(["net_in", "net_out"]),
            "Disk" if names.contains(&"disk_read") => names.push("disk_busy"),
            "Disk" => names.extend(["disk_read", "disk_write"]),
            "Cache" if names.contains(&"cache_age") => names.push("cache_hit"),
            "Cache" => names.push("cache_age"),
            "CP" if names.contains(&"cp_time") => names.push("cp_type"),
            "CP_Ty" => names.push("cp_type"),
            "CP" => names.push("cp_time"),
            "FCP" if is_pair => names.extend(["fcp_in", "fcp_out"]),
            "FCP" => names.push("fcp"),
            "iSCSI" if is_pair => names.extend(["iscsi_in", "iscsi_out"]),
            "iSCSI" => names.push("iscsi"),
            "kB/s" => {}
            _ if is_pair => names.extend(["other", "other"]),
            _ => names.push("other"),
        }
    }
    names
}

fn metric(column: &str) -> Option<(&'static str, f64)> {
    Some(match column {
        "cpu" => ("cpu_busy_ratio", 0.01),
        "nfs" => ("nfs_operations_per_s", 1.0),
        "cifs" => ("cifs_operations_per_s", 1.0),
        "http" => ("http_operations_per_s", 1.0),
        "fcp" => ("fcp_operations_per_s", 1.0),
        "iscsi" => ("iscsi_operations_per_s", 1.0),
        "fcp_in" => ("fcp_in_bytes_per_s", 1000.0),
        "fcp_out" => ("fcp_out_bytes_per_s", 1000.0),
        "iscsi_in" => ("iscsi_in_bytes_per_s", 1000.0),
        "iscsi_out" => ("iscsi_out_bytes_per_s", 1000.0),
        "total" => ("operations_per_s", 1.0),
        "net_in" => ("net_in_bytes_per_s", 1000.0),
        "net_out" => ("net_out_bytes_per_s", 1000.0),
        "disk_read" => ("disk_read_bytes_per_s", 1000.0),
        "disk_write" => ("disk_write_bytes_per_s", 1000.0),
        "cache_hit" => ("cache_hit_ratio", 0.01),
        "cp_time" => ("consistency_point_ratio", 0.01),
        "disk_busy" => ("disk_busy_ratio", 0.01),
        _ => return None,
    })
}

fn read(source: &Source, sink: &mut Sink) -> Result<(), ImportError> {
    let (mut names, mut excerpts, mut summary) = (Vec::new(), vec![Excerpt::default()], Summary::default());
    let (mut part, mut number_of, mut expects_units) = (Part::Samples, 0_i64, false);
    let mut layouts = Layouts::new();
    let subject = source.name().trim_end_matches(".txt").to_owned();
    sink.clock(Clock::own("the first sample", 1_000_000_000));
    each_line(source, sink, |line, sink| {
        let text = line.text.trim();
        if is_header(text) {
            (names, expects_units) = (columns(text), true);
            return Ok(());
        }
        if std::mem::take(&mut expects_units) || text.is_empty() {
            return Ok(());
        }
        if layouts.line(text, number_of * 1_000_000_000, sink)? {
            return Ok(());
        }
        if let Some(name) = text.strip_prefix('[') {
            excerpts.push(Excerpt {
                name: name.trim_end_matches(']').to_owned(),
                ..Excerpt::default()
            });
            return Ok(());
        }
        if let Some(rest) = text.strip_prefix("Summary Statistics") {
            summary.samples = rest
                .split_whitespace()
                .find_map(|word| word.trim_matches('(').parse().ok());
            part = Part::Min;
            return Ok(());
        }
        part = match text {
            "Min" => Part::Min,
            "Avg" => Part::Mean,
            "Max" => Part::Max,
            _ => part,
        };
        if matches!(text, "Min" | "Avg" | "Max") || !text.contains('%') {
            return Ok(());
        }
        let fields: Vec<&str> = text.split_whitespace().collect();
        if fields.len() < names.len() || names.is_empty() {
            let expected = format!("{} columns, as the header says", names.len());
            return Err(Bad::new("", expected, text).into());
        }
        let mut values = Vec::new();
        for (column, field) in names.iter().zip(&fields) {
            // Without reads there is no share of hits.
            if metric(column).is_some() && *field != "-" {
                values.push((*column, number(field.trim_end_matches('%'), "of a rate")?));
            }
        }
        let of = |name: &str| {
            values
                .iter()
                .find(|(column, _)| *column == name)
                .map(|(_, value)| *value)
        };
        match part {
            Part::Samples => {
                let excerpt = excerpts.last_mut().expect("there is one");
                excerpt.nfs.extend(of("nfs"));
                excerpt.writes.extend(of("disk_write"));
                excerpt.cpu.extend(of("cpu"));
                let mut rows: Vec<_> = values
                    .iter()
                    .filter_map(|(column, value)| {
                        metric(column).map(|(name, factor)| (sink.name(name), value * factor))
                    })
                    .collect();
                // `B`, or `b` if deferred: a consistency point began while the one before was not written.
                let cp_type = names
                    .iter()
                    .zip(&fields)
                    .find(|(column, _)| **column == "cp_type");
                if let Some((_, cp_type)) = cp_type {
                    let is_back_to_back = cp_type.starts_with(['B', 'b']);
                    rows.push((sink.name("back_to_back"), f64::from(u8::from(is_back_to_back))));
                }
                let name = sink.name(&subject);
                sink.sample(
                    number_of * 1_000_000_000,
                    None,
                    SubjectKind::Component,
                    name,
                    &rows,
                )?;
                number_of += 1;
            }
            Part::Min => summary.min = of("nfs"),
            Part::Mean => summary.mean = of("nfs"),
            Part::Max => {
                (summary.max, summary.cpu_max, summary.writes_max) = (of("nfs"), of("cpu"), of("disk_write"))
            }
        }
        Ok(())
    })?;
    tell(&subject, &excerpts, &summary, sink);
    layouts.end(sink);
    Ok(())
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

fn tell(subject: &str, excerpts: &[Excerpt], summary: &Summary, sink: &mut Sink) {
    if let Some(mean) = summary.mean {
        let first = sink.first_mean(subject, mean);
        let beside = match &first {
            Some((name, first)) if *first > 0.0 => format!(", {:.3} of {name}", mean / first),
            _ => String::new(),
        };
        let samples = summary
            .samples
            .map_or(String::new(), |n| format!(" over {n} samples"));
        let because = if summary.min == Some(0.0) {
            "the smallest sample is 0: idle samples are inside the mean, and how many there are is not in the log"
        } else {
            "only the mean was published, not the samples under it"
        };
        sink.unseen(
            format!(
                "what the published mean of {subject} holds: {mean:.0} NFS operations/s{samples}{beside}"
            ),
            because,
        );
    }
    let told: Vec<(&Excerpt, f64)> = excerpts.iter().filter_map(|e| Some((e, mean(&e.nfs)?))).collect();
    if let (Some((first, before)), Some((last, after))) = (told.first(), told.last()) {
        if told.len() > 1 && *before > 0.0 {
            let (change, word) = (
                (after / before - 1.0) * 100.0,
                if after < before { "fell" } else { "rose" },
            );
            sink.unseen(
                format!(
                    "a steady state in {subject}: NFS operations/s {word} from {before:.0} ({}) to {after:.0} ({}), {change:+.0} %",
                    first.name, last.name
                ),
                "the first minutes are warm-up; a mean that holds them is not that of the steady state",
            );
        }
    }
    let (mut bursts, mut busy, mut most) = (0, 0, 0.0_f64);
    let mut samples = 0;
    for excerpt in excerpts {
        let usual = median(&excerpt.writes);
        bursts += excerpt
            .writes
            .iter()
            .filter(|value| **value > BURST_RATIO * usual)
            .count();
        busy += excerpt.cpu.iter().filter(|value| **value >= CPU_BUSY).count();
        most = excerpt.writes.iter().copied().fold(most, f64::max);
        samples += excerpt.writes.len();
    }
    let of_max = summary.writes_max.map_or(String::new(), |max| {
        format!(
            ", and the summary's largest is {:.0} MB/s with {:.0} % CPU",
            max / 1000.0,
            summary.cpu_max.unwrap_or(0.0)
        )
    });
    if bursts > 0 || busy > 0 || !of_max.is_empty() {
        sink.unseen(
            format!(
                "the period of the bursts in {subject}: {bursts} of {samples} samples write more than {BURST_RATIO} times the median \
                 (up to {:.0} MB/s), {busy} have {CPU_BUSY:.0} % CPU or more{of_max}",
                most / 1000.0
            ),
            "consistency points write in bursts; the samples have no moments, so it is known that they come, not how often",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_every_option() {
        let plain = "CPU    NFS   CIFS   HTTP      Net kB/s     Disk kB/s      Tape kB/s    Cache";
        assert_eq!(columns(plain).len(), 11);
        let all = "CPU NFS CIFS HTTP Total Net kB/s Disk kB/s Tape kB/s Cache Cache CP CP Disk OTHER FCP iSCSI FCP kB/s iSCSI kB/s";
        let names = columns(all);
        assert_eq!(names.len(), 23);
        assert_eq!(
            names[12..17],
            ["cache_hit", "cp_time", "cp_type", "disk_busy", "other"]
        );
        assert_eq!(names[17..21], ["fcp", "iscsi", "fcp_in", "fcp_out"]);
        let of_fcp = columns("CPU   NFS  CIFS   FCP   Net kB/s   Disk kB/s    FCP kB/s   Cache");
        assert_eq!(
            of_fcp[3..8],
            ["fcp", "net_in", "net_out", "disk_read", "disk_write"]
        );
        let of_utilization =
            "CPU   Total     Net   kB/s    Disk   kB/s    Tape   kB/s  Cache  Cache    CP  CP  Disk";
        assert!(is_header(of_utilization) && columns(of_utilization).len() == 13);
        let newer =
            columns("CPU NFS CIFS HTTP Total Net kB/s Disk kB/s Tape kB/s Cache Cache CP CP_Ty CP_Ph Disk");
        assert_eq!(newer[13..], ["cp_time", "cp_type", "other", "disk_busy"]);
        assert!(!is_header("ANY1+ ANY2+ AVG CPU0 CPU1") && !is_header("CPU Total Disk"));
    }

    #[test]
    fn back_to_back_consistency_points_are_kept() {
        let log = " CPU  Total   Net   kB/s    Disk   kB/s    Tape   kB/s  Cache  Cache    CP  CP  Disk\n\
                         in    out    read  write    read  write    age    hit  time  ty  util\n\
              67%  3214  450  134  657  1140  0  0  6s  94%  100%  :f  88%\n\
              71%  3514  490  154  757  1240  0  0  6s  94%  100%  Bf  98%\n";
        let summary = crate::testing::import(&FORMAT, log).unwrap();
        // Nine columns, and whether one consistency point followed the other.
        assert_eq!((summary.records, summary.rows), (2, 2 * 10));
    }
}
