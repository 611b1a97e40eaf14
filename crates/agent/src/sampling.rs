//! What a case says of a recording that kept to a CPU budget.
use case::meta::{LeftOutMeta, SamplingLevel, SamplingMeta, Unseen};
use record::{LeftOut, Level};
use std::collections::BTreeMap;

/// Event: another part of typical operations is kept from now on.
pub const EVENT_SAMPLING: &str = "sampling";

/// A budget is a part of one CPU; nothing was left out yet.
pub fn begun(cpu_budget: f64) -> SamplingMeta {
    SamplingMeta {
        cpu_budget,
        ..SamplingMeta::default()
    }
}

/// A change in words: subject and detail of its event.
pub fn told(level: &Level) -> (&'static str, String) {
    let percent = 100.0 * level.cpu_share;
    let detail = match level.level {
        0 => format!("every operation is kept: the recorder took {percent:.1} % of a CPU"),
        level => format!(
            "one typical operation in {} is kept: the recorder took {percent:.1} % of a CPU",
            1u32 << level
        ),
    };
    ("recorder", detail)
}

/// Adds a change; `begin_ns` is the begin of the case.
pub fn add(sampling: &mut SamplingMeta, level: &Level, begin_ns: u64) {
    sampling.levels.push(SamplingLevel {
        start_ns: level.time_ns as i64 - begin_ns as i64,
        one_in: 1 << level.level,
        cpu_share: (level.cpu_share * 1e4).round() / 1e4,
    });
}

/// Adds what was left out; `names` are those of devices by their number.
pub fn finish(
    sampling: &mut SamplingMeta,
    left_out: &BTreeMap<u32, LeftOut>,
    calls: u64,
    names: &BTreeMap<u32, &str>,
) {
    let named = |device: &u32| match names.get(device) {
        Some(name) => (*name).to_string(),
        None => format!("{}:{}", device >> 20, device & 0xf_ffff),
    };
    let told = |(device, left_out): (&u32, &LeftOut)| {
        let meta = LeftOutMeta {
            requests: left_out.requests,
            bytes: left_out.bytes,
        };
        (named(device), meta)
    };
    sampling.left_out = left_out.iter().map(told).collect();
    sampling.calls_left_out = calls;
}

/// Block requests that were left out, of all devices.
pub fn requests_left_out(sampling: &SamplingMeta) -> u64 {
    sampling.left_out.values().map(|left_out| left_out.requests).sum()
}

/// What a sample does not tell; nothing where nothing was left out.
pub fn unseen(sampling: &SamplingMeta) -> Vec<Unseen> {
    if sampling.levels.is_empty() {
        return Vec::new();
    }
    let because = "the recorder sampled typical operations to keep to its CPU budget";
    let what = [
        "silences of submitting threads below about 10 ms, and of devices",
        "requests that a call of more than half a second made long before its end, if they were typical",
        "which write dirtied what was written back, of buffered writes that were left out",
    ];
    let unseen = |what: &str| Unseen {
        what: what.into(),
        because: because.into(),
    };
    what.map(unseen).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_left_out_is_told_by_device() {
        let mut sampling = begun(0.03);
        assert!(unseen(&sampling).is_empty());
        let level = Level {
            time_ns: 5_000,
            level: 3,
            cpu_share: 0.07123456,
        };
        add(&mut sampling, &level, 2_000);
        let one = LeftOut {
            requests: 9,
            bytes: 36_864,
        };
        let left_out = [(8 << 20, one), (7 << 20 | 1, one)].into();
        finish(&mut sampling, &left_out, 4, &[(8 << 20, "sda")].into());
        assert_eq!(sampling.levels[0].start_ns, 3_000);
        assert_eq!(
            (sampling.levels[0].one_in, sampling.levels[0].cpu_share),
            (8, 0.0712)
        );
        let names: Vec<&str> = sampling.left_out.keys().map(String::as_str).collect();
        assert_eq!(names, ["7:1", "sda"]);
        assert!(!unseen(&sampling).is_empty());
        assert_eq!(requests_left_out(&sampling), 18);
        let (subject, detail) = told(&level);
        assert_eq!(subject, "recorder");
        assert!(
            detail.contains("one typical operation in 8") && detail.contains("7.1 %"),
            "{detail}"
        );
    }
}
