//! A frame as text.
use crate::time::Utc;
use record::watch::{DeviceFrame, Frame, OpFrame, WorstOp};
use std::fmt::Write;

/// Devices shown; the others are counted.
const DEVICES_MAX: usize = 12;

/// A frame in lines of at most 110 characters or so.
pub fn frame(frame: &Frame) -> String {
    let mut text = String::new();
    let seconds = frame.end_ns.saturating_sub(frame.begin_ns) as f64 / 1e9;
    let lost = match frame.lost {
        0 => String::new(),
        lost => format!(", {lost} events lost"),
    };
    let now = Utc::now().rfc3339();
    let _ = writeln!(text, "whodisk watch  {now}  {seconds:.1} s{lost}");
    let _ = writeln!(
        text,
        "\n{:<12} {:<8} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}  now depth  queue device irq",
        "disk", "kind", "ops/s", "MB/s", "p50", "p99", "p99.9", "max"
    );
    let mut devices: Vec<&DeviceFrame> = frame.devices.iter().collect();
    devices.sort_by(|a, b| b.queue_depth.total_cmp(&a.queue_depth));
    for device in devices.iter().take(DEVICES_MAX) {
        write_device(&mut text, device);
    }
    match devices.len() {
        0 => text.push_str("no block requests\n"),
        n if n > DEVICES_MAX => {
            let _ = writeln!(text, "and {} disks with less in flight", n - DEVICES_MAX);
        }
        _ => {}
    }
    for op in &frame.calls {
        let _ = writeln!(text, "{:<12} {}", "calls", columns(op));
    }
    write_worst(&mut text, &frame.worst);
    text
}

fn write_device(text: &mut String, device: &DeviceFrame) {
    let now = device.in_flight.map_or("-".to_string(), |n| n.to_string());
    let percent = |share: f64| format!("{:.0}%", share * 100.0);
    let shares = device.shares.as_ref().map_or(String::new(), |shares| {
        let interrupt = shares.interrupt.map_or("-".to_string(), percent);
        format!(
            "{:>5} {:>6} {interrupt:>3}",
            percent(shares.queue),
            percent(shares.device)
        )
    });
    let facts = format!("{now:>3} {:>5.1}  {shares}", device.queue_depth);
    if device.ops.is_empty() {
        let _ = writeln!(text, "{:<12} {:<8} {:61} {facts}", device.device, "idle", "");
    }
    for (place, op) in device.ops.iter().enumerate() {
        let (name, facts) = if place == 0 {
            (&device.device[..], &facts[..])
        } else {
            ("", "")
        };
        let line = format!("{name:<12} {}  {facts}", columns(op));
        let _ = writeln!(text, "{}", line.trim_end());
    }
}

fn columns(op: &OpFrame) -> String {
    let failed = match op.errors {
        0 => String::new(),
        errors => format!("  {errors} failed"),
    };
    format!(
        "{:<8} {:>9.0} {:>9.1} {:>9} {:>9} {:>9} {:>9}{failed}",
        op.op,
        op.iops,
        op.bytes_per_s / 1e6,
        time(op.latency.p50_ns),
        time(op.latency.p99_ns),
        time(op.latency.p999_ns),
        time(op.latency.max_ns),
    )
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

/// The same on a terminal: from its upper left corner, cut to its size.
pub fn on_screen(text: &str) -> String {
    let (rows, columns) = terminal_size().unwrap_or((usize::MAX, usize::MAX));
    let lines = text.lines().take(rows.saturating_sub(1).max(1));
    let cut = lines.map(|line| line.chars().take(columns).collect::<String>());
    // The cursor goes home, each line clears its rest, and at the end what is below.
    let lines: Vec<String> = cut.map(|line| line + "\x1b[K").collect();
    format!("\x1b[H{}\x1b[J", lines.join("\n"))
}

/// Rows and columns of the terminal at stdout.
fn terminal_size() -> Option<(usize, usize)> {
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
        let text = frame(&empty);
        assert!(
            text.contains("no block requests") && text.contains("3 events lost"),
            "{text}"
        );
    }
}
