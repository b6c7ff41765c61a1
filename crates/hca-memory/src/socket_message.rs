//! Messages between the processes of a host, and their descriptors: the handshake by which two
//! processes come to share a channel, and requests to one process.
//!
//! | message | from | with | means |
//! |---|---|---|---|
//! | hello | requester | nothing | the caller's identity |
//! | welcome | responder | context table, arena | the responder's identity, and that it runs |
//! | introduction | requester | context table, channel, arena | everything needed to serve |
//! | ready | responder | nothing | it serves; its means of access to the requester's memory |
//! | describe | any process | nothing | asks for the process's state; the answer is text |
//! | capture | a capturer | nothing | asks for the packets of the process (`verbena capture`) |
//! | capture | a process, asked or starting | ring | the ring that its packets are copied to |
//! | ports | any process | nothing | ports were taken down or up: read their state |
//! | ports | the process asked | nothing | it has read it, and whether its ports are InfiniBand |
//!
//! Descriptors are sent only to a process that has just sent a message. To a stopped process they
//! would stay in flight for ever, and the kernel limits a user's descriptors in flight, to
//! all destinations together (unix(7), ETOOMANYREFS).

use crate::arena::Arena;
use crate::peer::Introduction;
use crate::process_memory::ProcessMemory;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::socket::{Received, Socket};
use verbena_hca_shm::registry::{Identity, SLOTS};

/// Changes with the format of the messages.
const MAGIC: u64 = u64::from_le_bytes(*b"verbena2");

/// Kind of a message, as in the table above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketMessageKind {
    /// `hello`.
    Hello = 1,
    /// `welcome`.
    Welcome = 2,
    /// `describe`.
    Describe = 3,
    /// `introduction`.
    Introduction = 4,
    /// `ready`.
    Ready = 5,
    /// `capture`.
    Capture = 6,
    /// `ports`.
    Ports = 7,
}

impl SocketMessageKind {
    fn of(word: u64) -> Result<SocketMessageKind> {
        [
            SocketMessageKind::Hello,
            SocketMessageKind::Welcome,
            SocketMessageKind::Describe,
            SocketMessageKind::Introduction,
            SocketMessageKind::Ready,
            SocketMessageKind::Capture,
            SocketMessageKind::Ports,
        ]
        .into_iter()
        .find(|kind| *kind as u64 == word)
        .ok_or(Errno::EPROTO)
    }
}

/// A message: nine little-endian words. Words that a kind does not use are 0 and are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketMessage {
    /// Its kind.
    pub kind: SocketMessageKind,
    /// The sender.
    pub identity: Identity,
    arena_length: u64,
    arena_base: u64,
    probe_address: u64,
    probe_value: u64,
    /// Bits of [`crate::peer::Peer::pull_ability`]; in a `ports` message, 1 if the
    /// ports are InfiniBand.
    pub can_pull: u32,
}

impl SocketMessage {
    const LENGTH: usize = 72;

    /// Returns a message with nothing but its kind and the sender's identity.
    pub fn bare(kind: SocketMessageKind, identity: Identity) -> SocketMessage {
        SocketMessage {
            kind,
            identity,
            arena_length: 0,
            arena_base: 0,
            probe_address: 0,
            probe_value: 0,
            can_pull: 0,
        }
    }

    /// Returns the answer to a `ports` message.
    pub fn ports(are_infiniband: bool) -> SocketMessage {
        SocketMessage {
            can_pull: are_infiniband.into(),
            ..SocketMessage::bare(SocketMessageKind::Ports, NO_IDENTITY)
        }
    }

    /// Returns the message that this process serves, with its means of access to the requester's
    /// memory.
    pub fn ready(identity: Identity, can_pull: u32) -> SocketMessage {
        SocketMessage {
            can_pull,
            ..SocketMessage::bare(SocketMessageKind::Ready, identity)
        }
    }

    /// Returns a message of `kind` that describes this process's context table and arena.
    pub fn about(
        memory: &ProcessMemory,
        identity: Identity,
        kind: SocketMessageKind,
    ) -> SocketMessage {
        let arena = memory.arena();
        let (probe_address, probe_value) = memory.probe();
        SocketMessage {
            arena_length: arena.map_or(0, |arena| arena.length() as u64),
            arena_base: arena.map_or(0, Arena::base),
            probe_address,
            probe_value,
            ..SocketMessage::bare(kind, identity)
        }
    }

