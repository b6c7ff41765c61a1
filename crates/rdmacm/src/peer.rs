//! Messages to the peer of an identifier, and the end of the identifier's connection.

use crate::connection_state::ConnectionState;
use crate::event::{Event, EventKind};
use crate::message::{self, Message};
use crate::peer_transport::PeerTransport;
use crate::state::State;
use verbena_hca_os::errno::{Errno, Result};

impl State {
    /// Destroys an identifier with its connection, port and waiting events. Returns the number of
    /// events reported.
    pub fn destroy(&mut self, number: u32) -> Option<u32> {
        let identifier = self.identifiers.remove(number)?;
        let reported = identifier.events_reported;
        match identifier.peer_transport {
            // Closing the socket informs the peer, as a message of the kernel's CM would (12.10.2).
            Some(PeerTransport::Local(local_stream)) => self.watch.forget(&*local_stream),
            Some(PeerTransport::Remote(machine)) => {
                self.end_connection(identifier.state, *machine);
            }
            None => (),
        }
        let orphans = self.take_events(identifier.channel, |waiting| waiting.owner == number);
        for request in orphans.into_iter().filter_map(|waiting| waiting.request) {
            self.destroy(request);
        }
        let groups = self.groups.iter();
        let joined: Vec<u32> = groups
            .filter(|(_, group)| group.identifier == number)
            .map(|(group, _)| group)
            .collect();
        for group in joined {
            self.remove_membership(group);
        }
        let callers = self.callers.iter();
        let waiting: Vec<u32> = callers
            .filter(|(_, caller)| caller.listener == number)
            .map(|(caller, _)| caller)
            .collect();
        for caller in waiting {
            self.callers.remove(caller);
        }
        if let Some(listener) = identifier.requested_from {
            self.answered(listener);
        }
        Some(reported)
    }

    /// Handles a peer that died without a message: acts on the message its kernel would have sent.
    pub fn lost(&mut self, number: u32) {
        let Some(identifier) = self.identifiers.get_mut(number) else {
            return;
        };
        match identifier.peer_transport.take() {
            Some(PeerTransport::Local(local_stream)) => self.watch.forget(&*local_stream),
            Some(PeerTransport::Remote(machine)) => {
                self.connections.forget(&machine);
            }
            None => (),
        }
        let before = std::mem::replace(&mut identifier.state, ConnectionState::Over);
        let datagram = identifier.space.is_datagram();
        match before {
            // A datagram service is not connected: its exchange ended with the answer.
            ConnectionState::Established | ConnectionState::Requested if datagram => {
                identifier.state = before
            }
            ConnectionState::Connecting if datagram => {
                self.raise(
                    number,
                    Event::plain(EventKind::Unreachable, message::SIDR_REJECTED as i32),
                );
            }
            ConnectionState::Connecting | ConnectionState::Replied | ConnectionState::Accepted => {
                self.raise(
                    number,
                    Event::plain(EventKind::Rejected, message::CONSUMER_DEFINED as i32),
                );
            }
            ConnectionState::Established => {
                identifier.state = ConnectionState::Disconnected;
                self.disconnected(number);
            }
            ConnectionState::Disconnecting => {
                self.raise(number, Event::plain(EventKind::Disconnected, 0));
                self.begin_time_wait(number);
            }
            // Its exchange is over already.
            ConnectionState::Disconnected | ConnectionState::TimeWait => identifier.state = before,
            _ => (),
        }
    }

    /// Sends a message to the peer of an identifier.
    ///
    /// # Errors
    /// EINVAL if there is no peer any more.
    pub fn tell(&mut self, number: u32, message: &Message) -> Result<()> {
        let identifier = self.identifiers.get_mut(number).ok_or(Errno::EINVAL)?;
        match identifier.peer_transport.as_mut().ok_or(Errno::EINVAL)? {
            PeerTransport::Local(local_stream) => {
                local_stream.send(message).map_err(|_| Errno::EINVAL)
            }
            PeerTransport::Remote(_) => self.write(number, message),
        }
    }

    /// Sends a message to a peer that may be dead; then the identifier's connection is lost.
    pub fn send(&mut self, number: u32, message: &Message) {
        if self.tell(number, message).is_err() {
            self.lost(number);
        }
    }
}
