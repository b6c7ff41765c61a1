//! The switch of the lanes for short messages, VERBENA_LANES.

use std::cell::Cell;
use verbena_hca_os::errno::{Errno, Result};

/// When messages go by lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Never.
    Off,
    /// On connections that have sent some messages: the default.
    Auto,
    /// From the first message of a connection on.
    Always,
    /// As `Always`, and connections leave and enter their lanes at random: for tests.
    Shuffle,
}

/// Messages in the channel before a connection gets a lane: one that sends a few takes no memory
/// for it.
const SOME: u32 = 8;

impl Mode {
    /// Returns the mode that the environment chooses.
    ///
    /// # Errors
    /// EINVAL, after a line on standard error, for an unknown mode.
    pub fn from_environment() -> Result<Mode> {
        match std::env::var("VERBENA_LANES").as_deref() {
            Err(_) | Ok("" | "auto") => Ok(Mode::Auto),
            Ok("off") => Ok(Mode::Off),
            Ok("always") => Ok(Mode::Always),
            Ok("shuffle") => Ok(Mode::Shuffle),
            Ok(other) => {
                eprintln!("verbena: VERBENA_LANES is `{other}`; use off, auto, always or shuffle");
                Err(Errno::EINVAL)
            }
        }
    }

    /// Returns the number of messages in the channel before a connection gets a lane.
    #[inline]
    pub fn threshold(self) -> u32 {
        match self {
            Mode::Off => u32::MAX,
            Mode::Auto => SOME,
            Mode::Always | Mode::Shuffle => 0,
        }
    }

    /// Returns true once in about `times` calls in the mode for tests, otherwise never.
    #[inline]
    pub fn chance(self, times: u32) -> bool {
        self == Mode::Shuffle && is_drawn(times)
    }
}

#[cold]
fn is_drawn(times: u32) -> bool {
    thread_local! {
        static STATE: Cell<u32> = const { Cell::new(0) };
    }
    // Marsaglia, Xorshift RNGs, 2003.
    let drawn = STATE.try_with(|state| {
        let mut word = match state.get() {
            0 => (verbena_hca_os::clock::now() as u32) | 1,
            other => other,
        };
        word ^= word << 13;
        word ^= word >> 17;
        word ^= word << 5;
        state.set(word);
        word.is_multiple_of(times)
    });
    drawn.unwrap_or(false)
}
