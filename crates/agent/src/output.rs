//! What goes to stdout and stderr.
use crate::failure::Failure;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Prints `text` and a newline on stdout. A closed pipe ends the process with success: whoever read had enough.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    match writeln!(stdout, "{text}").and_then(|()| stdout.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Err(Failure::nobody_reads()),
        Err(error) => Err(Failure::error(format!("stdout: cannot write: {error}"))),
    }
}

/// Prints `value` as indented JSON.
pub fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    print(&serde_json::to_string_pretty(value).map_err(Failure::error)?)
}

/// A remark on stderr. Nothing may fail because nobody reads it.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "whodisk: {text}");
}

/// Progress of long work: one line that renews itself on a terminal, else a line every few seconds.
pub struct Progress {
    terminal: bool,
    every: Duration,
    last: Instant,
    shown: bool,
}

impl Progress {
    /// Starts silent; the first line comes after one period.
    pub fn new() -> Progress {
        let terminal = std::io::stderr().is_terminal();
        let every = if terminal {
            Duration::from_millis(500)
        } else {
            Duration::from_secs(5)
        };
        Progress {
            terminal,
            every,
            last: Instant::now(),
            shown: false,
        }
    }

    /// Shows `text` if it is time.
    pub fn tick(&mut self, text: impl FnOnce() -> String) {
        if self.last.elapsed() < self.every {
            return;
        }
        self.last = Instant::now();
        self.shown = true;
        if self.terminal {
            let _ = write!(std::io::stderr(), "\r\x1b[Kwhodisk: {}", text());
        } else {
            say(&text());
        }
    }

    /// Clears the line, so that other text can follow.
    pub fn clear(&mut self) {
        if self.terminal && self.shown {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
            self.shown = false;
        }
    }
}

/// `1234567` as `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn groups_of_three() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }
}
