//! What a system has carried, and whether it kept to what holds for any machine: nothing carries more than its rate,
//! no byte is lost, nothing is reported as done before it is, what waits fits into the buffers that there are.

use crate::kernel::{Server, Time};

/// Something that serves one after the other, and what it did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    /// What it is.
    pub what: String,
    /// How long it has been in use in all.
    pub busy: Time,
    /// The longest time from somebody's coming until he had been served.
    pub longest_wait: Time,
    /// The longest that buffers before it allow.
    pub most: Time,
}

impl Usage {
    /// Of a server before which `most` of its time can be queued.
    pub fn of(what: String, server: &Server, most: Time) -> Usage {
        Usage {
            what,
            busy: server.busy(),
            longest_wait: server.longest_wait(),
            most,
        }
    }
}

/// A system's account, at rest.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Audit {
    /// When it was taken.
    pub now: Time,
    /// Payload bytes that were to be sent.
    pub bytes_sent: u64,
    /// Payload bytes that were placed, or dropped with a datagram that found no receive request.
    pub bytes_placed: u64,
    /// Messages reported as done before their last byte was placed.
    pub early: u64,
    /// Bytes that are still in buffers.
    pub left: u64,
    /// Buses, memories and ports that have been used.
    pub usage: Vec<Usage>,
}

impl Audit {
    /// What it did that no machine can do; nothing, if all is well.
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
    fn each_breach_is_told() {
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
