//! Audit of a system against invariants of any machine: nothing carries more than its rate, no byte
//! is lost, nothing is reported as done before it is, and queues fit into the existing buffers.

use crate::kernel::{Server, Time};

/// A first-come-first-served server and its load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    /// Name of the server.
    pub what: String,
    /// Total time in use.
    pub busy: Time,
    /// Longest time from an arrival until it was served.
    pub longest_wait: Time,
    /// Longest wait that the buffers before it allow.
    pub most: Time,
}

impl Usage {
    /// Returns the usage of `server`, before which at most `most` of its time can be queued.
    pub fn of(what: String, server: &Server, most: Time) -> Usage {
        Usage {
            what,
            busy: server.busy(),
            longest_wait: server.longest_wait(),
            most,
        }
    }
}

/// Audit of a system at rest.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Audit {
    /// Time of the audit.
    pub now: Time,
    /// Payload bytes submitted for sending.
    pub bytes_sent: u64,
    /// Payload bytes placed, or dropped with a datagram that found no receive request.
    pub bytes_placed: u64,
    /// Lines of address translations that adapters did not have and fetched.
    pub translations: u64,
    /// Messages reported as done before their last byte was placed.
    pub early: u64,
    /// Bytes still in buffers.
    pub left: u64,
    /// The buses, memories and ports in use.
    pub usage: Vec<Usage>,
}

impl Audit {
    /// Returns the violated invariants; empty if there are none.
    pub fn breaches(&self) -> Vec<String> {
        let mut found = Vec::new();
        if self.bytes_sent != self.bytes_placed {
            let (sent, placed) = (self.bytes_sent, self.bytes_placed);
            found.push(format!("{sent} bytes were sent and {placed} placed"));
        }
        if self.early > 0 {
            found.push(format!("{} messages were done too early", self.early));
        }
        if self.left > 0 {
            found.push(format!("{} bytes stay in buffers", self.left));
        }
        for usage in &self.usage {
            if usage.busy > self.now {
                let (what, busy) = (&usage.what, usage.busy);
                found.push(format!("{what} was busy for {busy} of {}", self.now));
            }
            if usage.longest_wait > usage.most {
                found.push(format!(
                    "{} had {} before it, more than the {} that its buffers hold",
                    usage.what, usage.longest_wait, usage.most
                ));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_violation_is_reported() {
        let usage = Usage {
            what: "bus".to_owned(),
            busy: Time(90),
            longest_wait: Time(20),
            most: Time(20),
        };
        let sound = Audit {
            now: Time(90),
            bytes_sent: 7,
            bytes_placed: 7,
            usage: vec![usage.clone()],
            ..Audit::default()
        };
        assert_eq!(sound.breaches(), Vec::<String>::new());
        let used = |usage| Audit {
            usage: vec![usage],
            ..sound.clone()
        };
        let unsound = [
            Audit {
                bytes_placed: 6,
                ..sound.clone()
            },
            Audit {
                early: 1,
                ..sound.clone()
            },
            Audit {
                left: 64,
                ..sound.clone()
            },
            used(Usage {
                busy: Time(91),
                ..usage.clone()
            }),
            used(Usage {
                longest_wait: Time(21),
                ..usage.clone()
            }),
        ];
        for audit in unsound {
            assert_eq!(audit.breaches().len(), 1, "{audit:?}");
        }
    }
}
