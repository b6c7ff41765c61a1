//! The messages that set connections up and end them: REQ, REP, RTU, REJ, DREQ and DREP of the
//! communication manager (specification chapter 12), with the service ID and the private data of
//! RFC 4755 sections 3.5 and 6.

use verbena_verbs::Gid;
use verbena_wire::mad::cm::{self, Drep, Dreq, Message as Cm, Path, Rej, Rejected, Rep, Req, Rtu};
use verbena_wire::mad::{DATA, LENGTH, Mad};
use verbena_wire::{AckTimeout, Lid, Mtu, PKey, Psn, QKey, Qpn};

use crate::hardware_address::HardwareAddress;

/// Service ID of an interface, without the number of its datagram queue pair.
const SERVICE: u64 = 0x1000_0000_0000_0000;
/// Follows the private data of the RFC if the sender accepts partial checksums.
const OFFLOADS: [u8; 4] = *b"VBNA";
/// Smallest MTU of an end, which each IPv4 host takes (RFC 791): packets would be cut into
/// thousands of fragments for a smaller one.
pub const LEAST_MTU: u32 = 576;
/// Reason of a rejection: no queue pair is left.
pub const NO_QUEUE_PAIR: u16 = 1;
/// Reason of a rejection: the connection is not known.
pub const UNKNOWN: u16 = 4;
/// Reason of a rejection: the interface accepts no connections.
pub const NO_SERVICE: u16 = 8;

/// A sender's end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// The connection's queue pair.
    pub queue_pair: u32,
    /// Its first sequence number.
    pub psn: u32,
    /// Number of the interface's datagram queue pair.
    pub datagrams: u32,
    /// The longest packet that the sender receives.
    pub mtu: u32,
    /// Code of the path's MTU (`enum ibv_mtu`); 0 in replies, which do not have it.
    pub path_mtu: u8,
    /// Whether it accepts packets with partial checksums.
    pub offloads: bool,
}

/// The meaning of a message. `own` is the sender's number of the connection, `peer` the receiver's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are explained above")]
pub enum Message {
    /// Requests a connection to the interface `to`.
    Request {
        own: u32,
        end: End,
        from: Gid,
        to: HardwareAddress,
    },
    /// Accepts it.
    Reply { own: u32, peer: u32, end: End },
    /// Confirms the reply.
    Ready { own: u32, peer: u32 },
    /// Refuses a request, or a reply to a request that is not known.
    Reject {
        own: u32,
        peer: u32,
        of_request: bool,
        reason: u16,
    },
    /// Ends the connection.
    Disconnect { own: u32, peer: u32 },
    /// Confirms its end.
    Disconnected { own: u32, peer: u32 },
}

fn private<const N: usize>(end: &End) -> [u8; N] {
    let mut data = [0; N];
    data[..4].copy_from_slice(&end.datagrams.to_be_bytes());
    data[4..8].copy_from_slice(&end.mtu.to_be_bytes());
    if end.offloads {
        data[8..12].copy_from_slice(&OFFLOADS);
    }
    data
}

fn end(queue_pair: Qpn, psn: Psn, path_mtu: u8, data: &[u8]) -> Option<End> {
    let word = |at: usize| data.get(at..)?.first_chunk().copied();
    let mtu = u32::from_be_bytes(word(4)?);
    if mtu < LEAST_MTU {
        return None;
    }
    Some(End {
        queue_pair: queue_pair.value(),
        psn: psn.value(),
        datagrams: u32::from_be_bytes(word(0)?) & 0x00ff_ffff,
        mtu,
        path_mtu,
        offloads: word(8) == Some(OFFLOADS),
    })
}

fn path(from: Gid, to: Gid) -> Path {
    Path {
        local_gid: verbena_wire::Gid(from.0),
        remote_gid: verbena_wire::Gid(to.0),
        local_lid: Lid(0),
        remote_lid: Lid(0),
        hop_limit: 64,
        subnet_local: true,
        ack_timeout: AckTimeout::INFINITE,
        ..Path::NONE
    }
}

