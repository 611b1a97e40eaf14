//! A frame as text.
use crate::time::Utc;
use record::watch::{DeviceFrame, Frame, OpFrame, WorstOp};
use std::fmt::Write;

/// Devices shown; the others are counted.
const DEVICES_MAX: usize = 12;

/// Columns that a line takes with everything in it; on less, what is true of a whole disk has lines of its own.
const WIDE: usize = 110;

/// A frame in lines of at most 80 characters, or of 110 where `columns` allows.
pub fn frame(frame: &Frame, columns: usize) -> String {
    let wide = columns >= WIDE;
    let mut text = String::new();
    let seconds = frame.end_ns.saturating_sub(frame.begin_ns) as f64 / 1e9;
    let lost = match frame.lost {
        0 => String::new(),
        lost => format!(", {lost} events lost"),
    };
    let now = Utc::now().rfc3339();
    let _ = writeln!(text, "whodisk watch  {now}  {seconds:.1} s{lost}");
    let facts = if wide { "  now depth  queue device irq" } else { "" };
    let _ = writeln!(text, "\n{}{facts}", line("disk", "kind", HEADINGS, wide));
    let mut devices: Vec<&DeviceFrame> = frame.devices.iter().collect();
    devices.sort_by(|a, b| b.queue_depth.total_cmp(&a.queue_depth));
    for device in devices.iter().take(DEVICES_MAX) {
        if wide {
            write_device_wide(&mut text, device);
        } else {
            write_device_narrow(&mut text, device);
        }
    }
    match devices.len() {
        0 => text.push_str("no block requests\n"),
        n if n > DEVICES_MAX => {
            let _ = writeln!(text, "and {} disks with less in flight", n - DEVICES_MAX);
        }
        _ => {}
    }
    for op in &frame.calls {
        let line = columns_of("calls", op, wide);
        let _ = writeln!(text, "{}", if wide { line + &failed(op) } else { line });
        if !wide {
            write_failed(&mut text, op);
        }
    }
    write_worst(&mut text, &frame.worst);
    text
}

const HEADINGS: [&str; 6] = ["ops/s", "MB/s", "p50", "p99", "p99.9", "max"];

/// One line of the table: 75 characters, or 81.
fn line(name: &str, kind: &str, values: [&str; 6], wide: bool) -> String {
    let width = if wide { 9 } else { 8 };
    let values = values.map(|value| format!(" {value:>width$}"));
    format!("{name:<12} {kind:<8}{}", values.concat())
}

fn columns_of(name: &str, op: &OpFrame, wide: bool) -> String {
    let values = [
        format!("{:.0}", op.iops),
        format!("{:.1}", op.bytes_per_s / 1e6),
        time(op.latency.p50_ns),
        time(op.latency.p99_ns),
        time(op.latency.p999_ns),
        time(op.latency.max_ns),
    ];
    line(name, op.op, values.each_ref().map(String::as_str), wide)
}

fn failed(op: &OpFrame) -> String {
    match op.errors {
        0 => String::new(),
        errors => format!("  {errors} failed"),
    }
}

/// In a line of its own, where there is no room beside the numbers.
fn write_failed(text: &mut String, op: &OpFrame) {
    if op.errors > 0 {
        let _ = writeln!(text, "{:<11}{}", "", failed(op));
    }
}

fn percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}

/// Everything of a disk beside its first kind of operations.
fn write_device_wide(text: &mut String, device: &DeviceFrame) {
    let now = device.in_flight.map_or("-".to_string(), |n| n.to_string());
    let shares = device.shares.as_ref().map_or(String::new(), |shares| {
        let interrupt = shares.interrupt.map_or("-".to_string(), percent);
        format!(
            "{:>5} {:>6} {interrupt:>3}",
            percent(shares.queue),
            percent(shares.device)
        )
    });
    let facts = format!("  {now:>3} {:>5.1}  {shares}", device.queue_depth);
    if device.ops.is_empty() {
        let idle = line(&device.device, "idle", [""; 6], true);
        let _ = writeln!(text, "{}", (idle + &facts).trim_end());
    }
    for (place, op) in device.ops.iter().enumerate() {
        let (name, facts) = if place == 0 {
            (&device.device[..], &facts[..])
        } else {
            ("", "")
        };
        let line = columns_of(name, op, true) + facts + &failed(op);
        let _ = writeln!(text, "{}", line.trim_end());
    }
}

