//! The two clocks: wall time for people, `CLOCK_MONOTONIC` for rows.
use std::mem::MaybeUninit;
use std::time::SystemTime;

/// `CLOCK_MONOTONIC` now, ns.
pub fn monotonic_ns() -> u64 {
    let mut now = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: the clock exists on every Linux; the call fills the struct.
    let now = unsafe {
        libc::clock_gettime(libc::CLOCK_MONOTONIC, now.as_mut_ptr());
        now.assume_init()
    };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Smallest step of the monotonic clock seen in a short burst of readings, ns.
pub fn monotonic_resolution_ns() -> u64 {
    let mut smallest = u64::MAX;
    let mut last = monotonic_ns();
    for _ in 0..10_000 {
        let now = monotonic_ns();
        if now > last {
            smallest = smallest.min(now - last);
        }
        last = now;
    }
    if smallest == u64::MAX {
        1
    } else {
        smallest
    }
}

/// What the wall clock says at a moment of the monotonic clock, ns since 1970.
pub fn wall_ns(mono_ns: u64) -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now_ns = since.map_or(0, |since| since.as_nanos() as i64);
    now_ns - monotonic_ns().saturating_sub(mono_ns) as i64
}

/// `2026-01-31T23:59:59.123Z`: what people match with their own logs.
pub fn rfc3339_ms(unix_ns: i64) -> String {
    let seconds = Utc::of_unix(unix_ns.div_euclid(1_000_000_000)).rfc3339();
    let ms = unix_ns.rem_euclid(1_000_000_000) / 1_000_000;
    format!("{}.{ms:03}Z", seconds.trim_end_matches('Z'))
}

/// A moment of wall time, UTC, second resolution.
pub struct Utc(libc::tm);

impl Utc {
    /// Now.
    pub fn now() -> Utc {
        let mut parts = MaybeUninit::<libc::tm>::zeroed();
        // SAFETY: both calls only fill local memory.
        unsafe {
            let seconds = libc::time(std::ptr::null_mut());
            libc::gmtime_r(&raw const seconds, parts.as_mut_ptr());
            Utc(parts.assume_init())
        }
    }

    /// A number of seconds since 1970.
    pub fn of_unix(seconds: i64) -> Utc {
        let mut parts = MaybeUninit::<libc::tm>::zeroed();
        // SAFETY: the call only fills local memory; for a year beyond its range it leaves zeros there.
        unsafe {
            libc::gmtime_r(&raw const seconds, parts.as_mut_ptr());
            Utc(parts.assume_init())
        }
    }

    /// `2026-01-31T23:59:59Z`.
    pub fn rfc3339(&self) -> String {
        let t = &self.0;
        let (year, month) = (t.tm_year + 1900, t.tm_mon + 1);
        format!(
            "{year:04}-{month:02}-{:02}T{:02}:{:02}:{:02}Z",
            t.tm_mday, t.tm_hour, t.tm_min, t.tm_sec
        )
    }

    /// `20260131T235959Z`, for names of directories.
    pub fn compact(&self) -> String {
        self.rfc3339().replace(['-', ':'], "")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utc_has_the_documented_shape() {
        let now = Utc::now();
        assert_eq!(now.rfc3339().len(), "2026-01-31T23:59:59Z".len());
        assert_eq!(now.compact().len(), "20260131T235959Z".len());
    }

    #[test]
    fn moments_have_milliseconds() {
        assert_eq!(rfc3339_ms(1_769_903_999_123_999_999), "2026-01-31T23:59:59.123Z");
        let now_ns = wall_ns(monotonic_ns());
        assert!(wall_ns(monotonic_ns() - 5_000_000_000) <= now_ns - 4_000_000_000);
    }

    #[test]
    fn the_clock_moves_in_fine_steps() {
        assert!((1..1_000_000).contains(&monotonic_resolution_ns()));
    }
}
