//! Which way the messages took, by counters: the software adapter's own, those of the loopback interface, and those of ports of
//! hardware.

use super::way::Way;
use crate::stats::collect::Collected;
use crate::suite::ports::Port;
use std::fs;
use std::path::Path;
use verbena_measure::result::{Finding, Parameters};
use verbena_measure::unit;

/// Counters of the kernel before a launch.
#[derive(Debug)]
pub struct Before {
    ports: Vec<Port>,
    loopback: Option<u64>,
    sent: Option<u64>,
}

impl Before {
    /// As they are now; of no ports nothing is asked.
    pub fn of(ports: &[Port]) -> Before {
        Before {
            ports: ports.to_vec(),
            loopback: loopback(),
            sent: sent(ports),
        }
    }

    /// What was counted since, beside what the program and the software adapter say.
    pub fn counted(&self, payload: u64, adapter: u64) -> Counted {
        let since = |before: Option<u64>, now: Option<u64>| Some(now?.saturating_sub(before?));
        Counted {
            payload,
            adapter,
            loopback: since(self.loopback, loopback()),
            ports: since(self.sent, sent(&self.ports)),
        }
    }
}

fn number(path: impl AsRef<Path>) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Bytes that the loopback interface has sent so far; `None` where the kernel does not tell.
fn loopback() -> Option<u64> {
    number("/sys/class/net/lo/statistics/tx_bytes")
}

/// Bytes that ports have sent so far, which they count in words of four (Linux, Documentation/ABI/stable/sysfs-class-infiniband);
/// `None` of none, and where one does not tell.
fn sent(ports: &[Port]) -> Option<u64> {
    let words = ports.iter().map(|port| {
        let Port { device, number: at } = port;
        number(format!(
            "/sys/class/infiniband/{device}/ports/{at}/counters/port_xmit_data"
        ))
    });
    let sum: Option<u64> = words.sum();
    sum.filter(|_| !ports.is_empty())
        .map(|words| words.saturating_mul(4))
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
    /// Bytes that left by the ports of an adapter of hardware, anybody's.
    pub ports: Option<u64>,
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
            ports: _,
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
            // Ports need not count what stays within their adapter; but no other way was open.
            _ => None,
        }
    }

    /// For the record.
    pub fn finding(&self, way: Way, benchmark: &str, launch: u32) -> Finding {
        let bytes = |bytes: u64| unit::size(bytes as f64);
        let carried = match way {
            Way::Hardware => self.ports,
            _ => Some(self.adapter),
        };
        let mut text = format!("{} of payload or more; ", bytes(self.payload));
        text += &match (way, carried) {
            (Way::Hardware, None) => "the adapter's ports have no counters to be read".to_owned(),
            (Way::Hardware, Some(sent)) => format!(
                "{} left by the adapter's ports, anybody's included; not all count what stays within them",
                bytes(sent)
            ),
            _ => format!("{} went through the adapter", bytes(self.adapter)),
        };
        if way == Way::Hardware && self.adapter > 0 {
            text += &format!(
                ", {} went through Verbena's software adapter",
                bytes(self.adapter)
            );
        }
        if let Some(sent) = self.loopback {
            text += &format!(", {} over loopback, anybody's included", bytes(sent));
        }
        Finding {
            benchmark: benchmark.to_owned(),
            launch,
            name: "adapter-bytes".to_owned(),
            parameters: Parameters::new(),
            value: carried.map(|bytes| bytes as f64),
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
            ports: None,
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
