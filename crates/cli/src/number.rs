//! Parsers for numbers on the command line: sizes with units and whole numbers with limits. Their
//! errors name the value, its form and its limits.

use std::ops::RangeInclusive;
use verbena_measure::unit;

/// Largest message size of a sweep.
const LARGEST_MESSAGE: usize = 1 << 30;

/// Parses a message size from 1 byte to 1 GiB, as in `8`, `4K` or `1M`.
///
/// # Errors
///
/// Names the text, and the form or the limits of a size.
pub fn message_size(text: &str) -> Result<usize, String> {
    let size = usize::try_from(unit::read_size(text)?).ok();
    size.filter(|size| (1..=LARGEST_MESSAGE).contains(size))
        .ok_or_else(|| format!("{text:?} is not between 1 byte and 1 GiB"))
}

/// Parses the largest size posted inline; 0 for none.
///
/// # Errors
///
/// Names the text, and the form or the limits of a size.
pub fn inline_size(text: &str) -> Result<u32, String> {
    let size = unit::read_size(text)?;
    u32::try_from(size).map_err(|_| format!("{text:?} is not below 4 GiB"))
}

/// Returns a parser of whole numbers within limits.
pub fn between<T: TryFrom<u64>>(
    limits: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text: &str| {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse().ok().filter(|_| digits);
        let number = number.filter(|number| limits.contains(number));
        let (least, most) = (limits.start(), limits.end());
        number
            .and_then(|number| T::try_from(number).ok())
            .ok_or_else(|| match *most {
                u64::MAX => format!("{text:?} is not a whole number of at least {least}"),
                _ => format!("{text:?} is not a whole number from {least} to {most}"),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ArgAction;

    #[test]
    fn sizes_have_units_and_limits() {
        assert_eq!((message_size("8"), message_size("4K")), (Ok(8), Ok(4096)));
        assert_eq!((inline_size("0"), inline_size("1K")), (Ok(0), Ok(1024)));
        for wrong in ["0", "2G", "99999999999999999999"] {
            let error = message_size(wrong).unwrap_err();
            assert!(error.contains(wrong), "{error}");
        }
        assert!(inline_size("4G").is_err());
    }

    #[test]
    fn whole_numbers_have_limits() {
        let few = between::<u8>(1..=64);
        assert_eq!((few("1"), few("64")), (Ok(1), Ok(64)));
        for wrong in [
            "",
            "0",
            "65",
            "4K",
            "+4",
            "-1",
            "1.5",
            "99999999999999999999",
        ] {
            let error = few(wrong).unwrap_err();
            assert!(
                error.contains(wrong) && error.contains("from 1 to 64"),
                "{error}"
            );
        }
        assert!(
            between::<u64>(1..=u64::MAX)("x")
                .unwrap_err()
                .ends_with("of at least 1")
        );
    }

    #[test]
    fn no_option_shows_error_texts_of_the_standard_library() {
        for command in crate::command_line::complete().get_subcommands() {
            let options = command
                .get_arguments()
                .filter_map(|one| Some((one, one.get_long()?)));
            for (option, long) in options {
                if !matches!(option.get_action(), ArgAction::Set | ArgAction::Append) {
                    continue;
                }
                for text in ["4x", "-1", "", "99999999999999999999", "256"] {
                    let word = format!("--{long}={text}");
                    let line = ["verbena", command.get_name(), &word];
                    let Err(error) = crate::command_line::complete().try_get_matches_from(line)
                    else {
                        continue;
                    };
                    let error = error.to_string();
                    let borrowed = [
                        "invalid digit",
                        "empty string",
                        "too large to fit",
                        "is not in",
                    ]
                    .into_iter()
                    .find(|words| error.contains(words));
                    assert_eq!(borrowed, None, "{line:?}: {error}");
                }
            }
        }
    }

    #[test]
    fn every_size_option_accepts_units() {
        for line in [
            "verbena explain latency.write --on model:connectx-ddr --sizes 8,4K,1M --inline 1K",
            "verbena bench latency.write --sizes 8,4K,1M --inline 1K",
            "verbena evaluate --sizes 8,4K,1M --inline 1K",
        ] {
            let words = line.split_whitespace();
            if let Err(error) = crate::command_line::complete().try_get_matches_from(words) {
                panic!("{line}: {error}");
            }
        }
    }
}
