//! `whodisk layout`: where files lie, made worse on purpose, made better.
use crate::args::{
    LayoutCommand, LayoutFragmentArgs, LayoutMeasureArgs, LayoutReallocateArgs, LayoutTimerArgs,
};
use crate::failure::Failure;
use crate::output::{grouped, print, print_json, say, Progress};
use crate::slowdisk::stop_at_signal;
use layout::{Job, JobState, Layout, LayoutError, Measured, Options, Outcome, Reallocated};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

/// Largest request of a device that does not tell.
const REQUEST_BYTES: u64 = 512 << 10;

impl From<LayoutError> for Failure {
    fn from(error: LayoutError) -> Failure {
        Failure::error(error)
    }
}

/// Does what the command says.
pub fn main(command: &LayoutCommand) -> Result<(), Failure> {
    match command {
        LayoutCommand::Measure(args) => measure(args),
        LayoutCommand::Fragment(args) => fragment(args),
        LayoutCommand::Reallocate(args) => reallocate(args),
        LayoutCommand::Status { json } => status(*json),
        LayoutCommand::Timer(args) => timer(args),
    }
}

/// What `measure --json` prints.
#[derive(Serialize)]
struct Tree {
    path: PathBuf,
    files: u64,
    size_bytes: u64,
    request_bytes: u64,
    #[serde(flatten)]
    layout: Layout,
    /// The most fragmented files, the worst first.
    worst: Vec<Measured>,
    failed: u64,
}

fn measure(args: &LayoutMeasureArgs) -> Result<(), Failure> {
    let request_bytes = request_bytes(&args.path, args.request);
    let mut failed = 0;
    let mut told = |error: LayoutError| {
        say(&error.to_string());
        failed += 1;
    };
    let files = layout::files_below(&args.path, &mut told)?;
    let (mut tree, mut worst) = ((0, 0, Layout::default()), Vec::new());
    let mut progress = Progress::new();
    for (number, path) in files.iter().enumerate() {
        progress.tick(|| {
            format!(
                "{} of {} files",
                grouped(number as u64),
                grouped(files.len() as u64)
            )
        });
        match layout::measure(path, request_bytes) {
            Ok(found) => {
                tree.0 += 1;
                tree.1 += found.size_bytes;
                tree.2.add(&found.layout);
                worst.push(found);
                if worst.len() > 2 * args.top.max(1) {
                    keep_worst(&mut worst, args.top.max(1));
                }
            }
            // The only file there is: nothing else to say.
            Err(error) if files.len() == 1 => return Err(error.into()),
            Err(error) => told(error),
        }
    }
    progress.clear();
    keep_worst(&mut worst, args.top.max(1));
    let over = args.threshold.filter(|limit| {
        worst
            .first()
            .is_some_and(|w| w.layout.runs_per_64_blocks > *limit)
    });
    let tree = Tree {
        path: args.path.clone(),
        files: tree.0,
        size_bytes: tree.1,
        request_bytes,
        layout: tree.2,
        worst,
        failed,
    };
    if args.json {
        print_json(&tree)?;
    } else {
        print_tree(&tree)?;
    }
    match over {
        Some(limit) => {
            say(&format!(
                "{}: over the threshold of {limit} runs per 64 blocks",
                args.path.display()
            ));
            Err(Failure::check())
        }
        None => Ok(()),
    }
}

fn keep_worst(files: &mut Vec<Measured>, most: usize) {
    files.sort_by(|a, b| {
        let key = |m: &Measured| (m.layout.runs_per_64_blocks, m.layout.runs as f64);
        key(b)
            .partial_cmp(&key(a))
            .expect("scores are numbers")
            .then_with(|| a.path.cmp(&b.path))
    });
    files.truncate(most);
}

fn print_tree(tree: &Tree) -> Result<(), Failure> {
    let layout = &tree.layout;
    let extra = layout.requests - layout.requests_contiguous;
    print(&format!(
        "{}: {}, {} in {} extents ({:.1} per GiB), {} runs\n\
         layout score     {:.2} runs per 64 blocks (1 is contiguous)\n\
         read in order    {} requests of up to {}, {} more than if it were contiguous; {} seeks",
        tree.path.display(),
        if tree.files == 1 {
            "1 file".into()
        } else {
            format!("{} files", grouped(tree.files))
        },
        size(layout.allocated_bytes),
        grouped(layout.extents),
        layout.extents_per_gib,
        grouped(layout.runs),
        layout.runs_per_64_blocks,
        grouped(layout.requests),
        size(tree.request_bytes),
        grouped(extra),
        grouped(layout.seeks),
    ))?;
    if let Some(first) = layout.first_byte {
        print(&format!(
            "on the device    within {}, from byte {} on",
            size(layout.span_bytes),
            grouped(first)
        ))?;
    }
    if layout.shared_bytes > 0 {
        print(&format!(
            "shared           {} with other files or snapshots",
            size(layout.shared_bytes)
        ))?;
    }
    if tree.files > 1 {
        print("\n  score       runs  extents/GiB       size  file")?;
        for file in &tree.worst {
            let l = &file.layout;
            print(&format!(
                "{:7.2} {:>10} {:12.1} {:>10}  {}",
                l.runs_per_64_blocks,
                grouped(l.runs),
                l.extents_per_gib,
                size(file.size_bytes),
                file.path.display()
            ))?;
        }
    }
    Ok(())
}

