//! Rate logs of fio: `NAME_bw.1.log` (KiB/s) and `NAME_iops.1.log`. They look exactly like latency logs; only the name tells them apart.
use super::fio_columns::{clock_of, is_log_of, job_of, kind_and_key, layout, look_like, Entry};
use crate::format::{alone, Format, Head, Source};
use crate::records::each_line;
use crate::sink::Sink;
use crate::ImportError;
use case::schema::SubjectKind;

/// The registry's line.
pub const FORMAT: Format = Format {
    name: "fio-rate",
    about: "fio's bandwidth and IOPS logs (write_bw_log, write_iops_log): samples",
    not_carried: &[(
        "single operations",
        "rate logs hold bandwidth and IOPS; write_lat_log logs operations",
    )],
    recognise,
    together: alone,
    read,
};

const KINDS: [&str; 2] = ["bw", "iops"];

fn recognise(head: &Head) -> bool {
    is_log_of(&head.name, &KINDS) && look_like(head)
}

fn read(source: &Source, sink: &mut Sink) -> Result<(), ImportError> {
    let name = source.name();
    let Some((kind, _)) = kind_and_key(&name, &KINDS) else {
        let hint = "rename it as fio does: whether values are KiB/s or IOPS is said by nothing else";
        return Err(ImportError::content(
            source.path(),
            "name",
            "NAME_bw.N.log or NAME_iops.N.log",
            name,
            hint,
        ));
    };
    let layout = layout(source)?;
    let subject = job_of(&name, &KINDS);
    let mut is_told = false;
    each_line(source, sink, |line, sink| {
        if line.text.is_empty() {
            return Ok(());
        }
        let entry = Entry::parse(line.text, &layout)?;
        if !std::mem::replace(&mut is_told, true) {
            sink.clock(clock_of(entry.time_ms, 1_000_000));
        }
        let (metric, value) = match kind {
            "bw" => ("throughput_bytes_per_s", entry.value as f64 * 1024.0),
            _ => ("operations_per_s", entry.value as f64),
        };
        let metric = sink.name(&format!("{}_{metric}", entry.op().name()));
        let subject = sink.name(&subject);
        let time_ns = entry.time_ms.saturating_mul(1_000_000);
        sink.sample(time_ns, None, SubjectKind::Process, subject, &[(metric, value)])?;
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::import_named;

    #[test]
    fn moments_since_1970_are_those() {
        let at = |text: &str| {
            let summary = import_named(&FORMAT, "run_iops.1.log", text).unwrap();
            (summary.start_unix_ns, summary.end_ns)
        };
        let since_1970 = "1795752876157, 1, 0, 4096, 0\n1795752877157, 1, 1, 4096, 0\n";
        assert_eq!(at(since_1970), (Some(1_795_752_876_157_000_000), 1_000_000_000));
        assert_eq!(
            at("500, 1, 0, 4096, 0\n1500, 1, 1, 4096, 0\n"),
            (None, 1_500_000_000)
        );
    }
}
