//! The requester's side of the channel handshake with one process, from the first try to the
//! channel.
//!
//! A try costs the other process one place in its accept queue until it has handled it, so there is
//! never more than one at a time. Nothing here blocks: a process that does not answer is asked once
//! and left alone.

use crate::process::Outbound;
use crate::process::caller::report_exhaustion;
use crate::process::{Member, Process};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::Arc;
use verbena_hca_memory::peer::Peer;
use verbena_hca_memory::socket_message::{
    ReceivedMessage, SocketMessage, SocketMessageKind, our_descriptors,
};
use verbena_hca_os::clock;
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::socket::Socket;
use verbena_hca_shm::channel::Channel;
use verbena_hca_shm::registry::Identity;

/// Backoff after a failed try, in nanoseconds, doubled each time up to the limit below.
const BACKOFF: u64 = 2_000_000;
const LONGEST_BACKOFF: u64 = 500_000_000;

enum AttemptStage {
    /// Backoff: nothing is tried until this time.
    BackingOff(u64),
    /// The hello message was sent.
    HelloSent(Socket),
    /// The introduction with the channel was sent.
    IntroductionSent(Arc<Peer>, Channel),
}

/// An attempt to make a channel to one process.
pub(super) struct Attempt {
    identity: Identity,
    stage: AttemptStage,
    backoff: u64,
}

/// Result of a step of an attempt.
pub(super) enum AttemptProgress {
    /// The attempt goes on with the same descriptor.
    More,
    /// The attempt starts again after a backoff.
    BacksOff,
    /// There is a channel.
    Made(Arc<Outbound>),
    /// The process has ended.
    Gone,
}

impl Attempt {
    /// Returns an attempt that has yet to begin.
    pub(super) fn new(identity: Identity) -> Attempt {
        Attempt {
            identity,
            stage: AttemptStage::BackingOff(0),
            backoff: BACKOFF,
        }
    }

    /// Returns the time to begin, if it has not begun.
    pub(super) fn backoff_until(&self) -> Option<u64> {
        match self.stage {
            AttemptStage::BackingOff(until) => Some(until),
            _ => None,
        }
    }

    /// Returns the descriptor on which the other process answers.
    pub(super) fn descriptor(&self) -> Option<RawFd> {
        match &self.stage {
            AttemptStage::BackingOff(_) => None,
            AttemptStage::HelloSent(socket) => Some(socket.as_fd().as_raw_fd()),
            AttemptStage::IntroductionSent(peer, _) => {
                peer.socket().map(|socket| socket.as_fd().as_raw_fd())
            }
        }
    }

    /// Returns the id of the process that was sent a message, in the PID namespace of this one;
    /// none if there is none, or it is not visible from there.
    pub(super) fn asked(&self) -> Option<u32> {
        let socket = match &self.stage {
            AttemptStage::BackingOff(_) => None,
            AttemptStage::HelloSent(socket) => Some(socket),
            AttemptStage::IntroductionSent(peer, _) => peer.socket(),
        };
        let (pid, _) = socket?.peer().ok()?;
        u32::try_from(pid).ok().filter(|pid| *pid != 0)
    }

    /// Connects and sends the hello message.
    pub(super) fn begin(&mut self, member: &Member) -> AttemptProgress {
        match call(member, self.identity) {
            Ok(socket) => {
                self.stage = AttemptStage::HelloSent(socket);
                AttemptProgress::More
            }
            // The accept queue is full, no descriptors are left, or nothing listens.
            Err(_) => self.fail(member),
        }
    }

    /// Handles the other process's next message. Never blocks.
    pub(super) fn receive(&mut self, process: &Arc<Process>, member: &Member) -> AttemptProgress {
        let stage = std::mem::replace(&mut self.stage, AttemptStage::BackingOff(0));
        let turn = match stage {
            AttemptStage::BackingOff(_) => Ok(None),
            AttemptStage::HelloSent(socket) => match ReceivedMessage::receive(&socket) {
                Err(Errno::EAGAIN | Errno(libc::EINTR)) => {
                    self.stage = AttemptStage::HelloSent(socket);
                    return AttemptProgress::More;
                }
                Ok(Some(received)) => self.welcomed(process, member, socket, received),
                Ok(None) => Ok(None),
                Err(error) => Err(error),
            },
            AttemptStage::IntroductionSent(peer, channel) => {
                match peer.socket().map(ReceivedMessage::receive) {
                    Some(Err(Errno::EAGAIN | Errno(libc::EINTR))) => {
                        self.stage = AttemptStage::IntroductionSent(peer, channel);
                        return AttemptProgress::More;
                    }
                    Some(Ok(Some(received))) => self.ready(&received.message).map(|can_pull| {
                        Some(AttemptProgress::Made(Arc::new(Outbound::new(
                            peer, channel, can_pull,
                        ))))
                    }),
                    _ => Ok(None),
                }
            }
        };
        match turn {
            Ok(Some(turn)) => turn,
            Ok(None) => self.fail(member),
            Err(error) => {
                report_exhaustion(error);
                self.fail(member)
            }
        }
    }

    /// Starts a backoff if the process lives.
    pub(super) fn fail(&mut self, member: &Member) -> AttemptProgress {
        if !member.registry.is_alive(self.identity) {
            member.registry.reclaim(self.identity);
            return AttemptProgress::Gone;
        }
        self.stage = AttemptStage::BackingOff(clock::now() + self.backoff);
        self.backoff = (self.backoff * 2).min(LONGEST_BACKOFF);
        AttemptProgress::BacksOff
    }

    fn welcomed(
        &mut self,
        process: &Arc<Process>,
        member: &Member,
        socket: Socket,
        mut received: ReceivedMessage,
    ) -> Result<Option<AttemptProgress>> {
        self.check(&received.message, SocketMessageKind::Welcome)?;
        let (pid, _) = socket.peer()?;
        let contexts = received.descriptor()?;
        let arena = received.optional_descriptor();
        let introduction = received.message.introduce(contexts, arena)?;
        let (channel, file) = Channel::create()?;
        let peer = Arc::new(Peer::from_introduction(
            introduction,
            socket,
            pid,
            process.forced,
        )?);
        let socket = peer.socket().ok_or(Errno::EIO)?;
        let descriptors = our_descriptors(&process.memory, Some(file.as_fd()));
        SocketMessage::about(
            &process.memory,
            member.identity,
            SocketMessageKind::Introduction,
        )
        .send(socket, &descriptors)?;
        self.stage = AttemptStage::IntroductionSent(peer, channel);
        Ok(Some(AttemptProgress::More))
    }

    fn ready(&self, message: &SocketMessage) -> Result<u32> {
        self.check(message, SocketMessageKind::Ready)?;
        Ok(message.can_pull)
    }

    fn check(&self, message: &SocketMessage, kind: SocketMessageKind) -> Result<()> {
        if message.kind == kind && message.identity == self.identity {
            Ok(())
        } else {
            Err(Errno::EPROTO)
        }
    }
}

fn call(member: &Member, identity: Identity) -> Result<Socket> {
    let socket = member.registry.connect(identity)?;
    socket.check_user()?;
    SocketMessage::bare(SocketMessageKind::Hello, member.identity).send(&socket, &[])?;
    Ok(socket)
}
