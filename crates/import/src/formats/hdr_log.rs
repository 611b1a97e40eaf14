//! HdrHistogram's interval logs (versions 1.0 to 1.3), as YCSB (`<OP>.hdr`) and whodisk's export write them: a histogram per interval and tag, as samples.
//!
//! Histograms are V2 (or V1 or V0, of older libraries), compressed with zlib, in Base64. The log does not say its unit: `--map unit=us` (YCSB's) does,
//! unless whodisk or jHiccup wrote it, which count nanoseconds. Source: the format's description (HdrHistogramLogWriter, V2 encoding), AbstractHistogram's decodeFromByteBuffer.
use super::bins::{values, Bins};
use super::fio_bins::COUNT_MAX;
use crate::clock::Clock;
use crate::error::{Bad, RecordError};
use crate::format::{alone, Format, Head, Source};
use crate::records::each_line;
use crate::sink::Sink;
use crate::text::{scaled, time};
use crate::ImportError;
use case::schema::SubjectKind;

/// The registry's line.
pub const FORMAT: Format = Format {
    name: "hdr-log",
    about: "HdrHistogram interval logs (YCSB's .hdr with --map unit=us, jHiccup's and others): the distribution of each interval, as samples",
    not_carried: &[(
        "single operations",
        "a histogram tells how many were how slow in an interval, not when and where",
    )],
    recognise,
    together: alone,
    read,
};

const SECOND_NS: i64 = 1_000_000_000;
/// Offsets above this are moments since 1970 (the year 2000): logs without a BaseTime may have either.
const UNIX_NS_MIN: i64 = 946_684_800 * SECOND_NS;

fn recognise(head: &Head) -> bool {
    head.has_line(|line| {
        line.contains("[Histogram log format version") || line.contains("Interval_Compressed_Histogram")
    }) || head.filled_lines().next().is_some_and(is_interval)
}

/// `[Tag=NAME,]0.127,1.007,2.769,HISTFAAAAEV4...`: every histogram begins alike.
fn is_interval(line: &str) -> bool {
    let fields: Vec<&str> = line.split(',').collect();
    let numbers = match fields[..] {
        [tag, .., histogram] if tag.starts_with("Tag=") && histogram.starts_with("HIST") => {
            &fields[1..fields.len() - 1]
        }
        [.., histogram] if histogram.starts_with("HIST") => &fields[..fields.len() - 1],
        _ => return false,
    };
    numbers.len() == 3 && numbers.iter().all(|number| scaled(number, SECOND_NS).is_some())
}

fn unit_ns(source: &Source, head: &Head) -> Result<u64, ImportError> {
    let known = ["whodisk: latency in nanoseconds", "[Logged with jHiccup version"];
    if head.has_line(|line| line.starts_with('#') && known.iter().any(|mark| line.contains(mark))) {
        return Ok(1);
    }
    match source.map.as_deref().map(str::trim) {
        Some("unit=ns") => Ok(1),
        Some("unit=us") => Ok(1000),
        Some("unit=ms") => Ok(1_000_000),
        found => Err(ImportError::Use(format!(
            "--map: expected unit=ns, us or ms, as {} does not say what its latencies are in (YCSB: unit=us; jHiccup, cassandra-stress: unit=ns), found {}",
            source.path().display(),
            found.map_or("none".into(), |text| format!("'{text}'"))
        ))),
    }
}