    /// Returns the message in its format on the socket.
    pub fn emit(&self) -> [u8; SocketMessage::LENGTH] {
        let words = [
            MAGIC,
            self.kind as u64,
            u64::from(self.identity.slot),
            u64::from(self.identity.generation),
            self.arena_length,
            self.arena_base,
            self.probe_address,
            self.probe_value,
            u64::from(self.can_pull),
        ];
        let mut bytes = [0; SocketMessage::LENGTH];
        for (place, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        bytes
    }

    /// Parses a message from untrusted bytes.
    ///
    /// # Errors
    /// EPROTO when they are not a valid message.
    pub fn parse(bytes: &[u8]) -> Result<SocketMessage> {
        let bytes: &[u8; SocketMessage::LENGTH] = bytes.try_into().map_err(|_| Errno::EPROTO)?;
        let mut words = [0u64; 9];
        for (word, place) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_le_bytes(*place);
        }
        let [
            magic,
            kind,
            slot,
            generation,
            arena_length,
            arena_base,
            probe_address,
            probe_value,
            can_pull,
        ] = words;
        let narrow = |word: u64| u32::try_from(word).map_err(|_| Errno::EPROTO);
        if magic != MAGIC || slot >= SLOTS as u64 {
            return Err(Errno::EPROTO);
        }
        Ok(SocketMessage {
            kind: SocketMessageKind::of(kind)?,
            identity: Identity {
                slot: narrow(slot)?,
                generation: narrow(generation)?,
            },
            arena_length,
            arena_base,
            probe_address,
            probe_value,
            can_pull: narrow(can_pull)?,
        })
    }

    /// Sends the message with descriptors.
    ///
    /// # Errors
    /// As [`Socket::send`].
    pub fn send(&self, socket: &Socket, descriptors: &[BorrowedFd<'_>]) -> Result<()> {
        socket.send(&self.emit(), descriptors)
    }

    /// Returns the sender's description for use as a peer. `contexts` and `arena` came with the
    /// message.
    ///
    /// # Errors
    /// EPROTO when the arena's length is out of range.
    pub fn introduce(&self, contexts: OwnedFd, arena: Option<OwnedFd>) -> Result<Introduction> {
        Ok(Introduction {
            identity: self.identity,
            arena_length: usize::try_from(self.arena_length).map_err(|_| Errno::EPROTO)?,
            arena_base: self.arena_base,
            probe: (self.probe_address, self.probe_value),
            contexts,
            arena,
        })
    }
}

/// A message and the descriptors that came with it.
pub struct ReceivedMessage {
    /// The message.
    pub message: SocketMessage,
    descriptors: std::vec::IntoIter<OwnedFd>,
}

impl ReceivedMessage {
    /// Receives the next message; None when the peer has closed the connection.
    ///
    /// # Errors
    /// EAGAIN when there is none yet; EPROTO when the bytes are not a valid message.
    pub fn receive(socket: &Socket) -> Result<Option<ReceivedMessage>> {
        let mut buffer = [0u8; SocketMessage::LENGTH];
        let Received {
            length,
            descriptors,
        } = socket.receive(&mut buffer)?;
        if length == 0 {
            return Ok(None);
        }
        Ok(Some(ReceivedMessage {
            message: SocketMessage::parse(buffer.get(..length).unwrap_or(&[]))?,
            descriptors: descriptors.into_iter(),
        }))
    }

    /// Returns the next descriptor.
    ///
    /// # Errors
    /// EPROTO when there is none.
    pub fn descriptor(&mut self) -> Result<OwnedFd> {
        self.descriptors.next().ok_or(Errno::EPROTO)
    }

    /// Returns the next descriptor, if there is one.
    pub fn optional_descriptor(&mut self) -> Option<OwnedFd> {
        self.descriptors.next()
    }
}

/// Returns the descriptors of this process's context table and arena (if it has one), with
/// `between` in between.
pub fn our_descriptors<'a>(
    memory: &'a ProcessMemory,
    between: Option<BorrowedFd<'a>>,
) -> Vec<BorrowedFd<'a>> {
    let mut descriptors = vec![memory.contexts_file().as_fd()];
    descriptors.extend(between);
    descriptors.extend(memory.arena().map(Arena::fd));
    descriptors
}

