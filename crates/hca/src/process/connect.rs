//! Making a channel to a peer: an introduction over its socket, with the descriptors of what we share.
//!
//! The requester sends a hello with its desk, doorbell, the new channel, and its arena; the responder answers with its
//! own. The socket then stays open and silent: its end is the peer's death.

use crate::describe;
use crate::errno::{Errno, Result};
use crate::memory::arena::Arena;
use crate::path::{Introduction, Peer};
use crate::process::link::{Inbound, Outbound};
use crate::process::{Member, Process};
use crate::shm::channel::Channel;
use crate::shm::registry::Identity;
use crate::sys::socket::Socket;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

const MAGIC: u64 = u64::from_le_bytes(*b"verbena1");
const PATIENCE: Duration = Duration::from_secs(2);

/// What a caller wants.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Hello = 1,
    Welcome = 2,
    Describe = 3,
}

/// The fixed part of every message: nine little-endian words.
struct Message {
    kind: u64,
    slot: u64,
    generation: u64,
    arena_length: u64,
    arena_base: u64,
    probe_address: u64,
    probe_value: u64,
    can_pull: u64,
}

impl Message {
    const LENGTH: usize = 72;

    fn emit(&self) -> [u8; Message::LENGTH] {
        let words = [
            MAGIC,
            self.kind,
            self.slot,
            self.generation,
            self.arena_length,
            self.arena_base,
            self.probe_address,
            self.probe_value,
            self.can_pull,
        ];
        let mut bytes = [0; Message::LENGTH];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    fn parse(bytes: &[u8]) -> Result<Message> {
        let bytes: &[u8; Message::LENGTH] = bytes.try_into().map_err(|_| Errno::EPROTO)?;
        let mut words = [0u64; 9];
        for (word, place) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(place.try_into().map_err(|_| Errno::EPROTO)?);
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
        if magic != MAGIC {
            return Err(Errno::EPROTO);
        }
        Ok(Message {
            kind,
            slot,
            generation,
            arena_length,
            arena_base,
            probe_address,
            probe_value,
            can_pull,
        })
    }

    fn of(process: &Process, member: &Member, kind: Kind, can_pull: u32) -> Message {
        Message {
            kind: kind as u64,
            slot: u64::from(member.identity.slot),
            generation: u64::from(member.identity.generation),
            arena_length: process
                .arena
                .as_ref()
                .map_or(0, |arena| arena.length() as u64),
            arena_base: process.arena.as_ref().map_or(0, Arena::base),
            probe_address: (&raw const *process.probe) as u64,
            probe_value: process.probe.load(std::sync::atomic::Ordering::Relaxed),
            can_pull: u64::from(can_pull),
        }
    }

    fn introduce(
        &self,
        desk: OwnedFd,
        doorbell: OwnedFd,
        arena: Option<OwnedFd>,
    ) -> Result<Introduction> {
        Ok(Introduction {
            identity: Identity {
                slot: u32::try_from(self.slot).map_err(|_| Errno::EPROTO)?,
                generation: u32::try_from(self.generation).map_err(|_| Errno::EPROTO)?,
            },
            arena_length: usize::try_from(self.arena_length).map_err(|_| Errno::EPROTO)?,
            arena_base: self.arena_base,
            probe: (self.probe_address, self.probe_value),
            desk,
            doorbell,
            arena,
        })
    }
}

impl Process {
    /// The channel to a process; makes it if there is none. Must not be called with any lock of the adapter held, nor
    /// by the progress thread, which has to answer others meanwhile.
    pub fn connect(self: &Arc<Process>, identity: Identity) -> Result<Arc<Outbound>> {
        if let Some(outbound) = self.outbound_to(identity) {
            return Ok(outbound);
        }
        let member = self.join()?;
        let _connecting = self.connecting.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(outbound) = self.outbound_to(identity) {
            return Ok(outbound);
        }
        let socket = member.registry.connect(identity).inspect_err(|error| {
            if matches!(*error, Errno(libc::ECONNREFUSED | libc::ENOENT)) {
                member.registry.reclaim(identity);
            }
        })?;
        socket.set_timeout(PATIENCE)?;
        let (pid, user) = socket.peer()?;
        check_user(user)?;
        let (channel, file) = Channel::create()?;
        let hello = Message::of(self, member, Kind::Hello, 0);
        let mut descriptors: Vec<BorrowedFd<'_>> = vec![
            self.desk_file().as_fd(),
            self.doorbell.as_fd(),
            file.as_fd(),
        ];
        descriptors.extend(self.arena.as_ref().map(|arena| arena.fd()));
        socket.send(&hello.emit(), &descriptors)?;
        let mut buffer = [0u8; Message::LENGTH];
        let received = socket.receive(&mut buffer)?;
        let welcome = Message::parse(buffer.get(..received.length).unwrap_or(&[]))?;
        if welcome.kind != Kind::Welcome as u64 {
            return Err(Errno::EPROTO);
        }
        let mut descriptors = received.descriptors.into_iter();
        let (Some(desk), Some(doorbell)) = (descriptors.next(), descriptors.next()) else {
            return Err(Errno::EPROTO);
        };
        let introduction = welcome.introduce(desk, doorbell, descriptors.next())?;
        if introduction.identity != identity {
            return Err(Errno::EPROTO);
        }
        let peer = Arc::new(Peer::meet(introduction, socket, pid, self.forced)?);
        let outbound = Arc::new(Outbound::new(
            peer.clone(),
            channel,
            welcome.can_pull as u32,
        ));
        self.add_outbound(identity, outbound.clone());
        self.watch(peer);
        Ok(outbound)
    }

