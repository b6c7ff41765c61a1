//! The messages by which two processes come to share a channel, and what goes with them.
//!
//! | message | from | with | means |
//! |---|---|---|---|
//! | hello | requester | nothing | who calls |
//! | welcome | responder | context table, arena | who answers, and that it runs |
//! | introduction | requester | context table, channel, arena | what the responder needs to serve |
//! | ready | responder | nothing | it serves, and how it gets at the requester's memory |
//! | describe | anybody | nothing | asks what the process is doing; the answer is text |
//! | capture | a capturer | nothing | asks for the packets of the process ([`crate::capture`]) |
//! | capture | a process, that was asked or that starts | ring | where they are told |
//! | ports | anybody | nothing | ports were taken down or up: look |
//! | ports | a process, that was asked | nothing | it has looked, and whether its ports are InfiniBand |
//!
//! Descriptors are sent only to a process that has just said something. For to a process that is stopped they would be
//! on their way for ever, and a user may have but so many on the way (unix(7), ETOOMANYREFS), whoever they are for.

use crate::describe;
use crate::errno::{Errno, Result};
use crate::memory::arena::Arena;
use crate::path::Introduction;
use crate::process::{Member, Process};
use crate::shm::registry::{Identity, SLOTS};
use crate::sys::socket::{Received, Socket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Changes with the messages.
const MAGIC: u64 = u64::from_le_bytes(*b"verbena2");

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Hello = 1,
    Welcome = 2,
    Describe = 3,
    Introduction = 4,
    Ready = 5,
    Capture = 6,
    Ports = 7,
}

impl Kind {
    fn of(word: u64) -> Result<Kind> {
        [
            Kind::Hello,
            Kind::Welcome,
            Kind::Describe,
            Kind::Introduction,
            Kind::Ready,
            Kind::Capture,
            Kind::Ports,
        ]
        .into_iter()
        .find(|kind| *kind as u64 == word)
        .ok_or(Errno::EPROTO)
    }
}

/// A message: nine little-endian words. What a kind does not need is 0 and not looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) kind: Kind,
    pub(super) identity: Identity,
    arena_length: u64,
    arena_base: u64,
    probe_address: u64,
    probe_value: u64,
    /// Bits of [`crate::path::Peer::pull_ability`]; of ports, 1 where they are InfiniBand.
    pub(super) can_pull: u32,
}

impl Message {
    const LENGTH: usize = 72;

    /// A message that says no more than what it is and from whom.
    pub(super) fn bare(kind: Kind, identity: Identity) -> Message {
        Message {
            kind,
            identity,
            arena_length: 0,
            arena_base: 0,
            probe_address: 0,
            probe_value: 0,
            can_pull: 0,
        }
    }

    /// We have looked at the ports.
    pub(super) fn ports(are_infiniband: bool) -> Message {
        Message {
            can_pull: are_infiniband.into(),
            ..Message::bare(Kind::Ports, NOBODY)
        }
    }

    /// We serve, and get at the requester's memory so.
    pub(super) fn ready(identity: Identity, can_pull: u32) -> Message {
        Message {
            can_pull,
            ..Message::bare(Kind::Ready, identity)
        }
    }

    /// A message that goes with our context table and arena.
    pub(super) fn about(process: &Process, member: &Member, kind: Kind) -> Message {
        let arena = process.arena.as_deref();
        Message {
            arena_length: arena.map_or(0, |arena| arena.length() as u64),
            arena_base: arena.map_or(0, Arena::base),
            probe_address: (&raw const *process.probe) as u64,
            probe_value: process.probe.load(Ordering::Relaxed),
            ..Message::bare(kind, member.identity)
        }
    }