/// Identity for senders that are no process of the registry.
const NO_IDENTITY: Identity = Identity {
    slot: 0,
    generation: 0,
};

/// Asks the process behind a fresh socket for its packets; [`take_ring`] takes the answer.
///
/// # Errors
/// As [`Socket::send`].
pub fn ask_for_ring(socket: &Socket) -> Result<()> {
    SocketMessage::bare(SocketMessageKind::Capture, NO_IDENTITY).send(socket, &[])
}

/// Hands a capturer the ring of this process's packets.
///
/// # Errors
/// As [`Socket::send`].
pub fn hand_ring(socket: &Socket, identity: Identity, ring: BorrowedFd<'_>) -> Result<()> {
    SocketMessage::bare(SocketMessageKind::Capture, identity).send(socket, &[ring])
}

/// Takes the ring of a process that connected to its capturer or was asked. None when the process
/// refuses.
///
/// # Errors
/// EAGAIN when the process has not sent it yet; EPERM for a process of another user; EPROTO for any
/// other message.
pub fn take_ring(socket: &Socket) -> Result<Option<OwnedFd>> {
    let Some(mut received) = ReceivedMessage::receive(socket)? else {
        return Ok(None);
    };
    socket.check_user()?;
    match received.message.kind {
        SocketMessageKind::Capture => received.descriptor().map(Some),
        _ => Err(Errno::EPROTO),
    }
}

/// Longest description of a process in bytes. Queue pairs that do not fit are only counted.
pub const MOST_DESCRIPTION: usize = 128 << 10;

/// Asks the process behind a fresh socket for its state; the answer is a JSON object.
///
/// # Errors
/// EAGAIN when the process does not answer within 2 s, for instance because it is stopped; EPROTO
/// when the answer is not UTF-8.
pub fn ask_description(socket: &Socket) -> Result<String> {
    SocketMessage::bare(SocketMessageKind::Describe, NO_IDENTITY).send(socket, &[])?;
    socket.wait_readable(Duration::from_secs(2))?;
    let mut buffer = vec![0u8; MOST_DESCRIPTION];
    let received = socket.receive(&mut buffer)?;
    buffer.truncate(received.length);
    String::from_utf8(buffer).map_err(|_| Errno::EPROTO)
}

/// Has the process behind a fresh socket read the state of its ports, and waits until it has.
///
/// # Errors
/// EAGAIN when the process does not answer within 2 s, for instance because it is stopped; ENOTSUP
/// when its ports are Ethernet; EPROTO for any other answer.
pub fn ask_to_look_at_ports(socket: &Socket) -> Result<()> {
    SocketMessage::bare(SocketMessageKind::Ports, NO_IDENTITY).send(socket, &[])?;
    socket.wait_readable(Duration::from_secs(2))?;
    match ReceivedMessage::receive(socket)? {
        Some(received) if received.message.kind == SocketMessageKind::Ports => {
            match received.message.can_pull {
                0 => Err(Errno(libc::ENOTSUP)),
                _ => Ok(()),
            }
        }
        _ => Err(Errno::EPROTO),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn message_round_trips(
            kind in 1u64..=7, slot in 0..SLOTS as u32, generation: u32,
            words in any::<[u64; 4]>(), can_pull: u32,
        ) {
            let [arena_length, arena_base, probe_address, probe_value] = words;
            let message = SocketMessage {
                kind: SocketMessageKind::of(kind).unwrap(),
                identity: Identity { slot, generation },
                arena_length, arena_base, probe_address, probe_value, can_pull,
            };
            prop_assert_eq!(SocketMessage::parse(&message.emit()).unwrap(), message);
        }

        #[test]
        fn arbitrary_bytes_are_refused_or_round_trip(
            bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut bytes = bytes;
            prop_assert!(SocketMessage::parse(&bytes).is_err());
            bytes.resize(SocketMessage::LENGTH, 0);
            bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
            if let Ok(message) = SocketMessage::parse(&bytes) {
                prop_assert_eq!(&message.emit()[..], &bytes[..]);
            }
        }
    }

    #[test]
    fn slot_out_of_range_is_refused() {
        let identity = Identity {
            slot: SLOTS as u32,
            generation: 1,
        };
        let bytes = SocketMessage::bare(SocketMessageKind::Hello, identity).emit();
        assert_eq!(SocketMessage::parse(&bytes), Err(Errno::EPROTO));
    }
}
