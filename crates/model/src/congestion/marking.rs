//! The congestion point: marking of packets by a switch. Source: Floyd and Jacobson, "Random early
//! detection gateways", 1993, with the instantaneous queue length as in section 3.1 of the DCQCN
//! paper.

use crate::profile::Marking;

/// Returns the probability that at least one packet of a load of `packets` packets is marked behind
/// a queue of `queued` bytes.
pub(crate) fn probability(marking: &Marking, queued: u64, packets: u64) -> f64 {
    let (least, most) = (marking.kmin.0, marking.kmax.0);
    if queued <= least {
        return 0.0;
    }
    if queued > most {
        return 1.0;
    }
    let one = marking.pmax.0 * (queued - least) as f64 / (most - least) as f64;
    1.0 - (1.0 - one).powf(packets as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Bytes, Ratio};

    #[test]
    fn marking_probability_rises_from_kmin_to_kmax_and_then_is_one() {
        let marking = Marking {
            kmin: Bytes(5_000),
            kmax: Bytes(200_000),
            pmax: Ratio(0.01),
        };
        let of = |queued| probability(&marking, queued, 1);
        assert_eq!((of(0), of(5_000), of(200_001)), (0.0, 0.0, 1.0));
        assert!((of(102_500) - 0.005).abs() < 1e-12);
        assert!((of(200_000) - 0.01).abs() < 1e-12);
        let train = probability(&marking, 102_500, 16);
        assert!((train - (1.0 - 0.995f64.powi(16))).abs() < 1e-12);
        let step = Marking {
            kmax: Bytes(5_000),
            ..marking
        };
        assert_eq!(probability(&step, 5_000, 1), 0.0);
        assert_eq!(probability(&step, 5_001, 1), 1.0);
    }
}
