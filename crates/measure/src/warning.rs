//! Warnings as data, each with advice.

use crate::stats::launches::Levels;
use crate::unit;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Ends of processes that sent equally many messages: those nearer to the first end are early,
/// the others late.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ends {
    /// Ranks of the early ones, ascending.
    pub early: Vec<usize>,
    /// Ranks of the late ones, ascending.
    pub late: Vec<usize>,
    /// The first end, in nanoseconds from the start.
    pub first: f64,
    /// The last end.
    pub last: f64,
}

impl Ends {
    /// Returns the ends of processes, given as (rank, nanoseconds from the start) by rank; `None`
    /// for fewer than two.
    pub fn of(ends: &[(usize, f64)]) -> Option<Ends> {
        let times = || ends.iter().map(|end| end.1);
        let (first, last) = (times().reduce(f64::min)?, times().reduce(f64::max)?);
        let (early, late): (Vec<_>, Vec<_>) =
            ends.iter().partition(|end| end.1 - first < last - end.1);
        let ranks = |ends: Vec<(usize, f64)>| ends.into_iter().map(|end| end.0).collect();
        (last > first).then(|| Ends {
            early: ranks(early),
            late: ranks(late),
            first,
            last,
        })
    }
}

impl fmt::Display for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "processes ended between {} and {}, {} early, {} late",
            unit::time(self.first),
            unit::time(self.last),
            ranges(&self.early),
            ranges(&self.late)
        )
    }
}

/// Number of ranges of ranks that a text names.
const RANGES: usize = 4;

/// Returns ascending ranks as ranges, e.g. `1-7, 9`, or their number if there are many ranges.
fn ranges(ranks: &[usize]) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for &rank in ranks {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == rank => *last = rank,
            _ => ranges.push((rank, rank)),
        }
    }
    if ranges.len() > RANGES {
        return format!("{} of them", ranks.len());
    }
    let texts = ranges.iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    texts.collect::<Vec<_>>().join(", ")
}

/// A warning about a result or a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum Warning {
    /// More spinning processes than cores.
    OversubscribedCores {
        /// Processes on the node.
        processes: usize,
        /// Cores of the node.
        cores: usize,
    },
    /// Processes were not bound to cores.
    Unpinned,
    /// The interval of the median did not become narrow enough before the cap (rule 9).
    Unconverged {
        /// Relative half-width reached; `None` for too few samples.
        half_width: Option<f64>,
    },
    /// All pairs were active together for less than 0.9 of the union interval; the rate is rejected
    /// (rule 10).
    LowOverlap {
        /// The share.
        fraction: f64,
        /// The processes that ended early and late, if they are known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ends: Option<Ends>,
    },
    /// Reading the clock costs more than 1 % of the median; batches were timed (rule 2).
    TimerOverhead {
        /// Share of the median.
        fraction: f64,
        /// Operations per batch.
        batch: u32,
    },
    /// The time-stamp counter is not used.
    SystemClock {
        /// The reason.
        reason: String,
    },
    /// Processor frequency may change during the run.
    Governor {
        /// The governor's name.
        name: String,
    },
    /// The machine is virtual; other guests may affect the figures.
    Virtual,
    /// Fewer launches than a comparison needs (rule 8).
    FewLaunches {
        /// Number of launches.
        launches: usize,
    },
    /// Most pace checks found a processor slower than its undisturbed pace: its core was shared
    /// (rule 5).
    Disturbed {
        /// Share of the checks; 0 for older files, which lack it.
        #[serde(default)]
        share: f64,
    },
    /// The launches lie on two levels, so no single figure describes the adapter.
    TwoLevels(Levels),
    /// A pair is far slower than the median pair (rule 12).
    Straggler {
        /// The pair, from 0.
        pair: usize,
        /// Its median over the median pair's.
        ratio: f64,
    },
    /// The start skew was large compared with the measurement (rule 11).
    StartSkew {
        /// Nanoseconds between the first and the last start.
        nanos: f64,
    },
    /// The clocks of the hosts could not be compared before a start, so the start skew is unknown
    /// (rule 11).
    UnknownStart,
    /// The model's packets are the small ones of ordinary Ethernet frames.
    SmallPackets {
        /// Payload of a packet in bytes.
        mtu: u64,
        /// Path of the value in the profiles, for `--set`.
        setting: String,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::OversubscribedCores { processes, cores } => {
                write!(
                    f,
                    "{processes} processes on {cores} cores share time slices"
                )
            }
            Warning::Unpinned => f.write_str("processes were not bound to cores"),
            Warning::Unconverged {
                half_width: Some(width),
            } => {
                write!(f, "the median is known to {:.1} % only", width * 100.0)
            }
            Warning::Unconverged { half_width: None } => {
                f.write_str("too few samples for an interval of the median")
            }
            Warning::LowOverlap { fraction, ends } => {
                write!(
                    f,
                    "all pairs were active for only {:.0} % of the time",
                    fraction * 100.0
                )?;
                match ends {
                    Some(ends) => write!(f, ": {ends}"),
                    None => Ok(()),
                }
            }
            Warning::TimerOverhead { fraction, batch } => write!(
                f,
                "the clock costs {:.1} % of the median, which is of {batch} operations timed \
                 together; percentiles are of single ones",
                fraction * 100.0
            ),
            Warning::SystemClock { reason } => write!(f, "time-stamp counter not used: {reason}"),
            Warning::Governor { name } => write!(f, "the frequency governor is {name}"),
            Warning::Virtual => f.write_str("this is a virtual machine"),
            Warning::FewLaunches { launches } => {
                write!(f, "launches: {launches}, too few to compare")
            }
            Warning::Disturbed { share } => write!(
                f,
                "machine busy: other processes ran on these cores in {:.0} % of the samples",
                share * 100.0
            ),
            Warning::TwoLevels(Levels {
                below,
                above,
                ratio,
            }) => write!(
                f,
                "launches lie at two levels: {below} at one, {above} at another {ratio:.2} times \
                 as high"
            ),
            Warning::Straggler { pair, ratio } => {
                write!(
                    f,
                    "pair {pair} is {ratio:.2} times as slow as the median pair"
                )
            }
            Warning::StartSkew { nanos } => {
                write!(f, "the pairs started {} apart", crate::unit::time(*nanos))
            }
            Warning::SmallPackets { mtu, setting } => write!(
                f,
                "packets of {mtu} B, as in Ethernet frames of 1500 B; for jumbo frames add --set \
                 {setting}=4096"
            ),
            Warning::UnknownStart => {
                f.write_str("clocks of the hosts could not be compared; start skew unknown")
            }
        }
    }
}

