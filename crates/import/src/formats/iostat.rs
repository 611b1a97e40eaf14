//! Text of `iostat -x` and of `sar -d`: a header line tells the columns, which differ from version to version.
//!
//! The first report of a run of iostat averages since the machine's start: it is left out if another follows and the log has the run's begin (its `Linux`
//! line). Without `-t` reports have no moment but what a script wrote above a run. A device that comes again, without a header between, begins a report (`grep`).
//! A table ends with a blank line, a shell's prompt or a sentence; those of other things (`sar -A`) are passed over. What a mail or a page wrapped
//! is joined again: a header that goes on in the next line, and rows that do. Source: sysstat's iostat.c, pr_stats.c,
//! common.c (cprintf_unit); of Solaris and FreeBSD (`iostat -x`), whose headers have names of their own, iostat(1M) and iostat(8).
use super::calendar::{date_ns, time_of_day_ns};
use super::snapshots::is_beside;
use super::stamps::{moment, stamp_ns};
use super::sysstat_lines::{
    indent_of, iostat_header, is_comment, is_header, is_mean, is_meant_as_moment, is_of_nfs, is_of_unix,
    is_title_of_script, is_title_of_unix, sar_header, softly_broken, western, without_header,
};
use super::sysstat_rows;
use crate::clock::Clock;
use crate::error::{Bad, RecordError};
use crate::format::{alone, Format, Head, Source};
use crate::records::{each_line_of_hosts, is_prose, of_shell, Line};
use crate::sink::Sink;
use crate::text::{counted, number};
use crate::ImportError;
use std::borrow::Cow;
use std::collections::HashMap;
use std::rc::Rc;

/// The registry's line.
pub const FORMAT: Format = Format {
    name: "iostat",
    about: "text of iostat and of sar -d: samples per device",
    not_carried: &[
        (
            "single operations",
            "sampled counters hold averages over a sampling period; outliers inside a period cannot be seen",
        ),
        (
            "the time zone",
            "sysstat prints local time; the case takes it for UTC",
        ),
    ],
    recognise,
    together: alone,
    read,
};

const SECOND: i64 = 1_000_000_000;

/// What a header of `sadf -d` begins with.
const SADF: &str = "# hostname;interval;timestamp;";

/// What sar keeps, and what sadf makes of it that is not read.
fn of_sar(head: &Head) -> Option<&'static str> {
    if head.bytes.starts_with(b"\x96\xd5") || head.bytes.starts_with(b"\xd5\x96") {
        return Some("sar's data");
    }
    let is_xml = head.has_line(|line| line.starts_with("<sysstat")) && head.bytes.starts_with(b"<?xml");
    is_xml.then_some("XML of sadf")
}

/// Lines above that of the system.
const LINES_ABOVE_MAX: usize = 2;

fn recognise(head: &Head) -> bool {
    if of_sar(head).is_some() || without_header(head).is_some() {
        return true;
    }
    // In a day of `sar -A` the devices come after what is looked at. A script that ran it may say something first.
    let begins = head
        .filled_lines()
        .take(LINES_ABOVE_MAX + 1)
        .any(|line| line.starts_with("Linux "));
    head.has_line(|line| {
        let line = western(line);
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_table = iostat_header(&words).is_some() || sar_header(&words).is_some();
        is_table || begins && is_header_of_sar(&words) || line.starts_with(SADF)
    })
}

/// A header of any table of sar's. One that names one column alone has a rate in it: `proc/s`.
fn is_header_of_sar(words: &[&str]) -> bool {
    // pidstat begins as sar does.
    let is_of_processes = words.contains(&"PID") && words.contains(&"Command");
    is_header(words)
        && !is_of_processes
        && (words.len() > 2 || words.last().is_some_and(|word| is_rate(word)))
}

/// What the rows at hand are of.
#[derive(Clone, Copy, Default, PartialEq)]
enum Table {
    Iostat,
    Sar,
    /// `sadf -d`.
    Sadf,
    /// Of something that is not read.
    #[default]
    Other,
}

/// A moment, a device, and its values by column.
type Row = (i64, String, Vec<(Rc<str>, f64)>);

#[derive(Default)]
struct Reader {
    host: String,
    /// Its name stands in front of every line, and may be another than what the machine calls itself.
    host_is_in_front: bool,
    day_ns: Option<i64>,
    table: Table,
    columns: Vec<Rc<str>>,
    device_at: usize,
    /// Of the report at hand.
    moment_ns: Option<i64>,
    /// Lines of iostat, or of a script, told one.
    has_own_moments: bool,
    /// A filter put one in front of every row.
    rows_have_moments: bool,
    /// They are times of day, of which the log does not say the day.
    is_of_day: bool,
    /// Tables of what is mounted from other hosts (`iostat -n`).
    tables_of_nfs: u64,
    /// Reports since a line told the moment.
    since_moment: i64,
    /// Whether reports below others that had a moment had none.
    lacks_moments: bool,
    /// Reports of iostat so far.
    reports: i64,
    /// Reports of the run of iostat at hand.
    of_run: i64,
    /// Headers of the report at hand: with `-h` and `--pretty` the columns of `-x` are in several tables.
    headers: Vec<String>,
    /// Whether the log has the begin of that run.
    has_begin: bool,
    /// Rows of the report at hand; those of one device in several tables are one.
    report: Vec<Row>,
    /// Where the row of each device is.
    places: HashMap<String, usize>,
    /// Records that these rows are.
    records: u64,
    /// Words of a row that goes on in the next line: a device (`-h` of old versions), or what a wrapped line holds.
    held: Vec<String>,
    /// What a mail's soft line break (`=` at the end) cut off.
    soft: String,
    /// The header at hand went on in a second line: rows may, too.
    is_wrapped: bool,
    /// The table that an empty line ended, unless something else follows it; and whether such lines are between the rows of the one at hand.
    above_blank: Option<Table>,
    is_spaced: bool,
    /// Rows of the table at hand, and the device of the last one.
    rows_of_table: u64,
    last_device: String,
    /// Reports of runs of which the log lacks the begin.
    lacks_begin: bool,
    /// Averages of sar (`Average:`), and its rows.
    means: u64,
    rows_of_sar: u64,
    /// Rows of its first report, and the records that they are.
    first: Vec<Row>,
    records_of_first: u64,
    /// First reports that were left out.
    left_out: u64,
    clock_told: bool,
    has_sar: bool,
    last_ns: i64,
    /// Whether rows of sadf have several devices.
    in_one_line: bool,
    /// Blanks before the words of the header at hand.
    indent: usize,
    groups: sysstat_rows::Groups,
    impossible: sysstat_rows::Impossible,
}

fn read(source: &Source, sink: &mut Sink) -> Result<(), ImportError> {
    let head = Head::read(source.path())?;
    refuse(source, &head)?;
    let mut hosts = Hosts::default();
    each_line_of_hosts(source, sink, |line, sink| hosts.of(&line)?.line(&line, sink))?;
    for reader in &mut hosts.readers {
        reader.end_run(sink)?;
    }
    if let Some(most) = hosts.readers.iter().max_by_key(|reader| reader.rows_so_far()) {
        most.refuse_nothing(source, &head)?;
    }
    hosts.readers.into_iter().for_each(|reader| reader.tell(sink));
    Ok(())
}

/// More hosts in one file are damaged names.
const HOSTS_MAX: usize = 10_000;

/// What each host said, of which a tool (`pdsh`) put the name in front of every line. Else all is of one.
#[derive(Default)]
struct Hosts {
    readers: Vec<Reader>,
    /// Where the reader of each is.
    places: HashMap<String, usize>,
    /// The one of the line before.
    at: usize,
}

impl Hosts {
    /// Who reads a line: one without a name goes on with what the line before it was of.
    fn of(&mut self, line: &Line<'_>) -> Result<&mut Reader, Bad> {
        let is_new = match line.host {
            Some(host) => {
                let known = self.places.get(host);
                self.at = known.map_or(self.readers.len(), |place| *place);
                known.is_none()
            }
            None => self.readers.is_empty(),
        };
        if is_new {
            if self.readers.len() == HOSTS_MAX {
                self.at = 0;
                let expected = format!("a name of at most {HOSTS_MAX} hosts in front");
                return Err(Bad::new("", expected, line.host.unwrap_or("")));
            }
            let host = line.host.unwrap_or("").to_owned();
            self.readers.push(Reader {
                last_ns: i64::MIN,
                host_is_in_front: line.host.is_some(),
                host: host.clone(),
                ..Reader::default()
            });
            self.places.insert(host, self.at);
        }
        Ok(&mut self.readers[self.at])
    }
}

/// An error for a log that cannot be read, by its begin.
fn refuse(source: &Source, head: &Head) -> Result<(), ImportError> {
    if let Some(device) = without_header(head) {
        return Err(ImportError::content(
            source.path(),
            "begin",
            "the header that names the columns (Device or DEV ...)",
            format!("rows of {device} without it"),
            format!("take it with the rows: grep -E 'Linux|Device|DEV|{device}' FILE"),
        ));
    }
    if let Some(found) = of_sar(head) {
        let hint = "print it: sadf -j FILE -- -d | whodisk import -";
        return Err(ImportError::content(
            source.path(),
            "begin",
            "text of iostat or sar -d",
            found,
            hint,
        ));
    }
    Ok(())
}

