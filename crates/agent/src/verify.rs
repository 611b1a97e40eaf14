//! `whodisk verify`.
use crate::args::VerifyArgs;
use crate::failure::Failure;
use crate::observe::require_case;
use crate::output::{grouped, print, print_json};
use std::fmt::Write;

/// Checks a case. Exit code 1 if it contradicts its format.
pub fn main(args: &VerifyArgs) -> Result<(), Failure> {
    require_case(&args.case)?;
    let report = case::verify::verify(&args.case)?;
    if args.json {
        print_json(&report)?;
    } else {
        print(text(&args.case.display().to_string(), &report).trim_end())?;
    }
    if report.problems.is_empty() {
        Ok(())
    } else {
        Err(Failure::check())
    }
}

fn text(case: &str, report: &case::verify::Report) -> String {
    let mut text = String::new();
    for (table, rows) in &report.rows {
        let _ = writeln!(text, "{table}: {} rows", grouped(*rows));
    }
    for missing in &report.missing {
        let _ = writeln!(text, "missing: {missing}");
    }
    for p in &report.problems {
        let _ = writeln!(
            text,
            "problem: {}: {}: expected {}, found {}; {}",
            p.path, p.at, p.expected, p.found, p.hint
        );
    }
    let verdict = match (report.problems.len(), report.missing.len()) {
        (0, 0) => "whole".to_string(),
        (0, n) => format!("sound, but not whole: {n} thing(s) missing"),
        (n, _) => format!("damaged: {n} problem(s)"),
    };
    let _ = writeln!(text, "{case}: {verdict}");
    text
}

#[cfg(test)]
mod tests {
    use super::text;
    use case::verify::{Problem, Report};

    #[test]
    fn says_all_three_outcomes() {
        let mut report = Report::default();
        report.rows.insert("ops/layer=block".into(), 12_345);
        assert!(text("a.case", &report).ends_with("12,345 rows\na.case: whole\n"));
        report.missing.push("raw/block: cut after 100 bytes".into());
        assert!(text("a.case", &report).contains("sound, but not whole: 1"));
        report.problems.push(Problem {
            path: "ops".into(),
            at: "row 3".into(),
            expected: "stages that sum to 10".into(),
            found: "11".into(),
            hint: "seal again".into(),
        });
        let text = text("a.case", &report);
        assert!(
            text.contains("ops: row 3: expected stages that sum to 10, found 11; seal again"),
            "{text}"
        );
        assert!(text.contains("damaged: 1"));
    }
}
