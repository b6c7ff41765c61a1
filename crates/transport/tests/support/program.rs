//! Random programs and their expected results: an interpreter executes the requests one after the
//! other, once each.

use verbena_transport::AtomicOperation;
use verbena_transport::reliable::Reliable;
use verbena_transport::request::{Addressee, Fence, Operation, Remote, SendRequest, SendTail};
use verbena_wire::feth::{Feth, Placement, Selectivity};
use verbena_wire::immediate::Immediate;

use super::adapter::{BASE, KEY, Posted, SRQ};
use super::random::Random;

/// Memory that requests may change; the rest is only read.
pub const MUTABLE: usize = 32_768;
pub const MEMORY: usize = MUTABLE + 32_768;

/// A receive that must complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    pub length: u32,
    pub immediate: Option<[u8; 4]>,
    /// For a SEND.
    pub bytes: Option<Vec<u8>>,
    pub solicited: bool,
}

#[derive(Debug)]
pub struct Program {
    pub requests: Vec<Posted>,
    /// Data that each request sends; for reads and atomics, space for the result.
    pub buffers: Vec<Vec<u8>>,
    /// The responder's memory before.
    pub before: Vec<u8>,
    /// The responder's memory after.
    pub after: Vec<u8>,
    /// Contents of each request's buffer after.
    pub results: Vec<Vec<u8>>,
    pub arrivals: Vec<Arrival>,
    pub atomics: u64,
    pub flushes: u64,
}

/// Whether reads may read memory that other requests change: only if every request waits for the
/// reads before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fencing {
    Every,
    None,
}

pub fn random(
    random: &mut Random,
    service: Reliable,
    count: usize,
    longest: u64,
    fencing: Fencing,
) -> Program {
    let before = random.bytes(MEMORY);
    let mut program = Program {
        requests: Vec::new(),
        buffers: Vec::new(),
        after: before.clone(),
        before,
        results: Vec::new(),
        arrivals: Vec::new(),
        atomics: 0,
        flushes: 0,
    };
    for id in 0..count as u64 {
        program.add(random, service, id, longest, fencing);
    }
    program
}

/// Returns RDMA writes of one length to random addresses, like a bandwidth test.
pub fn writes(random: &mut Random, count: usize, length: usize) -> Program {
    let mut program = self::random(random, Reliable::Rc, 0, 0, Fencing::None);
    for id in 0..count as u64 {
        let bytes = random.bytes(length);
        let place = random.below((MUTABLE - length) as u64 + 1) as usize;
        program.after[place..place + length].copy_from_slice(&bytes);
        let request = SendRequest {
            operation: Operation::Write {
                remote: remote(place),
                immediate: None,
            },
            length: length as u32,
            addressee: Addressee::Connected,
            solicited: false,
        };
        let fence = Fence::Off;
        program.requests.push(Posted { id, request, fence });
        program.buffers.push(bytes.clone());
        program.results.push(bytes);
    }
    program
}

fn remote(offset: usize) -> Remote {
    Remote {
        address: BASE + offset as u64,
        key: KEY,
    }
}

impl Program {
    fn add(
        &mut self,
        random: &mut Random,
        service: Reliable,
        id: u64,
        longest: u64,
        fencing: Fencing,
    ) {
        let edge = [0, 1, 255, 256, 257, 1023, 1024, 1025, 4096, 4097];
        let length = match random.below(3) {
            0 => random.pick(&edge).min(longest),
            _ => random.below(longest + 1),
        } as usize;
        let place = random.below((MUTABLE - length) as u64 + 1) as usize;
        let word = random.below(64) as usize * 8;
        let solicited = random.permille(200);
        let immediate = random
            .permille(300)
            .then(|| Immediate((id as u32).to_be_bytes()));
        let (operation, sends, result) = match random.below(10) {
            0..=2 => {
                let bytes = random.bytes(length);
                self.arrivals.push(Arrival {
                    length: length as u32,
                    immediate: immediate.map(|immediate| immediate.0),
                    bytes: Some(bytes.clone()),
                    solicited,
                });
                let tail = immediate.map_or(SendTail::Nothing, SendTail::Immediate);
                (Operation::Send(tail), bytes.clone(), bytes)
            }
            3..=4 => {
                let bytes = random.bytes(length);
                self.after[place..place + length].copy_from_slice(&bytes);
                if let Some(immediate) = immediate {
                    let length = length as u32;
                    let immediate = Some(immediate.0);
                    self.arrivals.push(Arrival {
                        length,
                        immediate,
                        bytes: None,
                        solicited,
                    });
                }
                (
                    Operation::Write {
                        remote: remote(place),
                        immediate,
                    },
                    bytes.clone(),
                    bytes,
                )
            }
            5..=6 => {
                let place = if fencing == Fencing::Every {
                    place
                } else {
                    MUTABLE + place
                };
                let result = self.after[place..place + length].to_vec();
                (
                    Operation::Read {
                        remote: remote(place),
                    },
                    vec![0; length],
                    result,
                )
            }
            7..=8 => {
                let original = u64::from_ne_bytes(self.after[word..word + 8].try_into().unwrap());
                let (operation, changed) = match random.below(3) {
                    0 => {
                        let swap = random.next();
                        (
                            AtomicOperation::CompareSwap {
                                compare: original,
                                swap,
                            },
                            swap,
                        )
                    }
                    1 => {
                        let (compare, swap) = (original ^ 1, 5);
                        (AtomicOperation::CompareSwap { compare, swap }, original)
                    }
                    _ => {
                        let add = random.next();
                        (
                            AtomicOperation::FetchAdd { add },
                            original.wrapping_add(add),
                        )
                    }
                };
                self.after[word..word + 8].copy_from_slice(&changed.to_ne_bytes());
                self.atomics += 1;
                let operation = Operation::Atomic {
                    remote: remote(word),
                    operation,
                };
                (operation, vec![0; 8], original.to_ne_bytes().to_vec())
            }
            _ if random.permille(500) => {
                let bytes = random.bytes(8);
                self.after[word..word + 8].copy_from_slice(&bytes);
                self.atomics += 1;
                (
                    Operation::AtomicWrite {
                        remote: remote(word),
                    },
                    bytes.clone(),
                    bytes,
                )
            }
            _ => {
                let feth = Feth {
                    placement: Placement::Visible,
                    selectivity: Selectivity::Range,
                };
                self.flushes += 1;
                let operation = Operation::Flush {
                    remote: remote(place),
                    feth,
                };
                (operation, vec![0; length], vec![0; length])
            }
        };
        let request = SendRequest {
            operation,
            length: sends.len() as u32,
            addressee: match service {
                Reliable::Rc => Addressee::Connected,
                Reliable::Xrc => Addressee::SharedReceiveQueue(SRQ),
            },
            solicited,
        };
        let fence = match fencing {
            Fencing::Every => Fence::On,
            Fencing::None => Fence::Off,
        };
        self.requests.push(Posted { id, request, fence });
        self.buffers.push(sends);
        self.results.push(result);
    }
}
