//! Arbitrary request packets, including those that no requester makes.

use verbena_transport::reliable::{Reliable, Responder};
use verbena_wire::atomic::AtomicEth;
use verbena_wire::bth::Bth;
use verbena_wire::immediate::{Ieth, Immediate};
use verbena_wire::opcode::{Header, Opcode, Operation};
use verbena_wire::packet::{Extensions, Headers, Packet};
use verbena_wire::reth::Reth;
use verbena_wire::xrceth::Xrceth;
use verbena_wire::{Psn, Qpn, RKey, SrqNumber};

use super::adapter::{Adapter, BASE, KEY, SRQ, WINDOW};

/// A request with the headers that its opcode requires; other fields are set by the test.
#[derive(Debug, Clone)]
pub struct Request {
    pub service: Reliable,
    pub operation: Operation,
    pub psn: Psn,
    pub payload: Vec<u8>,
    pub key: RKey,
    pub address: u64,
    pub length: u32,
    pub invalidate: RKey,
    pub srq: SrqNumber,
    pub ack_request: bool,
}

impl Request {
    /// Returns a request for the beginning of the region, with `payload` bytes of payload and the
    /// same length in the RETH.
    pub fn new(operation: Operation, psn: Psn, payload: usize) -> Self {
        Self {
            service: Reliable::Rc,
            operation,
            psn,
            payload: (0..payload).map(|byte| byte as u8 | 1).collect(),
            key: KEY,
            address: BASE,
            length: payload as u32,
            invalidate: WINDOW,
            srq: SRQ,
            ack_request: true,
        }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let opcode = Opcode::new(self.service.service(), self.operation).unwrap();
        let mut extensions = Extensions::NONE;
        let Self {
            key,
            address,
            length,
            ..
        } = *self;
        for header in opcode.headers() {
            match header {
                Header::Xrceth => extensions.xrceth = Some(Xrceth { srq: self.srq }),
                Header::Reth => {
                    extensions.reth = Some(Reth {
                        address,
                        key,
                        length,
                    })
                }
                Header::AtomicEth => {
                    extensions.atomic_eth = Some(AtomicEth {
                        address,
                        key,
                        swap_or_add: 3,
                        compare: 0,
                    });
                }
                Header::Immediate => extensions.immediate = Some(Immediate([1, 2, 3, 4])),
                Header::Ieth => {
                    extensions.ieth = Some(Ieth {
                        key: self.invalidate,
                    })
                }
                other => panic!("{other} is not made here"),
            }
        }
        let mut bth = Bth::new(opcode, Qpn::new(0x22), self.psn);
        bth.ack_request = self.ack_request;
        let packet = Packet {
            headers: Headers { bth, extensions },
            payload: &self.payload,
        };
        let mut bytes = vec![0; packet.length()];
        packet.emit(&mut bytes).unwrap();
        bytes
    }
}

/// Returns all answers that a responder has ready.
pub fn answers(responder: &mut Responder, adapter: &mut Adapter) -> Vec<Vec<u8>> {
    let mut buffer = [0; 4200];
    let mut said = Vec::new();
    while let Some(length) = responder.poll_transmit(adapter, &mut buffer).unwrap() {
        said.push(buffer[..length].to_vec());
        assert!(said.len() < 1000, "something is said without end");
    }
    said
}