/// The same in two lines or more.
fn write_device_narrow(text: &mut String, device: &DeviceFrame) {
    for (place, op) in device.ops.iter().enumerate() {
        let name = if place == 0 { &device.device[..] } else { "" };
        let _ = writeln!(text, "{}", columns_of(name, op, false));
        write_failed(text, op);
    }
    let name = if device.ops.is_empty() {
        &device.device[..]
    } else {
        ""
    };
    let idle = if device.ops.is_empty() { "idle, " } else { "" };
    let now = device.in_flight.map_or("-".to_string(), |n| n.to_string());
    let shares = device.shares.as_ref().map_or(String::new(), |shares| {
        let interrupt = shares
            .interrupt
            .map_or(String::new(), |share| format!(", irq {}", percent(share)));
        let (queue, device) = (percent(shares.queue), percent(shares.device));
        format!("; queue {queue}, device {device}{interrupt}")
    });
    let _ = writeln!(
        text,
        "{name:<12} {idle}now {now}, depth {:.1}{shares}",
        device.queue_depth
    );
}

fn write_worst(text: &mut String, worst: &[WorstOp]) {
    if worst.is_empty() {
        return;
    }
    let _ = writeln!(
        text,
        "\n{:<12} {:<8} {:>9} {:>9}  {:<10} process",
        "slowest", "kind", "took", "bytes", "disk"
    );
    for op in worst {
        let _ = writeln!(
            text,
            "{:<12} {:<8} {:>9} {:>9}  {:<10} {} ({})",
            op.layer,
            op.op,
            time(Some(op.latency_ns)),
            op.size_bytes,
            op.device.as_deref().unwrap_or("-"),
            op.comm,
            op.pid
        );
    }
}