/// A row of something else, of which the words are as many: a rate or a number is no device's name, though names of volumes may be numbers.
fn is_misread(device: &str, values: &[(Rc<str>, f64)]) -> bool {
    let is_too_busy = || {
        let mut busy = values.iter().filter(|(column, _)| &**column == "%util");
        busy.any(|(_, percent)| *percent > 100.0)
    };
    is_rate(device) || is_too_busy() && number(device, "").is_ok()
}

fn is_rate(word: &str) -> bool {
    word.ends_with("/s")
}

/// A value of a column; with `--human` a unit stands behind it, with `--pretty` a per cent sign.
fn value(word: &str, column: &str) -> Result<f64, Bad> {
    let of_unit = |unit: char| "BkMGTP".find(unit).map(|power| power as i32);
    let plain = word.trim_end_matches('%');
    let Some(power) = plain.chars().next_back().and_then(of_unit) else {
        return number(plain, "of a rate");
    };
    // Columns say kB or MB, sizes of requests are in kB.
    let of_column = if column.contains("MB") { 2 } else { 1 };
    Ok(number(&plain[..plain.len() - 1], "of a rate")? * 1024_f64.powi(power - of_column))
}

impl Reader {
    fn line(&mut self, line: &Line<'_>, sink: &mut Sink) -> Result<(), RecordError> {
        let joined = match std::mem::take(&mut self.soft) {
            soft if soft.is_empty() => Cow::Borrowed(line.text),
            soft => Cow::Owned(soft + line.text),
        };
        if let Some(begin) = softly_broken(&joined) {
            self.soft = begin.to_owned();
            return Ok(());
        }
        let text = western(&joined);
        if let Some(columns) = text.strip_prefix(SADF) {
            self.begin_sadf(columns, sink);
            return Ok(());
        }
        if self.table == Table::Sadf && text.contains(';') {
            return self.sadf_row(&text, sink);
        }
        let words = self.without_mount(text.split_whitespace().collect());
        if !self.held.is_empty() {
            return self.held_row(&words, &text, sink);
        }
        if words.is_empty() {
            self.above_blank = match self.table {
                Table::Iostat | Table::Sar if !self.is_wrapped => Some(self.table),
                _ => self.above_blank.filter(|_| self.table == Table::Other),
            };
            self.table = Table::Other;
            return Ok(());
        }
        if let Some(table) = self
            .above_blank
            .take()
            .filter(|table| self.goes_on_below_blank(*table, &words))
        {
            self.table = table;
            self.is_spaced = true;
        }
        if !self.passes_over(&words, &text) && !self.begins(&words, &text, line, sink)? {
            self.below_header(&words, &text, line, sink)?;
        }
        Ok(())
    }

    /// Whether a line below an empty one is a row of the table above that: pages put one between all of their lines. Where they do, what is left of a
    /// row that is damaged is one, too.
    fn goes_on_below_blank(&self, table: Table, words: &[&str]) -> bool {
        let of_time = match table {
            Table::Sar => self.words_of_time(),
            _ => 0,
        };
        let rates = words.iter().filter(|word| value(word, "").is_ok()).count();
        match self.is_spaced {
            true => rates > 1 && 2 * rates >= words.len(),
            false => {
                let device = words.get(self.device_at);
                let is_name = device.is_some_and(|name| number(name, "").is_err() && !is_rate(name));
                is_name && words.len() == self.columns.len() && rates + 1 + of_time == words.len()
            }
        }
    }

    /// Whether a line is of something beside the tables, such as a shell's prompt, which also ends them.
    fn passes_over(&mut self, words: &[&str], text: &str) -> bool {
        if is_beside(text) && stamp_ns(text).is_none() {
            if self.table == Table::Iostat {
                self.table = Table::Other;
            }
            return true;
        }
        // Whatever the next command prints is in no table of this one.
        let is_next = self.table != Table::Other && !self.is_like_row(words) && of_shell(text.as_bytes());
        if is_next {
            self.end_table();
        }
        is_next
    }

    /// Whether a line begins something: a run, a report (its moment), or a table (its header).
    fn begins(
        &mut self,
        words: &[&str],
        text: &str,
        line: &Line<'_>,
        sink: &mut Sink,
    ) -> Result<bool, RecordError> {
        let is_system = words[0] == "Linux";
        if is_system && words.get(1).is_some_and(|word| word.starts_with("OSW")) {
            self.end_run(sink)?;
            self.oswatcher(words);
        } else if is_system && words.len() > 3 {
            self.end_run(sink)?;
            self.system(words);
        } else if words[0] == "avg-cpu:" || is_title_of_unix(words) {
            self.end_table();
        } else if let Some(ns) = moment(words) {
            self.is_at(ns, sink)?;
        } else if let Some(ns) = self.time_line(words) {
            self.is_of_day |= self.day_ns.is_none();
            self.is_at(ns, sink)?;
        } else if is_of_nfs(words) {
            self.end_table();
            self.tables_of_nfs += 1;
        } else if is_meant_as_moment(words) {
            return Err(Bad::new("", "a date and a time of day", line.text).into());
        } else if let Some(at) = iostat_header(words) {
            self.indent = indent_of(text);
            let logged_ns = line.moment.and_then(|moment| self.logged(moment));
            self.begin_iostat(words, at, logged_ns, sink)?;
        } else if let Some(at) = sar_header(words) {
            self.begin(Table::Sar, words, at);
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// A row, or what else stands below a header.
    fn below_header(
        &mut self,
        words: &[&str],
        text: &str,
        line: &Line<'_>,
        sink: &mut Sink,
    ) -> Result<(), RecordError> {
        if matches!(self.table, Table::Iostat | Table::Sar) && sysstat_rows::are_columns(words) {
            self.header_goes_on(words, text)?;
        } else if self.table == Table::Sar && is_comment(words) {
        } else if self.table == Table::Sar && (is_header(words) || is_title_of_script(words)) {
            self.table = Table::Other;
        } else if self.table == Table::Other || is_mean(words) || words.contains(&"LINUX") {
            self.means += u64::from(self.table == Table::Sar && is_mean(words));
            if let (Table::Other, Some(ns)) = (self.table, stamp_ns(text)) {
                self.is_at(ns, sink)?;
            }
        } else if let (false, Some(ns)) = (words.len() == self.columns.len(), stamp_ns(text)) {
            self.is_at(ns, sink)?;
            self.table = Table::Other;
        } else if self.goes_on(words) {
            self.held = words.iter().map(|word| (*word).to_owned()).collect();
        } else if let Some(moment_ns) = self.moment_of_row(words) {
            self.row_is_at(moment_ns, sink)?;
            self.row(&words[1..], sink)?;
        } else if words.len() == self.columns.len() {
            if !self.groups.is_read(words[self.device_at], self.is_group(text)) {
                return Ok(());
            }
            self.row(words, sink)?;
        } else {
            let expected = format!("{} columns, as the header says", self.columns.len());
            if is_prose(text) {
                self.end_table();
            }
            return Err(Bad::new("", expected, line.text).into());
        }
        Ok(())
    }

    /// An error for a log without a sample.
    fn refuse_nothing(&self, source: &Source, head: &Head) -> Result<(), ImportError> {
        if self.reports == 0 && self.rows_of_sar == 0 && self.means > 0 {
            return Err(ImportError::content(
                source.path(),
                "end",
                "samples between sar's header and its averages",
                "averages only",
                "keep the rows above 'Average:'; sar -d prints them",
            ));
        }
        if self.reports == 0 && !self.has_sar {
            // Beyond the fences of a page nothing is read.
            let is_fenced = head.has_line(|line| line.trim_start().starts_with("```"));
            let (found, hint) = match is_fenced {
                true => (
                    "none between its fences (```)",
                    "keep the lines of the log only, without the page around it",
                ),
                false => ("none", "take it with iostat -x 1, or print it with sar -d"),
            };
            return Err(ImportError::content(
                source.path(),
                "end",
                "a table of devices: a header (Device ... or DEV ...), and rows below it",
                found,
                hint,
            ));
        }
        Ok(())
    }

    /// Says what the log does not.
    fn tell(self, sink: &mut Sink) {
        self.groups.tell(sink);
        self.impossible.tell(sink);
        if self.tables_of_nfs > 0 {
            sink.missing(
                format!("what {} of mounts (NFS) say", counted(self.tables_of_nfs, "table")),
                "iostat -n prints them beside the devices': rates without latencies, which are not read; nfsiostat, or nfsslower 0, tells how long operations took",
            );
        }
        if let Some(device) = self.held.get(self.device_at) {
            sink.missing(
                format!("the values of {device} in its last row"),
                "the log ends before they do",
            );
        }
        if self.left_out > 0 {
            sink.unseen(
                "what the first report says",
                "iostat's first report averages since the machine's start (unless -y was given)",
            );
        }
        if self.lacks_begin {
            sink.unseen(
                "whether the first report averages since the machine's start",
                "the log lacks the begin of iostat's run (its line 'Linux ...'), and its first report is read as a sample",
            );
        }
        if self.reports > 0 && self.moment_ns.is_none() {
            sink.unseen(
                "when the samples were taken",
                "iostat prints moments with -t only; they are put one second apart",
            );
        } else if self.lacks_moments {
            sink.unseen(
                "when all samples but the first below each moment were taken",
                "iostat prints moments with -t only; they are put one second apart",
            );
        }
    }

    fn is_of(&mut self, host: &str) {
        if !self.host_is_in_front {
            host.clone_into(&mut self.host);
        }
    }

    fn rows_so_far(&self) -> u64 {
        self.rows_of_sar.saturating_add(self.reports.unsigned_abs())
    }

    fn system(&mut self, words: &[&str]) {
        self.is_of(words[2].trim_start_matches('(').trim_end_matches(')'));
        let day_ns = words[3..].iter().find_map(|word| date_ns(word));
        // A log that begins without its day goes on without.
        self.day_ns = day_ns.filter(|_| !self.is_of_day);
        (self.table, self.last_ns) = (Table::Other, i64::MIN);
        self.headers.clear();
        self.has_begin = true;
    }

    /// `Linux OSWbb v8.3.2 host`, which OSWatcher writes above what it takes of iostat: no begin of a run.
    fn oswatcher(&mut self, words: &[&str]) {
        self.is_of(words.get(3).unwrap_or(&""));
        self.table = Table::Other;
        self.headers.clear();
    }

    /// All tables of a report were read.
    fn end_report(&mut self, sink: &mut Sink) -> Result<(), ImportError> {
        let report = std::mem::take(&mut self.report);
        self.places.clear();
        let records = std::mem::take(&mut self.records);
        if self.of_run == 1 && self.has_begin {
            self.first.extend(report);
            self.records_of_first += records;
            return Ok(());
        }
        (report.len() as u64..records).for_each(|_| sink.record_without_row());
        if !report.is_empty() {
            self.tell_clock(sink);
        }
        self.write(report, sink)
    }

    /// Before the first sample.
    fn tell_clock(&mut self, sink: &mut Sink) {
        if !std::mem::replace(&mut self.clock_told, true) {
            sink.clock(match self.moment_ns {
                Some(_) if (self.rows_have_moments || self.is_of_day) && self.day_ns.is_none() => {
                    Clock::own("midnight", SECOND)
                }
                Some(_) => Clock::unix(SECOND),
                None => Clock::own("iostat's first report", SECOND),
            });
        }
    }

    fn write(&mut self, rows: Vec<Row>, sink: &mut Sink) -> Result<(), ImportError> {
        for (time_ns, device, values) in rows {
            let values: Vec<(&str, f64)> = values.iter().map(|(column, value)| (&**column, *value)).collect();
            sysstat_rows::write(time_ns, &self.host, &device, &values, &mut self.impossible, sink)?;
        }
        Ok(())
    }

    /// Whether words are as many as a row's, and a number stands in their middle: cheap, and enough to tell nearly all rows from commands.
    fn is_like_row(&self, words: &[&str]) -> bool {
        words.len() == self.columns.len()
            && words[words.len() / 2].starts_with(|letter: char| letter.is_ascii_digit())
    }

    /// A row without what Solaris prints behind a device with `-m`: `c1d0s0 (/export)`, the folder that its file system is mounted at.
    fn without_mount<'a>(&self, mut words: Vec<&'a str>) -> Vec<&'a str> {
        let is_behind = self.table == Table::Iostat
            && self.device_at + 1 == self.columns.len()
            && words.len() == self.columns.len() + 1;
        words.pop_if(|word| is_behind && word.starts_with("(/") && word.ends_with(')'));
        words
    }