fn read(source: &Source, sink: &mut Sink) -> Result<(), ImportError> {
    let unit_ns = unit_ns(source, &Head::read(source.path())?)?;
    let (mut base_ns, mut start_ns, mut is_told) = (None, None, false);
    let (mut slowest_ns, mut first_ns, mut last_ns) = (0, i64::MAX, 0);
    let name = source.name();
    let name = name
        .rsplit_once('.')
        .map_or(name.as_str(), |(stem, _)| stem)
        .to_owned();
    each_line(source, sink, |line, sink| {
        let text = line.text.trim();
        let after = |mark: &str| {
            let rest = text.split(mark).nth(1)?.trim_start();
            scaled(rest.split(' ').next()?, SECOND_NS)
        };
        if text.starts_with('#') {
            base_ns = after("[BaseTime:").or(base_ns);
            start_ns = after("[StartTime:").or(start_ns);
            return Ok(());
        }
        if text.is_empty() || text.starts_with("\"StartTimestamp\"") {
            return Ok(());
        }
        let (tag, rest) = match text.strip_prefix("Tag=").and_then(|rest| rest.split_once(',')) {
            Some((tag, rest)) => (Some(tag), rest),
            None => (None, text),
        };
        let fields: Vec<&str> = rest.split(',').collect();
        let [begin, length, _, histogram] = fields[..] else {
            return Err(Bad::new("", "[Tag=NAME,]start,length,max,histogram", text).into());
        };
        let begin_ns = time(begin, SECOND_NS, "start")?;
        let length_ns = time(length, SECOND_NS, "length")?.max(0);
        // Starts count from the base; without one, from the start unless they are moments themselves.
        let zero_ns = base_ns.or(if begin_ns < UNIX_NS_MIN { start_ns } else { Some(0) });
        if !is_told {
            sink.clock(match zero_ns {
                Some(_) => Clock::unix(1_000_000),
                None => Clock::own("the begin of the histogram log", 1_000_000),
            });
            is_told = true;
        }
        let bins = decode(histogram.trim(), unit_ns).ok_or_else(|| {
            Bad::new(
                "column histogram",
                "a histogram (V0, V1 or V2), zlib in Base64",
                histogram,
            )
        })?;
        let op = tag.unwrap_or(&name).to_ascii_lowercase();
        slowest_ns = bins.last().map_or(0, |bin| bin.0).max(slowest_ns);
        (first_ns, last_ns) = (
            begin_ns.min(first_ns),
            begin_ns.saturating_add(length_ns).max(last_ns),
        );
        let values = values("", &bins, sink);
        if values.is_empty() {
            sink.record_without_row();
            return Ok(());
        }
        let subject = sink.name(&op);
        let time_ns = zero_ns
            .unwrap_or(0)
            .saturating_add(begin_ns)
            .saturating_add(length_ns);
        sink.sample(
            time_ns.min(i64::MAX / 4),
            None,
            SubjectKind::Process,
            subject,
            &values,
        )
        .map_err(RecordError::from)
    })?;
    let logged_ns = last_ns.saturating_sub(first_ns);
    if logged_ns > 0 && slowest_ns > logged_ns.unsigned_abs() {
        let seconds = |ns: u64| format!("{:.3} s", ns as f64 / 1e9);
        sink.missing(
            format!(
                "whether the latencies of {} are in the unit that --map says",
                source.name()
            ),
            format!(
                "the slowest took {}, longer than the log itself ({})",
                seconds(slowest_ns),
                seconds(logged_ns.unsigned_abs())
            ),
        );
    }
    Ok(())
}

/// Largest histogram that is unpacked: full range with five digits is 6 MiB of counts.
const HISTOGRAM_BYTES_MAX: usize = 32 << 20;

/// How counts follow each other.
#[derive(Clone, Copy)]
enum Counts {
    /// V2: [`zigzag`]; how many places are zero is a negative number.
    Zigzag,
    /// V0 and V1: words of this many bytes, the highest first.
    Words(usize),
}

/// Bins of a histogram: the middle of each, nanoseconds, and its count. None: it is none of these, or damaged.
fn decode(text: &str, unit_ns: u64) -> Option<Bins> {
    let packed = base64(text)?;
    let word = |bytes: &[u8], at: usize| -> Option<u32> {
        Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
    };
    // The last nibble but one is how wide words are; V2 says nothing with it.
    let (cookie, encoding) = match word(&packed, 0)? & !0xf0 {
        0x1c84_9304 => (0x1c84_9303, 2),
        0x1c84_9302 => (0x1c84_9301, 1),
        0x1c84_9309 => (0x1c84_9308, 0),
        _ => return None,
    };
    let end = 8_usize.checked_add(word(&packed, 4)? as usize)?;
    let bytes =
        miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(packed.get(8..end)?, HISTOGRAM_BYTES_MAX)
            .ok()?;
    let found = word(&bytes, 0)?;
    if found & !0xf0 != cookie {
        return None;
    }
    // V0 has no length and no offset, but how many values there are.
    let (length, offset, digits, at) = match encoding {
        0 => (bytes.len().checked_sub(32)?, 0, word(&bytes, 4)?, 8),
        _ => (
            word(&bytes, 4)? as usize,
            word(&bytes, 8)? as i32,
            word(&bytes, 12)?,
            16,
        ),
    };
    let lowest = u64::from_be_bytes(bytes.get(at..at + 8)?.try_into().ok()?);
    if !(0..=5).contains(&digits) || lowest == 0 || offset != 0 {
        return None;
    }
    let shape = Shape::new(lowest, digits, unit_ns);
    let begin = at + 24;
    let counts = bytes.get(begin..begin.checked_add(length)?)?;
    match (encoding, (found >> 4) as usize & 0xf) {
        (2, _) => shape.bins(counts, Counts::Zigzag),
        (_, width @ (2 | 4 | 8)) => shape.bins(counts, Counts::Words(width)),
        _ => None,
    }
}

