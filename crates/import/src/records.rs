//! Reading a file record by record: where a bad one is, what is left out, and what was cut off.
use crate::error::{Bad, RecordError};
use crate::input::open_text;
use crate::lines::Lines;
use crate::prefix;
use crate::text::counted;
use crate::{ImportError, Sink, Source};
use std::borrow::Cow;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Why nothing is made of lines around records.
pub const TEXT_ASIDE: &str = "it is text, no record";

/// Largest file that is read as one document (JSON, XML).
const DOCUMENT_BYTES_MAX: u64 = 512 << 20;

/// A line of text.
#[derive(Clone, Copy)]
pub struct Line<'a> {
    /// Without its end, and without what a logger put in front of it.
    pub text: &'a str,
    /// The moment that a logger put in front of it.
    pub moment: Option<&'a str>,
    /// The host that a tool put in front of it.
    pub host: Option<&'a str>,
}

/// Calls `each` with every line of a source's files, empty ones too.
///
/// A bad line ends the import, or is left out and counted with `--keep-going`. A last line without an end, which is bad or of which nothing shows
/// that its last field is whole, was cut off: what is before it is kept, and the case says so ([`ReadLines::may_lack_its_end`]). So was a bad last
/// record with an end that has fewer fields than the one before: who shows a log to others cuts it anywhere.
pub fn each_line(
    source: &Source,
    sink: &mut Sink,
    each: impl FnMut(Line<'_>, &mut Sink) -> Result<(), RecordError>,
) -> Result<(), ImportError> {
    read_lines(source, sink, &mut EachLine(each))
}

/// Who reads lines. Most formats look at one after the other ([`each_line`]).
pub trait ReadLines {
    /// Reads a line.
    fn line(&mut self, line: Line<'_>, sink: &mut Sink) -> Result<(), RecordError>;

    /// Whether a table's last line may have no end, as it may in CSV (RFC 4180). Tools that write a log end every line.
    fn may_lack_its_end(&self) -> bool {
        false
    }

    /// Whether lines of several hosts are kept apart ([`Line::host`]). Else they are refused: a table would be of all of them.
    fn keeps_hosts_apart(&self) -> bool {
        false
    }

    /// Reads from the begin of `text`, which ends with a line, as many lines as need no closer look, all at once: how many they were, and
    /// their bytes. [`ReadLines::line`] gets the next one.
    fn plain_lines(&mut self, _text: &[u8], _sink: &mut Sink) -> Result<(u64, usize), ImportError> {
        Ok((0, 0))
    }
}

struct EachLine<F>(F);

impl<F: FnMut(Line<'_>, &mut Sink) -> Result<(), RecordError>> ReadLines for EachLine<F> {
    fn line(&mut self, line: Line<'_>, sink: &mut Sink) -> Result<(), RecordError> {
        self.0(line, sink)
    }
}

/// [`each_line`] for who keeps lines of several hosts apart.
pub fn each_line_of_hosts(
    source: &Source,
    sink: &mut Sink,
    each: impl FnMut(Line<'_>, &mut Sink) -> Result<(), RecordError>,
) -> Result<(), ImportError> {
    read_lines(source, sink, &mut EachLineOfHosts(EachLine(each)))
}

struct EachLineOfHosts<F>(EachLine<F>);

impl<F: FnMut(Line<'_>, &mut Sink) -> Result<(), RecordError>> ReadLines for EachLineOfHosts<F> {
    fn line(&mut self, line: Line<'_>, sink: &mut Sink) -> Result<(), RecordError> {
        self.0.line(line, sink)
    }

    fn keeps_hosts_apart(&self) -> bool {
        true
    }
}

/// [`each_line`] for who can read many lines at once.
pub fn read_lines(source: &Source, sink: &mut Sink, reader: &mut impl ReadLines) -> Result<(), ImportError> {
    for path in &source.files {
        read_lines_of(path, sink, reader)?;
    }
    Ok(())
}

fn read_lines_of(path: &Path, sink: &mut Sink, reader: &mut impl ReadLines) -> Result<(), ImportError> {
    let mut lines = Lines::open(path)?;
    let (mut told, mut before) = (0, sink.bytes_done());
    let prefix = prefix::of(path);
    let (mut cut_out, mut beside): (Option<Passed>, Option<Passed>) = (None, None);
    let (mut is_begun, mut page) = (false, Page::default());
    let mut of_host: Option<String> = None;
    // The last line that was read, and whether it is directly above the one at hand.
    let (mut above, mut is_directly) = (String::new(), false);
    // A bad line that is short: it was cut off, if no record follows.
    let mut short: Option<(String, Bad)> = None;
    // Lines without a number below an empty one: text, if no record follows.
    let (mut below, mut is_below_empty) = (Below::default(), false);
    loop {
        if prefix.is_none() {
            let (plain, used) = reader.plain_lines(lines.whole(), sink)?;
            if plain > 0 {
                is_begun = true;
                above = last_line(&lines.whole()[..used]).into_owned();
                settle(&mut short, path, sink)?;
                below.settle(path, sink)?;
                is_below_empty = false;
            }
            lines.pass(plain, used);
        }
        if !lines.next_line()? {
            break;
        }
        let Some(shown) = shown(lines.line()) else {
            continue;
        };
        // Marks of a page may be quoted, too: what is in front of them is passed over first.
        let decoded = prefix.and_then(|prefix| prefix.decoded(&shown));
        let line = behind(prefix, decoded.as_deref().unwrap_or(&shown));
        let was_directly = std::mem::take(&mut is_directly);
        let was_below_empty = std::mem::replace(&mut is_below_empty, line.text.trim().is_empty());
        match page.mark(line.text, if was_directly { &above } else { "" }) {
            // What stood there has ended, as with an empty line: a table does not go on behind it. Of a page that is there in part, so may a fence say
            // that seems to begin something.
            Some(_) => {
                let end = Line { text: "", ..line };
                match reader.line(end, sink) {
                    Err(RecordError::Fatal(error)) => return Err(error),
                    Err(RecordError::Bad(_)) | Ok(()) => continue,
                }
            }
            None if page.is_between() => {
                if !line.text.trim().is_empty() {
                    Passed::count(&mut beside, &lines);
                }
                continue;
            }
            None => {}
        }
        if is_cut_out(line.text) {
            Passed::count(&mut cut_out, &lines);
            is_directly = was_directly;
            continue;
        }
        let done = match lines.is_in_doubt && !reader.may_lack_its_end() {
            true => Err(Bad::new("", "the end of a line", &String::from_utf8_lossy(lines.line())).into()),
            false => reader.line(line, sink),
        };
        match done {
            Err(RecordError::Bad(_)) if of_shell(line.text.as_bytes()) => {}
            Err(RecordError::Bad(_))
                if !is_begun && (is_prose(line.text) || is_heading(line.text) || is_command(line.text))
                    || !lines.is_cut && is_aside(line.text) =>
            {
                Passed::count(&mut beside, &lines)
            }
            Ok(()) if lines.is_in_doubt => sink.in_doubt(path, &lines.place(), lines.line()),
            Ok(()) if line.text.trim_ascii().is_empty() => {}
            Ok(()) => {
                settle(&mut short, path, sink)?;
                below.settle(path, sink)?;
                (is_begun, is_directly) = (true, true);
                line.text.clone_into(&mut above);
                if let Some(host) = line.host.filter(|_| !reader.keeps_hosts_apart()) {
                    let first = of_host.get_or_insert_with(|| host.to_owned());
                    if first != host {
                        let pattern = prefix.map_or(String::new(), |prefix| prefix.pattern(first));
                        return Err(of_several_hosts(path, &lines.place(), (first, host), &pattern));
                    }
                }
            }
            Err(RecordError::Fatal(error)) => return Err(error),
            Err(RecordError::Bad(bad))
                if !lines.is_cut
                    && is_begun
                    && !has_digit(line.text)
                    && (below.has_begun() || was_below_empty || is_end_of_page(line.text)) =>
            {
                below.add(&lines, bad, path, sink)?;
            }
            Err(RecordError::Bad(bad)) => {
                settle(&mut short, path, sink)?;
                below.settle(path, sink)?;
                if lines.is_cut {
                    sink.cut(path, &lines.place(), &bad);
                } else if is_begin_of_row(line.text, &above) {
                    short = Some((lines.place(), bad));
                } else {
                    bad_record(path, &lines.place(), bad, sink)?;
                }
            }
        }
        if lines.bytes != told {
            before += lines.bytes - told;
            told = lines.bytes;
            sink.progress(before);
        }
    }
    if let Some((place, bad)) = short {
        sink.cut(path, &place, &bad);
    }
    below.pass(&mut beside);
    if let Some(passed) = cut_out {
        let places = counted(passed.count, "place");
        sink.missing(
            format!("what somebody cut out of {} in {places}", path.display()),
            format!("the first is {}", passed.first),
        );
    }
    if let Some(passed) = beside {
        sink.unseen(
            format!(
                "what {} around the records of {} {}",
                counted(passed.count, "line"),
                path.display(),
                if passed.count == 1 { "says" } else { "say" }
            ),
            format!("{TEXT_ASIDE} (from {} on: '{}')", passed.first, passed.begin),
        );
    }
    Ok(())
}

/// Lines behind the last record so far that may be text: what somebody says below a log is short, too ("Thanks").
#[derive(Default)]
struct Below {
    lines: Vec<(String, Bad)>,
    passed: Option<Passed>,
}

/// More lines than somebody writes below a log.
const LINES_BELOW_MAX: usize = 200;

impl Below {
    fn has_begun(&self) -> bool {
        !self.lines.is_empty()
    }

    /// One more, the line at hand.
    fn add(&mut self, lines: &Lines<'_>, bad: Bad, path: &Path, sink: &mut Sink) -> Result<(), ImportError> {
        Passed::count(&mut self.passed, lines);
        self.lines.push((lines.place(), bad));
        match self.lines.len() > LINES_BELOW_MAX {
            true => self.settle(path, sink),
            false => Ok(()),
        }
    }

    /// They are bad records: others follow.
    fn settle(&mut self, path: &Path, sink: &mut Sink) -> Result<(), ImportError> {
        self.passed = None;
        let mut all = std::mem::take(&mut self.lines).into_iter();
        all.try_for_each(|(place, bad)| bad_record(path, &place, bad, sink))
    }

    /// They are text: the file has ended.
    fn pass(self, beside: &mut Option<Passed>) {
        if let Some(passed) = self.passed {
            beside.get_or_insert(Passed { count: 0, ..passed }).count += self.lines.len() as u64;
        }
    }
}

/// Whether a line is of tags alone, each of which ends something: `</pre></body></html>`.
fn is_end_of_page(line: &str) -> bool {
    let line = line.trim();
    line.ends_with('>') && line.split('<').skip(1).all(|tag| tag.starts_with('/')) && line.starts_with('<')
}

/// A short line is a bad record where others follow.
fn settle(short: &mut Option<(String, Bad)>, path: &Path, sink: &mut Sink) -> Result<(), ImportError> {
    short
        .take()
        .map_or(Ok(()), |(place, bad)| bad_record(path, &place, bad, sink))
}

fn fields(line: &str) -> usize {
    let all = line.split(|letter: char| letter.is_whitespace() || letter == ',');
    all.filter(|field| !field.is_empty()).count()
}

/// Whether a line may be what is left of a row like the one above it: it has fewer fields, and begins with a digit if that does.
fn is_begin_of_row(line: &str, above: &str) -> bool {
    let begins = |line: &str| {
        line.trim_start()
            .starts_with(|letter: char| letter.is_ascii_digit())
    };
    fields(line) < fields(above) && begins(line) == begins(above)
}

/// The last of whole lines.
fn last_line(lines: &[u8]) -> Cow<'_, str> {
    let lines = lines.strip_suffix(b"\n").unwrap_or(lines);
    let begin = lines
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |at| at + 1);
    String::from_utf8_lossy(&lines[begin..])
}

/// Lines that were passed over.
struct Passed {
    /// Where the first is, and how it begins.
    first: String,
    begin: String,
    count: u64,
}

impl Passed {
    /// One more, the line at hand.
    fn count(passed: &mut Option<Passed>, lines: &Lines<'_>) {
        let first = || Passed {
            first: lines.place(),
            begin: String::from_utf8_lossy(lines.line())
                .trim()
                .chars()
                .take(40)
                .collect(),
            count: 0,
        };
        passed.get_or_insert_with(first).count += 1;
    }
}

fn behind(prefix: Option<prefix::Prefix>, line: &str) -> Line<'_> {
    match prefix.and_then(|prefix| prefix.split(line)) {
        // It was decoded.
        Some(_) if matches!(prefix, Some(prefix::Prefix::Text | prefix::Prefix::Member)) => Line {
            text: line,
            moment: None,
            host: None,
        },
        Some((moment, text)) => Line {
            text,
            moment,
            host: prefix.and_then(|prefix| prefix.host(line)),
        },
        None => Line {
            text: line,
            moment: None,
            host: None,
        },
    }
}