    /// What comes next is no row, and no other table of this report.
    fn end_table(&mut self) {
        self.table = Table::Other;
        self.headers.clear();
    }

    /// A line of columns without a device: the header above it goes on, or that of one row does.
    fn header_goes_on(&mut self, words: &[&str], text: &str) -> Result<(), Bad> {
        let is_of_sar = self.table == Table::Sar && self.device_at + 1 < self.columns.len();
        match (self.device_at, self.rows_of_table) {
            (at, 0) if at == 0 || is_of_sar => {
                self.columns.extend(words.iter().map(|word| Rc::from(*word)));
                self.is_wrapped = true;
            }
            (0, 1) => {
                self.columns.truncate(1);
                self.columns.extend(words.iter().map(|word| Rc::from(*word)));
                self.held = vec![self.last_device.clone()];
            }
            _ => {
                let expected = "the columns in the header, each row in one line (the table is wrapped: its values cannot be assigned)";
                return Err(Bad::new("", expected, text));
            }
        }
        Ok(())
    }

    /// Whether a row goes on in the next line.
    fn goes_on(&self, words: &[&str]) -> bool {
        let is_short = words.len() < self.columns.len();
        let begins = words.first().is_some_and(|device| number(device, "").is_err());
        let is_named =
            self.columns.len() > 2 && matches!(words, [device] if device.contains(char::is_alphanumeric));
        let are_values = || {
            let mut behind = words.iter().skip(self.device_at + 1);
            behind.all(|word| value(word, "").is_ok())
        };
        let is_first = self.device_at == 0 && self.table == Table::Iostat;
        let is_of_sar = self.table == Table::Sar && words.len() > self.device_at;
        is_short
            && (is_first && is_named || (is_first || is_of_sar) && self.is_wrapped && begins && are_values())
    }

    /// The next words of a row that went on.
    fn held_row(&mut self, words: &[&str], text: &str, sink: &mut Sink) -> Result<(), RecordError> {
        let mut held = std::mem::take(&mut self.held);
        let device = held[self.device_at].clone();
        held.extend(words.iter().map(|word| (*word).to_owned()));
        if held.len() < self.columns.len() && self.is_wrapped && !words.is_empty() {
            self.held = held;
            return Ok(());
        }
        if held.len() != self.columns.len() {
            let expected = format!(
                "the {} of {device}",
                counted(self.columns.len() as u64 - 1, "value")
            );
            return Err(Bad::new("", expected, text).into());
        }
        let words: Vec<&str> = held.iter().map(String::as_str).collect();
        self.row(&words, sink)
    }

    /// A run of iostat ends. If it had one report only, that is all there is.
    fn end_run(&mut self, sink: &mut Sink) -> Result<(), ImportError> {
        self.end_report(sink)?;
        self.has_begin = false;
        let first = std::mem::take(&mut self.first);
        let records = std::mem::take(&mut self.records_of_first);
        if std::mem::take(&mut self.of_run) == 1 && !first.is_empty() {
            sink.unseen(
                "what the devices did lately",
                "a run of iostat has one report, which averages since the machine's start (unless -y was given)",
            );
            self.tell_clock(sink);
            (first.len() as u64..records).for_each(|_| sink.record_without_row());
            self.write(first, sink)?;
        }
        Ok(())
    }

    /// Whether a row is of a group of devices: one blank more stands before its name.
    fn is_group(&self, row: &str) -> bool {
        self.table == Table::Iostat
            && match row.trim_end().rsplit_once(char::is_whitespace) {
                Some((before, _)) if self.device_at > 0 => before.ends_with(char::is_whitespace),
                _ => indent_of(row) > self.indent,
            }
    }

    /// A line told the moment of the report below it.
    fn is_at(&mut self, moment_ns: i64, sink: &mut Sink) -> Result<(), ImportError> {
        // What `tail` cut begins below the moment of its first report.
        if (self.reports, self.moment_ns) == (1, None) && !self.clock_told && !self.report.is_empty() {
            self.moment_ns = Some(moment_ns - SECOND);
            self.report
                .iter_mut()
                .for_each(|(time_ns, ..)| *time_ns = moment_ns - SECOND);
            self.lacks_moments = true;
        }
        self.end_report(sink)?;
        (self.moment_ns, self.since_moment) = (Some(moment_ns), 0);
        self.has_own_moments = true;
        self.headers.clear();
        Ok(())
    }

    /// `Time: 03:49:57 PM`, as iostat's `-t` had it before sysstat 9 (also of what [`western`] has made `Time:`): its day is that of the run, or the one
    /// after. Without the day of the run moments count from midnight.
    fn time_line(&self, words: &[&str]) -> Option<i64> {
        let of_day = match words {
            ["Time:", time] => time_of_day_ns(time, ""),
            ["Time:", time, half @ ("AM" | "PM")] | ["Time:", half @ ("AM" | "PM"), time] => {
                time_of_day_ns(time, half)
            }
            _ => None,
        }?;
        Some(self.later(self.day_ns.unwrap_or(0) + of_day))
    }

    /// The time of day that a filter (`ts`, awk) put in front of a row, and not of its header. Without the day of the run moments count from midnight.
    fn moment_of_row(&self, words: &[&str]) -> Option<i64> {
        let is_one_more = words.len() == self.columns.len() + 1;
        let of_day = (self.table == Table::Iostat && self.device_at == 0 && is_one_more)
            .then(|| time_of_day_ns(words[0], ""))??;
        Some(self.later(self.day_ns.unwrap_or(0) + of_day))
    }

