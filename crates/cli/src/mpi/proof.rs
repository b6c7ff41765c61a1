//! Which way the messages took, by counters: the adapter's own, and those of the loopback interface.

use super::way::Way;
use crate::stats::collect::Collected;
use std::fs;
use verbena_measure::result::{Finding, Parameters};
use verbena_measure::unit;

/// Bytes that the loopback interface has sent so far; `None` where the kernel does not tell.
pub fn loopback() -> Option<u64> {
    let text = fs::read_to_string("/sys/class/net/lo/statistics/tx_bytes").ok()?;
    text.trim().parse().ok()
}

/// What was counted while a launch ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counted {
    /// Payload that the program moved, at least.
    pub payload: u64,
    /// Bytes that went through the adapter.
    pub adapter: u64,
    /// Bytes that went over loopback, anybody's.
    pub loopback: Option<u64>,
}

/// Bytes on the adapter's paths to peers.
pub fn through_the_adapter(collected: &Collected) -> u64 {
    let totals = collected.totals();
    let paths = totals
        .iter()
        .filter(|(name, _)| name.ends_with("_path_bytes"));
    paths.map(|(_, bytes)| bytes).sum()
}

impl Counted {
    /// Why the way was not the one that was asked for, if so.
    pub fn contradicts(&self, way: Way) -> Option<String> {
        let Counted {
            payload,
            adapter,
            loopback,
        } = *self;
        let carried = |bytes: u64| unit::size(bytes as f64);
        let other = |of: &str, bytes: u64| {
            format!(
                "the messages took another way: {of} carried {} of {}",
                carried(bytes),
                carried(payload)
            )
        };
        match way {
            Way::Software if adapter < payload => Some(other("the adapter", adapter)),
            Way::Tcp | Way::SharedMemory if adapter > 0 => Some(format!(
                "the messages took another way: the adapter carried {}",
                carried(adapter)
            )),
            Way::Tcp => {
                let sent = loopback.filter(|sent| *sent < payload)?;
                Some(other("the loopback interface", sent))
            }
            _ => None,
        }
    }

    /// For the record.
    pub fn finding(&self, benchmark: &str, launch: u32) -> Finding {
        let bytes = |bytes: u64| unit::size(bytes as f64);
        let mut text = format!(
            "{} of payload or more; {} went through the adapter",
            bytes(self.payload),
            bytes(self.adapter)
        );
        if let Some(sent) = self.loopback {
            text += &format!(", {} over loopback, anybody's included", bytes(sent));
        }
        Finding {
            benchmark: benchmark.to_owned(),
            launch,
            name: "adapter-bytes".to_owned(),
            parameters: Parameters::new(),
            value: Some(self.adapter as f64),
            unit: "bytes".to_owned(),
            range: None,
            text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(payload: u64, adapter: u64, loopback: u64) -> Counted {
        Counted {
            payload,
            adapter,
            loopback: Some(loopback),
        }
    }

    #[test]
    fn each_way_has_its_counters() {
        let holds = |counted: Counted, way| counted.contradicts(way).is_none();
        assert!(holds(counted(100, 100, 0), Way::Software));
        assert!(!holds(counted(100, 99, 1000), Way::Software));
        assert!(holds(counted(100, 0, 100), Way::Tcp));
        assert!(!holds(counted(100, 0, 99), Way::Tcp));
        assert!(!holds(counted(100, 1, 100), Way::Tcp));
        assert!(holds(counted(100, 0, 0), Way::SharedMemory));
        assert!(!holds(counted(100, 1, 0), Way::SharedMemory));
        // Where the kernel does not count, nothing is claimed of it.
        let unknown = Counted {
            loopback: None,
            ..counted(100, 0, 0)
        };
        assert!(holds(unknown, Way::Tcp));
    }
}