fn of_several_hosts(path: &Path, at: &str, (first, host): (&str, &str), pattern: &str) -> ImportError {
    ImportError::content(
        path,
        at,
        format!("lines of one host, {first}, as those before"),
        format!("one of {host}"),
        format!("import each host by itself: grep '{pattern}' FILE | whodisk import -"),
    )
}

/// A line as text, without what a terminal was told; None: there is nothing else in it. Names of programs and files may be any bytes.
fn shown(line: &[u8]) -> Option<Cow<'_, str>> {
    let text = String::from_utf8_lossy(line);
    match of_terminal(&text) {
        true => without_terminal(&text).map(Cow::Owned),
        false => Some(text),
    }
}

/// What a line of a page marks.
#[derive(Debug, PartialEq)]
enum Mark {
    /// From here on there is what a program printed.
    Begin,
    /// The page goes on.
    End,
}

/// A page around a log: what programs printed stands between fences (Markdown: https://spec.commonmark.org/0.31.2/#fenced-code-blocks) or tags (HTML).
#[derive(Default)]
struct Page {
    /// The letter and the length of the fence that is open; a tag's is `<`.
    open: Option<(u8, usize)>,
    has_marks: bool,
}

impl Page {
    /// Whether the lines at hand are the page's own.
    fn is_between(&self) -> bool {
        self.has_marks && self.open.is_none()
    }