    /// A row told its moment: those of one moment are a report.
    fn row_is_at(&mut self, moment_ns: i64, sink: &mut Sink) -> Result<(), ImportError> {
        let is_next = self.moment_ns != Some(moment_ns);
        (self.rows_have_moments, self.has_own_moments) = (true, true);
        if is_next && !self.report.is_empty() {
            self.begin_report(None, sink)?;
        }
        self.moment_ns = Some(moment_ns);
        Ok(())
    }

    /// A moment of the run's first day, or of the days after it.
    fn later(&self, mut ns: i64) -> i64 {
        while ns < self.moment_ns.map_or(i64::MIN, |before| before - DAY / 2) {
            ns += DAY;
        }
        ns
    }

    fn begin(&mut self, table: Table, words: &[&str], device_at: usize) {
        (self.table, self.device_at) = (table, device_at);
        self.has_sar |= matches!(table, Table::Sar | Table::Sadf);
        (self.is_wrapped, self.is_spaced, self.rows_of_table) = (false, false, 0);
        self.columns = words.iter().map(|word| Rc::from(*word)).collect();
    }

    /// A moment that a logger put in front of a line. Without a year its day is that of the run, or the one after.
    fn logged(&self, moment: &str) -> Option<i64> {
        if self.has_own_moments {
            return None;
        }
        stamp_ns(moment).or_else(|| {
            let of_day = time_of_day_ns(moment.rsplit(' ').next()?, "")?;
            Some(self.later(self.day_ns? + of_day))
        })
    }

    /// `logged_ns`: when a logger got the header.
    fn begin_iostat(
        &mut self,
        words: &[&str],
        at: usize,
        logged_ns: Option<i64>,
        sink: &mut Sink,
    ) -> Result<(), ImportError> {
        self.begin(Table::Iostat, words, at);
        let header = words.join(" ");
        let is_same_report = !self.headers.is_empty() && !self.headers.contains(&header);
        if is_same_report {
            self.headers.push(header);
            return Ok(());
        }
        self.headers = vec![header];
        // Solaris and FreeBSD mark no begin of a run; a log of theirs mostly has it.
        self.has_begin |= self.reports == 0 && is_of_unix(words);
        self.begin_report(logged_ns, sink)
    }

    fn begin_report(&mut self, logged_ns: Option<i64>, sink: &mut Sink) -> Result<(), ImportError> {
        self.end_report(sink)?;
        self.reports += 1;
        self.of_run += 1;
        if logged_ns.is_some() {
            (self.moment_ns, self.since_moment) = (logged_ns, 0);
        }
        self.since_moment += 1;
        if self.rows_have_moments {
        } else if let (Some(moment_ns), 2..) = (self.moment_ns, self.since_moment) {
            self.moment_ns = Some(moment_ns + SECOND);
            self.lacks_moments = true;
        }
        self.lacks_begin |= !self.has_begin;
        self.left_out += u64::from(self.of_run == 2 && self.has_begin);
        self.first.clear();
        Ok(())
    }

    /// Whether the table at hand has said of this device already what the header names.
    fn comes_again(&self, device: &str) -> bool {
        let of_device = self.places.get(device).map(|place| &self.report[*place]);
        let first = usize::from(self.device_at == 0);
        of_device.is_some_and(|(_, _, values)| {
            values
                .iter()
                .any(|(column, _)| self.columns.get(first) == Some(column))
        })
    }

    fn row(&mut self, words: &[&str], sink: &mut Sink) -> Result<(), RecordError> {
        let is_sar = self.table == Table::Sar;
        let device = words[self.device_at];
        let first = if is_sar { self.words_of_time() } else { 0 };
        let mut values = Vec::with_capacity(words.len());
        for (at, (column, word)) in self.columns.iter().zip(words).enumerate().skip(first) {
            if at != self.device_at {
                values.push((column.clone(), value(word, column)?));
            }
        }
        if is_sar {
            let time_ns = self.sar_moment(words, sink)?;
            self.last_ns = time_ns;
            self.rows_of_sar += 1;
            self.rows_of_table += 1;
            return Ok(self.write(vec![(time_ns, device.to_owned(), values)], sink)?);
        }
        if is_misread(device, &values) {
            return Err(Bad::new("column Device", "a device's name", device).into());
        }
        self.rows_of_table += 1;
        device.clone_into(&mut self.last_device);
        if self.comes_again(device) {
            self.headers.truncate(1);
            self.begin_report(None, sink)?;
        }
        let time_ns = self.moment_ns.unwrap_or((self.reports - 1) * SECOND);
        self.last_ns = time_ns;
        self.records += 1;
        if let Some(place) = self.places.get(device) {
            self.report[*place].2.extend(values);
            return Ok(());
        }
        self.places.insert(device.to_owned(), self.report.len());
        self.report.push((time_ns, device.to_owned(), values));
        Ok(())
    }

    /// How many words a row's time is.
    fn words_of_time(&self) -> usize {
        let is_half = |column: &Rc<str>| matches!(&**column, "AM" | "PM");
        match self.device_at {
            at @ ..=2 => at,
            _ => 1 + usize::from(self.columns.iter().take(2).any(is_half)),
        }
    }

    /// `DEV;tps;rkB/s;...`, or columns of something else.
    fn begin_sadf(&mut self, columns: &str, sink: &mut Sink) {
        let columns = columns.trim();
        self.in_one_line = columns.ends_with("[...]");
        let columns = columns.trim_end_matches("[...]").split(';').map(str::trim);
        let columns: Vec<&str> = columns.collect();
        self.table = Table::Other;
        if columns[0] == "DEV" {
            self.begin(Table::Sadf, &columns, 0);
            if !std::mem::replace(&mut self.clock_told, true) {
                sink.clock(Clock::unix(SECOND));
            }
        }
    }

    /// `host;10;2026-11-24 10:54:32 UTC;sda;1.60;...`; seconds since 1970 with `-U`.
    fn sadf_row(&mut self, text: &str, sink: &mut Sink) -> Result<(), RecordError> {
        let fields: Vec<&str> = text.trim().split(';').collect();
        if fields.len() == 4 {
            // A restart, or a comment.
            return Ok(());
        }
        let [host, _, moment, devices @ ..] = &fields[..] else {
            return Err(Bad::new("", "host;interval;timestamp;device;rates", text).into());
        };
        // With -h all devices of a moment stand in one line.
        let is_whole = match self.in_one_line {
            true => devices.len() % self.columns.len() == 0,
            false => devices.len() == self.columns.len(),
        };
        if !is_whole {
            let expected = format!("{} columns, as the header says", self.columns.len() + 3);
            return Err(Bad::new("", expected, text).into());
        }
        // Some locales have 00-45-01 for a time of day.
        let in_dashes = || match moment.split_once(' ') {
            Some((date, time)) => stamp_ns(&format!("{date} {}", time.replacen('-', ":", 2))),
            None => None,
        };
        let time_ns = stamp_ns(moment)
            .or_else(in_dashes)
            .ok_or_else(|| Bad::new("column timestamp", "date and time", moment))?;
        for device in devices.chunks_exact(self.columns.len()) {
            let rates = self.columns[1..].iter().zip(&device[1..]);
            let values: Vec<(&str, f64)> = rates
                .map(|(column, word)| Ok((&**column, value(word, column)?)))
                .collect::<Result<_, Bad>>()?;
            sysstat_rows::write(time_ns, host, device[0], &values, &mut self.impossible, sink)?;
        }
        Ok(())
    }

    fn sar_moment(&mut self, words: &[&str], sink: &mut Sink) -> Result<i64, Bad> {
        let half = if self.words_of_time() == 2 { words[1] } else { "" };
        let of_day = time_of_day_ns(words[0], half).or_else(|| time_of_day_ns(half, words[0]));
        let of_day = of_day.ok_or_else(|| Bad::new("column time", "HH:MM:SS", words[0]))?;
        if !self.clock_told {
            sink.clock(match self.day_ns {
                Some(_) => Clock::unix(SECOND),
                None => Clock::own("midnight", SECOND),
            });
            self.clock_told = true;
        }
        let mut ns = self.day_ns.unwrap_or(0) + of_day;
        // Past midnight; a clock that is put back by an hour is not.
        while ns < self.last_ns.saturating_sub(DAY / 2) {
            ns += DAY;
        }
        Ok(ns)
    }
}

const DAY: i64 = 86_400 * SECOND;

#[cfg(test)]
mod tests {
    use super::*;

    /// What a log is read as: rows, or what is wrong.
    fn samples(text: &str) -> Result<u64, String> {
        import(text).map(|summary| summary.records)
    }

    fn import(text: &str) -> Result<crate::Summary, String> {
        crate::testing::import(&FORMAT, text).map_err(|e| e.to_string())
    }

