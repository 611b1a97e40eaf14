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
fn rows(numbers: &Numbers) -> [(&'static str, f64); 9] {
    [
        ("operations/s", numbers.ops_per_s),
        ("MB/s", numbers.throughput_bytes_per_s / 1e6),
        ("mean us", numbers.mean_ns / 1e3),
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
    let as_it_is = answer.stack_as_it_is.as_ref();
    lines.push(match as_it_is {
        Some(_) => format!(
            "{:<14}{:>14}{:>14}{:>14}{:>9}",
            "", "recorded", "stack", "with --set", "change"
        ),
        None => format!(
            "{:<14}{:>14}{:>14}{:>9}",
            "", "recorded", "on the stack", "change"
        ),
    });
    let before = rows(&answer.before);
    let after = rows(&answer.after);
    let middle = as_it_is.map(rows);
    for (n, (name, old)) in before.iter().enumerate() {
        let new = after[n].1;
        let middle_text = middle.map_or(String::new(), |rows| format!("{:>14.1}", rows[n].1));
        let change = match *old > 0.0 {
            true => format!("{:+.1} %", (new / old - 1.0) * 100.0),
            false => "-".into(),
        };
        lines.push(format!(
            "{name:<14}{old:>14.1}{middle_text}{new:>14.1}{change:>9}"
        ));
    }
    lines.extend(answer.remarks.iter().cloned());
    lines.join("\n")
}
