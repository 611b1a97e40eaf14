//! `whodisk verify`.
use crate::args::VerifyArgs;
use crate::failure::Failure;
use crate::losses;
use crate::observe::require_case;
use crate::output::{grouped, print, print_json};
use std::fmt::Write;

/// Checks a case. Exit code 1 if it contradicts its format, or lacks too much of a layer.
pub fn main(args: &VerifyArgs) -> Result<(), Failure> {
    require_case(&args.case)?;
    let report = case::verify::verify(&args.case)?;
    let printed = if args.json {
        print_json(&report)
    } else {
        let unseen = case::meta::CaseMeta::read(&args.case).map_or(0, |meta| meta.not_observed.len());
        print(text(&args.case.display().to_string(), &report, unseen).trim_end())
    };
    // What was found does not depend on who reads it.
    if report.problems.is_empty() && report.unsound().next().is_none() {
        printed
    } else {
        Err(Failure::check())
    }
}

/// `unseen` of the things in `report.missing`, the first ones, were never observed rather than lost.
fn text(case: &str, report: &case::verify::Report, unseen: usize) -> String {
    let unseen = unseen.min(report.missing.len());
    let mut text = String::new();
    for (table, rows) in &report.rows {
        let _ = writeln!(text, "{table}: {} rows", grouped(*rows));
    }
    for missing in &report.missing[..unseen] {
        let _ = writeln!(text, "not observed: {missing}");
    }
    for missing in &report.missing[unseen..] {
        let _ = writeln!(text, "missing: {missing}");
    }
    for p in &report.problems {
        let _ = writeln!(
            text,
            "problem: {}: {}: expected {}, found {}; {}",
            p.path, p.at, p.expected, p.found, p.hint
        );
    }
    let lost = losses::words(&report.layers_missing);
    let verdict = match (report.problems.len(), lost, report.missing.len() - unseen) {
        (0, None, 0) => "whole".to_string(),
        (0, None, n) => format!("sound, but not whole: {n} thing(s) missing"),
        (0, Some(lost), _) => lost,
        (n, None, _) => format!("damaged: {n} problem(s)"),
        (n, Some(lost), _) => format!("damaged: {n} problem(s). {lost}"),
    };
    let _ = writeln!(text, "{case}: {verdict}");
    text
}

#[cfg(test)]
mod tests {
    use super::text;
    use case::completeness::Missing;
    use case::verify::{Problem, Report};

    #[test]
    fn says_all_three_outcomes() {
        let mut report = Report::default();
        report.rows.insert("ops/layer=block".into(), 12_345);
        assert!(text("a.case", &report, 0).ends_with("12,345 rows\na.case: whole\n"));
        report.missing.push("raw/block: cut after 100 bytes".into());
        assert!(text("a.case", &report, 0).contains("sound, but not whole: 1"));
        assert!(text("a.case", &report, 1).ends_with("a.case: whole\n"));
        report.problems.push(Problem {
            path: "ops".into(),
            at: "row 3".into(),
            expected: "stages that sum to 10".into(),
            found: "11".into(),
            hint: "seal again".into(),
        });
        let text = text("a.case", &report, 0);
        assert!(
            text.contains("ops: row 3: expected stages that sum to 10, found 11; seal again"),
            "{text}"
        );
        assert!(text.contains("damaged: 1"));
    }

    #[test]
    fn a_case_that_lost_most_of_a_layer_is_not_sound() {
        let report = Report {
            layers_missing: vec![Missing {
                layer: "block",
                lost: 90,
                there: 10,
                reasons: [("ring_full".to_string(), 90)].into(),
            }],
            ..Report::default()
        };
        let text = text("a.case", &report, 0);
        assert!(
            text.contains("a.case: NOT SOUND: 90 of 100 operations of layer block (90.0 %)"),
            "{text}"
        );
    }
}