fn fragment(args: &LayoutFragmentArgs) -> Result<(), Failure> {
    let stop = stop_at_signal()?;
    let mut progress = Progress::new();
    let mut tell = |done: u64, of: u64| {
        progress.tick(|| format!("{}: {}", args.file.display(), share(done, of)));
        !stop.load(Ordering::Relaxed)
    };
    let request_bytes = request_bytes(layout_place(&args.file), args.request);
    let done = layout::fragment(
        &args.file,
        args.pieces,
        args.piece,
        args.seed,
        request_bytes,
        &mut tell,
    )?;
    progress.clear();
    if args.json {
        print_json(&done)?;
    } else {
        print(&format!(
            "{}: {} pieces asked for, {} runs measured (before: {}); score {:.2}, before {:.2}; contents as before (XXH64 {})",
            args.file.display(),
            grouped(done.pieces),
            grouped(done.after.layout.runs),
            grouped(done.before.layout.runs),
            done.after.layout.runs_per_64_blocks,
            done.before.layout.runs_per_64_blocks,
            done.xxh64,
        ))?;
    }
    if done.is_as_asked() {
        return Ok(());
    }
    say(&format!(
        "{}: expected {} runs, found {}; the file system put pieces together: give it more free space, or other pieces",
        args.file.display(),
        grouped(done.pieces),
        grouped(done.after.layout.runs)
    ));
    Err(Failure::check())
}

/// What is there of a path that may not be there yet.
fn layout_place(file: &Path) -> &Path {
    if file.exists() {
        return file;
    }
    file.parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

/// What `reallocate --json` prints.
#[derive(Serialize)]
struct Done {
    path: PathBuf,
    dry_run: bool,
    files: u64,
    /// Files over the threshold.
    results: Vec<Reallocated>,
    failed: Vec<String>,
}

fn reallocate(args: &LayoutReallocateArgs) -> Result<(), Failure> {
    let stop = stop_at_signal()?;
    let path = std::fs::canonicalize(&args.path)
        .map_err(|error| crate::failure::io_failure(&args.path, "find it", &error))?;
    let mut failed = Vec::new();
    let mut told = |error: LayoutError| failed.push(error.to_string());
    let files = layout::files_below(&path, &mut told)?;
    let options = Options {
        threshold: args.threshold,
        dry_run: args.dry_run,
        rewrite: args.rewrite,
        request_bytes: request_bytes(&path, None),
    };
    let job = Job {
        path: path.clone(),
        state: JobState::Running,
        started_unix_s: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |d| d.as_secs()),
        threshold: args.threshold,
        files: files.len() as u64,
        looked_at: 0,
        moved: 0,
        failed: failed.len() as u64,
        runs_before: 0,
        runs_after: 0,
    };
    let mut running = if args.dry_run {
        None
    } else {
        Some(Job::begin(job)?)
    };
    let mut results = Vec::new();
    let mut progress = Progress::new();
    for (number, file) in files.iter().enumerate() {
        let mut tell = |done: u64, of: u64| {
            let place = format!(
                "file {} of {}",
                grouped(number as u64 + 1),
                grouped(files.len() as u64)
            );
            progress.tick(|| format!("{place}: {}: {}", file.display(), share(done, of)));
            !stop.load(Ordering::Relaxed)
        };
        let result = layout::reallocate(file, options, &mut tell);
        let is_stopped = stop.load(Ordering::Relaxed) || matches!(result, Err(LayoutError::Stopped { .. }));
        match result {
            Ok(done) if done.outcome == Outcome::Fine => {}
            Ok(done) => results.push(done),
            Err(LayoutError::Stopped { .. }) => {}
            Err(error) => failed.push(error.to_string()),
        }
        if let Some(running) = &mut running {
            tell_job(&mut running.job, number, &results, failed.len(), is_stopped);
            running.save();
        }
        if is_stopped {
            progress.clear();
            return Err(LayoutError::Stopped { path: file.clone() }.into());
        }
    }
    progress.clear();
    if let Some(running) = &mut running {
        running.job.state = JobState::Done;
        running.save();
    }
    finish(
        args,
        Done {
            path,
            dry_run: args.dry_run,
            files: files.len() as u64,
            results,
            failed,
        },
    )
}

fn tell_job(job: &mut Job, number: usize, results: &[Reallocated], failed: usize, is_stopped: bool) {
    job.looked_at = number as u64 + u64::from(!is_stopped);
    job.failed = failed as u64;
    let moved = results.iter().filter_map(|r| {
        r.after
            .as_ref()
            .map(|after| (r.before.layout.runs, after.layout.runs))
    });
    (job.moved, job.runs_before, job.runs_after) = moved.fold((0, 0, 0), |sum, (before, after)| {
        (sum.0 + 1, sum.1 + before, sum.2 + after)
    });
    if is_stopped {
        job.state = JobState::Interrupted;
    }
}

