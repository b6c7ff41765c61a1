//! Checks the transport of messages by counters: those of the software adapter, the loopback
//! interface, and hardware ports.

use super::transport::Transport;
use std::fs;
use std::path::Path;
use verbena_bench::counters::Collected;
use verbena_bench::resolved::Port;
use verbena_measure::result::{Finding, Parameters};
use verbena_measure::unit;

/// Kernel counters before a launch.
#[derive(Debug)]
pub struct Before {
    ports: Vec<Port>,
    loopback: Option<u64>,
    sent: Option<u64>,
}

impl Before {
    /// Reads the counters of these ports (none if empty) and of the loopback interface.
    pub fn of(ports: &[Port]) -> Before {
        Before {
            ports: ports.to_vec(),
            loopback: loopback(),
            sent: sent(ports),
        }
    }

    /// Returns the increase since then; `payload` is as reported by the program, `adapter` as
    /// counted by the software adapter.
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

/// Returns the bytes sent by the loopback interface; `None` if the kernel does not report them.
fn loopback() -> Option<u64> {
    number("/sys/class/net/lo/statistics/tx_bytes")
}

/// Returns the bytes sent by ports, which count words of four bytes (Linux,
/// Documentation/ABI/stable/sysfs-class-infiniband); `None` without ports, or if one does not
/// report.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counted {
    /// Payload moved by the program, a lower bound.
    pub payload: u64,
    /// Bytes through the software adapter.
    pub adapter: u64,
    /// Bytes over loopback, by all processes.
    pub loopback: Option<u64>,
    /// Bytes sent by the ports of a hardware adapter, by all processes.
    pub ports: Option<u64>,
}

/// Returns the bytes on the adapter's paths to peers.
pub fn through_the_adapter(collected: &Collected) -> u64 {
    let totals = collected.totals();
    let paths = totals
        .iter()
        .filter(|(name, _)| name.ends_with("_path_bytes"));
    paths.map(|(_, bytes)| bytes).sum()
}

impl Counted {
    /// Returns why the messages did not use the requested transport, if so.
    pub fn contradicts(&self, transport: Transport) -> Option<String> {
        let Counted {
            payload,
            adapter,
            loopback,
            ports: _,
        } = *self;
        let carried = |bytes: u64| unit::size(bytes as f64);
        let other = |of: &str, bytes: u64| {
            format!(
                "the messages took another path: {of} carried {} of {}",
                carried(bytes),
                carried(payload)
            )
        };
        match transport {
            Transport::Software if adapter < payload => Some(other("the adapter", adapter)),
            Transport::Tcp | Transport::SharedMemory if adapter > 0 => Some(format!(
                "the messages took another path: the adapter carried {}",
                carried(adapter)
            )),
            Transport::Tcp => {
                let sent = loopback.filter(|sent| *sent < payload)?;
                Some(other("the loopback interface", sent))
            }
            // Ports need not count traffic within their adapter, but no other transport was
            // enabled.
            _ => None,
        }
    }

    /// Returns the counts for the record.
    pub fn finding(&self, transport: Transport, benchmark: &str, launch: u32) -> Finding {
        let bytes = |bytes: u64| unit::size(bytes as f64);
        let carried = match transport {
            Transport::Hardware => self.ports,
            _ => Some(self.adapter),
        };
        let mut text = format!("{} of payload or more; ", bytes(self.payload));
        text += &match (transport, carried) {
            (Transport::Hardware, None) => {
                "the adapter's ports have no readable counters".to_owned()
            }
            (Transport::Hardware, Some(sent)) => format!(
                "{} left by the adapter's ports, including other traffic; some ports do not count \
                 internal traffic",
                bytes(sent)
            ),
            _ => format!("{} went through the adapter", bytes(self.adapter)),
        };
        if transport == Transport::Hardware && self.adapter > 0 {
            text += &format!(
                ", {} went through Verbena's software adapter",
                bytes(self.adapter)
            );
        }
        if let Some(sent) = self.loopback {
            text += &format!(", {} over loopback, including other traffic", bytes(sent));
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
    fn each_transport_is_checked_by_its_counters() {
        let holds = |counted: Counted, transport| counted.contradicts(transport).is_none();
        assert!(holds(counted(100, 100, 0), Transport::Software));
        assert!(!holds(counted(100, 99, 1000), Transport::Software));
        assert!(holds(counted(100, 0, 100), Transport::Tcp));
        assert!(!holds(counted(100, 0, 99), Transport::Tcp));
        assert!(!holds(counted(100, 1, 100), Transport::Tcp));
        assert!(holds(counted(100, 0, 0), Transport::SharedMemory));
        assert!(!holds(counted(100, 1, 0), Transport::SharedMemory));
        // Without a kernel counter there is no contradiction.
        let unknown = Counted {
            loopback: None,
            ..counted(100, 0, 0)
        };
        assert!(holds(unknown, Transport::Tcp));
    }
}