/// Three digits and a unit; `-` if there is none.
fn time(ns: Option<u64>) -> String {
    let Some(ns) = ns else { return "-".into() };
    let (value, unit) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (ns as f64 / 1e3, "us"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    let digits = match value {
        ..10.0 => 2,
        ..100.0 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {unit}")
}

/// The same on a terminal of `rows` and `columns`: from its upper left corner. What does not fit is said, in the last line.
pub fn on_screen(text: &str, rows: usize, columns: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    // The last row stays free: a line feed there would scroll.
    let room = rows.saturating_sub(1).max(1);
    let is_wide = lines.iter().any(|line| line.chars().count() > columns);
    let left_out = lines.len().saturating_sub(room);
    let mut shown: Vec<String> = lines.iter().take(room).map(|line| (*line).to_owned()).collect();
    let mut said = Vec::new();
    if is_wide {
        said.push("lines are cut: 80 columns show all".to_owned());
    }
    if left_out > 0 {
        said.push(format!("{} more lines below", left_out + 1));
    }
    if !said.is_empty() {
        // In the place of the last line that there is room for.
        shown.truncate(room - 1);
        shown.push(said.join("; "));
    }
    // The cursor goes home, each line clears its rest, and at the end what is below.
    let cut = shown
        .iter()
        .map(|line| line.chars().take(columns).collect::<String>());
    let cut: Vec<String> = cut.map(|line| line + "\x1b[K").collect();
    format!("\x1b[H{}\x1b[J", cut.join("\n"))
}

/// Rows and columns of the terminal at stdout.
pub fn terminal_size() -> Option<(usize, usize)> {
    // SAFETY: all zeros are a valid winsize, and the call fills it.
    let (done, size) = unsafe {
        let mut size: libc::winsize = std::mem::zeroed();
        (
            libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &raw mut size),
            size,
        )
    };
    (done == 0 && size.ws_row > 0 && size.ws_col > 0).then(|| (size.ws_row.into(), size.ws_col.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits() {
        for (ns, text) in [
            (None, "-"),
            (Some(999), "999 ns"),
            (Some(1_234), "1.23 us"),
            (Some(81_234), "81.2 us"),
            (Some(812_345_678), "812 ms"),
            (Some(12_300_000_000), "12.3 s"),
        ] {
            assert_eq!(time(ns), text);
        }
    }

    fn busy() -> Frame {
        let op = |op, errors| OpFrame {
            op,
            count: 123_456,
            bytes: 123_456 << 12,
            errors,
            iops: 123_456.0,
            bytes_per_s: 505_675_776.0,
            latency_sum_ns: 9,
            latency: record::watch::Latency {
                p50_ns: Some(81_234),
                p99_ns: Some(1_234_000),
                p999_ns: Some(99_900_000),
                max_ns: Some(1_230_000_000),
            },
        };
        let device = |name: &str, ops: Vec<OpFrame>| DeviceFrame {
            device: name.into(),
            in_flight: Some(17),
            queue_depth: 31.9,
            shares: (!ops.is_empty()).then_some(record::watch::Shares {
                queue: 0.12,
                device: 0.8,
                interrupt: Some(0.08),
            }),
            ops,
        };
        Frame {
            begin_ns: 0,
            end_ns: 1_000_000_000,
            devices: vec![
                device("nvme10n1", vec![op("read", 0), op("discard", 26)]),
                device("vda", Vec::new()),
            ],
            calls: vec![op("write", 3)],
            worst: vec![WorstOp {
                layer: "syscall",
                device: Some("nvme10n1".into()),
                op: "discard",
                pid: 4_194_304,
                comm: "fifteen-letters".into(),
                size_bytes: 1 << 20,
                latency_ns: 1_230_000_000,
            }],
            lost: 0,
            quantile_relative_error: 0.01,
        }
    }

    /// The screens of terminals that nobody made wider.
    #[test]
    fn eighty_columns_show_everything() {
        for (columns, longest) in [(80, 80), (109, 80), (110, WIDE), (usize::MAX, WIDE)] {
            let text = frame(&busy(), columns);
            for line in text.lines().filter(|line| !line.contains("failed")) {
                assert!(line.chars().count() <= longest, "{columns}: {line}");
            }
            for shown in [
                "max",
                "now",
                "depth",
                "queue",
                "device",
                "irq",
                "17",
                "31.9",
                "12%",
                "80%",
                "8%",
                "1.23 s",
                "99.9 ms",
                "123456",
                "505.7",
                "idle",
                "fifteen-letters (4194304)",
            ] {
                assert!(text.contains(shown), "{columns}: {shown}\n{text}");
            }
            assert!(text.contains("26") && text.contains("failed"), "{text}");
            let narrow = frame(&busy(), 80);
            assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
        }
        let screen = on_screen(&frame(&busy(), 80), 40, 80);
        assert!(!screen.contains("cut") && !screen.contains("lines below"));
    }

    #[test]
    fn a_small_terminal_is_told_what_it_does_not_show() {
        let text = frame(&busy(), 60);
        let screen = on_screen(&text, 40, 60);
        assert!(screen.contains("lines are cut: 80 columns show all"), "{screen}");
        let screen = on_screen(&text, 6, 80);
        let more = text.lines().count() - 4;
        assert!(screen.contains(&format!("{more} more lines below")), "{screen}");
        assert_eq!(screen.lines().count(), 5);
    }

    #[test]
    fn an_empty_frame_says_so() {
        let empty = Frame {
            begin_ns: 0,
            end_ns: 1_000_000_000,
            devices: Vec::new(),
            calls: Vec::new(),
            worst: Vec::new(),
            lost: 3,
            quantile_relative_error: 0.01,
        };
        let text = frame(&empty, 80);
        assert!(
            text.contains("no block requests") && text.contains("3 events lost"),
            "{text}"
        );
    }
}