    #[test]
    fn rows_go_on_below_empty_lines() {
        let header = "Device: rrqm/s r/s w/s await %util\n\n";
        let rows = |text: &str| samples(&format!("{header}{text}"));
        assert_eq!(rows("sda 1.00 2.00 3.00 4.00 5.00\n\n\nsdb 1.00 2.00 3.00 4.00 5.00\n\nThis shows it.\n\n1.00 2.00\n"), Ok(2));
        // A table of something else.
        assert_eq!(
            rows("sda 1.00 2.00 3.00 4.00 5.00\n\neth0 rx tx\n\neth0 1 2 3 4 5\n"),
            Ok(1)
        );
        let damaged = rows("sda 1.00 2.00 3.00 4.00 5.00\n\nsdb 1.00 2.00 x 4.00 5.00\n").unwrap_err();
        assert!(damaged.contains("line 5"), "{damaged}");
        let cut = rows("sda 1.00 2.00 3.00 4.00 5.00\n\nsdb 1.00 2.00\n\nsdc 1 2 3 4 5\n").unwrap_err();
        assert!(cut.contains("line 5"), "{cut}");
    }

    #[test]
    fn what_a_comment_says_of_columns_is_no_row() {
        let log = " * iostat -x\nDevice: rrqm/s r/s w/s await %util\nsda 1.00 2.00 3.00 4.00 5.00\n * \n * rrqm/s : The number of read requests merged per second\n";
        assert_eq!(samples(log), Ok(1));
    }

    #[test]
    fn a_script_may_name_the_tables_of_sar() {
        let table = "22:43:18          DEV       tps  rd_sec/s  wr_sec/s  avgrq-sz  avgqu-sz     await     svctm     %util\n\
            22:43:19          sda      1.00      8.00      0.00      8.00      0.00      2.00      1.00      0.10\n";
        let cpu = "22:43:18        CPU      %usr     %nice      %sys\n22:43:19        all      0.50      0.00      0.00\n";
        let system =
            "connect_db ..... OK!\nLinux 3.16.0-51-generic (ubuntu-vm)  11/05/15  _x86_64_  (2 CPU)\n";
        let rest =
            "print_net_dev_stats\n\n22:43:18        IFACE   rxpck/s\n22:43:19           lo      0.00\n";
        // What is looked at may end in front of the devices.
        let begin = Head {
            name: "log".into(),
            bytes: format!("{system}print_cpu_stats\n\n{cpu}").into_bytes(),
        };
        assert!(recognise(&begin));
        assert_eq!(
            samples(&format!(
                "{system}print_cpu_stats\n\n{cpu}print_disk_stats\n\n{table}{rest}"
            )),
            Ok(1)
        );
        assert!(samples(&format!("{system}\n{table}sd1\n{rest}"))
            .unwrap_err()
            .contains("line 6"));
    }

    #[test]
    fn a_filter_stamps_rows_and_no_header() {
        let header = "          Device            r/s     w/s   await  %util\n";
        let log = format!("{header}23:59:49 sda 1.00 2.00 3.00 4.00\n23:59:49 sdb 1.00 2.00 3.00 4.00\n00:00:09 sda 1.00 2.00 3.00 4.00\n\n{header}23:59:49 sdc 1.00 2.00 3.00 4.00\n");
        let found = crate::testing::samples(&FORMAT, &log, "busy_ratio");
        let moments: Vec<(&str, i64)> = found
            .iter()
            .map(|(device, at, _)| (device.as_str(), *at))
            .collect();
        // From the first moment on.
        assert_eq!(moments, [("sda", 0), ("sdb", 0), ("sda", 20), ("sdc", 0)]);
        let damaged = samples(&log.replace("23:59:49 sdb 1.00", "23:59:49 sdb x")).unwrap_err();
        assert!(damaged.contains("line 3"), "{damaged}");
        // The first report averages since the machine's start.
        let system = "Linux 6.1.0 (db1)  11/27/26  _x86_64_  (4 CPU)\n\n";
        let table = log.split("\n\n").next().unwrap();
        let dated = import(&format!("{system}{table}\n")).unwrap();
        let past_midnight = Some(1_795_824_009_000_000_000);
        assert_eq!((dated.records, dated.start_unix_ns), (1, past_midnight));
    }

    #[test]
    fn rows_are_of_the_host_in_front_of_them() {
        let system =
            |host: &str| format!("{host}: Linux 3.13.0 (localhost)  11/27/26  _x86_64_  (4 CPU)\n{host}: \n");
        let report = |host: &str, time: &str, reads: &str| {
            let of_host = |text: String| format!("{host}: {text}\n");
            of_host(format!("11/27/26 {time}"))
                + &of_host("avg-cpu:  %user   %nice %system %iowait  %steal   %idle".into())
                + &of_host("           1.44    0.00    0.55    0.21    0.00   97.79".into())
                + &of_host(String::new())
                + &of_host("Device:         r/s     w/s   await  %util".into())
                + &of_host(format!("sda            {reads}    2.00    3.00    4.00"))
                + &of_host(String::new())
        };
        let log = system("db1") + &report("db1", "10:00:00", "1.00")
            + &system("db2") + &report("db2", "10:00:02", "2.00")
            + &report("db1", "10:00:05", "10.00")
            // Two that print at the same time.
            + &report("db2", "10:00:07", "20.00").lines().zip(report("db1", "10:00:10", "11.00").lines())
                .map(|(one, other)| format!("{one}\n{other}\n")).collect::<String>();
        let folder = tempfile::tempdir().unwrap();
        crate::testing::import_into(folder.path(), &FORMAT, "log", &log).unwrap();
        let all = crate::testing::samples_of(folder.path(), "read_operations_per_s").into_iter();
        let mut found: Vec<_> = all.map(|one| (one.host, one.value)).collect();
        found.sort_by(|one, other| one.1.total_cmp(&other.1));
        // The first report of each averages since the machine's start.
        let expected = [("db1", 10.0), ("db1", 11.0), ("db2", 20.0)];
        assert_eq!(found, expected.map(|(host, value)| (host.to_owned(), value)));
    }

    #[test]
    fn a_logger_dates_reports_that_have_no_moments() {
        let report = |time: &str| {
            format!("Nov 27 {time} Device   r/s   w/s  await  %util\nNov 27 {time} sda   1.00  2.00   3.00   4.00\nNov 27 {time} \n")
        };
        let system = "Nov 27 23:59:40 Linux 6.1.0 (db1)  11/27/26  _x86_64_  (4 CPU)\nNov 27 23:59:40 \n";
        let log = format!(
            "{system}{}{}{}",
            report("23:59:40"),
            report("23:59:50"),
            report("00:00:00")
        );
        let summary = crate::testing::import(&FORMAT, &log).unwrap();
        assert_eq!((summary.records, summary.end_ns), (2, 10_000_000_000));
        // 2026-11-27 23:59:50
        assert_eq!(summary.start_unix_ns, Some(1_795_823_990_000_000_000));
    }

    #[test]
    fn a_folder_behind_a_device_is_none_of_its_row() {
        let log = "                    extended device statistics\n\
            \x20   r/s    w/s   kr/s   kw/s wait actv wsvc_t asvc_t  %w  %b device\n\
            \x20   0.3   23.8    7.4  198.7  0.0  0.3    0.0   13.3   0  16 d0\n\
            \x20   8.2    7.8   53.5   63.7  0.0  0.1    0.4    7.3   0   5 c6t101d0s0 (/export/home)\n";
        let found = crate::testing::samples(&FORMAT, log, "operations_per_s");
        let devices: Vec<&str> = found.iter().map(|(device, ..)| device.as_str()).collect();
        assert_eq!(devices, ["d0", "c6t101d0s0"]);
        assert!(import(&log.replace("(/export/home)", "1.5")).is_err());
    }

    #[test]
    fn what_a_mail_wrapped_of_sar_is_joined() {
        let log = "Linux 4.15.0 (h)      03/10/21\n_x86_64_        (88 CPU)\n\n\
            00:00:01          DEV       tps     rkB/s     wkB/s   areq-sz\naqu-sz     await     svctm     %util\n\
            00:05:01       dev7-0      1.74      0.92      6.02      4.00\n0.29    184.17     28.01      4.86\n\
            00:15:01       dev7-0      4.77      3.35     15.74      4.00\n0.53    119.11     14.67      7.00\n";
        let found = crate::testing::samples(&FORMAT, log, "latency_ns");
        assert_eq!(
            found,
            [
                ("dev7-0".into(), 0, 184_170_000.0),
                ("dev7-0".into(), 600, 119_110_000.0)
            ]
        );
        assert!(import(&log.replace("4.00\n0.53", "x\n0.53")).is_err());
    }

    #[test]
    fn units_behind_values_are_those_of_the_column() {
        assert_eq!(value("222.1k", "rkB/s").unwrap(), 222.1);
        assert_eq!(value("1.5G", "rkB/s").unwrap(), 1.5 * 1_048_576.0);
        assert_eq!(value("512.0k", "rMB/s").unwrap(), 0.5);
        assert_eq!(
            (value("5.4%", "%util").unwrap(), value("1,25", "r/s").unwrap()),
            (5.4, 1.25)
        );
        assert!(value("x", "r/s").is_err() && value("k", "rkB/s").is_err());
    }