    /// `above`: the line directly above it, if that was read.
    fn mark(&mut self, line: &str, above: &str) -> Option<Mark> {
        let line = line.trim();
        let letter = *line.as_bytes().first()?;
        let mark = match letter {
            b'`' | b'~' => self.fence(letter, line, above),
            b'<' | b'[' => self.tag(line),
            _ => None,
        };
        self.has_marks |= mark.is_some();
        mark
    }

    /// A fence with a language behind it can only begin: if one is open, that was the end of text of which the begin is not in the file. So is a page's
    /// first one without, directly behind a row. Within one, shorter ones and those of the other letter are text.
    fn fence(&mut self, letter: u8, line: &str, above: &str) -> Option<Mark> {
        let length = line.bytes().take_while(|byte| *byte == letter).count();
        let is_bare = line.len() == length;
        if length < 3 || letter == b'`' && line[length..].contains('`') {
            return None;
        }
        match self.open {
            Some((open, least)) if is_bare && open == letter && length >= least => {
                self.open = None;
                Some(Mark::End)
            }
            Some(_) if is_bare => None,
            None if is_bare && !self.has_marks && is_like_row(above) => Some(Mark::End),
            _ => {
                self.open = Some((letter, length));
                Some(Mark::Begin)
            }
        }
    }

    /// `<pre class="file">`, `</code></pre>`, `[code]`, with nothing else in the line. Between fences they are text.
    fn tag(&mut self, line: &str) -> Option<Mark> {
        let mut rest = line;
        let mut is_end = false;
        while !rest.is_empty() {
            let (inside, behind) = rest.strip_prefix(['<', '['])?.split_once(['>', ']'])?;
            let name = inside.trim_start_matches('/').split([' ', '=']).next()?;
            if !["pre", "code"]
                .iter()
                .any(|known| name.eq_ignore_ascii_case(known))
            {
                return None;
            }
            is_end = inside.starts_with('/');
            rest = behind.trim_start();
        }
        if self.open.is_some_and(|(open, _)| open != b'<') {
            return None;
        }
        self.open = (!is_end).then_some((b'<', 0));
        Some(if is_end { Mark::End } else { Mark::Begin })
    }
}

/// Whether a line is a command or a sentence: two words of letters at least, and more of them than of others with a digit.
pub fn is_prose(line: &str) -> bool {
    let words = words(line).filter(|word| is_of_letters(word)).count();
    words > 1 && words > line.split_whitespace().filter(|word| has_digit(word)).count()
}

/// Whether a line is what stands above a log: words of letters, and a colon behind them (`Output:`).
fn is_heading(line: &str) -> bool {
    let line = line.trim();
    let Some(words) = line.strip_suffix(':') else {
        return false;
    };
    !words.is_empty() && words.split_whitespace().all(is_of_letters)
}

/// Whether a line behind records, or between them, is nothing of a log: it is drawn, or what somebody says of the records, a sentence that begins with
/// a word and has hardly a number. Whatever is left of a record that is damaged begins with a number or has more of them, and a table's columns stand apart.
pub fn is_aside(line: &str) -> bool {
    let line = line.trim();
    if line.chars().all(|letter| "-=*_~+#.:`^ ".contains(letter)) {
        return true;
    }
    // What a program says of what it lost is no remark, even where its count is damaged.
    if ["lost ", "Lost ", "Possibly lost "]
        .iter()
        .any(|begin| line.starts_with(begin))
    {
        return false;
    }
    let numbers = line.split_whitespace().filter(|word| has_digit(word)).count();
    if is_in_script_without_blanks(line, numbers) {
        return true;
    }
    let mut spoken = words(line).filter(|word| word.contains(char::is_alphanumeric));
    let begins = spoken.next().is_some_and(|word| {
        let word = word.trim_start_matches(['"', '\'', '(', '*', '_', '`']);
        let word = word.trim_end_matches(|letter: char| letter.is_ascii_punctuation());
        word.chars()
            .all(|letter| letter.is_alphabetic() || matches!(letter, '\'' | '/' | '-'))
    });
    let of_letters = words(line).filter(|word| is_of_letters(word)).count();
    begins && of_letters > 2 && of_letters >= 3 * numbers && !is_of_columns(line)
}

