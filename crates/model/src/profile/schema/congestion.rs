//! Profile sections of congestion control.

use crate::kernel::Time;
use crate::profile::error::Error;
use crate::profile::quantity::{Bytes, Count, Rate, Ratio};
use crate::profile::reader::Section;

section! {
    /// Marking of packets by a switch, depending on the queue before their output port.
    Marking {
        /// Queue length up to which no packet is marked.
        kmin: Bytes,
        /// Queue length above which every packet is marked.
        kmax: Bytes,
        /// Share of packets marked at `kmax`; in between, the share grows linearly from zero.
        pmax: Ratio,
    }
}

section! {
    /// Congestion notifications from the receiver of marked packets to their sender.
    Telling {
        /// Shortest time between two notifications of a flow.
        interval: Time,
        /// Bytes of a notification packet after its base transport header.
        packet: Bytes,
    }
}

section! {
    /// The sender's reaction to notifications.
    RateControl {
        /// Weight of the newest sample in the congestion estimate.
        g: Ratio,
        /// Time without a notification after which the estimate decreases.
        alpha_timer: Time,
        /// Period of the timer that raises the rate.
        rate_timer: Time,
        /// Bytes sent per event of the byte counter.
        byte_counter: Bytes,
        /// Events of either until the target rate is raised.
        fast_recovery: Count,
        /// Increment of the target rate from then on.
        additive_increase: Rate,
        /// Increment once both timer and byte counter exceed that many events.
        hyper_increase: Rate,
        /// Lower limit of a flow's rate.
        min_rate: Rate,
    }
}

/// End-to-end congestion control.
#[derive(Debug, Clone)]
pub struct Congestion {
    /// Description.
    pub about: String,
    /// Marking in switches.
    pub marking: Marking,
    /// Notifications by receiving adapters.
    pub telling: Telling,
    /// Rate control in sending adapters.
    pub rate: RateControl,
}

impl Congestion {
    pub(crate) fn read(root: &Section<'_>) -> Result<Congestion, Error> {
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
