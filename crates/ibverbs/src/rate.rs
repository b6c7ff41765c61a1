//! Static rates: ibv_rate_to_mbps(3), ibv_rate_to_mult(3) and their inverses.

use libc::c_int;
use verbena_abi::*;

/// Rate, multiple of 2.5 Gb/s, Mb/s. The rates of 14 Gb/s lanes and most of those of 25 Gb/s lanes
/// have no multiple.
const RATES: [(ibv_rate, Option<c_int>, c_int); 23] = [
    (IBV_RATE_2_5_GBPS, Some(1), 2500),
    (IBV_RATE_5_GBPS, Some(2), 5000),
    (IBV_RATE_10_GBPS, Some(4), 10000),
    (IBV_RATE_20_GBPS, Some(8), 20000),
    (IBV_RATE_30_GBPS, Some(12), 30000),
    (IBV_RATE_40_GBPS, Some(16), 40000),
    (IBV_RATE_60_GBPS, Some(24), 60000),
    (IBV_RATE_80_GBPS, Some(32), 80000),
    (IBV_RATE_120_GBPS, Some(48), 120_000),
    (IBV_RATE_14_GBPS, None, 14062),
    (IBV_RATE_56_GBPS, None, 56250),
    (IBV_RATE_112_GBPS, None, 112_500),
    (IBV_RATE_168_GBPS, None, 168_750),
    (IBV_RATE_25_GBPS, None, 25781),
    (IBV_RATE_100_GBPS, None, 103_125),
    (IBV_RATE_200_GBPS, None, 206_250),
    (IBV_RATE_300_GBPS, None, 309_375),
    (IBV_RATE_28_GBPS, Some(11), 28125),
    (IBV_RATE_50_GBPS, Some(20), 53125),
    (IBV_RATE_400_GBPS, Some(160), 425_000),
    (IBV_RATE_600_GBPS, Some(240), 637_500),
    (IBV_RATE_800_GBPS, Some(320), 850_000),
    (IBV_RATE_1200_GBPS, Some(480), 1_275_000),
];

/// Returns the multiple of 2.5 Gb/s, or -1.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_rate_to_mult(rate: ibv_rate) -> c_int {
    find(|&(of, ..)| of == rate)
        .and_then(|(_, multiple, _)| multiple)
        .unwrap_or(-1)
}

/// Returns the rate for a multiple of 2.5 Gb/s, or IBV_RATE_MAX.
#[unsafe(no_mangle)]
pub extern "C" fn mult_to_ibv_rate(multiple: c_int) -> ibv_rate {
    find(|&(_, of, _)| of == Some(multiple)).map_or(IBV_RATE_MAX, |(rate, ..)| rate)
}

/// Returns the rate in Mb/s, or -1.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_rate_to_mbps(rate: ibv_rate) -> c_int {
    find(|&(of, ..)| of == rate).map_or(-1, |(.., mbps)| mbps)
}

/// Returns the rate for a number of Mb/s, or IBV_RATE_MAX.
#[unsafe(no_mangle)]
pub extern "C" fn mbps_to_ibv_rate(mbps: c_int) -> ibv_rate {
    find(|&(.., of)| of == mbps).map_or(IBV_RATE_MAX, |(rate, ..)| rate)
}

fn find(
    wanted: impl Fn(&(ibv_rate, Option<c_int>, c_int)) -> bool,
) -> Option<(ibv_rate, Option<c_int>, c_int)> {
    RATES.iter().copied().find(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_conversions_round_trip() {
        for (rate, multiple, _) in RATES {
            assert_eq!(mbps_to_ibv_rate(ibv_rate_to_mbps(rate)), rate);
            let back = if multiple.is_some() {
                rate
            } else {
                IBV_RATE_MAX
            };
            assert_eq!(mult_to_ibv_rate(ibv_rate_to_mult(rate)), back);
        }
    }

    #[test]
    fn rate_conversions_match_the_header_examples() {
        assert_eq!(ibv_rate_to_mult(IBV_RATE_5_GBPS), 2);
        assert_eq!(ibv_rate_to_mbps(IBV_RATE_5_GBPS), 5000);
    }

    #[test]
    fn unknown_rates_are_mapped_to_errors() {
        assert_eq!(ibv_rate_to_mult(IBV_RATE_MAX), -1);
        assert_eq!(ibv_rate_to_mbps(1000), -1);
        assert_eq!(mult_to_ibv_rate(3), IBV_RATE_MAX);
        assert_eq!(mbps_to_ibv_rate(-1), IBV_RATE_MAX);
    }
}