    #[test]
    fn dates_of_other_places_are_moments() {
        let expected = date_ns("2026-11-24").unwrap() + time_of_day_ns("10:54:32", "").unwrap();
        for line in [
            "11/24/26 10:54:32",
            "11/24/2026 10:54:32 AM",
            "24/11/26 10:54:32",
            "24.11.2026 10:54:32",
            "2026/11/24 10:54:32",
            "2026-11-24T11:54:32+0100",
            "2026\u{5e74}11\u{6708}24\u{65e5} 10\u{65f6}54\u{5206}32\u{79d2}",
            "2026\u{5e74}11\u{6708}24\u{65e5} \u{4e0a}\u{5348}10:54:32",
        ] {
            let line = western(line);
            let words: Vec<&str> = line.split_whitespace().collect();
            assert_eq!(moment(&words), Some(expected), "{line}");
        }
    }

    #[test]
    fn what_is_meant_as_a_moment_and_is_none_is_bad() {
        for line in [
            "11/24/26 25:54:32",
            "13/32/26 10:54:32",
            "11/24/2026 13:54:32 PM",
            "2026-11-24 10:61:32",
            "2026-11-24T10:54:99+0000",
            "2026-02-30T10:54:09Z",
            "Time: 10:54:72 PM",
        ] {
            let log = format!("Linux 6.1.0 (host) \t11/24/26 \t_x86_64_\t(2 CPU)\n\n{line}\n{CPU}{DISK}");
            let error = samples(&log).unwrap_err();
            assert!(
                error.contains("log: line 3: expected a date and a time of day") && error.contains(line),
                "{error}"
            );
        }
    }

    const CPU: &str = "avg-cpu:  %user   %nice %system %iowait  %steal   %idle\n           1.0    0.0    0.0    0.0    0.0   99.0\n\n";
    const DISK: &str = "Device   r/s   rkB/s  r_await  w/s  wkB/s  w_await  aqu-sz  %util\nsda   1.0  8.0  0.5  2.0  16.0  1.5  0.1  3.0\n\n";

    #[test]
    fn the_first_report_of_each_run_is_left_out() {
        let run =
            format!("Linux 6.1.0 (host) \t11/24/26 \t_x86_64_\t(2 CPU)\n\n{CPU}{DISK}{CPU}{DISK}{CPU}{DISK}");
        assert_eq!(samples(&run), Ok(2));
        assert_eq!(samples(&format!("{run}^C\n{run}")), Ok(4));
        // What `tail` left has no begin of a run.
        let tail = import(&format!("{CPU}{DISK}{CPU}{DISK}")).unwrap();
        let said = tail.not_observed.iter().map(|unseen| unseen.because.as_str());
        assert_eq!(tail.records, 2);
        assert!(
            said.clone().any(|because| because.contains("lacks the begin")),
            "{said:?}"
        );
        // What there is one of is all there is.
        assert_eq!(samples(&format!("{CPU}{DISK}")), Ok(1));
        let damaged = run.replace("1.5  0.1", "1.5");
        assert!(samples(&damaged).unwrap_err().contains("9 columns"));
    }

    #[test]
    fn other_tables_of_sar_are_passed_over() {
        let sar = "Linux 6.1.0 (host) \t11/24/26 \t_x86_64_\t(2 CPU)\n\n\
            10:54:32     DEV   tps  rkB/s  wkB/s  dkB/s  areq-sz  aqu-sz  await  %util\n\
            10:54:33     sda  1.00   8.00   0.00   0.00     8.00    0.01   0.50   0.10\n\
            Moyenne :    sda  1.00   8.00   0.00   0.00     8.00    0.01   0.50   0.10\n\n\
            10:54:32     CPU  %usr  %nice   %sys  %iowait  %steal   %irq  %soft  %idle\n\
            10:54:33     all  1.00   8.00   0.00   0.00     8.00    0.01   0.50   0.10\n";
        assert_eq!(samples(sar), Ok(1));
        let commented = sar.replace("Moyenne", "10:54:33     COM Hello world!\n10:54:34     sda  1.00   8.00   0.00   0.00     8.00    0.01   0.50   0.10\nMoyenne");
        assert_eq!(samples(&commented), Ok(2));
        let cpu = sar.split("\n\n").last().unwrap();
        let error = samples(&format!(
            "Linux 6.1.0 (host) \t11/24/26 \t_x86_64_\t(2 CPU)\n\n{cpu}"
        ))
        .unwrap_err();
        assert!(error.contains("sar -d"), "{error}");
        // Without the blank lines, too.
        assert_eq!(samples(&sar.replace("\n\n", "\n")), Ok(1));
    }

    /// Seconds since 1970 of the first sample, from there to the last, and whether some moments are not known.
    fn moments(text: &str) -> (i64, i64, bool) {
        let summary = import(text).unwrap();
        let is_of_moments = |unseen: &case::meta::Unseen| unseen.what.contains("were taken");
        (
            summary.start_unix_ns.unwrap() / SECOND,
            summary.end_ns / SECOND,
            summary.not_observed.iter().any(is_of_moments),
        )
    }

    #[test]
    fn what_a_script_wrote_above_a_run_is_its_moment() {
        // 24 November 2026, 10:54:32.
        let begin = 1_795_517_672;
        let run =
            format!("Linux 6.1.0 (host) \t11/24/26 \t_x86_64_\t(2 CPU)\n\n{CPU}{DISK}{CPU}{DISK}{CPU}{DISK}");
        let of_oswatcher =
            format!("zzz ***Tue Nov 24 10:54:32 UTC 2026\n{run}zzz ***Tue Nov 24 10:55:02 UTC 2026\n{run}");
        assert_eq!(moments(&of_oswatcher), (begin + 1, 31, true));
        let of_loop = format!("Tue Nov 24 10:54:32 UTC 2026\n{CPU}{DISK}\n1795517677\n{CPU}{DISK}");
        assert_eq!(moments(&of_loop), (begin, 5, false));
    }

    #[test]
    fn old_versions_print_the_time_without_the_day() {
        let report = |time: &str| format!("Time: {time}\n{CPU}{DISK}");
        let run = ["11:59:58 PM", "11:59:59 PM", "12:00:01 AM"].map(report).concat();
        let log = format!("Linux 2.6.18-371.el5 (host) \t11/24/2026\n\n{run}");
        assert_eq!(moments(&log), (1_795_478_400 + 86_399, 2, false));
    }

    #[test]
    fn a_report_in_several_tables_is_one() {
        let report = "avg-cpu:  %user   %idle\n           1.0    99.0\n\n\
            \x20    r/s     rkB/s r_await Device\n    6.90    222.14   12.58 sda\n    0.01      0.29   60.92 sdb\n\n\
            \x20    w/s     wkB/s w_await Device\n    1.69     57.08    9.61 sda\n    0.00      0.00    0.00 sdb\n\n\
            \x20    f/s f_await  aqu-sz  %util Device\n    0.00    0.00    0.10   0.46 sda\n    0.00    0.00    0.00   0.00 sdb\n\n\n";
        let run = |reports: &str| format!("Linux 6.1.0 (host) \t11/24/26 \t_x86_64_\t(2 CPU)\n\n{reports}");
        let summary = import(&run(&report.repeat(3))).unwrap();
        // Two reports of two disks in three tables; one second lies between them. Of each disk and report: two rates, their sums, queue and busy time;
        // flushes; latencies where there were requests.
        assert_eq!(
            (summary.records, summary.rows, summary.start_ns, summary.end_ns),
            (12, 2 * (11 + 10), 0, 2 * SECOND)
        );
        let without_cpu = report[report.find("r/s").unwrap() - 5..].repeat(3);
        assert_eq!(samples(&run(&without_cpu)), Ok(12));
        // What there is one of is counted alike.
        assert_eq!(samples(&run(report)), Ok(6));
    }

    #[test]
    fn what_sar_keeps_has_to_be_printed() {
        let kept = Head {
            name: "sa27".into(),
            bytes: b"\x96\xd5u!".to_vec(),
        };
        assert!(recognise(&kept) && of_sar(&kept) == Some("sar's data"));
        let error = samples("<?xml version=\"1.0\"?>\n<sysstat>\n").unwrap_err();
        assert!(error.contains("sadf -j FILE -- -d"), "{error}");
    }

    #[test]
    fn a_group_of_devices_is_none() {
        let report = DISK.replace("\n\n", "\nsdb   1.0  8.0  0.5  2.0  16.0  1.5  0.1  3.0\n all  2.0  16.0  0.5  4.0  32.0  1.5  0.2  3.0\n\n");
        let human = "     r/s     rkB/s r_await  %util Device\n    6.90    222.14   12.58   1.0 sda\n    6.90    222.14   12.58   1.0  all\n\n";
        let run = |reports: &str| format!("Linux 6.1.0 (host) \t11/24/26 \t_x86_64_\t(2 CPU)\n\n{reports}");
        let said = |log: &str| {
            let summary = import(log).unwrap();
            let what = summary.not_observed.iter().map(|unseen| unseen.what.clone());
            let of_groups = what.filter(|what| what.contains("group")).collect::<Vec<_>>();
            (summary.records, of_groups)
        };
        let left_out = vec!["groups of devices (all)".to_owned()];
        let log = run(&format!("{CPU}{report}").repeat(3));
        assert_eq!(said(&log), (4, left_out.clone()));
        // What a script indents has no more groups than before.
        let indented: String = log.lines().map(|line| format!("  {line}\n")).collect();
        assert_eq!(said(&indented), (4, left_out.clone()));
        assert_eq!(said(&run(&format!("{CPU}{human}").repeat(3))), (2, left_out));
        // Without members (-H).
        let alone = DISK.replace("sda", " two");
        let which = vec!["which device of a group (two) did what".to_owned()];
        assert_eq!(said(&run(&format!("{CPU}{alone}").repeat(3))), (2, which));
    }

