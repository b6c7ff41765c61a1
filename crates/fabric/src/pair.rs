//! Queue pairs, shared receive queues, and the plain data with which two ends find each other.

use crate::error::{Error, Result};
use crate::operation::{ReceiveRequest, WorkRequest};
use crate::{Fabric, Region};

/// Transport of a queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transport {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
    /// The sending half of an extended reliable connection.
    XrcInitiator,
    /// Its receiving half: no queues of its own; messages name a shared receive queue.
    XrcTarget,
}

impl Transport {
    /// The word used in files; both halves of XRC are `xrc`.
    pub fn word(self) -> &'static str {
        match self {
            Transport::Rc => "rc",
            Transport::Uc => "uc",
            Transport::Ud => "ud",
            Transport::XrcInitiator | Transport::XrcTarget => "xrc",
        }
    }
}

/// One end of a queue pair, as it is told over the exchange: plain data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Endpoint {
    /// Queue pair number.
    pub pair: u32,
    /// First packet sequence number that this end sends.
    pub psn: u32,
    /// Queue key, for datagrams.
    pub queue_key: u32,
    /// Number of the shared receive queue that an XRC sender must name; 0 without.
    pub shared_receive: u32,
    /// Local identifier of the port; 0 on Ethernet.
    pub lid: u16,
    /// Global identifier of the port.
    pub gid: [u8; 16],
    /// The largest packet payload of the port, as `enum ibv_mtu` has it; 0 where there are no packets.
    pub mtu_code: u8,
}

impl Endpoint {
    /// Its size on the exchange.
    pub const BYTES: usize = 35;

    /// For the exchange, little-endian.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        for (i, word) in [self.pair, self.psn, self.queue_key, self.shared_receive]
            .into_iter()
            .enumerate()
        {
            bytes[4 * i..4 * i + 4].copy_from_slice(&word.to_le_bytes());
        }
        bytes[16..18].copy_from_slice(&self.lid.to_le_bytes());
        bytes[18..34].copy_from_slice(&self.gid);
        bytes[34] = self.mtu_code;
        bytes
    }

    /// From the exchange.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let bytes: &[u8; Self::BYTES] = bytes.try_into().map_err(|_| {
            Error::invalid(
                "Endpoint::from_bytes",
                format!("expected {} bytes, found {}", Self::BYTES, bytes.len()),
            )
        })?;
        let word = |i: usize| u32::from_le_bytes(bytes[i..i + 4].try_into().expect("4 bytes"));
        Ok(Endpoint {
            pair: word(0),
            psn: word(4),
            queue_key: word(8),
            shared_receive: word(12),
            lid: u16::from_le_bytes([bytes[16], bytes[17]]),
            gid: bytes[18..34].try_into().expect("16 bytes"),
            mtu_code: bytes[34],
        })
    }
}

/// What to ask of a queue pair.
pub struct PairRequest<'a, F: Fabric + ?Sized> {
    /// Its transport.
    pub transport: Transport,
    /// Where initiated requests complete.
    pub send_completions: &'a F::Completions,
    /// Where receive requests complete.
    pub receive_completions: &'a F::Completions,
    /// Send queue depth.
    pub send_depth: u32,
    /// Receive queue depth; unused with a shared receive queue.
    pub receive_depth: u32,
    /// Scatter/gather elements a request.
    pub segments: u32,
    /// Largest inline payload; the call fails if the fabric cannot grant it.
    pub inline: u32,
    /// The shared receive queue to use, if any. For an XRC target, the one whose number its endpoint tells.
    pub shared_receive: Option<&'a F::SharedReceive>,
}

impl<'a, F: Fabric + ?Sized> PairRequest<'a, F> {
    /// An RC pair with one completion queue for both directions, 128 deep, one segment, nothing inline.
    pub fn rc(completions: &'a F::Completions) -> Self {
        PairRequest {
            transport: Transport::Rc,
            send_completions: completions,
            receive_completions: completions,
            send_depth: 128,
            receive_depth: 128,
            segments: 1,
            inline: 0,
            shared_receive: None,
        }
    }
}

/// What to ask of a shared receive queue.
pub struct SharedReceiveRequest<'a, F: Fabric + ?Sized> {
    /// Depth.
    pub depth: u32,
    /// Scatter elements a request.
    pub segments: u32,
    /// For XRC: the queue where its receives complete. The fabric keeps one XRC domain a process.
    pub xrc_completions: Option<&'a F::Completions>,
}

/// A queue pair.
pub trait QueuePair<F: Fabric + ?Sized> {
    /// What the other end needs to know.
    fn endpoint(&self) -> Endpoint;
    /// Connects to the other end (RC, UC, XRC), after which both may post; for UD only makes the pair ready.
    async fn connect(&self, remote: &Endpoint) -> Result<()>;
    /// Posts a list with one doorbell. On error, what stands before the bad request was posted.
    async fn post_send(&self, list: &[WorkRequest<'_, F>]) -> Result<()>;
    /// Posts a list of receive requests. May be called before [`QueuePair::connect`].
    async fn post_receive(&self, list: &[ReceiveRequest<'_, F::Region>]) -> Result<()>;
}

/// A shared receive queue.
pub trait SharedReceive<R: Region> {
    /// Its number, which XRC senders name; 0 if it is not for XRC.
    fn number(&self) -> u32;
    /// Posts a list of receive requests.
    async fn post_receive(&self, list: &[ReceiveRequest<'_, R>]) -> Result<()>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_end_tells_arrives() {
        let told = Endpoint {
            pair: 1,
            psn: 2,
            queue_key: 3,
            shared_receive: 4,
            lid: 5,
            gid: std::array::from_fn(|at| at as u8),
            mtu_code: 6,
        };
        assert_eq!(Endpoint::from_bytes(&told.to_bytes()), Ok(told));
        assert!(Endpoint::from_bytes(&told.to_bytes()[1..]).is_err());
    }
}
