//! From files to the tables of a case: formats are recognised, clocks brought together, logs read, layers tied.
use crate::clock::{align, cannot_be_compared, in_both, Alignment, Clock, Zero, PAIRS_MIN};
use crate::format::{packer, Format, Head, Source};
use crate::input::Pipes;
use crate::prefix::{self, Prefixes};
use crate::records::TEXT_ASIDE;
use crate::sink::{Found, Sink, Survey};
use crate::{format, unread, ImportError, FORMATS};
use case::meta::{LayerMeta, Unseen};
use case::schema::Layer;
use case::sealed::{Names, SealWriter};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What an importer is asked to do.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The files, in the order given.
    pub files: Vec<PathBuf>,
    /// `--as`: the format of all files; None: each is recognised.
    pub format: Option<String>,
    /// `--map`, for formats that take one.
    pub map: Option<String>,
    /// `--device`, for formats with logs that do not name their device.
    pub device: Option<String>,
    /// `--offset FILE=SECONDS`: what is added to the moments of a file.
    pub offsets: Vec<(String, i64)>,
    /// `--keep-going`: bad records are left out and counted.
    pub keep_going: bool,
    /// `--slower-than`: whoever made the logs left out operations that took no longer.
    pub slower_than_ns: Option<i64>,
}

/// How one log was read.
#[derive(Clone, Debug)]
pub struct Read {
    /// Its file, or the first of them.
    pub file: PathBuf,
    /// Files of it.
    pub files: usize,
    /// Its format.
    pub format: &'static str,
    /// How its clock became the case's.
    pub alignment: Alignment,
}

/// What an importer found.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Logs, in the order they were read.
    pub logs: Vec<Read>,
    /// Records of the input.
    pub records: u64,
    /// Rows written.
    pub rows: u64,
    /// Bad records that were left out.
    pub left_out: u64,
    /// Moment that is 0 in the case, nanoseconds since 1970; None if no log tells.
    pub start_unix_ns: Option<i64>,
    /// Moment that is 0 in the case, on the logs' own clock.
    pub start_ns: i64,
    /// What that clock is.
    pub clock: String,
    /// Coarsest step of a latency.
    pub resolution_ns: i64,
    /// Last moment, nanoseconds since the start of the case.
    pub end_ns: i64,
    /// Layers with operations.
    pub layers: BTreeMap<String, LayerMeta>,
    /// Of what this input holds: what could not be read, or is there by half, and how much it is.
    pub missing: Vec<Unseen>,
    /// Places where files end inside a record, each with what becomes of it.
    pub cut: Vec<String>,
    /// What this input did not hold.
    pub not_observed: Vec<Unseen>,
    /// What the formats can never carry.
    pub not_carried: Vec<Unseen>,
}

impl Summary {
    /// All that could not be seen; what the logs hold by half, with how much it is, before what nobody logged.
    pub fn not_observed(&self) -> Vec<Unseen> {
        [&self.missing[..], &self.not_observed].concat()
    }
}

/// A log, its format, and what a look at its begin showed.
struct Log {
    format: &'static Format,
    source: Source,
    survey: Survey,
    alignment: Alignment,
}

/// What logs do not tell of their clock.
/// How clocks are called that have times of day and no date.
const MIDNIGHT: &str = "midnight";
const THE_DATE: &str = "the date";
const MOMENTS_OF_LOGGERS: &str =
    "they tell when a logger got a line, not when something happened: only reports of iostat without moments are dated by them";
const TIME_OF_DAY: &str = "the time of day";

impl Summary {
    /// Why there are no records, as far as the logs show it.
    pub fn why_none(&self) -> Option<String> {
        let said = |unseen: &Unseen| format!("{}: {}", unseen.what, unseen.because);
        let missing: Vec<String> = self.missing.iter().map(said).collect();
        // What is around records, and when they were, is no reason that there are none.
        let is_reason = |unseen: &&Unseen| {
            ![THE_DATE, TIME_OF_DAY].contains(&unseen.what.as_str())
                && unseen.because != MOMENTS_OF_LOGGERS
                && !unseen.because.starts_with(TEXT_ASIDE)
        };
        match missing.is_empty() {
            true => self.not_observed.iter().find(is_reason).map(said),
            false => Some(missing.join("; ")),
        }
    }
}