    #[test]
    fn devices_of_sar_may_stand_last() {
        let sar = |half: &str| {
            format!(
                "Linux 6.1.0 (host) \t11/24/26 \t_x86_64_\t(2 CPU)\n\n\
                10:54:31 {half}   tps  rkB/s  wkB/s  dkB/s  areq-sz  aqu-sz  await  %util DEV\n\
                10:54:32 {half}  1.00   8.00   0.00   0.00     8.00    0.01   0.50   0.10 sda\n\
                10:54:33 {half}  1.00   8.00   0.00   0.00     8.00    0.01   0.50   0.10 sda\n\
                Average:     1.00   8.00   0.00   0.00     8.00    0.01   0.50   0.10 sda\n"
            )
        };
        assert_eq!(moments(&sar("")), (1_795_517_672, 1, false));
        assert_eq!(moments(&sar("PM")), (1_795_517_672 + 43_200, 1, false));
    }

    #[test]
    fn tables_of_sadf_with_semicolons_are_read() {
        let sadf = "# hostname;interval;timestamp;CPU;%usr;%idle\n\
            host;10;2026-11-24 10:54:32 UTC;-1;1.00;99.00\n\
            # hostname;interval;timestamp;DEV;tps;rkB/s;wkB/s;dkB/s;areq-sz;aqu-sz;await;%util\n\
            host;10;2026-11-24 10:54:32 UTC;sda;1604.70;41499.97;10663.48;0.00;32.51;18.56;12.00;85.36\n\
            host;-1;2026-11-24 10:54:40 UTC;LINUX-RESTART\t(2 CPU)\n\
            host;10;1795517682;sda;1,60;0,00;0,00;0,80;0,50;0,00;1,00;0,00\n";
        assert_eq!(moments(sadf), (1_795_517_672, 10, false));
        assert_eq!(samples(sadf), Ok(2));
        let of_one_line = "# hostname;interval;timestamp;DEV;tps;rkB/s;wkB/s;dkB/s;areq-sz;aqu-sz;await;%util[...]\n\
            host;10;2026-11-24 10:54:32 UTC;sda;1.0;8.0;0.0;0.0;8.0;0.1;0.5;0.1;sdb;1.0;8.0;0.0;0.0;8.0;0.1;0.5;0.1\n";
        assert_eq!(samples(of_one_line), Ok(2));
        assert!(samples(&of_one_line.replace("0.5;0.1\n", "0.5\n")).is_err());
        let error = samples(&sadf.replace(";85.36", "")).unwrap_err();
        assert!(error.contains("12 columns"), "{error}");
    }

    #[test]
    fn a_name_may_stand_on_a_line_of_its_own() {
        let report = "Device:   r/s   w/s  rkB/s  wkB/s  await  %util\nsda\n      1.00  2.00  3.00   4.00   5.00   6.00\nsdb\n      1.00  2.00  3.00   4.00   5.00   6.00\n\n";
        let run = |reports: &str| format!("Linux 4.4.40 (host) \t11/24/26 \t_x86_64_\t(2 CPU)\n\n{reports}");
        assert_eq!(samples(&run(&report.repeat(3))), Ok(4));
        let error = samples(&run(&report.replace("sdb\n", "sdb\nsdc\n"))).unwrap_err();
        assert!(error.contains("the 6 values of sdb"), "{error}");
    }

    #[test]
    fn a_device_that_comes_again_begins_a_report() {
        let rows = "sdc   1.0  8.0  0.5  2.0  16.0  1.5  0.1  3.0\n";
        let log = format!("{}{}", DISK.trim_end(), "\n").replace("sda", "sdc") + &rows.repeat(3);
        let summary = import(&log).unwrap();
        assert_eq!((summary.records, summary.end_ns), (4, 3 * SECOND));
    }

    #[test]
    fn collectors_need_no_blank_line_below_a_report() {
        let report = |at: &str| {
            format!(
                "zzz <11/24/2026 10:{at}:32> Count:720\n{CPU}{}\n",
                DISK.trim_end()
            )
        };
        let head = "##########\n# Collection Module:  IostatExaWatcher\n##########\n";
        let log = format!("{head}{}{}{head}{}", report("54"), report("55"), report("56"));
        assert_eq!(moments(&log), (1_795_517_672, 120, false));
        assert_eq!(samples(&log), Ok(3));
    }

    #[test]
    fn what_tail_left_begins_below_its_moment() {
        let log = format!("{DISK}11/24/26 10:54:32\n{CPU}{DISK}11/24/26 10:54:33\n{CPU}{DISK}");
        assert_eq!(moments(&log), (1_795_517_671, 2, true));
    }

    #[test]
    fn the_host_of_oswatcher_stands_last() {
        let log = |banner: &str| {
            let report = |at: &str| format!("zzz ***Tue Nov 24 10:{at}:32 UTC 2026\n{CPU}{DISK}");
            format!("{banner}\n{}{}", report("54"), report("55"))
        };
        for banner in ["Linux OSWbb v8.3.2 db1", "Linux OSWbb v7.3.3"] {
            assert_eq!(moments(&log(banner)), (1_795_517_672, 60, false), "{banner}");
        }
    }

    #[test]
    fn a_table_of_sar_goes_on_where_a_page_put_empty_lines_between_all() {
        let log = "Linux 6.1.0 (host) \t11/27/26 \t_x86_64_\t(2 CPU)\n\n10:00:00          DEV       tps     rkB/s     wkB/s     await\n\
            10:00:01          sda      1.00      4.00      0.00      2.00\n10:00:01          sdb      2.00      8.00      0.00      3.00\n\
            10:00:02        IFACE   rxpck/s   txpck/s    rxkB/s    txkB/s\n10:00:03         eth0      1.00      4.00      0.00      2.00\n";
        let read = |log: &str| import(log).unwrap().records;
        assert_eq!(read(log), 2);
        assert_eq!(read(&log.replace('\n', "\n\n")), 2);
    }

    #[test]
    fn the_table_of_pidstat_is_none_of_sar() {
        let of = |header: &str| {
            let text = format!("Linux 6.1.0 (host) \t11/27/26 \t_x86_64_\t(2 CPU)\n\n{header}\n10:00:01   0   5112   1.0   2.0   0.00   0   bash\n");
            recognise(&Head {
                name: "log".into(),
                bytes: text.into_bytes(),
            })
        };
        assert!(!of(
            "10:00:00      UID       PID   kB_rd/s   kB_wr/s kB_ccwr/s iodelay  Command"
        ));
        assert!(of(
            "10:00:00        CPU     %user     %nice   %system   %iowait    %steal     %idle"
        ));
    }

    #[test]
    fn what_lacks_its_header_or_its_samples_is_told() {
        let of_processes = "17:01:09        11.89\n".repeat(300);
        let log = format!("Linux 2.6.18-128.el5 (host) \t11/24/26\n\n17:00:59       proc/s\n{of_processes}");
        let error = samples(&log).unwrap_err();
        assert!(error.contains("expected a table of devices"), "{error}");
        let row = "sda  0.03  1.59  1.72  2.43  0.13  0.10  111.93  0.30  71.08\n";
        let error = samples(&row.repeat(5)).unwrap_err();
        assert!(
            error.contains("rows of sda without it") && error.contains("grep -E 'Linux|Device|DEV|sda'"),
            "{error}"
        );
        let of_sar = "12:10:01 PM  dev8-0  0.59  0.29  10.25  17.95  0.00  0.44  0.31  0.02\n";
        assert!(samples(&of_sar.repeat(3)).unwrap_err().contains("rows of dev8-0"));
        let means = "Average:  DEV  tps  rd_sec/s  wr_sec/s  avgrq-sz  avgqu-sz  await  svctm  %util\n\
            Average:  dev8-0  34.45  781.10  9601.22  301.36  0.78  22.74  3.50  12.07\n";
        let error = samples(means).unwrap_err();
        assert!(error.contains("averages only"), "{error}");
    }

    #[test]
    fn sadf_may_have_comments_and_dashes() {
        let header =
            "# hostname;interval;timestamp;DEV;tps;rd_sec/s;wr_sec/s;avgrq-sz;avgqu-sz;await;svctm;%util";
        let log = format!(
            "#+PhysicalDisk\n{header}\nhost;599;2026-11-24 10-54-32;dev8-0;13,89;0,28;766,76;55,24;0,21;15,44;1,59;2,21\n\
            #+Processor\n# hostname;interval;timestamp;CPU;%user;%idle\nhost;599;2026-11-24 10-54-32;-1;0.60;98.14\n"
        );
        assert_eq!(moments(&log), (1_795_517_672, 0, false));
        assert_eq!(samples(&log), Ok(1));
    }

