//! Widths and speeds of links.

use std::fmt;

/// Speed of a lane, by InfiniBand's generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Speed {
    /// 2.5 Gbaud.
    Sdr,
    /// 5 Gbaud.
    Ddr,
    /// 10 Gbaud.
    Qdr,
    /// 10.3125 Gbaud, of Mellanox.
    Fdr10,
    /// 14.0625 Gbaud.
    Fdr,
    /// 25.78125 Gbaud.
    Edr,
    /// 53.125 Gbit/s.
    Hdr,
    /// 106.25 Gbit/s.
    Ndr,
    /// 212.5 Gbit/s.
    Xdr,
}

impl Speed {
    const ALL: [(Speed, &str, &str, f64); 9] = [
        (Speed::Sdr, "SDR", "2.5", 2.0),
        (Speed::Ddr, "DDR", "5", 4.0),
        (Speed::Qdr, "QDR", "10", 8.0),
        (Speed::Fdr10, "FDR10", "FDR10", 10.0),
        (Speed::Fdr, "FDR", "14", 13.64),
        (Speed::Edr, "EDR", "25", 25.0),
        (Speed::Hdr, "HDR", "50", 50.0),
        (Speed::Ndr, "NDR", "100", 100.0),
        (Speed::Xdr, "XDR", "200", 200.0),
    ];

    /// Returns the speed of this name (`QDR`), in capitals.
    pub fn of_name(name: &str) -> Option<Speed> {
        Speed::ALL.iter().find(|row| row.1 == name).map(|row| row.0)
    }

    /// Returns the speed of this number of Gbit/s as OpenSM prints it (`2.5`, `10`, `FDR10`).
    pub fn of_number(number: &str) -> Option<Speed> {
        Speed::ALL
            .iter()
            .find(|row| row.2 == number)
            .map(|row| row.0)
    }

    fn row(self) -> &'static (Speed, &'static str, &'static str, f64) {
        &Speed::ALL[self as usize]
    }

    /// Data rate of a lane in Gbit/s, without line coding.
    pub fn gigabits(self) -> f64 {
        self.row().3
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row().1)
    }
}

/// Rate of a link: `4xHDR`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rate {
    /// Number of lanes.
    pub width: u8,
    /// Speed of each.
    pub speed: Speed,
}

impl Rate {
    /// Parses `4xHDR`; `None` if a part is unknown, as in `4x???`.
    pub fn parse(text: &str) -> Option<Rate> {
        let (width, speed) = text.split_once('x')?;
        let width = width.parse().ok()?;
        let speed = Speed::of_name(speed.trim())?;
        matches!(width, 1 | 2 | 4 | 8 | 12).then_some(Rate { width, speed })
    }

    /// Data rate in Gbit/s and direction, without line coding.
    pub fn gigabits(self) -> f64 {
        f64::from(self.width) * self.speed.gigabits()
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.width, self.speed)
    }
}