/// Whether a line is a sentence of Chinese, Japanese or the like, in which names of programs and calls may stand, also first: it has many such letters for
/// each number, no columns, and no call (`read(3`), of which a name of a file may have such letters, too.
fn is_in_script_without_blanks(line: &str, numbers: usize) -> bool {
    let is_written = |letter: &char| matches!(letter, '\u{e00}'..='\u{eff}' | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}');
    let written = line.chars().filter(is_written).count();
    let is_call = |(at, _): (usize, &str)| {
        line[..at].ends_with(|letter: char| letter.is_ascii_alphanumeric() || letter == '_')
    };
    written > 3 && written >= 4 * numbers && !line.match_indices('(').any(is_call) && !is_of_columns(line)
}

/// Whether a line that was read may be a row: some formats read any line, and a sentence in front of a fence is none.
fn is_like_row(line: &str) -> bool {
    let numbers = line.split_whitespace().filter(|word| has_digit(word)).count();
    numbers > 2 && !line.ends_with(':')
}

/// Whether words stand apart as a table's do: by several blanks (behind a sentence there may be two), or by what is between cells, or a name and its value.
fn is_of_columns(line: &str) -> bool {
    let is_apart = |(at, _): (usize, &str)| !line[..at].ends_with(['.', ':', '!', '?', ' ']);
    let is_cell = |cell: &str| cell.starts_with(|letter: char| !letter.is_whitespace());
    line.contains(['\t', ';', '|'])
        || line.contains(" = ")
        || line.match_indices("  ").any(is_apart)
        || line.split(',').skip(1).any(is_cell)
}

/// What stands between blanks; in scripts without them, between their marks.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|letter: char| letter.is_whitespace() || !letter.is_ascii() && !letter.is_alphanumeric())
        .filter(|word| !word.is_empty())
}

fn is_of_letters(word: &str) -> bool {
    let word = word.trim_matches(|letter: char| letter.is_ascii_punctuation());
    word.chars().count() > 1 && word.chars().all(char::is_alphabetic)
}

fn has_digit(word: &str) -> bool {
    word.contains(|letter: char| letter.is_ascii_digit())
}

/// Words of who leaves lines out.
const LEFT_OUT: [&str; 8] = [
    "snip",
    "snipped",
    "cut",
    "omitted",
    "abridged",
    "truncated",
    "skipped",
    "elided",
];

/// Whether a line is `[...]`, `<< OUTPUT ABRIDGED >>` or the like: who shows a log to others leaves lines out.
fn is_cut_out(line: &str) -> bool {
    let line = line.trim();
    let begins = line.starts_with(['[', '<', '.', '\u{2026}']);
    if !begins || line.len() > 80 {
        return begins && line.bytes().all(|byte| byte == b'.');
    }
    let inside = line.trim_matches(['[', ']', '<', '>']).trim();
    let is_dotted =
        |text: &str| text == "\u{2026}" || text.len() > 1 && text.bytes().all(|byte| byte == b'.');
    if is_dotted(inside) {
        return true;
    }
    let mut is_said = false;
    let mut words = inside.split_whitespace();
    let are_words = words.all(|word| {
        let word = word.trim_matches(|letter: char| letter.is_ascii_punctuation());
        is_said |= LEFT_OUT.iter().any(|known| word.eq_ignore_ascii_case(known));
        word.chars().all(char::is_alphanumeric)
    });
    are_words && is_said && line.ends_with(['>', ']', '.', '\u{2026}'])
}

/// Whether a line that is no record is of the shell that ran the tool: its prompt with a command (or without, at the end), or what `sudo` and
/// `script` print.
pub fn of_shell(line: &[u8]) -> bool {
    let line = String::from_utf8_lossy(line);
    let plain = line.trim();
    let is_prompt =
        |mark: &str| plain == mark || plain.strip_prefix(mark).is_some_and(|rest| rest.starts_with(' '));
    let (first, _) = plain.split_once(char::is_whitespace).unwrap_or((plain, ""));
    if ["$", "#", ">", "%"].into_iter().any(is_prompt)
        || !first.is_empty() && first.chars().all(is_of_prompt)
        || plain.contains(" \u{276f} ")
        || plain.contains("\u{276f}\u{276f} ")
    {
        return true;
    }
    if ["[sudo] ", "Script started", "Script done", "PS "]
        .iter()
        .any(|begin| plain.starts_with(begin))
    {
        return !plain.starts_with("PS ") || plain.contains('>');
    }
    // `user@host:folder$ `, `[user@host folder]# `, `bash-5.2$ `
    let Some(end) = plain.find(['$', '#', '%']) else {
        return false;
    };
    let (before, after) = (&plain[..end], &plain[end + 1..]);
    let is_name = |name: &str| {
        let name = name.trim_start_matches('[');
        !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    let is_host = before.split_once('@').is_some_and(|(user, _)| is_name(user));
    let is_shell = ["sh-", "bash-", "zsh-"]
        .iter()
        .any(|shell| before.starts_with(shell));
    // `~/logs $ `, `/var/log# `
    let is_folder = before.starts_with(['~', '/']) && !before.trim_end().contains(char::is_whitespace);
    (is_host || is_shell || is_folder) && (after.is_empty() || after.starts_with(' '))
}

/// Whether a line is a command without a prompt: a program's name, and an option among what follows.
pub fn is_command(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let is_program = words.next().is_some_and(|word| {
        let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-~".contains(&byte);
        word.starts_with(|letter: char| letter.is_ascii_lowercase() || "/.~".contains(letter))
            && word.contains(|letter: char| letter.is_ascii_lowercase())
            && word.bytes().all(is_of_name)
    });
    let is_option = |word: &str| {
        let name = word.strip_prefix("--").or_else(|| word.strip_prefix('-'));
        name.is_some_and(|name| name.starts_with(|letter: char| letter.is_ascii_alphabetic()))
    };
    is_program && words.any(is_option)
}

/// Whether a letter is one that a shell's theme puts in front of a command, and no program in front of a record: an arrow, or a picture.
fn is_of_prompt(letter: char) -> bool {
    let is_picture = matches!(letter, '\u{1f300}'..='\u{1faff}' | '\u{26a1}' | '\u{fe0f}');
    is_picture || "\u{276f}\u{279c}\u{2192}\u{bb}\u{203a}\u{25b6}\u{3bb}".contains(letter)
}

/// Whether a line holds what a terminal was told, or echoed.
fn of_terminal(line: &str) -> bool {
    line.starts_with("^C") || line.as_bytes().contains(&ESCAPE)
}

const ESCAPE: u8 = 0x1b;

/// A line without colours, and without the echo of an interrupt, which stands at its begin; None if that is all of it.
fn without_terminal(line: &str) -> Option<String> {
    let plain = without_colours(line);
    match plain.strip_prefix("^C") {
        Some(rest) => Some(rest.to_owned()).filter(|rest| !rest.trim().is_empty()),
        None => Some(plain),
    }
}

/// Text without what switches colours (and other commands to a terminal that begin with an escape).
pub fn without_colours(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter != char::from(ESCAPE) {
            plain.push(letter);
            continue;
        }
        match letters.next() {
            // A command's numbers go on until its letter.
            Some('[') => while letters.next().is_some_and(|letter| matches!(letter, ' '..='?')) {},
            // A set of letters is named.
            Some('(' | ')') => {
                letters.next();
            }
            _ => {}
        }
    }
    plain
}

