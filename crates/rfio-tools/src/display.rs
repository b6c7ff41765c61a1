//! Formats attributes, times and sizes for display.

use verbena_rfio_protocol::types::Attributes;

/// Writes a line to standard output as `println` does, but ignores errors: a daemon outlives the
/// pipe that it was started with, and `rfdir | head -1` is no failure.
#[macro_export]
macro_rules! say {
    ($($arguments:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stdout(), $($arguments)*);
    }};
}

/// Returns type and permission bits in the format of ls(1).
pub fn mode(mode: u32) -> String {
    let kind = match mode & libc::S_IFMT {
        libc::S_IFDIR => 'd',
        libc::S_IFLNK => 'l',
        libc::S_IFCHR => 'c',
        libc::S_IFBLK => 'b',
        libc::S_IFIFO => 'p',
        libc::S_IFSOCK => 's',
        _ => '-',
    };
    let mut text = String::from(kind);
    for shift in [6, 3, 0] {
        for (bit, letter) in [(4, 'r'), (2, 'w'), (1, 'x')] {
            text.push(if (mode >> shift) & bit != 0 {
                letter
            } else {
                '-'
            });
        }
    }
    text
}

/// Returns a UTC time as `2026-02-28 23:59:59`, from nanoseconds since 1970 (proleptic Gregorian
/// calendar).
pub fn moment(nanoseconds: i64) -> String {
    let seconds = nanoseconds.div_euclid(1_000_000_000);
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Days are counted from 1 March of year 0, so that the leap day ends a year.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}",
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    )
}

/// Returns a line of a listing, similar to `ls -l`.
pub fn line(name: &str, about: &Attributes) -> String {
    format!(
        "{} {:>3} {:>8} {:>8} {:>14} {} {name}",
        mode(about.mode),
        about.links,
        about.owner,
        about.group,
        about.size,
        moment(about.modified),
    )
}

/// Returns a byte count with a decimal unit.
pub fn bytes(count: u64) -> String {
    let mut value = count as f64;
    for unit in ["B", "kB", "MB", "GB", "TB"] {
        if value < 1000.0 {
            return if unit == "B" {
                format!("{count} B")
            } else {
                format!("{value:.1} {unit}")
            };
        }
        value /= 1000.0;
    }
    format!("{value:.1} PB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_formatted() {
        assert_eq!(moment(0), "1970-01-01 00:00:00");
        assert_eq!(moment(951_782_399 * 1_000_000_000), "2000-02-28 23:59:59");
        assert_eq!(moment(951_782_400 * 1_000_000_000), "2000-02-29 00:00:00");
        assert_eq!(moment(-1), "1969-12-31 23:59:59");
        assert_eq!(moment(4_102_444_800 * 1_000_000_000), "2100-01-01 00:00:00");
    }

    #[test]
    fn modes_are_formatted() {
        assert_eq!(mode(0o100644), "-rw-r--r--");
        assert_eq!(mode(0o040755), "drwxr-xr-x");
    }

    #[test]
    fn sizes_are_formatted() {
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(1_500), "1.5 kB");
        assert_eq!(bytes(2_000_000_000), "2.0 GB");
    }
}