/// Which values the places of a histogram are.
struct Shape {
    unit_magnitude: u32,
    half_magnitude: u32,
    unit_ns: u64,
}

impl Shape {
    fn new(lowest: u64, digits: u32, unit_ns: u64) -> Shape {
        let sub_buckets = (2 * 10_u64.pow(digits)).next_power_of_two();
        Shape {
            unit_magnitude: lowest.ilog2(),
            half_magnitude: sub_buckets.ilog2().max(1) - 1,
            unit_ns,
        }
    }

    /// The middle of a place, nanoseconds.
    fn middle_ns(&self, index: u64) -> Option<u64> {
        let half = 1_u64 << self.half_magnitude;
        let unit_magnitude = u64::from(self.unit_magnitude);
        let (shift, sub) = match index >> self.half_magnitude {
            0 => (unit_magnitude, index),
            more => (more - 1 + unit_magnitude, (index & (half - 1)) + half),
        };
        let shift = u32::try_from(shift).ok().filter(|shift| *shift < 63)?;
        let low = sub.checked_mul(1 << shift)?;
        low.checked_add((1_u64 << shift) / 2)?.checked_mul(self.unit_ns)
    }

    fn bins(&self, mut counts: &[u8], kind: Counts) -> Option<Bins> {
        let (mut index, mut bins) = (0_u64, Bins::new());
        while !counts.is_empty() {
            let count = match kind {
                Counts::Zigzag => zigzag(&mut counts)?,
                Counts::Words(width) => {
                    let (word, rest) = counts.split_at_checked(width)?;
                    counts = rest;
                    let count = word
                        .iter()
                        .fold(0_u64, |count, byte| count << 8 | u64::from(*byte));
                    i64::try_from(count).ok()?
                }
            };
            if count < 0 {
                index = index.checked_add(count.unsigned_abs())?;
                continue;
            }
            if count > 0 {
                let count = Some(count.unsigned_abs()).filter(|count| *count <= COUNT_MAX)?;
                bins.push((self.middle_ns(index)?, count));
            }
            index = index.checked_add(1)?;
        }
        Some(bins)
    }
}

/// An LEB128 number, zigzag. Its ninth byte, where there is one, is a whole one.
fn zigzag(bytes: &mut &[u8]) -> Option<i64> {
    let mut value = 0_u64;
    for at in 0..9 {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        if at == 8 {
            value |= u64::from(*byte) << 56;
            break;
        }
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            break;
        }
    }
    Some((value >> 1) as i64 ^ -((value & 1) as i64))
}