/// What becomes of a bad record: an error, or left out and counted.
pub fn bad_record(path: &Path, at: &str, bad: Bad, sink: &mut Sink) -> Result<(), ImportError> {
    let at = match (at, bad.part.as_ref()) {
        (_, "") => at.to_owned(),
        ("", part) => part.to_owned(),
        (_, part) => format!("{at}, {part}"),
    };
    if sink.keeps_going() {
        sink.left_out(path, &at, &bad);
        return Ok(());
    }
    let hint = "correct it, say what the file is with --as, or leave such records out with --keep-going";
    Err(ImportError::content(path, at, bad.expected, bad.found, hint))
}

/// The whole text of a file that is one document. Bytes that are no UTF-8 are replaced.
pub fn document(path: &Path, sink: &mut Sink) -> Result<String, ImportError> {
    let mut bytes = Vec::new();
    open_text(path)?
        .take(DOCUMENT_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| ImportError::io(path, "read", e))?;
    if bytes.len() as u64 > DOCUMENT_BYTES_MAX {
        let expected = format!("a document of at most {DOCUMENT_BYTES_MAX} bytes");
        let found = "more";
        return Err(ImportError::content(
            path,
            "length",
            expected,
            found,
            "split the file",
        ));
    }
    sink.progress(sink.bytes_done() + bytes.len() as u64);
    let text =
        String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned());
    let text = match text.contains("\u{1b}[") {
        true => without_colours(&text),
        false => text,
    };
    Ok(match prefix::of(path) {
        Some(prefix) => prefix::without(prefix, &text),
        None => text,
    })
}

/// The documents of a file of JSON, in their order.
pub struct Documents {
    path: PathBuf,
    /// One at least.
    pub all: Vec<serde_json::Value>,
    /// Where the file ends inside the last one.
    cut_at: Option<String>,
}

impl Documents {
    /// What becomes of a document without what every document of its format has: it is a bad record. If it is the last one, and the file's end
    /// cut it off, those before it are kept.
    pub fn lacks(&self, number: usize, mut bad: Bad, sink: &mut Sink) -> Result<(), ImportError> {
        let cut_at = self.cut_at.as_ref().filter(|_| number + 1 == self.all.len());
        let at = match self.all.len() {
            1 => String::new(),
            _ => format!("document {}", number + 1),
        };
        match cut_at {
            Some(_) if number > 0 => Ok(()),
            Some(place) => {
                bad.found = format!("none before {place}, where the file is cut off");
                bad_record(&self.path, &at, bad, sink)
            }
            None => bad_record(&self.path, &at, bad, sink),
        }
    }
}

/// Parses a file's JSON: a document, or several of which one follows the other (a log that runs were appended to). What a killed program left
/// unfinished is closed, and the case says so. Anything before a brace is passed over: some tools print lines of text first.
pub fn json(path: &Path, sink: &mut Sink) -> Result<Documents, ImportError> {
    let text = document(path, sink)?;
    let (mut values, mut at) = (Vec::new(), 0);
    let of = |all, cut_at| Documents {
        path: path.to_owned(),
        all,
        cut_at,
    };
    while let Some(begin) = document_at(&text, at) {
        at = begin;
        let mut documents = serde_json::Deserializer::from_str(&text[at..]).into_iter();
        let error = match documents.next() {
            Some(Ok(value)) => {
                values.push(value);
                at += documents.byte_offset();
                continue;
            }
            Some(Err(error)) => error,
            None => break,
        };
        let place = match error.is_eof() {
            true => end_of(&text),
            false => {
                let lines_before = text[..at].matches('\n').count();
                format!("line {} column {}", lines_before + error.line(), error.column())
            }
        };
        let found = error.to_string();
        let bad = Bad::new("", "JSON", found.split(" at line ").next().unwrap_or(""));
        if error.is_eof() {
            if let Some(value) = closed(&text[at..]) {
                values.push(value);
                sink.cut(path, &place, &bad);
                return Ok(of(values, Some(place)));
            }
        }
        if !values.is_empty() {
            // What programs print behind their documents, or a document of which nothing is whole.
            sink.unseen(
                format!("what {} says from {place} on", path.display()),
                "it is no JSON",
            );
            return Ok(of(values, None));
        }
        let hint = "check that the file is whole";
        return Err(ImportError::content(path, place, bad.expected, bad.found, hint));
    }
    if values.is_empty() {
        let found = if text.trim().is_empty() {
            "an empty file"
        } else {
            "no brace"
        };
        return Err(ImportError::content(
            path,
            "byte 0",
            "JSON",
            found,
            "check the file",
        ));
    }
    Ok(of(values, None))
}

/// Where the next document begins: the first brace or bracket of all, or one that stands behind a document or at the begin of a line. Within other
/// text (fio's `99.00th=[ 14]` above its JSON) neither begins one.
fn document_at(text: &str, from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        let begin = at + text[at..].find(['{', '['])?;
        let before = text[from..begin].trim_end_matches(['\t', ' ', '\r', '\u{feff}']);
        if (before.is_empty() || before.ends_with('\n')) && begins_json(&text[begin..]) {
            return Some(begin);
        }
        at = begin + 1;
    }
}

