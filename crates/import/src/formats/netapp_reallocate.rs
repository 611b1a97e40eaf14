//! What NetApp's `reallocate` says of a volume's layout: `Allocation check on '/vol/x' is 23, hotspot 0 (threshold 4)`, or `Optimization: 9` of its status.
//!
//! Built from the messages as documented; the measure is proprietary: only its order and its threshold mean something.
use crate::clock::Clock;
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
    if line.contains("llocation check on") {
        return after(line, "' is").or_else(|| after(line, " is"));
    }
    after(line, "optimization")
}

fn recognise(head: &Head) -> bool {
    head.has_line(|line| {
        line.to_ascii_lowercase().contains("reallocat") || line.contains("llocation check on")
    }) && head.has_line(|line| measure(line).is_some())
}

fn read(source: &Source, sink: &mut Sink) -> Result<(), ImportError> {
    sink.clock(Clock::own("the first measurement", 1_000_000_000));
    let (mut volume, mut count, mut told) = (String::from("volume"), 0_i64, Vec::new());
    each_line(source, sink, |line, sink| {
        let text = line.text;
        if let Some(at) = text.find("/vol/") {
            let end =
                text[at..].find(|c: char| c.is_whitespace() || matches!(c, '\'' | '"' | ',' | ':' | ')'));
            volume = text[at..end.map_or(text.len(), |end| at + end)].to_owned();
        }
        let Some(found) = measure(text) else { return Ok(()) };
        let mut values = vec![(sink.name("layout_measure"), number(found, "optimization")?)];
        if let Some(threshold) = after(text, "threshold") {
            values.push((sink.name("layout_threshold"), number(threshold, "threshold")?));
        }
        told.push(format!("{volume} {found}"));
        let subject = sink.name(&volume);
        sink.sample(
            count * 1_000_000_000,
            None,
            SubjectKind::Component,
            subject,
            &values,
        )?;
        count += 1;
        Ok(())
    })?;
    if !told.is_empty() {
        let shown = told.iter().take(20).cloned().collect::<Vec<_>>().join(", ");
        sink.unseen(format!("what the layout costs ({shown})"), "the measure has an order and a threshold, and no unit; compare runs before and after reallocation");
    }
    Ok(())
}