fn finish(args: &LayoutReallocateArgs, done: Done) -> Result<(), Failure> {
    for message in &done.failed {
        say(message);
    }
    if args.json {
        print_json(&done)?;
    } else {
        for result in &done.results {
            print(&line(result))?;
        }
        print(&format!(
            "{}: {} of {} files were over {} runs per 64 blocks",
            done.path.display(),
            grouped(done.results.len() as u64),
            grouped(done.files),
            args.threshold
        ))?;
    }
    if done.failed.is_empty() {
        Ok(())
    } else {
        Err(Failure::error(format!(
            "{} files could not be looked at or moved; they are whole",
            done.failed.len()
        )))
    }
}

fn line(result: &Reallocated) -> String {
    let score = |m: &Measured| {
        format!(
            "score {:.2}, {} runs",
            m.layout.runs_per_64_blocks,
            grouped(m.layout.runs)
        )
    };
    let before = score(&result.before);
    let path = result.before.path.display();
    let after = result.after.as_ref().map(score).unwrap_or_default();
    match result.outcome {
        Outcome::Moved => format!("{path}: {before}; now {after}; contents as before"),
        Outcome::MovedWhileChanged => {
            format!("{path}: {before}; now {after}; changed by somebody meanwhile, so contents could not be compared")
        }
        Outcome::Would => format!("{path}: {before}; would be moved"),
        Outcome::Shared => {
            format!("{path}: {before}; left: it shares blocks with other files, which a move would double")
        }
        Outcome::NoSpace => format!("{path}: {before}; left: free space is in pieces no longer than its own"),
        Outcome::Fine => format!("{path}: {before}; fine"),
    }
}

fn status(json: bool) -> Result<(), Failure> {
    let jobs = layout::jobs()?;
    if json {
        return print_json(&jobs);
    }
    if jobs.is_empty() {
        return print("reallocate has not run here");
    }
    for job in jobs {
        let state = match job.state {
            JobState::Running => "running",
            JobState::Done => "done",
            JobState::Interrupted => "interrupted; the same command goes on",
        };
        print(&format!(
            "{}: {state}; since {}; {} of {} files looked at, {} moved ({} runs, now {}), {} failed",
            job.path.display(),
            crate::time::Utc::of_unix(job.started_unix_s as i64).rfc3339(),
            grouped(job.looked_at),
            grouped(job.files),
            grouped(job.moved),
            grouped(job.runs_before),
            grouped(job.runs_after),
            grouped(job.failed),
        ))?;
    }
    Ok(())
}

/// Units for systemd; nothing is installed.
fn timer(args: &LayoutTimerArgs) -> Result<(), Failure> {
    let path = std::fs::canonicalize(&args.path)
        .map_err(|error| crate::failure::io_failure(&args.path, "find it", &error))?;
    let program = std::env::current_exe()
        .map_err(|error| Failure::error(format!("cannot find this program: {error}")))?;
    print(&format!(
        "# /etc/systemd/system/whodisk-layout.service
[Unit]
Description=Lay out fragmented files below {path} anew

[Service]
Type=oneshot
ExecStart={program} layout reallocate --threshold {threshold} {path}
Nice=19
IOSchedulingClass=idle
# A run that is stopped leaves every file whole; the next one goes on.
KillSignal=SIGTERM

# /etc/systemd/system/whodisk-layout.timer
[Unit]
Description=When whodisk-layout.service runs

[Timer]
OnCalendar={every}
RandomizedDelaySec=30min
Persistent=true

[Install]
WantedBy=timers.target",
        path = unit_text(&path),
        program = unit_text(&program),
        threshold = args.threshold,
        every = args.every,
    ))?;
    say("save the two parts as the files that their first lines name, then: systemctl enable --now whodisk-layout.timer");
    Ok(())
}

/// A path as systemd reads it.
fn unit_text(path: &Path) -> String {
    let text = path
        .display()
        .to_string()
        .replace('\\', "\\\\")
        .replace('%', "%%")
        .replace('$', "$$")
        .replace('"', "\\\"");
    if text.contains(char::is_whitespace) || text.contains('"') {
        format!("\"{text}\"")
    } else {
        text
    }
}

fn request_bytes(path: &Path, asked: Option<u64>) -> u64 {
    asked
        .or_else(|| layout::request_bytes_of(path))
        .unwrap_or(REQUEST_BYTES)
}

fn share(done: u64, of: u64) -> String {
    format!("{} %", done.min(of) * 100 / of.max(1))
}

fn size(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{bytes} B")
    } else {
        format!("{value:.1} {}", units[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_quoted_for_systemd() {
        assert_eq!(unit_text(Path::new("/srv/a")), "/srv/a");
        assert_eq!(unit_text(Path::new("/srv/a b%\"")), "\"/srv/a b%%\\\"\"");
    }

    #[test]
    fn sizes_are_told_in_their_unit() {
        assert_eq!((size(1023), size(1 << 20)), ("1023 B".into(), "1.0 MiB".into()));
    }
}
