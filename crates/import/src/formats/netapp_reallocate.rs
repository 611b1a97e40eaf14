//! What NetApp's `reallocate` says of a volume's layout: `Allocation check on '/vol/x' is 23, hotspot 0 (threshold 4)`, or `Optimization: 9` of its status.
//!
//! Built from the messages as documented; the measure is proprietary: only its order and its threshold mean something.
use crate::clock::Clock;
use crate::error::RecordError;
use crate::format::{alone, Format, Head, Source};
use crate::records::each_line;
use crate::sink::Sink;
use crate::text::number;
use crate::ImportError;
use case::schema::SubjectKind;

/// The registry's line.
pub const FORMAT: Format = Format {
    name: "netapp-reallocate",
    about: "messages and status of NetApp's reallocate: the layout measure of volumes",
    not_carried: &[
        ("what the layout costs", "the measure is proprietary: larger is worse, and above its threshold a volume is advised to be reallocated"),
        ("when it was measured", "samples are put one second apart, in the order of the file"),
    ],
    recognise,
    together: alone,
    read,
};

/// Number after a word.
fn after<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let begin = text.to_ascii_lowercase().find(word)? + word.len();
    let rest = text.get(begin..)?.trim_start_matches([' ', ':', '=']);
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    (end > 0).then(|| &rest[..end])
}

fn measure(line: &str) -> Option<&str> {
    if is_check(line) {
        return after(line, "' is").or_else(|| after(line, " is"));
    }
    after(line, "optimization")
}

/// `Allocation check on`, or `Allocation measurement check on`.
fn is_check(line: &str) -> bool {
    line.contains("llocation") && line.contains(" check on ")
}

fn recognise(head: &Head) -> bool {
    // Logs of sysstat carry such messages, too, and are read as what they mostly are.
    !head.has_line(super::netapp_sysstat::is_header)
        && head.has_line(|line| line.to_ascii_lowercase().contains("reallocat") || is_check(line))
        && head.has_line(|line| measure(line).is_some())
}

/// Collects what the messages of a log say.
pub struct Layouts {
    volume: String,
    told: Vec<String>,
}

impl Layouts {
    /// Nothing was said so far.
    pub fn new() -> Layouts {
        Layouts {
            volume: "volume".into(),
            told: Vec::new(),
        }
    }

    /// Takes a line; whether it was a measurement, which is put at this moment.
    pub fn line(&mut self, text: &str, time_ns: i64, sink: &mut Sink) -> Result<bool, RecordError> {
        if let Some(at) = text.find("/vol/") {
            let end =
                text[at..].find(|c: char| c.is_whitespace() || matches!(c, '\'' | '"' | ',' | ':' | ')'));
            self.volume = text[at..end.map_or(text.len(), |end| at + end)].to_owned();
        }
        let Some(found) = measure(text) else {
            return Ok(false);
        };
        let mut values = vec![(sink.name("layout_measure"), number(found, "optimization")?)];
        if let Some(threshold) = after(text, "threshold") {
            values.push((sink.name("layout_threshold"), number(threshold, "threshold")?));
        }
        // Of the worst part of the volume.
        if let Some(hotspot) = after(text, "hotspot") {
            values.push((sink.name("layout_hotspot"), number(hotspot, "hotspot")?));
        }
        let (measured, threshold) = (
            found.parse::<u64>(),
            after(text, "threshold").map(str::parse::<u64>),
        );
        let above = match (measured, threshold) {
            (Ok(measured), Some(Ok(threshold))) if measured > threshold => {
                format!(", above its threshold of {threshold}")
            }
            _ => String::new(),
        };
        let told = format!("{} {found}", self.volume);
        let is_told = self.told.iter().any(|one| one.split(", ").next() == Some(&told));
        if !is_told && self.told.len() < TOLD_MAX {
            self.told.push(told + &above);
        }
        let subject = sink.name(&self.volume);
        sink.sample(time_ns, None, SubjectKind::Component, subject, &values)?;
        Ok(true)
    }

    /// The log has ended.
    pub fn end(&self, sink: &mut Sink) {
        if !self.told.is_empty() {
            let what = format!("what the layout costs ({})", self.told.join(", "));
            sink.unseen(what, "the measure has an order and a threshold, and no unit; compare runs before and after reallocation");
        }
    }
}

/// Measurements that are shown, at most.
const TOLD_MAX: usize = 20;

fn read(source: &Source, sink: &mut Sink) -> Result<(), ImportError> {
    sink.clock(Clock::own("the first measurement", 1_000_000_000));
    let (mut layouts, mut count) = (Layouts::new(), 0_i64);
    each_line(source, sink, |line, sink| {
        if layouts.line(line.text, count * 1_000_000_000, sink)? {
            count += 1;
        }
        Ok(())
    })?;
    layouts.end(sink);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_and_measurements_are_measures() {
        let check = "[wafl.reallocate.check.high:info]: Allocation check on '/vol/a9' is 6, hotspot 19 (threshold 4), so will reallocate.";
        assert_eq!(
            (measure(check), after(check, "hotspot"), after(check, "threshold")),
            (Some("6"), Some("19"), Some("4"))
        );
        assert_eq!(
            measure("Allocation measurement check on '/vol/a9' is 3."),
            Some("3")
        );
        assert_eq!(measure("Starting a check on 7 disks"), None);
    }

    #[test]
    fn a_measure_above_its_threshold_is_told() {
        let log = "Fri Nov 06 [filer: wafl.reallocate.check.high:info]: Allocation check on '/vol/a9' is 6, hotspot 19 (threshold 4), so will reallocate.\n";
        let summary = crate::testing::import(&FORMAT, log).unwrap();
        let said: Vec<&str> = summary
            .not_observed
            .iter()
            .map(|unseen| unseen.what.as_str())
            .collect();
        assert!(
            said.contains(&"what the layout costs (/vol/a9 6, above its threshold of 4)"),
            "{said:?}"
        );
    }
}
