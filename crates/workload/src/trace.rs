//! Operations that are done as a file says, and not drawn: the replay of what was recorded.
//!
//! One line per operation, in order of time: nanoseconds after the begin, `read`, `write` or `sync`, offset, size (both in bytes, 0 for
//! a sync). Lines that begin with `#` are comments.
use crate::error::WorkloadError;
use crate::mix::Access;
use crate::spec::Spec;
use case::schema::Op;
use std::path::Path;
use std::sync::Arc;

/// One operation and when it is meant to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// After the begin of the workload.
    pub after_ns: u64,
    /// What to do, on target 0.
    pub access: Access,
}

/// Reads the file that `spec.replay` names; None without one. Errors: an unreadable file, a line that is no operation or goes back in
/// time, an operation beyond the target (`size_bytes`) or larger than the largest block size, a write where the workload only reads.
pub fn read(spec: &Spec, size_bytes: u64) -> Result<Option<Arc<[Step]>>, WorkloadError> {
    let Some(path) = &spec.replay else { return Ok(None) };
    let text = std::fs::read_to_string(path).map_err(|source| WorkloadError::Io {
        path: path.clone(),
        action: "read the operations to replay".into(),
        source,
        hint: "name a readable file in UTF-8".into(),
    })?;
    parse(&text, path, spec, size_bytes).map(|steps| Some(steps.into()))
}

fn parse(text: &str, path: &Path, spec: &Spec, size_bytes: u64) -> Result<Vec<Step>, WorkloadError> {
    let mut steps: Vec<Step> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |expected: &str| WorkloadError::Spec {
            file: path.display().to_string(),
            at: format!("line {}", index + 1),
            expected: expected.into(),
            found: format!("{line:?}"),
            hint: "correct it, or write the file again".into(),
        };
        let step = step(line).ok_or_else(|| wrong("NANOSECONDS read|write|sync OFFSET SIZE"))?;
        let access = step.access;
        if steps.last().is_some_and(|last| last.after_ns > step.after_ns) {
            return Err(wrong("a time not before that of the line above"));
        }
        if access.op == Op::Write && !spec.writes() {
            return Err(wrong("reads only, as read = 100% says"));
        }
        if access.op != Op::Sync {
            let end = access.offset_bytes.checked_add(u64::from(access.size_bytes));
            if access.size_bytes == 0 || access.size_bytes > spec.block_size_max() {
                return Err(wrong("a size of 1 byte up to the largest of block_sizes"));
            }
            if end.is_none_or(|end| end > size_bytes) {
                return Err(wrong(&format!("a place within the target's {size_bytes} bytes")));
            }
            let odd = access.offset_bytes % 512 != 0 || access.size_bytes % 512 != 0;
            if spec.direct && odd {
                return Err(wrong("multiples of 512 B (direct I/O)"));
            }
        }
        steps.push(step);
    }
    if steps.is_empty() {
        return Err(WorkloadError::Spec {
            file: path.display().to_string(),
            at: "end of the file".into(),
            expected: "at least one operation".into(),
            found: "none".into(),
            hint: "write the file again".into(),
        });
    }
    Ok(steps)
}

fn step(line: &str) -> Option<Step> {
    let mut words = line.split_ascii_whitespace();
    let after_ns = words.next()?.parse().ok()?;
    let op = match words.next()? {
        "read" => Op::Read,
        "write" => Op::Write,
        "sync" => Op::Sync,
        _ => return None,
    };
    let offset_bytes = words.next()?.parse().ok()?;
    let size_bytes = words.next()?.parse().ok()?;
    let access = Access {
        op,
        file: 0,
        offset_bytes,
        size_bytes,
    };
    words.next().is_none().then_some(Step { after_ns, access })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(more: &str) -> Spec {
        let text = format!("[workload]\ntargets = [\"null\"]\nreplay = \"x\"\n{more}");
        Spec::parse(&text, "test").expect("a specification")
    }

    fn parsed(text: &str, more: &str) -> Result<Vec<Step>, String> {
        parse(text, Path::new("x"), &spec(more), 1 << 20).map_err(|error| error.to_string())
    }

    #[test]
    fn operations_are_read_in_their_order() {
        let steps = parsed(
            "# a comment\n0 read 4096 4096\n5 write 0 512\n5 sync 0 0\n",
            "read = \"50%\"",
        )
        .expect("three operations");
        let seen: Vec<_> = steps
            .iter()
            .map(|step| (step.after_ns, step.access.op, step.access.offset_bytes))
            .collect();
        assert_eq!(seen, [(0, Op::Read, 4096), (5, Op::Write, 0), (5, Op::Sync, 0)]);
    }

    #[test]
    fn a_line_that_cannot_be_done_is_named() {
        for (text, said) in [
            ("0 read 0\n", "line 1: expected NANOSECONDS"),
            ("0 trim 0 512\n", "line 1: expected NANOSECONDS"),
            (
                "5 read 0 512\n4 read 0 512\n",
                "line 2: expected a time not before",
            ),
            ("0 write 0 512\n", "expected reads only"),
            ("0 read 0 8192\n", "largest of block_sizes"),
            ("0 read 1048576 512\n", "within the target's 1048576 bytes"),
            ("0 read 18446744073709551615 512\n", "within the target's"),
            ("0 read 100 512\n", "multiples of 512"),
            ("# nothing\n", "at least one operation"),
        ] {
            let error = parsed(text, "").expect_err(text);
            assert!(error.contains(said), "{text:?}: {error}");
        }
    }
}