fn base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut word, mut bits) = (0_u32, 0);
    for letter in text.trim_end_matches('=').bytes() {
        let six = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        word = word << 6 | u32::from(six);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((word >> bits) as u8);
            word &= (1 << bits) - 1;
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_encoding() {
        assert_eq!(base64("aGVsbG8="), Some(b"hello".to_vec()));
        assert_eq!(base64("a-b"), None);
        let mut bytes: &[u8] = &[0x02, 0x01, 0xac, 0x02, 0xff];
        let read: Vec<Option<i64>> = (0..4).map(|_| zigzag(&mut bytes)).collect();
        assert_eq!(read, [Some(1), Some(-1), Some(150), None]);
    }

    fn base64_of(bytes: &[u8]) -> String {
        let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let three = bytes.chunks(3).map(|three| {
            let word = three
                .iter()
                .fold(0_u32, |word, byte| word << 8 | u32::from(*byte))
                << (8 * (3 - three.len()));
            (0..=three.len())
                .map(move |at| char::from(letters[(word >> (18 - 6 * at)) as usize & 63]))
                .collect::<String>()
        });
        three.collect()
    }

    /// A histogram as the library writes it.
    fn packed(cookie: u32, header: &[&[u8]], counts: &[u8]) -> String {
        let mut whole = cookie.to_be_bytes().to_vec();
        whole.extend(header.concat());
        whole.extend(counts);
        let packed = miniz_oxide::deflate::compress_to_vec_zlib(&whole, 6);
        let outer = (cookie & 0xf0) | ((cookie & !0xf0) + 1);
        base64_of(
            &[
                &outer.to_be_bytes()[..],
                &(packed.len() as u32).to_be_bytes(),
                &packed,
            ]
            .concat(),
        )
    }

    #[test]
    fn histograms_of_every_version_are_alike() {
        // Two digits: places of one up to 256, then of two. Seven values of 3, nine of 260.
        let places: Vec<u64> = (0..259)
            .map(|at| [0, 7, 9][usize::from(at == 3) + 2 * usize::from(at == 258)])
            .collect();
        let words = |width: usize| -> Vec<u8> {
            places
                .iter()
                .flat_map(|count| count.to_be_bytes()[8 - width..].to_vec())
                .collect()
        };
        let (digits, lowest, highest) = (2_u32.to_be_bytes(), 1_u64.to_be_bytes(), 60_000_u64.to_be_bytes());
        let expected = Some(vec![(3_000, 7), (261_000, 9)]);
        for width in [2, 4, 8] {
            let cookie = (width as u32) << 4;
            let length = (259 * width as u32).to_be_bytes();
            let header: [&[u8]; 6] = [&length, &[0; 4], &digits, &lowest, &highest, &[0; 8]];
            assert_eq!(
                decode(&packed(0x1c84_9301 | cookie, &header, &words(width)), 1000),
                expected
            );
            let header: [&[u8]; 4] = [&digits, &lowest, &highest, &16_u64.to_be_bytes()];
            assert_eq!(
                decode(&packed(0x1c84_9308 | cookie, &header, &words(width)), 1000),
                expected
            );
        }
        let counts = [5, 14, 0xfb, 0x03, 18];
        let header: [&[u8]; 6] = [&5_u32.to_be_bytes(), &[0; 4], &digits, &lowest, &highest, &[0; 8]];
        assert_eq!(decode(&packed(0x1c84_9313, &header, &counts), 1000), expected);
        let of_three_bytes = packed(
            0x1c84_9331,
            &[&[0, 0, 0, 0], &[0; 4], &digits, &lowest, &highest, &[0; 8]],
            &[],
        );
        assert_eq!(decode(&of_three_bytes, 1000), None);
    }

    #[test]
    fn a_log_without_its_header_is_known_by_its_lines() {
        assert!(is_interval("0.127,1.007,2.769,HISTFAAAAEV42pNpmSzMwMCg"));
        assert!(is_interval(
            "Tag=READ,1527510686.313,40.807,0.000,HISTFAAAABx4nJNp"
        ));
        assert!(
            !is_interval("HISTORY,1,2,3")
                && !is_interval("0.127,1.007,HISTFAAA")
                && !is_interval("a,b,c,HISTF")
        );
    }

    #[test]
    fn the_unit_is_said_or_doubted() {
        let counts = [5, 14, 0xfb, 0x03, 18];
        let (digits, lowest, highest) = (2_u32.to_be_bytes(), 1_u64.to_be_bytes(), 60_000_u64.to_be_bytes());
        let header: [&[u8]; 6] = [&5_u32.to_be_bytes(), &[0; 4], &digits, &lowest, &highest, &[0; 8]];
        let histogram = packed(0x1c84_9313, &header, &counts);
        let log = |who: &str, length: &str| {
            format!("#[{who}]\n#[Histogram log format version 1.2]\n0.1,{length},0.2,{histogram}\n")
        };
        let of = |text: &str, map: Option<&str>| {
            let folder = tempfile::tempdir().unwrap();
            let (path, case) = (folder.path().join("x.hlog"), folder.path().join("case"));
            std::fs::write(&path, text).unwrap();
            std::fs::create_dir(&case).unwrap();
            let request = crate::Request {
                files: vec![path],
                map: map.map(str::to_owned),
                ..Default::default()
            };
            let mut writer = case::sealed::SealWriter::create(&case).unwrap();
            let found = crate::import(
                &request,
                &mut writer,
                &mut case::sealed::Names::default(),
                &mut |_| {},
            );
            found.map(|summary| summary.missing).map_err(|e| e.to_string())
        };
        assert!(of(&log("Logged with jHiccup version 2.0.6", "1.0"), None)
            .unwrap()
            .is_empty());
        let error = of(&log("Logging for: x", "1.0"), None).unwrap_err();
        assert!(error.contains("cassandra-stress: unit=ns"), "{error}");
        // 261 units: 0.26 s in milliseconds.
        assert!(of(&log("x", "1.0"), Some("unit=ms")).unwrap().is_empty());
        let doubt = of(&log("x", "0.2"), Some("unit=ms")).unwrap();
        assert!(
            doubt[0]
                .because
                .contains("took 0.261 s, longer than the log itself (0.200 s)"),
            "{doubt:?}"
        );
    }
}