/// Whether text that begins with a brace or a bracket may be JSON: a bracket may be that of a prompt, `[root@db ~]#`, or of a moment.
pub fn begins_json(text: &str) -> bool {
    match text.strip_prefix('[') {
        Some(rest) => matches!(
            rest.trim_start().chars().next(),
            None | Some('{' | '[' | '"' | ']')
        ),
        None => text.starts_with('{'),
    }
}

/// The last place of a text that is not blank.
fn end_of(text: &str) -> String {
    let text = text.trim_end();
    let line = text.rsplit('\n').next().unwrap_or("");
    format!(
        "line {} column {}",
        text.matches('\n').count() + 1,
        line.chars().count()
    )
}

/// JSON that ends too early, without what was begun last: cut after the last value that ended, and closed.
fn closed(text: &str) -> Option<serde_json::Value> {
    let (mut open, mut in_string, mut escaped) = (Vec::new(), false, false);
    // Where a value ended last, and what was open there.
    let mut good: Option<(usize, Vec<char>)> = None;
    for (at, byte) in text.char_indices() {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            '"' => in_string = true,
            '{' => open.push('}'),
            '[' => open.push(']'),
            '}' | ']' => {
                open.pop();
                good = Some((at + 1, open.clone()));
            }
            ',' => good = Some((at, open.clone())),
            _ => {}
        }
    }
    let (end, open) = good?;
    let mut whole = text[..end].to_owned();
    whole.extend(open.iter().rev());
    serde_json::from_str(&whole).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `then` makes of the documents of a file, or what is wrong.
    fn with_documents<T>(
        text: &str,
        then: impl FnOnce(Documents, &mut Sink) -> Result<T, ImportError>,
    ) -> Result<T, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.json");
        std::fs::write(&path, text).unwrap();
        let (mut names, mut silent) = (case::sealed::Names::default(), |_: u64| {});
        let mut sink = Sink::survey(&mut names, &mut silent, false);
        json(&path, &mut sink)
            .and_then(|documents| then(documents, &mut sink))
            .map_err(|e| e.to_string())
    }

    #[test]
    fn what_a_shell_prints_is_no_record() {
        for line in [
            "$ strace -T -ttt -f ./a",
            "# ./biosnoop",
            "root@db1:/var/lib# ext4slower 1",
            "[root@db1 ~]# ",
            "[root@db1 ~]#",
            "bash-5.2$ iostat -x 1",
            "[sudo] password for me: ",
            "Script started on 2026-11-27 10:00:00+00:00",
            "PS C:\\> whodisk",
            "~ \u{276f}\u{276f}\u{276f} sudo btrace /dev/sda",
            "\u{276f} cat /proc/diskstats",
            "\u{279c}  ~ cat /proc/diskstats",
            "\u{1f9c0}  cat /proc/diskstats",
            "~/logs $ iostat -x 1",
            "/var/log# iostat",
        ] {
            assert!(of_shell(line.as_bytes()), "{line}");
        }
        for line in [
            "",
            "0.1 a@b 1",
            "sda$ 1",
            "a@b:c 1 $5",
            "#1",
            "513, 0, 4096",
            "\u{2502} 1",
            "/dev/sda 1 $5",
        ] {
            assert!(!of_shell(line.as_bytes()), "{line}");
        }
        for line in ["pgbench --log test", "./fio -v", "sudo strace -f -p 7"] {
            assert!(is_command(line), "{line}");
        }
        for line in [
            "sda - 1 -2",
            "8,0 -a",
            "iostat",
            "COMM -x",
            "read(3, -x)",
            "a=b -c",
        ] {
            assert!(!is_command(line), "{line}");
        }
        for line in [
            "[...]",
            "...",
            "................................",
            " [ ... ] ",
            "\u{2026}",
            "<snip>",
            "<< OUTPUT ABRIDGED >>",
            "[... 200 lines omitted ...]",
        ] {
            assert!(is_cut_out(line), "{line}");
        }
        for line in [
            "",
            ".",
            "[]",
            "[0]",
            "....a",
            "cut",
            " cut",
            "<idle>",
            "<... truncate resumed>",
            "[cut, 1",
        ] {
            assert!(!is_cut_out(line), "{line}");
        }
        assert!(
            begins_json("[\n{") && begins_json("{") && !begins_json("[root@db1") && !begins_json("[2026")
        );
    }

    #[test]
    fn text_above_records_is_passed_over_and_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let source = Source {
                files: vec![path.clone()],
                map: None,
                device: None,
            };
            let (mut names, mut silent) = (case::sealed::Names::default(), |_: u64| {});
            let mut sink = Sink::survey(&mut names, &mut silent, false);
            let mut seen = 0;
            let done = each_line(&source, &mut sink, |line, _| {
                seen += u32::from(!line.text.is_empty());
                let is_record = line.text.is_empty()
                    || line.text.starts_with(|digit: char| digit.is_ascii_digit()) && line.text.contains(' ');
                is_record
                    .then_some(())
                    .ok_or_else(|| Bad::new("", "a number", line.text).into())
            });
            let unseen: Vec<String> = sink
                .finish()
                .not_observed
                .iter()
                .map(|unseen| format!("{}: {}", unseen.what, unseen.because))
                .collect();
            done.map(|()| unseen.join("\n"))
                .map_err(|error| error.to_string())
        };
        let said =
            read("\nThis is what we see:\nsudo blkparse -i sde.blktrace.25\n```\n1 a\n2 b\n```\n").unwrap();
        assert!(said.contains("what 2 lines around the records of"), "{said}");
        assert!(said.contains("from line 2 on: 'This is what we see:'"), "{said}");
        assert_eq!(read("1 a\n2 b\n").unwrap(), "");
        let said = read("```\n1 a\n```\nand then\n```\n2 b\n```\n9 the end\n").unwrap();
        assert!(
            said.contains("what 2 lines around") && said.contains("log say: "),
            "{said}"
        );
        let said = read("<pre>\n1 a\n</pre>\nthe end\n").unwrap();
        assert!(
            said.contains("what 1 line around") && said.contains("log says: "),
            "{said}"
        );
        // An excerpt that begins between fences, with the place where somebody cut.
        let fenced = "1 1 1\n...\n```\n\n| c | what |\n9 the end\n```\n2 b\n";
        let said = read(fenced).unwrap();
        assert!(
            said.contains("what 2 lines around") && said.contains("line 5"),
            "{said}"
        );
        // Records may stand above a fence.
        let said = read("1 a\n\nand then we did:\n```\n2 2 2\n```\nx 1\n").unwrap();
        assert!(said.contains("what 2 lines around"), "{said}");
        // So is text behind records, and between them.
        let said = read("1 a\nsome words here\n2 b\n\nThis shows it.\n").unwrap();
        assert!(
            said.contains("what 2 lines around") && said.contains("from line 2 on: 'some words here'"),
            "{said}"
        );
        // A heading above, and a few words below.
        for text in [
            "Output:\n1 a\n2 b\n",
            "Output:\n```text\n1 a\n```\n",
            "1 a\n\nAny idea?\n",
            "1 a\n\n\n</pre></body></html>\n",
            "1 a\n</pre></body></html>\n",
        ] {
            let said = read(text).unwrap();
            assert!(said.contains("what 1 line around"), "{text} {said}");
        }
        let said = read("1 a\n\nAny idea?\nThanks\n\nJo\n").unwrap();
        assert!(
            said.contains("what 3 lines around") && said.contains("line 3 on: 'Any idea?'"),
            "{said}"
        );
        // Not if a record follows, or another that is broken.
        for text in ["1 a\n\nJo\n2 b\n", "1 a\n\nJo\nx1 7\n"] {
            assert!(read(text).unwrap_err().contains("line 3"), "{text}");
        }
        // A record that is broken is told, wherever it is.
        assert!(read("x1 7\n2 b\n")
            .unwrap_err()
            .contains("line 1: expected a number, found 'x1 7'"));
        assert!(read("1 a\nx1 7\n").unwrap_err().contains("line 2"));
        // What was cut off, and what stands below it, is said.
        for end in ["3\n", "3\n\n", "3\n```\n", "3\n\nThis shows it.\n", "3\n$ \n"] {
            let said = read(&format!("1 a\n2 b\n{end}")).unwrap();
            assert!(said.is_empty() || said.contains("what 1 line around"), "{said}");
        }
        for damaged in ["1 a\n3\n2 b\n", "1 a\n3\nx1 7\n"] {
            assert!(read(damaged).unwrap_err().contains("line 2"), "{damaged}");
        }
        assert!(read("3\n").is_err() && read("1 a\nx\n").is_err());
        // What may go on is cut off, as a record is.
        assert_eq!(read("1 a\nThis shows it.").unwrap(), "");
        for line in [
            "",
            "abc",
            "x, 250",
            "sda 1 2 3",
            "259,0 Q R 1",
            "- - - -",
            "a b c",
        ] {
            assert!(!is_prose(line), "{line}");
        }
    }

    #[test]
    fn lines_of_several_hosts_are_not_read_as_one_log() {
        let progress = |host: &str, second: u32| {
            format!("{host}: progress: {second}.0 s, 9.0 tps, lat 1.000 ms stddev 0.100, 0 failed\n")
        };
        let import = |text: &str| crate::testing::import(&crate::formats::pgbench::FORMAT, text);
        let one = progress("db1", 1) + &progress("db1", 2);
        assert_eq!(import(&one).unwrap().records, 2);
        let said = import(&(one + &progress("db2", 1))).unwrap_err().to_string();
        let expected = "log: line 3: expected lines of one host, db1, as those before, found one of db2; import each host by itself: grep '^db1: '";
        assert!(said.contains(expected), "{said}");
        assert_eq!(
            import(&(progress("stdout", 1) + &progress("stderr", 2)))
                .unwrap()
                .records,
            2
        );
    }

    #[test]
    fn what_somebody_says_is_told_from_what_is_left_of_a_record() {
        for line in [
            "This shows it.",
            "This output shows Java with PID 5136 doing reads to different disks. There were six of around 15 milliseconds.",
            "I just noticed that this trace doesn't show the 0+8 that I saw when I",
            "  - Indicate the number of transfers.  It counts all.",
 " * ",
            "`",
            "            ~~ ^ ~",
            "* `biolatency` without queueing time (below 1 ms) of the disk:",
            " * rrqm/s : The number of read requests merged per second",
            "Here's what sda, sdb and others do",
            "epoll_pwait\u{3001}read\u{3001}write \u{8fd9}\u{4e9b}\u{7cfb}\u{7edf}\u{8c03}\u{7528}\u{90fd}\u{6bd4}\u{8f83}\u{9891}\u{7e41} fdatasync",
            "\u{8bf7}\u{6ce8}\u{610f}\u{ff0c}\u{867d}\u{7136}\u{666e}\u{901a}\u{ff08}\u{672a}\u{805a}\u{5408}\u{ff09}\u{65e5}\u{5fd7}",
        ] {
            assert!(is_aside(line), "{line}");
        }
        for line in [
            "1. tps",
            "It ended.",
            // Records without what was wrong in them.
            "06:35:01 cron job of mine R 1249 0 - common-auth",
            "my worker thread pool 123 sda R 999 4096 x",
            "openat(AT_FDCWD, \"/a file of mine\", O_RDONLY) = -1 ENOENT (No such file or directory) <0.1>",
            "[pid 7] read resumed of some file",
            "x x openat(AT_FDCWD, \"/a\", O_RDONLY) = -x ENOENT (No such file or directory) <x>",
            "lost x events on CPU #1",
            ", , ,",
            "->  :  |   |",
            "0.5 tokio runtime worker sda R",
            "openat(AT_FDCWD, \"/\u{65e5}\u{5fd7}\u{6587}\u{4ef6}\", O_RDONLY) = x",
            "06:35:01 cron 7 R 1249 0 - \u{65e5}\u{5fd7}\u{6587}\u{4ef6}",
            // Columns, and cells.
            "Time   Device   Latency   Size",
            "some long name,read,other words here",
            "some;long;name of mine here",
        ] {
            assert!(!is_aside(line), "{line}");
        }
    }

    #[test]
    fn what_a_page_marks_is_no_record() {
        use Mark::{Begin, End};
        let of = |text: &str| -> Vec<Mark> {
            let mut page = Page::default();
            text.lines().filter_map(|line| page.mark(line, "")).collect()
        };
        assert_eq!(
            of("```text\n1\n```\nand\n  ~~~\n2\n~~~~\n"),
            [Begin, End, Begin, End]
        );
        // The begin of the first is not in the file.
        assert_eq!(of("1\n```\n```ruby\n2\n```\n"), [Begin, Begin, End]);
        // Text between fences may hold others.
        assert_eq!(of("````\n```\n~~~\n<pre>\n````\n"), [Begin, End]);
        assert_eq!(
            of("<pre class=\"file\"><code>\n1\n</code></pre>\n[code]\n[/code]\n"),
            [Begin, End, Begin, End]
        );
        for line in [
            "`` `",
            "```a``` b",
            "<prefix>",
            "[pre",
            "<>",
            "[",
            "<pre>1",
            "<pre>\u{e9}",
            "[READ], 1",
        ] {
            assert_eq!(Page::default().mark(line, "1 2 3"), None, "{line}");
        }
    }

    #[test]
    fn documents_that_follow_each_other_are_read() {
        let read = |text: &str| with_documents(text, |documents, _| Ok(documents.all));
        assert_eq!(read("\u{1b}[1m{\u{1b}[0m\"a\": 1}").unwrap().len(), 1);
        assert_eq!(read("fio: warning\n{\"a\": 1}\n\n{\"a\": 2}\n").unwrap().len(), 2);
        assert_eq!(read("{\"a\": 1}\nfio: done").unwrap().len(), 1);
        assert_eq!(read("{\"a\": 1}{\"a\": 2} {\"a\": 3}").unwrap().len(), 3);
        // --output-format=normal,json
        let normal = read("job: err= 0\n  | 99.00th=[   14], 99.50th=[   15]\n\n{\n  \"a\": 1\n}\n").unwrap();
        assert!(normal.len() == 1 && normal[0]["a"] == 1);
        assert_eq!(
            read("{\"a\": 1}\n{\"a\": [{}, {").unwrap()[1]["a"][0],
            serde_json::json!({})
        );
        assert_eq!(read("{\"a\": 1} {bad").unwrap().len(), 1);
        assert!(read("{\n\"a\": x}").unwrap_err().contains("line 2 column 6"));
        assert!(
            read("").unwrap_err().contains("an empty file") && read("x").unwrap_err().contains("no brace")
        );
    }

    #[test]
    fn a_last_line_that_may_go_on_is_no_record() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let read = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            let source = Source {
                files: vec![path.clone()],
                map: None,
                device: None,
            };
            let (mut names, mut silent) = (case::sealed::Names::default(), |_: u64| {});
            let mut sink = Sink::survey(&mut names, &mut silent, false);
            let mut seen = Vec::new();
            each_line(&source, &mut sink, |line, _| {
                seen.push(line.text.to_owned());
                Ok(())
            })
            .unwrap();
            (seen, sink.finish().cut.join("\n"))
        };
        // 125 or 12.
        let (seen, cut) = read(b"1, 250\n2, 12");
        assert_eq!(seen, ["1, 250"]);
        let place = "log: line 2 (byte 7): expected the end of a line, found '2, 12' where the file ends";
        assert!(cut.contains(place), "{cut}");
        let wide: Vec<u8> = "\u{feff}1, 250\r\n2, 12"
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect();
        let (seen, cut) = read(&wide);
        assert!(seen == ["1, 250"] && cut.contains("line 2 (byte 18)"), "{cut}");
        for whole in [
            "2, 125\n",
            "2, 125\r\n",
            "2, 125\r",
            "2, 125 ",
            "[fio]",
            "<0.000125>",
            "\"125\"",
        ] {
            let (seen, cut) = read(format!("1, 250\n{whole}").as_bytes());
            assert_eq!((seen.len(), cut.as_str()), (2, ""), "{whole:?}");
        }
        assert_eq!(read(b"").0.len() + read(b"7").0.len(), 0);
    }

    #[test]
    fn lines_of_a_terminal_are_text() {
        assert!(!of_terminal("sda 1.00") && of_terminal("\u{1b}[1msda") && of_terminal("^C"));
        let coloured = "\u{1b}[32;22msda \u{1b}[0m  \u{1b}[34;1m1,00\u{1b}(B\u{1b}[m";
        assert_eq!(without_terminal(coloured).unwrap(), "sda   1,00");
        assert_eq!(
            without_terminal("^C     usecs : count").unwrap(),
            "     usecs : count"
        );
        assert_eq!(
            (without_terminal("^C"), without_terminal("\u{1b}[K").as_deref()),
            (None, Some(""))
        );
        assert_eq!(without_colours("a\u{1b}[12"), "a");
    }

    #[test]
    fn a_cut_document_without_what_it_should_have_leaves_those_before_it() {
        let lacks = |text: &str| {
            with_documents(text, |documents, sink| {
                let last = documents.all.len() - 1;
                documents.lacks(last, Bad::none("jobs", "a list"), sink)
            })
        };
        let whole = lacks("{\"a\": 1}").unwrap_err();
        assert!(
            whole.contains("x.json: jobs: expected a list, found none; correct it"),
            "{whole}"
        );
        let cut = lacks("{\"a\": 1,\n \"jo").unwrap_err();
        assert!(
            cut.contains("found none before line 2 column 4, where the file is cut off"),
            "{cut}"
        );
        assert_eq!(lacks("{\"a\": 1}\n{\"a\": 1,\n"), Ok(()));
        assert!(lacks("{\"a\": 1}\n{\"b\": 1}")
            .unwrap_err()
            .contains("document 2, jobs"));
    }

    #[test]
    fn documents_that_end_too_early_are_closed() {
        let whole = r#"{"a": [{"b": 1}, {"b": "x}]"}]}"#;
        for end in 16..whole.len() {
            let value = closed(&whole[..end]).unwrap();
            assert_eq!(value["a"][0]["b"], 1, "{end}");
        }
        assert!(closed("{\"a\": 1").is_none());
        assert_eq!(closed("{\"a\": {\"b\": 1, \"c").unwrap()["a"]["b"], 1);
        assert!(closed("").is_none());
    }
}
