//! The rate and the MTU of an adapter's port, as programs read them from `ibv_port_attr`.

/// A port's rate and MTU, by the codes of ibv_query_port(3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Port {
    /// Code of the rate of a lane: `active_speed`.
    pub speed: u8,
    /// Code of the number of lanes: `active_width`.
    pub width: u8,
    /// Code of the MTU: `active_mtu`.
    pub mtu: u8,
}

/// Rates of payload in 10^6 bytes a second, after the line code, and their codes (InfiniBand
/// architecture specification, 14.2.5.6: LinkSpeedActive and LinkWidthActive).
const RATES: [(f64, u8, u8); 12] = [
    (250.0, 1, 1),
    (1000.0, 1, 2),
    (1250.0, 4, 1),
    (2000.0, 2, 2),
    (3000.0, 1, 8),
    (3125.0, 32, 1),
    (4000.0, 4, 2),
    (6818.2, 16, 2),
    (12_500.0, 32, 2),
    (25_000.0, 64, 2),
    (50_000.0, 128, 2),
    (100_000.0, 128, 4),
];

/// Part of a rate that rounding may take.
const ROUNDED: f64 = 0.99;

impl Port {
    /// Returns the port with the highest rate that a link of this many bytes a second reaches, and
    /// with the largest MTU of at most so many bytes.
    pub fn of(bytes_per_second: f64, mtu: u64) -> Port {
        let rate = bytes_per_second / 1e6;
        let reached = RATES.iter().rev().find(|(one, ..)| ROUNDED * one <= rate);
        let (_, speed, width) = *reached.unwrap_or(&RATES[0]);
        let codes = (1..=5).rev();
        let mtu = codes.into_iter().find(|code| 128 << code <= mtu);
        Port {
            speed,
            width,
            mtu: mtu.unwrap_or(1),
        }
    }

    /// Reads the three codes; none for another text.
    pub(crate) fn read(text: &str) -> Option<Port> {
        let codes: Option<Vec<u8>> = text.split(' ').map(|word| word.parse().ok()).collect();
        let [speed, width, mtu] = codes?.try_into().ok()?;
        let is_rate = RATES.iter().any(|one| (one.1, one.2) == (speed, width));
        (is_rate && (1..=5).contains(&mtu)).then_some(Port { speed, width, mtu })
    }
}

impl std::fmt::Display for Port {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "{} {} {}", self.speed, self.width, self.mtu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_mtus_are_rounded_down_to_those_of_the_specification() {
        let of = |rate: f64, mtu| {
            let port = Port::of(rate * 1e6, mtu);
            (port.speed, port.width, port.mtu)
        };
        assert_eq!(of(4000.0, 2048), (4, 2, 4));
        assert_eq!(of(6818.18, 4096), (16, 2, 5));
        assert_eq!(of(11_000.0, 1024), (16, 2, 3));
        assert_eq!(of(1.0, 1), (1, 1, 1));
        assert_eq!(of(1e9, 1 << 20), (128, 4, 5));
    }

    #[test]
    fn a_port_survives_its_text() {
        for (rate, ..) in RATES {
            let port = Port::of(rate * 1e6, 2048);
            assert_eq!(Port::read(&port.to_string()), Some(port));
        }
        for wrong in [
            "", "4 2", "4 2 4 1", "3 2 4", "4 2 6", "4 2 0", "4  4", "4 2 -1",
        ] {
            assert_eq!(Port::read(wrong), None, "{wrong}");
        }
    }
}
