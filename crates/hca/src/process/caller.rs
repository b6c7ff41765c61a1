//! The responder's side of the channel handshake: one caller, from its connection until it is a
//! peer.

use crate::describe;
use crate::process::Inbound;
use crate::process::Process;
use std::sync::{Arc, Once};
use verbena_hca_memory::peer::Peer;
use verbena_hca_memory::socket_message::{
    ReceivedMessage, SocketMessage, SocketMessageKind, our_descriptors,
};
use verbena_hca_os::clock;
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::socket::Socket;
use verbena_hca_shm::channel::Channel;
use verbena_hca_shm::registry::Identity;

/// Nanoseconds that a caller may take to become a peer. One that was stopped meanwhile connects
/// again. The limit is long, because on a machine without enough processor time for a crowd all
/// callers would be dropped and connect again without end; and it is cheap, because there are never
/// more callers than processes, and dead ones close their connection.
const TIMEOUT: u64 = 120_000_000_000;

/// A caller: an incoming connection during the handshake.
pub(super) struct Caller {
    pub(super) socket: Socket,
    /// The identity that it has given, once it has been welcomed.
    welcomed: Option<Identity>,
    /// Time at which it is dropped.
    pub(super) deadline: u64,
}

/// Result of a message from a caller.
pub(super) enum CallerProgress {
    /// The handshake goes on.
    More(Caller),
    /// The caller is a peer now.
    Peer(Arc<Peer>),
    /// The caller captures this process's packets from now on.
    Capturer,
    /// The caller has its answer, has closed the connection, or broke the protocol.
    Done,
}

/// Says once that a limit of this process keeps it from making a channel. Both ends try again, in
/// vain, until the requester's retries end, and only this process knows the reason.
pub(super) fn report_exhaustion(error: Errno) {
    static REPORTED: Once = Once::new();
    if let (Errno(libc::ENOMEM | libc::EMFILE | libc::ENFILE), Some(remedy)) =
        (error, error.remedy())
    {
        REPORTED.call_once(|| {
            eprintln!("verbena: cannot reach another process: {error}; {remedy}");
        });
    }
}

impl Caller {
    /// Returns the state for a connection that was just accepted.
    pub(super) fn new(socket: Socket) -> Caller {
        Caller {
            socket,
            welcomed: None,
            deadline: clock::now() + TIMEOUT,
        }
    }

    /// Handles its next message. Never blocks.
    pub(super) fn receive(self, process: &Arc<Process>) -> CallerProgress {
        match ReceivedMessage::receive(&self.socket) {
            Err(Errno::EAGAIN | Errno(libc::EINTR)) => CallerProgress::More(self),
            Ok(Some(received)) => self.answer(process, received).unwrap_or_else(|error| {
                report_exhaustion(error);
                CallerProgress::Done
            }),
            Ok(None) | Err(_) => CallerProgress::Done,
        }
    }

    fn answer(self, process: &Arc<Process>, received: ReceivedMessage) -> Result<CallerProgress> {
        let (pid, _) = self.socket.peer()?;
        self.socket.check_user()?;
        match (received.message.kind, self.welcomed) {
            (SocketMessageKind::Describe, None) => {
                self.socket
                    .send(describe::process(process).as_bytes(), &[])?;
                Ok(CallerProgress::Done)
            }
            (SocketMessageKind::Capture, None) => {
                let member = process.membership.get().ok_or(Errno::EIO)?;
                process
                    .ports
                    .capture()
                    .begin(self.socket, member.identity)?;
                Ok(CallerProgress::Capturer)
            }
            (SocketMessageKind::Ports, None) => {
                process.look_at_ports();
                SocketMessage::ports(!crate::link::is_ethernet()).send(&self.socket, &[])?;
                Ok(CallerProgress::Done)
            }
            (SocketMessageKind::Hello, None) => self.welcome(process, received.message.identity),
            (SocketMessageKind::Introduction, Some(identity))
                if received.message.identity == identity =>
            {
                self.introduced(process, received, pid)
                    .map(CallerProgress::Peer)
            }
            _ => Err(Errno::EPROTO),
        }
    }

    fn welcome(mut self, process: &Process, identity: Identity) -> Result<CallerProgress> {
        let member = process.membership.get().ok_or(Errno::EIO)?;
        if identity == member.identity || !member.registry.is_alive(identity) {
            return Err(Errno::EPROTO);
        }
        SocketMessage::about(&process.memory, member.identity, SocketMessageKind::Welcome)
            .send(&self.socket, &our_descriptors(&process.memory, None))?;
        self.welcomed = Some(identity);
        Ok(CallerProgress::More(self))
    }

    fn introduced(
        self,
        process: &Arc<Process>,
        mut received: ReceivedMessage,
        pid: i32,
    ) -> Result<Arc<Peer>> {
        let member = process.membership.get().ok_or(Errno::EIO)?;
        let (contexts, channel) = (received.descriptor()?, received.descriptor()?);
        let arena = received.optional_descriptor();
        let introduction = received.message.introduce(contexts, arena)?;
        let channel = Channel::of_peer(channel)?;
        let peer = Arc::new(Peer::from_introduction(
            introduction,
            self.socket,
            pid,
            process.forced,
        )?);
        // Before the peer learns that it may begin: from then on its accesses are waited for.
        process
            .channels
            .add_inbound(Arc::new(Inbound::new(peer.clone(), channel)));
        let ready = SocketMessage::ready(member.identity, peer.pull_ability());
        let socket = peer.socket().ok_or(Errno::EIO)?;
        if let Err(error) = ready.send(socket, &[]) {
            peer.declare_dead();
            return Err(error);
        }
        Ok(peer)
    }
}
