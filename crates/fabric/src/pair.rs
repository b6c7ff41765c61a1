//! Queue pairs, shared receive queues, and the data exchanged to connect two queue pairs.

use crate::error::{Error, Result};
use crate::operation::{ReceiveRequest, WorkRequest};
use crate::{Fabric, Region};
use std::array;

/// Transport of a queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transport {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
    /// The initiating half of an extended reliable connection.
    XrcInitiator,
    /// The target half of an extended reliable connection: no queues of its own; messages name a
    /// shared receive queue.
    XrcTarget,
}

impl Transport {
    /// Returns the word used in files; both halves of XRC are `xrc`.
    pub fn word(self) -> &'static str {
        match self {
            Transport::Rc => "rc",
            Transport::Uc => "uc",
            Transport::Ud => "ud",
            Transport::XrcInitiator | Transport::XrcTarget => "xrc",
        }
    }
}

/// The data about a queue pair that its peer needs to connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Endpoint {
    /// Queue pair number.
    pub pair: u32,
    /// First packet sequence number that this queue pair sends.
    pub psn: u32,
    /// Queue key, for datagrams.
    pub queue_key: u32,
    /// Number of the shared receive queue that an XRC sender must name; 0 if none.
    pub shared_receive: u32,
    /// Local identifier of the port; 0 on Ethernet.
    pub lid: u16,
    /// Global identifier of the port.
    pub gid: [u8; 16],
    /// Path MTU of the port as in `enum ibv_mtu`; 0 if there are no packets.
    pub mtu_code: u8,
}

impl Endpoint {
    /// Size of the serialised form.
    pub const BYTES: usize = 35;

    /// Serialises to little-endian bytes.
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

    /// Deserialises the result of [`Endpoint::to_bytes`].
    ///
    /// # Errors
    ///
    /// Returns [`Error::Invalid`] if the length is wrong.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let bytes: &[u8; Self::BYTES] = bytes.try_into().map_err(|_| {
            Error::invalid(
                "Endpoint::from_bytes",
                format!("expected {} bytes, found {}", Self::BYTES, bytes.len()),
            )
        })?;
        let word = |i: usize| u32::from_le_bytes(array::from_fn(|at| bytes[i + at]));
        Ok(Endpoint {
            pair: word(0),
            psn: word(4),
            queue_key: word(8),
            shared_receive: word(12),
            lid: u16::from_le_bytes([bytes[16], bytes[17]]),
            gid: array::from_fn(|at| bytes[18 + at]),
            mtu_code: bytes[34],
        })
    }
}

/// Parameters of a queue pair.
pub struct PairRequest<'a, F: Fabric + ?Sized> {
    /// Its transport.
    pub transport: Transport,
    /// Completion queue of initiated requests.
    pub send_completions: &'a F::Completions,
    /// Completion queue of receive requests.
    pub receive_completions: &'a F::Completions,
    /// Send queue depth.
    pub send_depth: u32,
    /// Receive queue depth; unused with a shared receive queue.
    pub receive_depth: u32,
    /// Scatter/gather elements per request.
    pub segments: u32,
    /// Largest inline payload; creation fails if the fabric cannot grant it.
    pub inline: u32,
    /// Shared receive queue, if any. For an XRC target, the queue whose number its endpoint states.
    pub shared_receive: Option<&'a F::SharedReceive>,
}

impl<'a, F: Fabric + ?Sized> PairRequest<'a, F> {
    /// Returns the parameters of an RC queue pair with one completion queue for both directions,
    /// 128 entries deep, with one segment and without inline data.
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

/// Parameters of a shared receive queue.
pub struct SharedReceiveRequest<'a, F: Fabric + ?Sized> {
    /// Depth.
    pub depth: u32,
    /// Scatter elements per request.
    pub segments: u32,
    /// For XRC: the completion queue of its receives. The fabric keeps one XRC domain per process.
    pub xrc_completions: Option<&'a F::Completions>,
}

/// A queue pair.
pub trait QueuePair<F: Fabric + ?Sized> {
    /// Returns the data that the peer needs.
    fn endpoint(&self) -> Endpoint;
    /// Connects to the peer (RC, UC, XRC), after which both may post; for UD it only makes the
    /// queue pair ready.
    async fn connect(&self, remote: &Endpoint) -> Result<()>;
    /// Posts a list with one doorbell.
    ///
    /// # Errors
    ///
    /// On error, all requests before the bad one have been posted.
    async fn post_send(&self, list: &[WorkRequest<'_, F>]) -> Result<()>;
    /// Posts a list of receive requests. May be called before [`QueuePair::connect`].
    async fn post_receive(&self, list: &[ReceiveRequest<'_, F::Region>]) -> Result<()>;
}

/// A shared receive queue.
pub trait SharedReceive<R: Region> {
    /// Returns its number, which XRC senders name; 0 if it is not for XRC.
    fn number(&self) -> u32;
    /// Posts a list of receive requests.
    async fn post_receive(&self, list: &[ReceiveRequest<'_, R>]) -> Result<()>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoint_encoding_round_trips() {
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
