//! The requester's side of making a channel: one process that is sought, from the first try to the channel.
//!
//! A try costs the other process one place in its queue of callers, which it keeps until it has been heard, so there is
//! never more than one at a time. Nothing here waits: a process that does not answer is asked once and left alone.

use crate::errno::{Errno, Result};
use crate::path::Peer;
use crate::process::link::Outbound;
use crate::process::message::{Kind, Letter, Message, check_user, our_descriptors};
use crate::process::{Member, Process};
use crate::shm::channel::Channel;
use crate::shm::registry::Identity;
use crate::sys::clock;
use crate::sys::socket::Socket;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::Arc;

/// Pause after a try that failed, in nanoseconds, doubled each time up to the second.
const PAUSE: u64 = 2_000_000;
const LONGEST_PAUSE: u64 = 500_000_000;

/// How far it is.
enum Stage {
    /// Until then nothing is tried.
    Resting(u64),
    /// Has said hello.
    Greeted(Socket),
    /// Has handed over the channel.
    Introduced(Arc<Peer>, Channel),
}

/// An attempt at one process.
pub(super) struct Attempt {
    identity: Identity,
    stage: Stage,
    pause: u64,
}

/// What became of an attempt.
pub(super) enum Turn {
    /// It goes on; the descriptor to listen to is the same as before.
    More,
    /// It goes on from the beginning, later.
    Rests,
    /// There is a channel.
    Made(Arc<Outbound>),
    /// There is no such process any more.
    Gone,
}

impl Attempt {
    /// One that has yet to begin.
    pub(super) fn new(identity: Identity) -> Attempt {
        Attempt {
            identity,
            stage: Stage::Resting(0),
            pause: PAUSE,
        }
    }

    /// When to begin, if it has not begun.
    pub(super) fn rests_until(&self) -> Option<u64> {
        match self.stage {
            Stage::Resting(until) => Some(until),
            _ => None,
        }
    }

    /// The descriptor by which the other process is heard.
    pub(super) fn descriptor(&self) -> Option<RawFd> {
        match &self.stage {
            Stage::Resting(_) => None,
            Stage::Greeted(socket) => Some(socket.as_fd().as_raw_fd()),
            Stage::Introduced(peer, _) => peer.socket().map(|socket| socket.as_fd().as_raw_fd()),
        }
    }

    /// Calls.
    pub(super) fn begin(&mut self, member: &Member) -> Turn {
        match call(member, self.identity) {
            Ok(socket) => {
                self.stage = Stage::Greeted(socket);
                Turn::More
            }
            // Too many callers, no descriptors left: or nobody listens.
            Err(_) => self.fail(member),
        }
    }

    /// Hears what the other process says. Never waits.
    pub(super) fn hear(&mut self, process: &Arc<Process>, member: &Member) -> Turn {
        let stage = std::mem::replace(&mut self.stage, Stage::Resting(0));
        let turn = match stage {
            Stage::Resting(_) => Ok(None),
            Stage::Greeted(socket) => match Letter::receive(&socket) {
                Err(Errno::EAGAIN | Errno(libc::EINTR)) => {
                    self.stage = Stage::Greeted(socket);
                    return Turn::More;
                }
                Ok(Some(letter)) => self.welcomed(process, member, socket, letter),
                Ok(None) => Ok(None),
                Err(error) => Err(error),
            },
            Stage::Introduced(peer, channel) => match peer.socket().map(Letter::receive) {
                Some(Err(Errno::EAGAIN | Errno(libc::EINTR))) => {
                    self.stage = Stage::Introduced(peer, channel);
                    return Turn::More;
                }
                Some(Ok(Some(letter))) => self.ready(&letter.message).map(|can_pull| {
                    Some(Turn::Made(Arc::new(Outbound::new(peer, channel, can_pull))))
                }),
                _ => Ok(None),
            },
        };
        match turn {
            Ok(Some(turn)) => turn,
            Ok(None) | Err(_) => self.fail(member),
        }
    }

    /// Starts again later if the process lives.
    pub(super) fn fail(&mut self, member: &Member) -> Turn {
        if !member.registry.is_alive(self.identity) {
            member.registry.reclaim(self.identity);
            return Turn::Gone;
        }
        self.stage = Stage::Resting(clock::now() + self.pause);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        Turn::Rests
    }

    fn welcomed(
        &mut self,
        process: &Arc<Process>,
        member: &Member,
        socket: Socket,
        mut letter: Letter,
    ) -> Result<Option<Turn>> {
        self.check(&letter.message, Kind::Welcome)?;
        let (pid, _) = socket.peer()?;
        let contexts = letter.descriptor()?;
        let arena = letter.optional_descriptor();
        let introduction = letter.message.introduce(contexts, arena)?;
        let (channel, file) = Channel::create()?;
        let peer = Arc::new(Peer::meet(introduction, socket, pid, process.forced)?);
        let socket = peer.socket().ok_or(Errno::EIO)?;
        let descriptors = our_descriptors(process, Some(file.as_fd()));
        Message::about(process, member, Kind::Introduction).send(socket, &descriptors)?;
        self.stage = Stage::Introduced(peer, channel);
        Ok(Some(Turn::More))
    }

    fn ready(&self, message: &Message) -> Result<u32> {
        self.check(message, Kind::Ready)?;
        Ok(message.can_pull)
    }

    fn check(&self, message: &Message, kind: Kind) -> Result<()> {
        if message.kind == kind && message.identity == self.identity {
            Ok(())
        } else {
            Err(Errno::EPROTO)
        }
    }
}

fn call(member: &Member, identity: Identity) -> Result<Socket> {
    let socket = member.registry.connect(identity)?;
    let (_, user) = socket.peer()?;
    check_user(user)?;
    Message::bare(Kind::Hello, member.identity).send(&socket, &[])?;
    Ok(socket)
}
