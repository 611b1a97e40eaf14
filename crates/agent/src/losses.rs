//! What is said of a case that lost operations.
use crate::output::grouped;
use case::completeness::Missing;

/// One sentence where too much of a layer is missing, `None` where not.
pub fn words(layers: &[Missing]) -> Option<String> {
    let layers: Vec<&Missing> = layers.iter().filter(|missing| missing.is_too_much()).collect();
    let first = layers.first()?;
    let parts: Vec<String> = layers.iter().map(|missing| part(missing)).collect();
    Some(format!(
        "NOT SOUND: {}; nothing that hangs on that can be concluded: {}",
        parts.join(", and "),
        advice(first)
    ))
}

/// `190,564 of 211,733 operations of layer block (90.0 %) were lost (ring_full)`.
fn part(missing: &Missing) -> String {
    let reasons: Vec<&str> = missing.reasons.keys().map(String::as_str).collect();
    format!(
        "{} of {} operations of layer {} ({:.1} %) were lost ({})",
        grouped(missing.lost),
        grouped(missing.lost + missing.there),
        missing.layer,
        100.0 * missing.share(),
        reasons.join(", ")
    )
}

/// What to do about the reason for which most was lost.
fn advice(missing: &Missing) -> &'static str {
    let most = missing.reasons.iter().max_by_key(|(_, lost)| **lost);
    match most.map_or("", |(reason, _)| reason.as_str()) {
        "write_failed" => "record again to a file system with more room",
        "writer_behind" => "record again to a faster disk, or less (--pid, --device, --cpu-budget)",
        _ => "record again, and less (--pid, --device, --cpu-budget)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(lost: u64, there: u64) -> Missing {
        Missing {
            layer: "block",
            lost,
            there,
            reasons: [("ring_full".to_string(), lost)].into(),
        }
    }

    #[test]
    fn speaks_only_of_what_matters() {
        assert_eq!(words(&[]), None);
        assert_eq!(words(&[missing(1, 99)]), None);
        let text = words(&[missing(190_564, 21_169)]).unwrap();
        assert!(
            text.contains("190,564 of 211,733 operations of layer block (90.0 %) were lost (ring_full)"),
            "{text}"
        );
    }
}