impl Message {
    /// Returns the management datagram.
    pub fn bytes(&self) -> [u8; LENGTH] {
        let (short, mut bytes, mut data) = ([0; 224], [0; LENGTH], [0; DATA]);
        let (of_request, of_reply, of_disconnect);
        let (message, transaction) = match *self {
            Message::Request { own, end, from, to } => {
                of_request = private(&end);
                let request = Req {
                    local_comm_id: own,
                    service_id: SERVICE | u64::from(to.queue_pair),
                    ca_guid: 0,
                    queue_key: QKey(0),
                    qpn: Qpn::new(end.queue_pair),
                    responder_resources: 0,
                    initiator_depth: 0,
                    remote_response_timeout: 20,
                    transport: cm::Transport::Rc,
                    flow_control: true,
                    starting_psn: Psn::new(end.psn),
                    local_response_timeout: 20,
                    retry_count: 7,
                    partition_key: PKey::DEFAULT,
                    path_mtu: Mtu::from_code(end.path_mtu).unwrap_or(Mtu::ALL[0]),
                    rnr_retry_count: 7,
                    cm_retries: 7,
                    shared_receive_queue: true,
                    primary: path(from, to.gid),
                    alternate: Path::NONE,
                    private_data: &of_request,
                };
                (Cm::Req(request), own)
            }
            Message::Reply { own, peer, end } => {
                of_reply = private(&end);
                let reply = Rep {
                    local_comm_id: own,
                    remote_comm_id: peer,
                    queue_key: QKey(0),
                    qpn: Qpn::new(end.queue_pair),
                    starting_psn: Psn::new(end.psn),
                    responder_resources: 0,
                    initiator_depth: 0,
                    target_ack_delay: 0,
                    failover_accepted: 0,
                    flow_control: true,
                    rnr_retry_count: 7,
                    shared_receive_queue: true,
                    ca_guid: 0,
                    private_data: &of_reply,
                };
                (Cm::Rep(reply), peer)
            }
            Message::Ready { own, peer } => {
                let ready = Rtu {
                    local_comm_id: own,
                    remote_comm_id: peer,
                    private_data: &short,
                };
                (Cm::Rtu(ready), own)
            }
            Message::Reject {
                own,
                peer,
                of_request,
                reason,
            } => {
                let reject = Rej {
                    local_comm_id: own,
                    remote_comm_id: peer,
                    message: if of_request {
                        Rejected::Req
                    } else {
                        Rejected::Rep
                    },
                    information_length: 0,
                    reason,
                    information: &[0; 72],
                    private_data: &[0; 148],
                };
                (Cm::Rej(reject), peer)
            }
            Message::Disconnect { own, peer } => {
                of_disconnect = [0; 220];
                let disconnect = Dreq {
                    local_comm_id: own,
                    remote_comm_id: peer,
                    remote_qpn: Qpn::new(0),
                    private_data: &of_disconnect,
                };
                (Cm::Dreq(disconnect), own)
            }
            Message::Disconnected { own, peer } => {
                let disconnected = Drep {
                    local_comm_id: own,
                    remote_comm_id: peer,
                    private_data: &short,
                };
                (Cm::Drep(disconnected), peer)
            }
        };
        // Both buffers have the length of the specification, so nothing fails.
        if let Ok(mad) = message.emit(transaction.into(), &mut data) {
            let _ = mad.emit(&mut bytes);
        }
        bytes
    }

