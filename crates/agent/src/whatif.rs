//! `whodisk whatif`: a recorded workload on a modelled stack.
use crate::args::{ReplayLayer, WhatifArgs};
use crate::failure::Failure;
use crate::output::{grouped, print, print_json};
use case::schema::Layer;
use lab::whatif::{Numbers, Question, WhatIf};

/// Replays and prints.
pub fn main(args: &WhatifArgs) -> Result<(), Failure> {
    let question = Question {
        case: &args.case,
        stack: &args.stack,
        set: &args.set,
        layer: args.layer.map(|layer| match layer {
            ReplayLayer::App => Layer::App,
            ReplayLayer::Block => Layer::Block,
        }),
        device: args.device.as_deref(),
    };
    let answer = lab::whatif::whatif(&question).map_err(Failure::error)?;
    if args.json {
        return print_json(&answer);
    }
    print(&text(&answer))
}

/// Name and value of every line of the table; the number of digits after the point.
///
/// No mean: of a distribution with a tail it says little, and the percentiles say it.
fn rows(numbers: &Numbers) -> [(&'static str, f64); 8] {
    [
        ("operations/s", numbers.ops_per_s),
        ("MB/s", numbers.throughput_bytes_per_s / 1e6),
        ("p50 us", numbers.p50_ns / 1e3),
        ("p90 us", numbers.p90_ns / 1e3),
        ("p95 us", numbers.p95_ns / 1e3),
        ("p99 us", numbers.p99_ns / 1e3),
        ("p99.9 us", numbers.p999_ns / 1e3),
        ("max us", numbers.max_ns as f64 / 1e3),
    ]
}

fn text(answer: &WhatIf) -> String {
    let mut lines = vec![format!(
        "{} operations of layer {}, {} loop, on {} {}",
        grouped(answer.after.operations),
        answer.layer,
        answer.loop_kind,
        answer.stack,
        answer.set.join(" ")
    )
    .trim_end()
    .to_owned()];
    let before = rows(&answer.before);
    let after = rows(&answer.after);
    match answer.stack_as_it_is.as_ref().map(rows) {
        // The change is what --set does to the model. What the model itself is off by, is said beside it.
        Some(model) => {
            lines.push(format!(
                "{:<14}{:>14}{:>14}{:>10}{:>14}{:>10}",
                "", "recorded", "stack", "off by", "with --set", "change"
            ));
            for (n, (name, old)) in before.iter().enumerate() {
                let (now, new) = (model[n].1, after[n].1);
                lines.push(format!(
                    "{name:<14}{old:>14.1}{now:>14.1}{:>10}{new:>14.1}{:>10}",
                    difference(*old, now),
                    difference(now, new)
                ));
            }
            lines.push(
                "off by: stack against recorded, the error of the model; change: with --set against stack"
                    .into(),
            );
        }
        None => {
            lines.push(format!(
                "{:<14}{:>14}{:>14}{:>10}",
                "", "recorded", "on the stack", "change"
            ));
            for (n, (name, old)) in before.iter().enumerate() {
                let new = after[n].1;
                lines.push(format!(
                    "{name:<14}{old:>14.1}{new:>14.1}{:>10}",
                    difference(*old, new)
                ));
            }
        }
    }
    lines.extend(answer.remarks.iter().cloned());
    lines.join("\n")
}

fn difference(old: f64, new: f64) -> String {
    match old > 0.0 {
        true => format!("{:+.1} %", (new / old - 1.0) * 100.0),
        false => "-".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(p50_ns: f64) -> Numbers {
        Numbers {
            operations: 1000,
            ops_per_s: 10.0,
            throughput_bytes_per_s: 40_960.0,
            mean_ns: 7_777_000.0,
            p50_ns,
            p90_ns: 2e6,
            p95_ns: 3e6,
            p99_ns: 4e6,
            p999_ns: 5e6,
            max_ns: 6_000_000,
        }
    }

    /// The model alone is 15.3 % too fast, with the change 47.9 % slower than recorded: the change makes 74.6 %.
    #[test]
    fn a_change_is_against_the_model_of_today() {
        let mut answer = WhatIf {
            case: "a.case".into(),
            stack: "now.toml".into(),
            set: vec!["device.fitted_scale=2".into()],
            layer: "block",
            loop_kind: "closed",
            before: numbers(1_000_000.0),
            stack_as_it_is: Some(numbers(847_000.0)),
            after: numbers(1_479_000.0),
            change_against: "stack_as_it_is",
            remarks: Vec::new(),
        };
        let text_of = |answer: &WhatIf| text(answer);
        let said = text_of(&answer);
        let line = said.lines().find(|line| line.starts_with("p50 us")).expect("p50");
        let words: Vec<&str> = line.split_whitespace().skip(2).collect();
        assert_eq!(
            words,
            ["1000.0", "847.0", "-15.3", "%", "1479.0", "+74.6", "%"],
            "{said}"
        );
        assert!(!said.contains("7777") && !said.contains("+47.9"), "{said}");
        answer.stack_as_it_is = None;
        answer.set.clear();
        assert!(text_of(&answer).contains("+47.9 %"));
    }
}
