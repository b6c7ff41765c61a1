//! Counts the packets of requests for the ports of a fabric, as they would be on a wire:
//! specification 5.2 and chapter 9 (headers), 16.1.4.5 (words of counters). Acknowledgements are
//! not counted: an adapter may acknowledge many messages at once.

use super::request::SendRequest;
use crate::fabric::{Counted, Fabric, destination};
use crate::link;
use crate::qp::terms::request_kind;
use std::collections::HashMap;
use verbena_abi::*;
use verbena_fabric_protocol::Destination;
use verbena_fabric_protocol::traffic::Traffic;
use verbena_wire::opcode::Kind;

/// Bytes of the headers of every packet: local route, base transport, and the invariant CRC.
const HEADERS: u64 = 8 + 12 + 4;
const GLOBAL_ROUTE: u64 = 40;
const DATAGRAM: u64 = 8;
const XRC: u64 = 4;
const IMMEDIATE_OR_KEY: u64 = 4;
const RDMA: u64 = 16;
const ATOMIC: u64 = 28;
const ATOMIC_VALUE: u64 = 8;
const FLUSH: u64 = 4;
const ACKNOWLEDGEMENT: u64 = 4;

/// The entries in which a queue pair counts.
pub(in crate::qp) struct Counting {
    /// Index of the first request that was not counted.
    next: u64,
    /// The entry of the last request's destination, or of the peer.
    last: Option<Counted>,
    /// Bytes of the headers of a packet of a reliable or unreliable connection.
    headers: u64,
    /// Those of other destinations of datagrams.
    others: HashMap<Destination, Counted>,
}

impl Counting {
    /// Begins with the request of this index, whose destination has this vector.
    pub(super) fn begin(fabric: &Fabric, vector: &ibv_ah_attr, index: u64) -> Box<Counting> {
        Box::new(Counting {
            next: index,
            last: fabric.counted(vector),
            headers: match vector.is_global {
                0 => HEADERS,
                _ => HEADERS + GLOBAL_ROUTE,
            },
            others: HashMap::new(),
        })
    }

    /// Counts a request of a queue pair of this type and MTU, unless it was counted before.
    pub(in crate::qp) fn count(
        &mut self,
        kind: ibv_qp_type,
        mtu: u32,
        vector: &ibv_ah_attr,
        request: &SendRequest<'_>,
        index: u64,
    ) {
        if index < self.next {
            return;
        }
        self.next = index + 1;
        if let Some(counted) = self.entry(vector)
            && let Some(traffic) = traffic(kind, request, mtu.into(), vector.is_global != 0)
        {
            counted.add(traffic);
        }
    }

    /// Counts a send to the peer with so many bytes of data and immediate data, which fit into one
    /// packet, unless it was counted before. Returns false, without effect, if it has no entry.
    #[inline(always)]
    pub(super) fn count_short(&mut self, bytes: u64, index: u64) -> bool {
        let Some(counted) = &mut self.last else {
            return false;
        };
        if index >= self.next {
            self.next = index + 1;
            counted.add_forth(1, (self.headers + bytes).div_ceil(4));
        }
        true
    }

    /// Counts a request to the peer that fits into one packet, unless it was counted before.
    /// Returns false, without effect, for another request.
    #[inline]
    pub(in crate::qp) fn count_one(
        &mut self,
        mtu: u32,
        vector: &ibv_ah_attr,
        request: &SendRequest<'_>,
        index: u64,
    ) -> bool {
        let headers = match request.opcode {
            IBV_WR_SEND => HEADERS,
            IBV_WR_RDMA_WRITE => HEADERS + RDMA,
            _ => return false,
        };
        let length = request.length();
        let (true, 0, Some(counted)) = (length <= mtu.into(), vector.is_global, &mut self.last)
        else {
            return false;
        };
        if index >= self.next {
            self.next = index + 1;
            counted.add_forth(1, (headers + length).div_ceil(4));
        }
        true
    }