impl Warning {
    /// Returns a short form for tables; [`fmt::Display`] gives the full text.
    pub fn brief(&self) -> String {
        match self {
            Warning::OversubscribedCores { processes, cores } => {
                format!("{processes} on {cores} cores")
            }
            Warning::Unpinned => "unpinned".to_owned(),
            Warning::Unconverged {
                half_width: Some(width),
            } => format!("± {:.1} %", width * 100.0),
            Warning::Unconverged { half_width: None } => "few samples".to_owned(),
            Warning::LowOverlap { fraction, .. } => format!("overlap {:.0} %", fraction * 100.0),
            Warning::TimerOverhead { batch, .. } => format!("batches of {batch}"),
            Warning::SystemClock { .. } => "system clock".to_owned(),
            Warning::Governor { .. } => "governor".to_owned(),
            Warning::Virtual => "virtual machine".to_owned(),
            Warning::FewLaunches { .. } => "few launches".to_owned(),
            Warning::Disturbed { .. } => "disturbed".to_owned(),
            Warning::TwoLevels(levels) => format!("two levels, {:.2} apart", levels.ratio),
            Warning::Straggler { pair, .. } => format!("pair {pair} slow"),
            Warning::StartSkew { .. } => "ragged start".to_owned(),
            Warning::UnknownStart => "start skew unknown".to_owned(),
            Warning::SmallPackets { mtu, .. } => format!("MTU {mtu}"),
        }
    }

    /// Returns advice on the warning.
    pub fn advice(&self) -> &'static str {
        match self {
            Warning::OversubscribedCores { .. } => "use fewer pairs, or a machine with more cores",
            Warning::Unpinned => "allow the processes to set their affinity",
            Warning::Unconverged { .. } => "run longer (without --quick), or on a quieter machine",
            Warning::LowOverlap { ends: Some(_), .. } => {
                "run longer, so that the start matters less; processes that are always late have \
                 a slower path"
            }
            Warning::LowOverlap { .. } => "run longer, so that the start matters less",
            Warning::TimerOverhead { .. } => "nothing; percentiles have the clock's time in them",
            Warning::SystemClock { .. } => "short times carry the system clock's overhead",
            Warning::Governor { .. } => "set the governor to performance",
            Warning::Virtual => "compare only runs of the same machine, with many launches",
            Warning::FewLaunches { .. } => "use at least 5 launches, 10 for a gate",
            Warning::Disturbed { .. } => "measure when the machine, or its host, has less to do",
            Warning::TwoLevels(_) => "use more launches, and say how often each level comes up",
            Warning::Straggler { .. } => "check that pair's cores, cable or port",
            Warning::StartSkew { .. } => "prefer `lockstep`, or run longer",
            Warning::UnknownStart => "measure when the hosts have less to do",
            Warning::SmallPackets { .. } => "set the MTU of the network to be modelled",
        }
    }
}