    /// Makes the channel to the owner of a queue pair number if it can be made now. As [`Process::connect`].
    pub fn connect_to_number(self: &Arc<Process>, number: u32) -> Result<Arc<Outbound>> {
        let owner = self.join()?.registry.owner(number).ok_or(Errno::ENOENT)?;
        self.connect(owner)
    }
}

/// Answers a caller. Returns the peer when it introduced itself.
pub fn answer(process: &Arc<Process>, socket: Socket) -> Result<Option<Arc<Peer>>> {
    let member = process.member.get().ok_or(Errno::EIO)?;
    let mut buffer = [0u8; Message::LENGTH];
    let received = socket.receive(&mut buffer)?;
    if received.length == 0 {
        return Ok(None);
    }
    let (pid, user) = socket.peer()?;
    check_user(user)?;
    let message = Message::parse(buffer.get(..received.length).unwrap_or(&[]))?;
    if message.kind == Kind::Describe as u64 {
        socket.set_timeout(PATIENCE)?;
        socket.send(describe::process(process).as_bytes(), &[])?;
        return Ok(None);
    }
    if message.kind != Kind::Hello as u64 {
        return Err(Errno::EPROTO);
    }
    let mut descriptors = received.descriptors.into_iter();
    let (Some(desk), Some(doorbell), Some(channel)) =
        (descriptors.next(), descriptors.next(), descriptors.next())
    else {
        return Err(Errno::EPROTO);
    };
    let introduction = message.introduce(desk, doorbell, descriptors.next())?;
    let channel = Channel::of_peer(channel)?;
    let peer = Arc::new(Peer::meet(introduction, socket, pid, process.forced)?);
    process.add_inbound(Arc::new(Inbound::new(peer.clone(), channel)));
    let welcome = Message::of(process, member, Kind::Welcome, peer.pull_ability());
    let mut descriptors: Vec<BorrowedFd<'_>> =
        vec![process.desk_file().as_fd(), process.doorbell.as_fd()];
    descriptors.extend(process.arena.as_ref().map(|arena| arena.fd()));
    let socket = peer.socket().ok_or(Errno::EIO)?;
    socket.set_timeout(PATIENCE)?;
    if let Err(error) = socket.send(&welcome.emit(), &descriptors) {
        peer.declare_dead();
        process.remove_dead();
        return Err(error);
    }
    Ok(Some(peer))
}

/// Asks the process behind a fresh socket what it is doing; the answer is a JSON object.
pub fn ask_description(socket: &Socket) -> Result<String> {
    socket.set_timeout(PATIENCE)?;
    let question = Message {
        kind: Kind::Describe as u64,
        slot: 0,
        generation: 0,
        arena_length: 0,
        arena_base: 0,
        probe_address: 0,
        probe_value: 0,
        can_pull: 0,
    };
    socket.send(&question.emit(), &[])?;
    let mut buffer = vec![0u8; describe::MAX_LENGTH];
    let received = socket.receive(&mut buffer)?;
    buffer.truncate(received.length);
    String::from_utf8(buffer).map_err(|_| Errno::EPROTO)
}

/// The directory's mode keeps other users out already; this holds if somebody loosened it.
fn check_user(user: u32) -> Result<()> {
    // SAFETY: geteuid cannot fail and touches nothing.
    if user == unsafe { libc::geteuid() } {
        Ok(())
    } else {
        Err(Errno::EPERM)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_message_survives_its_bytes(words in any::<[u64; 8]>()) {
            let [kind, slot, generation, arena_length, arena_base, probe_address, probe_value, can_pull] = words;
            let message = Message {
                kind, slot, generation, arena_length, arena_base, probe_address, probe_value, can_pull,
            };
            let again = Message::parse(&message.emit()).unwrap();
            prop_assert_eq!(again.emit(), message.emit());
        }

        #[test]
        fn bytes_from_anybody_are_refused_or_read(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut bytes = bytes;
            prop_assert!(Message::parse(&bytes).is_err());
            bytes.resize(Message::LENGTH, 0);
            bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
            prop_assert!(Message::parse(&bytes).is_ok());
        }
    }
}