    /// Returns the entry of a destination.
    fn entry(&mut self, vector: &ibv_ah_attr) -> Option<&mut Counted> {
        let wanted = destination(vector);
        if self
            .last
            .as_ref()
            .is_none_or(|last| last.destination() != wanted)
        {
            let next = match self.others.remove(&wanted) {
                Some(known) => known,
                None => link::fabric()?.counted(vector)?,
            };
            if let Some(last) = self.last.replace(next) {
                self.others.insert(last.destination(), last);
            }
        }
        self.last.as_mut()
    }
}

/// Returns the packets of a request and of its answer; `None` for a local request.
fn traffic(
    kind: ibv_qp_type,
    request: &SendRequest<'_>,
    mtu: u64,
    is_global: bool,
) -> Option<Traffic> {
    let length = request.length();
    let packets = match length <= mtu || kind == IBV_QPT_UD {
        true => 1,
        false => length.div_ceil(mtu),
    };
    let data = length.next_multiple_of(4);
    let back = HEADERS + if is_global { GLOBAL_ROUTE } else { 0 };
    let forth = back
        + match kind {
            IBV_QPT_UD => DATAGRAM,
            IBV_QPT_XRC_SEND => XRC,
            _ => 0,
        };
    let extra = match request.opcode {
        IBV_WR_SEND_WITH_IMM | IBV_WR_RDMA_WRITE_WITH_IMM | IBV_WR_SEND_WITH_INV => {
            IMMEDIATE_OR_KEY
        }
        _ => 0,
    };
    let (bytes, packets, bytes_back, packets_back) = match request_kind(request.opcode)? {
        Kind::Send => (packets * forth + data + extra, packets, 0, 0),
        Kind::Write => (packets * forth + RDMA + data + extra, packets, 0, 0),
        Kind::Read => {
            // The first and the last packet acknowledge.
            let answer = packets * back + packets.min(2) * ACKNOWLEDGEMENT + data;
            (forth + RDMA, 1, answer, packets)
        }
        Kind::Atomic => (forth + ATOMIC, 1, back + ACKNOWLEDGEMENT + ATOMIC_VALUE, 1),
        Kind::AtomicWrite => (forth + RDMA + ATOMIC_VALUE, 1, back + ACKNOWLEDGEMENT, 1),
        Kind::Flush => (forth + RDMA + FLUSH, 1, back + ACKNOWLEDGEMENT, 1),
        // No requests.
        _ => return None,
    };
    Some(Traffic {
        words: bytes / 4,
        packets,
        words_back: bytes_back / 4,
        packets_back,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(opcode: ibv_wr_opcode, length: u32) -> Traffic {
        by(IBV_QPT_RC, opcode, length)
    }

    fn by(kind: ibv_qp_type, opcode: ibv_wr_opcode, length: u32) -> Traffic {
        let sges = [ibv_sge {
            length,
            ..ibv_sge::default()
        }];
        let request = SendRequest {
            opcode,
            sges: &sges,
            ..SendRequest::default()
        };
        traffic(kind, &request, 1024, false).unwrap()
    }

    #[test]
    fn messages_are_cut_into_packets() {
        for (length, packets, words) in [(0, 1, 6), (5, 1, 8), (1024, 1, 262), (1025, 2, 269)] {
            let sent = of(IBV_WR_SEND, length);
            assert_eq!((sent.packets, sent.words), (packets, words), "{length}");
            assert_eq!((sent.packets_back, sent.words_back), (0, 0));
        }
        assert_eq!(of(IBV_WR_RDMA_WRITE_WITH_IMM, 4).words, 6 + 4 + 1 + 1);
        // A datagram is one packet, and its queue pair has no path MTU.
        let datagram = by(IBV_QPT_UD, IBV_WR_SEND, 2048);
        assert_eq!((datagram.packets, datagram.words), (1, 8 + 512));
    }

    #[test]
    fn answers_come_back() {
        let read = of(IBV_WR_RDMA_READ, 3000);
        assert_eq!((read.packets, read.words), (1, 10));
        assert_eq!((read.packets_back, read.words_back), (3, 3 * 6 + 2 + 750));
        let atomic = of(IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
        assert_eq!((atomic.words, atomic.words_back), (13, 9));
    }
}