    /// Reads a management datagram. Returns `None` if it is no message for interfaces.
    pub fn parse(bytes: &[u8]) -> Option<Message> {
        let mad = Mad::parse(bytes).ok()?;
        match Cm::parse(&mad).ok()? {
            Cm::Req(request) => {
                let is_ours = request.service_id >> 24 == SERVICE >> 24;
                if !is_ours || request.transport != cm::Transport::Rc {
                    return None;
                }
                Some(Message::Request {
                    own: request.local_comm_id,
                    end: end(
                        request.qpn,
                        request.starting_psn,
                        request.path_mtu.code(),
                        request.private_data,
                    )?,
                    from: Gid(request.primary.local_gid.0),
                    to: HardwareAddress {
                        flags: 0,
                        queue_pair: request.service_id as u32 & 0x00ff_ffff,
                        gid: Gid(request.primary.remote_gid.0),
                    },
                })
            }
            Cm::Rep(reply) => Some(Message::Reply {
                own: reply.local_comm_id,
                peer: reply.remote_comm_id,
                end: end(reply.qpn, reply.starting_psn, 0, reply.private_data)?,
            }),
            Cm::Rtu(ready) => Some(Message::Ready {
                own: ready.local_comm_id,
                peer: ready.remote_comm_id,
            }),
            Cm::Rej(reject) => Some(Message::Reject {
                own: reject.local_comm_id,
                peer: reject.remote_comm_id,
                of_request: reject.message == Rejected::Req,
                reason: reject.reason,
            }),
            Cm::Dreq(disconnect) => Some(Message::Disconnect {
                own: disconnect.local_comm_id,
                peer: disconnect.remote_comm_id,
            }),
            Cm::Drep(disconnected) => Some(Message::Disconnected {
                own: disconnected.local_comm_id,
                peer: disconnected.remote_comm_id,
            }),
            Cm::Mra(_) | Cm::SidrReq(_) | Cm::SidrRep(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample(kind: u8, own: u32, peer: u32, [number, mtu, other]: [u32; 3], yes: bool) -> Message {
        let end = End {
            queue_pair: number & 0xff_ffff,
            psn: mtu & 0xff_ffff,
            datagrams: other & 0xff_ffff,
            mtu,
            path_mtu: if kind == 0 {
                1 + (other >> 24) as u8 % 5
            } else {
                0
            },
            offloads: yes,
        };
        match kind {
            0 => Message::Request {
                own,
                end,
                from: Gid([1; 16]),
                to: HardwareAddress {
                    flags: 0,
                    queue_pair: peer & 0xff_ffff,
                    gid: Gid([2; 16]),
                },
            },
            1 => Message::Reply { own, peer, end },
            2 => Message::Ready { own, peer },
            3 => Message::Reject {
                own,
                peer,
                of_request: yes,
                reason: mtu as u16,
            },
            4 => Message::Disconnect { own, peer },
            _ => Message::Disconnected { own, peer },
        }
    }

    #[test]
    fn a_request_has_the_service_and_the_private_data_of_the_rfc() {
        let bytes = sample(0, 7, 0x0012_3456, [9, 65520, 0x00ab_cdef], false).bytes();
        let mad = Mad::parse(&bytes).unwrap();
        let Ok(Cm::Req(request)) = Cm::parse(&mad) else {
            panic!("no REQ");
        };
        assert_eq!(request.service_id, 0x1000_0000_0012_3456);
        assert_eq!(
            request.private_data[..8],
            [0, 0xab, 0xcd, 0xef, 0, 0, 0xff, 0xf0]
        );
        assert_eq!(request.private_data[8..], [0; 84]);
    }

    #[test]
    fn requests_of_other_services_are_not_read() {
        let mut bytes = sample(0, 7, 1, [9, 65520, 3], false).bytes();
        // The service ID follows the header and the communication ID.
        bytes[32] = 0;
        assert_eq!(Message::parse(&bytes), None);
    }

    proptest! {
        #[test]
        fn a_message_survives_its_bytes(
            kind in 0u8..6, own: u32, peer: u32, numbers: [u32; 3], yes: bool,
        ) {
            let message = sample(kind, own, peer, numbers, yes);
            prop_assert_eq!(Message::parse(&message.bytes()), Some(message));
        }

        #[test]
        fn any_bytes_are_read_or_refused(
            kind in 0u8..6, at in 0usize..256, bytes in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            let _ = Message::parse(&bytes);
            let mut changed = sample(kind, 1, 2, [3, 4, 5], true).bytes();
            let count = bytes.len().min(LENGTH - at);
            changed[at..at + count].copy_from_slice(&bytes[..count]);
            let _ = Message::parse(&changed);
        }
    }
}