    /// Its bytes.
    pub(super) fn emit(&self) -> [u8; Message::LENGTH] {
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
        let mut bytes = [0; Message::LENGTH];
        for (place, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        bytes
    }

    /// The message that bytes from anybody are.
    ///
    /// # Errors
    /// EPROTO when they are none.
    pub(super) fn parse(bytes: &[u8]) -> Result<Message> {
        let bytes: &[u8; Message::LENGTH] = bytes.try_into().map_err(|_| Errno::EPROTO)?;
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
        Ok(Message {
            kind: Kind::of(kind)?,
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

    /// Sends it.
    ///
    /// # Errors
    /// As [`Socket::send`].
    pub(super) fn send(&self, socket: &Socket, descriptors: &[BorrowedFd<'_>]) -> Result<()> {
        socket.send(&self.emit(), descriptors)
    }

    /// What the peer needs to know of us to have us as its peer. `contexts` and `arena` came with the message.
    pub(super) fn introduce(
        &self,
        contexts: OwnedFd,
        arena: Option<OwnedFd>,
    ) -> Result<Introduction> {
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
pub(super) struct Letter {
    pub(super) message: Message,
    descriptors: std::vec::IntoIter<OwnedFd>,
}

impl Letter {
    /// The next one; None when the other end is gone.
    ///
    /// # Errors
    /// EAGAIN when there is none yet; EPROTO when it is none.
    pub(super) fn receive(socket: &Socket) -> Result<Option<Letter>> {
        let mut buffer = [0u8; Message::LENGTH];
        let Received {
            length,
            descriptors,
        } = socket.receive(&mut buffer)?;
        if length == 0 {
            return Ok(None);
        }
        Ok(Some(Letter {
            message: Message::parse(buffer.get(..length).unwrap_or(&[]))?,
            descriptors: descriptors.into_iter(),
        }))
    }

    /// The next descriptor, which must be there.
    pub(super) fn descriptor(&mut self) -> Result<OwnedFd> {
        self.descriptors.next().ok_or(Errno::EPROTO)
    }

    /// The next descriptor, if there is one.
    pub(super) fn optional_descriptor(&mut self) -> Option<OwnedFd> {
        self.descriptors.next()
    }
}

/// Our context table and, if we have one, our arena; between them what else is to go.
pub(super) fn our_descriptors<'a>(
    process: &'a Process,
    between: Option<BorrowedFd<'a>>,
) -> Vec<BorrowedFd<'a>> {
    let mut descriptors = vec![process.contexts_file().as_fd()];
    descriptors.extend(between);
    descriptors.extend(process.arena.as_ref().map(|arena| arena.fd()));
    descriptors
}

/// The directory's mode keeps other users out already; this holds if somebody loosened it.
///
/// # Errors
/// EPERM.
pub(crate) fn check_user(user: u32) -> Result<()> {
    // SAFETY: geteuid cannot fail and touches nothing.
    if user == unsafe { libc::geteuid() } {
        Ok(())
    } else {
        Err(Errno::EPERM)
    }
}

/// Who is no process of the registry.
const NOBODY: Identity = Identity {
    slot: 0,
    generation: 0,
};

/// Asks the process behind a fresh socket for its packets; what it answers is for [`take_ring`].
///
/// # Errors
/// As [`Socket::send`].
pub(crate) fn ask_for_ring(socket: &Socket) -> Result<()> {
    Message::bare(Kind::Capture, NOBODY).send(socket, &[])
}

/// Hands a capturer the ring of our packets.
///
/// # Errors
/// As [`Socket::send`].
pub(crate) fn hand_ring(socket: &Socket, identity: Identity, ring: BorrowedFd<'_>) -> Result<()> {
    Message::bare(Kind::Capture, identity).send(socket, &[ring])
}

/// Takes the ring of a process that calls its capturer, or that was asked. None when it will not hand one over.
///
/// # Errors
/// EAGAIN when it has not yet; EPERM and EPROTO when it is somebody else.
pub(crate) fn take_ring(socket: &Socket) -> Result<Option<OwnedFd>> {
    let Some(mut letter) = Letter::receive(socket)? else {
        return Ok(None);
    };
    check_user(socket.peer()?.1)?;
    match letter.message.kind {
        Kind::Capture => letter.descriptor().map(Some),
        _ => Err(Errno::EPROTO),
    }
}

/// Asks the process behind a fresh socket what it is doing; the answer is a JSON object.
///
/// # Errors
/// EAGAIN when it does not answer in time; it may be stopped.
pub(crate) fn ask_description(socket: &Socket) -> Result<String> {
    Message::bare(Kind::Describe, NOBODY).send(socket, &[])?;
    socket.wait_readable(Duration::from_secs(2))?;
    let mut buffer = vec![0u8; describe::MAX_LENGTH];
    let received = socket.receive(&mut buffer)?;
    buffer.truncate(received.length);
    String::from_utf8(buffer).map_err(|_| Errno::EPROTO)
}

/// Has the process behind a fresh socket look at the ports, and waits until it has.
///
/// # Errors
/// EAGAIN when it does not answer in time; it may be stopped. ENOTSUP when its ports are Ethernet.
pub(crate) fn ask_to_look_at_ports(socket: &Socket) -> Result<()> {
    Message::bare(Kind::Ports, NOBODY).send(socket, &[])?;
    socket.wait_readable(Duration::from_secs(2))?;
    match Letter::receive(socket)? {
        Some(letter) if letter.message.kind == Kind::Ports => match letter.message.can_pull {
            0 => Err(Errno(libc::ENOTSUP)),
            _ => Ok(()),
        },
        _ => Err(Errno::EPROTO),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_message_survives_its_bytes(
            kind in 1u64..=7, slot in 0..SLOTS as u32, generation: u32, words in any::<[u64; 4]>(), can_pull: u32,
        ) {
            let [arena_length, arena_base, probe_address, probe_value] = words;
            let message = Message {
                kind: Kind::of(kind).unwrap(),
                identity: Identity { slot, generation },
                arena_length, arena_base, probe_address, probe_value, can_pull,
            };
            prop_assert_eq!(Message::parse(&message.emit()).unwrap(), message);
        }

        #[test]
        fn bytes_from_anybody_are_refused_or_a_message(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut bytes = bytes;
            prop_assert!(Message::parse(&bytes).is_err());
            bytes.resize(Message::LENGTH, 0);
            bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
            if let Ok(message) = Message::parse(&bytes) {
                prop_assert_eq!(&message.emit()[..], &bytes[..]);
            }
        }
    }

    #[test]
    fn a_slot_that_cannot_be_is_refused() {
        let identity = Identity {
            slot: SLOTS as u32,
            generation: 1,
        };
        let bytes = Message::bare(Kind::Hello, identity).emit();
        assert_eq!(Message::parse(&bytes), Err(Errno::EPROTO));
    }
}
