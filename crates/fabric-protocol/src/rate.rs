//! The rate of a port, from the codes of ibv_query_port(3).

use std::fmt;

/// Rates of a lane: code, units of 100 Mb/s, name.
const LANES: [(u16, u64, &str); 9] = [
    (1, 25, "SDR"),
    (2, 50, "DDR"),
    (4, 100, "QDR"),
    (8, 100, "FDR10"),
    (16, 140, "FDR"),
    (32, 250, "EDR"),
    (64, 500, "HDR"),
    (128, 1000, "NDR"),
    (256, 2000, "XDR"),
];

/// The rate of a port. Its text is that of `rate` in sysfs: `40 Gb/sec (4X QDR)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Code of the rate of a lane, as in `active_speed`.
    pub speed: u16,
    /// Code of the number of lanes, as in `active_width`.
    pub width: u8,
}

impl Rate {
    fn lane(self) -> (u64, &'static str) {
        let found = LANES.iter().find(|lane| lane.0 == self.speed);
        let (_, rate, name) = *found.unwrap_or(&LANES[0]);
        (rate, name)
    }

    fn lanes(self) -> u64 {
        match self.width {
            2 => 4,
            4 => 8,
            8 => 12,
            16 => 2,
            _ => 1,
        }
    }

    /// Returns the rate in units of 100 Mb/s.
    pub fn units(self) -> u64 {
        self.lanes() * self.lane().0
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = self.units();
        let tenth = match units % 10 {
            0 => "",
            _ => ".5",
        };
        let (lanes, (_, name)) = (self.lanes(), self.lane());
        write!(to, "{}{tenth} Gb/sec ({lanes}X {name})", units / 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_that_of_sysfs() {
        let text = |speed, width| Rate { speed, width }.to_string();
        assert_eq!(text(4, 2), "40 Gb/sec (4X QDR)");
        assert_eq!(text(64, 2), "200 Gb/sec (4X HDR)");
        assert_eq!(text(1, 1), "2.5 Gb/sec (1X SDR)");
        assert_eq!(text(64, 16), "100 Gb/sec (2X HDR)");
        assert_eq!(text(256, 2), "800 Gb/sec (4X XDR)");
        assert_eq!(text(0, 0), "2.5 Gb/sec (1X SDR)");
    }
}