/// Turns files into the tables of a case. `tell` gets the bytes done.
///
/// Errors: a file is of no known format (or of several), cannot be read, or is not as its format says.
pub fn import(
    request: &Request,
    writer: &mut SealWriter,
    names: &mut Names,
    tell: &mut dyn FnMut(u64),
) -> Result<Summary, ImportError> {
    // A name that is no format is told before any file is opened.
    if let Some(name) = &request.format {
        format(name)?;
    }
    let pipes = Pipes::open(&request.files)?;
    let prefixes = Prefixes::none();
    let mut logs = Vec::new();
    let (sources, empty) = sources(request, &prefixes)?;
    for (format, source) in sources {
        let survey = look_at(format, &source, request.keep_going, names)?;
        logs.push(Log {
            format,
            source,
            survey,
            alignment: Alignment::Same,
        });
    }
    let first = bring_together(&mut logs, request)?;
    let clock = logs[first].survey.clock;
    let start_ns = start_of(&logs, clock);
    // The lower a layer, the earlier it is read: what is above is tied to it.
    logs.sort_by_key(|log| std::cmp::Reverse(log.survey.layers.iter().next_back().copied()));
    let mut sink = Sink::case(writer, names, tell, request.keep_going);
    for path in empty {
        sink.missing(
            format!("what {} was meant for", path.display()),
            "it is empty: nothing was logged, or not yet",
        );
    }
    for path in request
        .files
        .iter()
        .filter(|path| prefix::of(path).is_some_and(|prefix| prefix.has_moment()))
    {
        sink.unseen(
            format!("the moments in front of the lines of {}", path.display()),
            MOMENTS_OF_LOGGERS,
        );
    }
    pipes.last_look();
    read_all(&logs, start_ns, &mut sink)?;
    if let Some(least_ns) = request.slower_than_ns {
        let layers: BTreeSet<Layer> = logs.iter().flat_map(|log| log.survey.layers.clone()).collect();
        layers
            .into_iter()
            .for_each(|layer| sink.slower_than(layer, least_ns));
    }
    let mut found = sink.finish();
    found.not_observed.extend(said_of_clocks(&logs, clock));
    found.missing.splice(0..0, logged_twice(&logs));
    Ok(summary(&logs, clock, start_ns, found))
}