    #[test]
    fn what_comes_behind_a_table_is_no_row_of_it() {
        let table = "avg-cpu:  %user   %idle\n           1.0    99.0\n\n\
            \x20    r/s     rkB/s r_await  %util Device\n    6.90    222.14   12.58   96.0 nvme0n1\n";
        let bench = "    1    103152    103581   809 MiB/s\n    2    199008     99710   779 MiB/s\n";
        let prompt = "me@pve:~$ sudo rbd bench --io-type write image01\n";
        let rows = |log: &str| {
            let summary = import(log).unwrap();
            (summary.records, summary.left_out)
        };
        assert_eq!(rows(&format!("{table}{prompt}{bench}")), (1, 0));
        assert_eq!(
            rows(&format!("```\n{table}```\nand the benchmark:\n```\n{bench}```\n")),
            (1, 0)
        );
        // A sentence ends the table.
        let sentence = "and this is what the benchmark says:\n";
        assert_eq!(rows(&format!("{table}{sentence}{bench}")), (1, 0));
        // So does a fence of which the begin is not in the file.
        assert_eq!(rows(&format!("{table}```\n1. tps\n")), (1, 0));
        // Nor is a rate a device, wherever it stands; names of volumes may be numbers.
        let error = samples(&format!("{table}{bench}")).unwrap_err();
        assert!(
            error.contains("line 6, column Device: expected a device's name, found 'MiB/s'"),
            "{error}"
        );
        let of = |row: &str| samples(&format!("{table}{row}\n"));
        assert_eq!(of("0.01  0.29  60.92  0.00 36006016"), Ok(2));
        assert!(of("0.01  0.29  60.92  809 36006016").is_err());
    }

    #[test]
    fn what_a_mail_wrapped_is_joined() {
        let header = "Device         rrqm/s   wrqm/s     r/s     w/s    rMB/s    wMB/s\navgrq-sz avgqu-sz   await r_await w_await  svctm  %util\n";
        let row = |device: &str| {
            format!("{device}        8280.50 16352.50  971.50 1231.00    65.53    68.65\n124.77     3.20    1.17    0.69    1.54   0.64 142.00\n")
        };
        let log = format!("{header}{}{}", row("nvme2n1"), row("md0"));
        let summary = import(&log).unwrap();
        // Of each: two rates and two throughputs with their sums, size, queue, three latencies, busy.
        assert_eq!((summary.records, summary.rows), (2, 2 * 12));
        let quoted: String = log.lines().map(|line| format!("> > {line}\n")).collect();
        assert_eq!(samples(&quoted), Ok(2));
        let short = log.replace(" 142.00", "");
        let error = samples(&short).unwrap_err();
        assert!(
            error.contains("line 5: expected the 13 values of nvme2n1"),
            "{error}"
        );
        let cut = import(&(log.clone() + "sdb  1.0  2.0  3.0  4.0  5.0  6.0\n")).unwrap();
        assert_eq!(cut.missing[0].what, "the values of sdb in its last row");
        // Soft line breaks.
        let soft = log
            .replace("\navgrq-sz", " =\n  avgrq-sz")
            .replace("\n124.77", "  12=\n4.77");
        assert_eq!(import(&soft).unwrap().rows, 2 * 12);
        assert_eq!(
            [
                softly_broken("=== 1 ="),
                softly_broken("= 1 =="),
                softly_broken("a ="),
                softly_broken("a")
            ],
            [None, None, Some("a "), None]
        );
    }

    #[test]
    fn a_page_may_wrap_the_table_of_one_device() {
        let log = |rows: &str| {
            format!("Device: rrqm/s wrqm/s r/s w/s rMB/s\n{rows}wMB/s avgrq-sz avgqu-sz await %util\n81.09 1010.19 142.74 866.47 100.00\n")
        };
        let row = "sda 0.00 0.20 1.00 163.40 0.00\n";
        let summary = import(&log(row)).unwrap();
        assert_eq!((summary.records, summary.rows), (2, 10));
        let error = samples(&log(&format!("{row}{}", row.replace("sda", "sdb")))).unwrap_err();
        assert!(
            error.contains("line 4") && error.contains("the table is wrapped"),
            "{error}"
        );
    }

    #[test]
    fn old_versions_print_the_time_in_any_language() {
        for time in [
            "\u{6642}\u{9593}: 20\u{6642}45\u{5206}12\u{79d2}",
            "\u{6642}\u{9593}: \u{5348}\u{5f8c} 08\u{6642}45\u{5206}12\u{79d2}",
            "\u{65f6}\u{95f4}\u{ff1a} 20\u{65f6}45\u{5206}12\u{79d2}",
        ] {
            let day = "2026\u{5e74}11\u{6708}24\u{65e5}";
            let log = format!("Linux 2.6.18-371.el5 (host) \t{day}\n\n{time}\n{DISK}");
            assert_eq!(moments(&log), (1_795_478_400 + 74_712, 0, false), "{time}");
        }
    }

    #[test]
    fn times_of_day_without_a_date_are_moments() {
        let log = format!("Time: 20:44:30\n{DISK}Time: 20:44:40\n{DISK}");
        let summary = import(&log).unwrap();
        assert_eq!(
            (summary.records, summary.start_unix_ns, summary.clock.as_str()),
            (2, None, "midnight")
        );
        assert_eq!(summary.end_ns, 10 * SECOND);
        // Past midnight, and below a line that tells the day too late.
        let log =
            format!("Time: 11:59:55 PM\n{DISK}Linux 2.6.18 (host) \t11/24/26\n\nTime: 12:00:05 AM\n{DISK}");
        assert_eq!(import(&log).unwrap().end_ns, 10 * SECOND);
        assert!(samples(&format!("Time: 25:44:30\n{DISK}")).is_err());
    }

    #[test]
    fn tables_of_mounts_are_counted() {
        let of_nfs = "Device:                  rBlk_nor/s   wBlk_nor/s   rBlk_dir/s   wBlk_dir/s   rBlk_svr/s   wBlk_svr/s    rops/s    wops/s\n\
            10.7.0.1:/var/ftp         0.00         0.00         0.00         0.00         0.00         0.00   1624.49   1624.49\n\n";
        let summary = import(&format!("{CPU}{DISK}{of_nfs}").repeat(3)).unwrap();
        assert_eq!((summary.records, summary.left_out), (3, 0));
        assert_eq!(summary.missing[0].what, "what 3 tables of mounts (NFS) say");
    }

    #[test]
    fn tables_of_solaris_and_freebsd_are_read() {
        let report = |second: &str, rows: &str| {
            format!("Tue Nov 24 10:54:{second} 2026\n                 extended device statistics                 \n{rows}")
        };
        let of_solaris = "device    r/s    w/s   kr/s   kw/s wait actv  svc_t  %w  %b \n\
            sd0      52.6   21.9  633.1  144.4  0.0  0.4    5.8   0  18 \n\
            nfs1      0.0    0.0    0.0    0.0  0.0  0.0    0.0   0   0 \n";
        let with_names = "    r/s    w/s   kr/s   kw/s wait actv wsvc_t asvc_t  %w  %b device\n\
            \x20  52.6   21.9  633.1  144.4  0.1  0.4    0.2    5.6   0  18 c0t0d0\n";
        let of_freebsd = "device       r/s     w/s     kr/s     kw/s  ms/r  ms/w  ms/o  ms/t qlen  %b  \n\
            ada0          52      21    633.1    144.4     1     2     0     1    3  18 \n";
        let read = |rows: &str| {
            let log = ["31", "32", "33"].map(|second| report(second, rows)).concat();
            let summary = import(&log).unwrap();
            let begin = summary.start_unix_ns.unwrap() / SECOND;
            (summary.records, summary.rows, begin, summary.end_ns / SECOND)
        };
        // The first report averages since the machine's start. Rates, throughputs, and their sums; queue, latency, busy; of what was idle no latency.
        assert_eq!(read(of_solaris), (4, 2 * (9 + 8), 1_795_517_672, 1));
        assert_eq!(read(with_names), (2, 2 * 9, 1_795_517_672, 1));
        // Three latencies, and what is in flight at the end of a sample.
        assert_eq!(read(of_freebsd), (2, 2 * 11, 1_795_517_672, 1));
    }

    #[test]
    fn errors_that_solaris_counts_are_read() {
        let log = "              extended device statistics       ---- errors --- \n\
            \x20   r/s    w/s   kr/s   kw/s wait actv wsvc_t asvc_t  %w  %b s/w h/w trn tot device\n\
            \x20   6.1    1.1   78.5   89.2  0.0  0.0    0.0    2.4   0   0   3   2   5  10 c1t0d0\n";
        for (metric, value) in [("hard_errors", 2.0), ("transport_errors", 5.0)] {
            assert_eq!(
                crate::testing::samples(&FORMAT, log, metric),
                [("c1t0d0".into(), 0, value)]
            );
        }
    }

    #[test]
    fn a_log_beyond_the_fences_of_a_page_is_not_read() {
        let log = |end: &str| format!("```ruby\nme@db1:~$ iostat\n```\n{end}{CPU}{DISK}");
        assert_eq!(samples(&log("```\n")), Ok(1));
        let error = samples(&log("")).unwrap_err();
        assert!(
            error.contains("found none between its fences (```); keep the lines of the log only"),
            "{error}"
        );
    }
}
