//! Congestion control, as a profile says it.

use super::super::error::Error;
use super::super::quantity::{Bytes, Count, Rate, Ratio};
use super::super::reader::{Field, Section};
use crate::kernel::Time;

section! {
    /// Which packets a switch marks, by what waits before their port.
    Marking {
        /// Up to so much none.
        kmin: Bytes,
        /// Beyond so much all.
        kmax: Bytes,
        /// The share of them that is marked when so much waits; between the two in proportion.
        pmax: Ratio,
    }
}

section! {
    /// When a receiver tells a sender of marked packets.
    Telling {
        /// Of a flow once in this time at most.
        interval: Time,
        /// Of the packet that says so, what is behind its base transport header.
        packet: Bytes,
    }
}

section! {
    /// What a sender does about it.
    RateControl {
        /// Weight of the newest in the estimate of congestion.
        g: Ratio,
        /// Without a notification for so long the estimate falls.
        alpha_timer: Time,
        /// From one event of the timer that raises the rate to the next.
        rate_timer: Time,
        /// Bytes sent from one event of the byte counter to the next.
        byte_counter: Bytes,
        /// Events of either until the target is raised.
        fast_recovery: Count,
        /// By so much it is raised then.
        additive_increase: Rate,
        /// By so much when both have had so many.
        hyper_increase: Rate,
        /// No flow is slower.
        min_rate: Rate,
    }
}

/// Congestion control from end to end.
#[derive(Debug, Clone)]
pub struct Congestion {
    /// In words.
    pub about: String,
    /// In switches.
    pub marking: Marking,
    /// In receiving adapters.
    pub telling: Telling,
    /// In sending adapters.
    pub rate: RateControl,
}

impl Congestion {
    pub(in crate::profile) fn read(root: &Section<'_>) -> Result<Congestion, Error> {
        let section = root.expect("marking")?;
        let marking = Marking::read(&section)?;
        if marking.kmax < marking.kmin {
            let (least, most) = (marking.kmin.0, marking.kmax.0);
            let reason = format!("expected at least kmin, {least} B, found {most} B");
            return Err(section.about("kmax", reason));
        }
        if !(0.0..=1.0).contains(&marking.pmax.0) {
            return Err(section.about("pmax", "expected a share of at most 1".to_owned()));
        }
        let telling = Telling::read(&root.expect("telling")?)?;
        let section = root.expect("rate")?;
        let rate = RateControl::read(&section)?;
        if !(rate.g.0 > 0.0 && rate.g.0 < 1.0) {
            let reason = "expected a weight above 0 and below 1".to_owned();
            return Err(section.about("g", reason));
        }
        for (key, time) in [
            ("alpha_timer", rate.alpha_timer),
            ("rate_timer", rate.rate_timer),
        ] {
            if time == Time::ZERO {
                return Err(section.about(key, "expected a time above zero".to_owned()));
            }
        }
        Ok(Congestion {
            about: root.word("about")?,
            marking,
            telling,
            rate,
        })
    }
}