/// Logs, each with its format.
type Sources = Vec<(&'static Format, Source)>;

/// Files of one log are brought together; every log with its format. Then the files that are empty, beside others (fio writes a log of submission
/// latencies without a line where its engine has none).
fn sources(request: &Request, prefixes: &Prefixes) -> Result<(Sources, Vec<PathBuf>), ImportError> {
    let mut empty = Vec::new();
    let mut sources: Vec<(&'static Format, Option<PathBuf>, Source)> = Vec::new();
    let named = request.format.as_deref().map(format).transpose()?;
    for path in &request.files {
        let head = Head::read(path)?;
        not_packed(path, &head)?;
        let head = prefixes.pass_over(path, head, named);
        let format = match named {
            Some(format) => format,
            None => match recognise(path, &head) {
                Err(_) if head.bytes.is_empty() && empty.len() + 1 < request.files.len() => {
                    empty.push(path.clone());
                    continue;
                }
                recognised => recognised?,
            },
        };
        let key = (format.together)(path);
        let same = sources
            .iter_mut()
            .find(|(of, of_key, _)| key.is_some() && of.name == format.name && *of_key == key);
        match same {
            Some((_, _, source)) => source.files.push(path.clone()),
            None => {
                let source = Source {
                    files: vec![path.clone()],
                    map: request.map.clone(),
                    device: request.device.clone(),
                };
                sources.push((format, key, source));
            }
        }
    }
    let sources = sources.into_iter().map(|(format, _, source)| (format, source));
    Ok((sources.collect(), empty))
}

/// The format of a file, from its begin. Error: none or several formats begin so.
pub fn recognise(path: &Path, head: &Head) -> Result<&'static Format, ImportError> {
    let fitting: Vec<&'static Format> = FORMATS
        .iter()
        .filter(|format| (format.recognise)(head))
        .copied()
        .collect();
    match fitting.as_slice() {
        [one] => Ok(one),
        [] => {
            if let Some((what, instead)) = unread::known(head) {
                return Err(ImportError::content(
                    path,
                    "begin",
                    "a log that whodisk reads",
                    what,
                    instead,
                ));
            }
            if let Some((found, hint)) = unread::looks_like(head) {
                return Err(ImportError::content(path, "begin", "a known format", found, hint));
            }
            let begin: String = String::from_utf8_lossy(&head.bytes).chars().take(60).collect();
            let found = match begin.is_empty() {
                true => "an empty file".into(),
                false => format!("'{}'", begin.escape_debug()),
            };
            let hint = match begin.is_empty() {
                true => "check the path, and whether whoever writes it has written it yet",
                false => "say what it is with --as FORMAT; whodisk import --list shows the formats",
            };
            Err(ImportError::content(path, "begin", "a known format", found, hint))
        }
        several => {
            let names: Vec<&str> = several.iter().map(|format| format.name).collect();
            let hint = "say which it is with --as FORMAT";
            Err(ImportError::content(
                path,
                "begin",
                "one format",
                names.join(" and "),
                hint,
            ))
        }
    }
}

/// Error: the file is packed.
fn not_packed(path: &Path, head: &Head) -> Result<(), ImportError> {
    match packer(&head.bytes) {
        None => Ok(()),
        Some((name, unpacker)) => {
            let found = format!("what {name} packed");
            let hint = format!("unpack it, or: {unpacker} FILE | whodisk import - (with --as FORMAT if its name tells the format)");
            Err(ImportError::content(path, "begin", "a log", found, hint))
        }
    }
}

fn look_at(
    format: &Format,
    source: &Source,
    keep_going: bool,
    names: &mut Names,
) -> Result<Survey, ImportError> {
    let mut silent = |_: u64| {};
    let mut sink = Sink::survey(names, &mut silent, keep_going);
    match (format.read)(source, &mut sink) {
        Ok(()) | Err(ImportError::Enough) => Ok(sink.surveyed()),
        Err(error) => Err(error),
    }
}

/// Sets how each log's moments become those of the first; returns its place. The first is one that counts from 1970 if there is one.
fn bring_together(logs: &mut [Log], request: &Request) -> Result<usize, ImportError> {
    let of_zero = |wanted: fn(&Zero) -> bool| logs.iter().position(|log| wanted(&log.survey.clock.zero));
    let first = of_zero(|zero| *zero == Zero::Unix)
        .or_else(|| of_zero(|zero| *zero == Zero::Boot))
        .or_else(|| of_zero(|zero| matches!(zero, Zero::Own(_))))
        .unwrap_or(0);
    for (name, _) in &request.offsets {
        if !logs.iter().any(|log| is_named(log, name)) {
            return Err(ImportError::Use(format!(
                "--offset {name}: expected the name of one of the files, found none that is called so"
            )));
        }
    }
    for at in 0..logs.len() {
        let declared = request.offsets.iter().find(|(name, _)| is_named(&logs[at], name));
        logs[at].alignment = match declared {
            Some((_, offset_ns)) => Alignment::Declared {
                offset_ns: *offset_ns,
            },
            None if at == first => Alignment::Same,
            None => align(&logs[first].survey, &logs[at].survey),
        };
    }
    Ok(first)
}

fn is_named(log: &Log, name: &str) -> bool {
    log.source.path().as_os_str() == name || log.source.name() == name
}

/// The moment that is 0 of the case: the log's own zero, or the first moment of clocks that began long ago: a boot, midnight.
fn start_of(logs: &[Log], clock: Clock) -> i64 {
    let begin = |log: &Log| Some(log.survey.begin_ns()?.saturating_add(log.alignment.offset_ns()));
    let first = logs.iter().filter_map(begin).min().unwrap_or(0);
    match clock.zero {
        Zero::Unix | Zero::Boot => first,
        Zero::Own(zero) if zero.starts_with(MIDNIGHT) => first,
        Zero::Own(_) | Zero::None => first.min(0),
    }
}

fn read_all(logs: &[Log], start_ns: i64, sink: &mut Sink) -> Result<(), ImportError> {
    let below = |log: &Log| log.survey.layers.iter().all(|layer| *layer >= Layer::Block);
    let is_both = logs.iter().any(|log| below(log) && !log.survey.layers.is_empty())
        && logs.iter().any(|log| !below(log));
    let tolerance_ns = logs.iter().map(tolerance_of).max().unwrap_or(0);
    if is_both {
        sink.keep_for_tie();
    }
    let mut tying = false;
    for (log, label) in logs.iter().zip(labels(logs)) {
        if is_both && !tying && !below(log) {
            tying = true;
            sink.tie(tolerance_ns);
        }
        sink.begin(log.alignment.offset_ns().saturating_sub(start_ns), label);
        (log.format.read)(&log.source, sink)?;
        sink.end(&log.source.shown())?;
    }
    Ok(())
}

/// What tells each log from the others of its format: its name, or its path where names are alike. None where there is no other.
fn labels(logs: &[Log]) -> Vec<Option<String>> {
    let label = |(at, log): (usize, &Log)| {
        let is_other =
            |(other_at, other): &(usize, &Log)| *other_at != at && other.format.name == log.format.name;
        let others: Vec<&Log> = logs
            .iter()
            .enumerate()
            .filter(is_other)
            .map(|(_, other)| other)
            .collect();
        let is_alone = others
            .iter()
            .all(|other| other.source.name() != log.source.name());
        (!others.is_empty()).then(|| match is_alone {
            true => log.source.name(),
            false => log.source.path().display().to_string(),
        })
    };
    logs.iter().enumerate().map(label).collect()
}

/// How far moments of a log may be off.
fn tolerance_of(log: &Log) -> i64 {
    let error_ns = match log.alignment {
        Alignment::Estimated { error_ns, .. } => error_ns.saturating_mul(4),
        _ => 0,
    };
    error_ns.saturating_add(log.survey.clock.step_ns)
}

/// Logs that hold the same operations of a layer: of each operation the case has two.
fn logged_twice(logs: &[Log]) -> Vec<Unseen> {
    let mut said = Vec::new();
    for (at, log) in logs.iter().enumerate() {
        for other in &logs[at + 1..] {
            // Two jobs of fio may ask for the same places at the same time.
            let mut layers = log.survey.layers.intersection(&other.survey.layers);
            let Some(layer) = layers.find(|layer| **layer >= Layer::Block) else {
                continue;
            };
            let offset_ns = other
                .alignment
                .offset_ns()
                .saturating_sub(log.alignment.offset_ns());
            let both = in_both(&log.survey, &other.survey, offset_ns);
            let least = log.survey.ops.len().min(other.survey.ops.len());
            let (one, two) = (log.source.shown(), other.source.shown());
            if cannot_be_compared(&log.survey, &other.survey, offset_ns) {
                said.push(Unseen {
                    what: format!("whether {one} and {two} hold the same operations of layer {}", layer.name()),
                    because: "not both tell their places, so they cannot be compared; if they do, each is counted twice: import one of the two".into(),
                });
            }
            if both < PAIRS_MIN || 2 * both < least {
                continue;
            }
            said.push(Unseen {
                what: format!("how many operations of layer {} there were: {one} and {two} hold the same", layer.name()),
                because: format!(
                    "each log's are counted ({both} of the first {least} are in both), so numbers and rates are up to twice what they were; import one of the two"
                ),
            });
        }
    }
    said
}

fn said_of_clocks(logs: &[Log], clock: Clock) -> Vec<Unseen> {
    let mut said = Vec::new();
    for log in logs {
        let (shown, seconds) = (log.source.shown(), log.alignment.offset_ns() as f64 / 1e9);
        match log.alignment {
            Alignment::Unknown { .. } => said.push(Unseen {
                what: format!("when what {shown} tells happened, beside the other logs"),
                because: "its clock is its own, and too few operations of it are in another log; give --offset FILE=SECONDS".into(),
            }),
            Alignment::Estimated { error_ns, pairs, .. } => said.push(Unseen {
                what: format!("moments of {shown} to better than {} us", (error_ns + 999) / 1000),
                because: format!("its clock was moved by {seconds:.6} s, on which {pairs} pairs of equal operations agree"),
            }),
            Alignment::Same | Alignment::Declared { .. } => {}
        }
        let step_ns = log.survey.clock.step_ns;
        if step_ns >= 1_000_000 && !log.survey.layers.is_empty() {
            said.push(Unseen {
                what: format!(
                    "the order of what lies within {} ms in {shown}",
                    step_ns / 1_000_000
                ),
                because: "its moments are no finer".into(),
            });
        }
    }
    if clock.zero_unix_ns.is_none() {
        let is_of_day = matches!(clock.zero, Zero::Own(zero) if zero.starts_with(MIDNIGHT));
        let (what, because) = match is_of_day {
            true => (
                THE_DATE,
                "the log says times of day only; the case begins in 1970",
            ),
            false => (
                TIME_OF_DAY,
                "no log tells when its clock began; the case begins in 1970",
            ),
        };
        said.push(Unseen {
            what: what.into(),
            because: because.into(),
        });
    }
    said
}

fn summary(logs: &[Log], clock: Clock, start_ns: i64, found: Found) -> Summary {
    let mut not_carried = Vec::new();
    let mut seen = BTreeSet::new();
    for log in logs.iter().filter(|log| seen.insert(log.format.name)) {
        not_carried.extend(log.format.not_carried.iter().map(|(what, because)| Unseen {
            what: (*what).into(),
            because: (*because).into(),
        }));
    }
    Summary {
        logs: logs
            .iter()
            .map(|log| Read {
                file: log.source.path().to_owned(),
                files: log.source.files.len(),
                format: log.format.name,
                alignment: log.alignment,
            })
            .collect(),
        records: found.records,
        rows: found.rows,
        left_out: found.left_out,
        start_unix_ns: clock.zero_unix_ns.and_then(|zero| zero.checked_add(start_ns)),
        start_ns,
        clock: match clock.zero {
            Zero::Unix => "CLOCK_REALTIME".into(),
            Zero::Boot => "CLOCK_MONOTONIC".into(),
            Zero::Own(zero) => zero.into(),
            Zero::None => "none".into(),
        },
        resolution_ns: found.resolution_ns,
        end_ns: found.end_ns,
        layers: found
            .layers
            .into_iter()
            .map(|(layer, meta)| (layer.name().to_owned(), meta))
            .collect(),
        missing: found.missing,
        cut: found.cut,
        not_observed: found.not_observed,
        not_carried,
    }
}
