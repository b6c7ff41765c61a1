//! Connections: rdma_listen(3), rdma_connect(3), rdma_accept(3), rdma_reject(3),
//! rdma_disconnect(3), rdma_notify(3).

use super::bind;
use super::written::Command;
use crate::abi::{Accept, Connect, ConnectionParameters, Disconnect, Ece, Listen, Notify, Reject};
use crate::address;
use crate::causes;
use crate::connection_state::ConnectionState;
use crate::device::ACK_TIMEOUT;
use crate::event::{Event, EventKind};
use crate::identifier::{Identifier, Listening};
use crate::local_stream::LocalStream;
use crate::message::{self, Message, MessageKind};
use crate::path::Path;
use crate::peer_transport::PeerTransport;
use crate::port::PortRequest;
use crate::service::Service;
use crate::state::State;
use crate::state_machine::StateMachine;
use crate::watch::Source;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::refused;
use verbena_wire::mad::cm::ip;

/// Default and maximum backlog of a listener.
const BACKLOG: u32 = 1024;
/// `IBV_EVENT_COMM_EST`: the first message arrived before the peer's RTU.
const COMMUNICATION_ESTABLISHED: u32 = 5;

/// Starts listening; with any free port if the identifier has none.
///
/// # Errors
/// EINVAL in a later state; EADDRNOTAVAIL or EADDRINUSE if the port is taken.
pub fn listen(command: &Command<'_>, state: &mut State) -> Result<()> {
    let wanted: Listen = command.read()?;
    if state.identifier(command.channel, wanted.id)?.state == ConnectionState::Idle {
        bind::bind_to(state, wanted.id, address::ANY)?;
    }
    let State {
        identifiers,
        ports,
        watch,
        ..
    } = state;
    let identifier = identifiers.get_mut(wanted.id).ok_or(Errno::ENOENT)?;
    if identifier.state != ConnectionState::Bound {
        return Err(refused!(
            EINVAL,
            "the identifier already listens, or has a destination: create another one"
        ));
    }
    if identifier.port.is_none() {
        let claim = PortRequest::new(identifier.source_or_any(), identifier.options.family_only);
        identifier.port = Some(ports.reserve(identifier.space.number(), claim)?.0);
    }
    let port = identifier.port.as_mut().ok_or(Errno::EINVAL)?;
    let socket = port.listen()?;
    watch.add(&socket, Source::Listener(wanted.id, identifier.generation))?;
    let backlog = match wanted.backlog {
        0 => BACKLOG,
        asked => asked.min(BACKLOG),
    };
    identifier.listening = Some(Listening { socket, backlog });
    identifier.state = ConnectionState::Listening;
    Ok(())
}

/// How long a request waits for its listener, at least; longer where a process listened a moment
/// ago ([`crate::closed_port`]). A fabric would refuse at once; but it is slower than a socket, and
/// some programs listen for their next connection just in time for a fabric.
const LISTENER_TIMEOUT: Duration = Duration::from_millis(200);

/// Requests a connection, or a datagram service. A missing listener is reported by an event.
///
/// # Errors
/// EINVAL before the path is resolved, and for more private data than a request carries.
pub fn connect(command: &Command<'_>, service: &Service) -> Result<()> {
    let wanted: Connect = command.read_lenient(size_of::<Ece>())?;
    if causes::ends_connect(command, &mut service.lock(), wanted.id)? {
        return Ok(());
    }
    let deadline = Instant::now() + LISTENER_TIMEOUT;
    loop {
        // Before the attempt: a process that begins to listen between the two is found by it.
        let waits = Instant::now() < deadline || awaits_listener(command, service)?;
        // A separate statement, so that the lock is released here.
        let asked = ask(command, &mut service.lock())?;
        match asked {
            Ok(()) => return Ok(()),
            Err(Errno(libc::ECONNREFUSED)) if waits => thread::sleep(Duration::from_millis(1)),
            Err(error) => return unreachable(command, &mut service.lock(), error),
        }
    }
}

/// Returns whether another process may listen again at the destination. This one could not
/// meanwhile if the program has one thread.
fn awaits_listener(command: &Command<'_>, service: &Service) -> Result<bool> {
    let wanted: Connect = command.read_lenient(size_of::<Ece>())?;
    let mut state = service.lock();
    let identifier = state.identifier(command.channel, wanted.id)?;
    let (space, source) = (identifier.space.number(), identifier.source_or_any());
    let Some(destination) = identifier.destination else {
        return Ok(false);
    };
    let Some((_, host)) = state.hosts.reach(source, destination) else {
        return Ok(false);
    };
    let process = state
        .ports
        .recent_listener(&host, space, destination.port());
    Ok(process.is_some_and(|process| process != rustix::process::getpid()))
}

/// Makes one attempt. The inner result is the attempt's.
fn ask(command: &Command<'_>, state: &mut State) -> Result<Result<()>> {
    let wanted: Connect = command.read_lenient(size_of::<Ece>())?;
    state.identifier(command.channel, wanted.id)?;
    let State {
        identifiers,
        hosts,
        ports,
        watch,
        ..
    } = state;
    let identifier = identifiers.get_mut(wanted.id).ok_or(Errno::ENOENT)?;
    if wanted.conn_param.valid == 0 || identifier.state != ConnectionState::RouteResolved {
        return Err(Errno::EINVAL);
    }
    let datagram = identifier.space.is_datagram();
    let kind = if datagram {
        MessageKind::SidrReq
    } else {
        MessageKind::Req
    };
    let mut request = Message::proposing(kind, &wanted.conn_param).ok_or(Errno::EINVAL)?;
    request.source = address::encode(identifier.source);
    request.destination = address::encode(identifier.destination);
    request.psn = identifier.psn;
    request.transport = identifier.queue_pair_kind.transport();
    agree(identifier, &wanted.conn_param);
    identifier.agreement.retry_count = request.retry_count;

    let destination = identifier.destination.ok_or(Errno::EINVAL)?;
    if identifier.path.is_down() {
        return Ok(Err(Errno(libc::ETIMEDOUT)));
    }
    if identifier.path.is_remote() {
        return Ok(write(state, wanted.id, destination, &request));
    }
    // The interface with the address may have ended since the resolution, or be another one.
    let reached = hosts.reach(identifier.source_or_any(), destination);
    let is_same = |path: &Path| !hosts.has_interface() || path.is_like(&identifier.path);
    let Some((_, host)) = reached.filter(|(path, _)| is_same(path)) else {
        return Ok(Err(Errno(libc::EHOSTUNREACH)));
    };
    match ports.connect(&host, identifier.space.number(), destination) {
        Ok(stream) => {
            let local_stream = LocalStream::new(stream)?;
            watch.add(
                &local_stream,
                Source::Identifier(wanted.id, identifier.generation),
            )?;
            identifier.peer_transport = Some(PeerTransport::Local(Box::new(local_stream)));
            identifier.state = ConnectionState::Connecting;
            state.send(wanted.id, &request);
        }
        Err(error) => return Ok(Err(error)),
    }
    Ok(Ok(()))
}

/// Sends a request to another host.
fn write(state: &mut State, number: u32, destination: SocketAddr, request: &Message) -> Result<()> {
    let ours = state.assign_local_id(number)?;
    let identifier = state.identifiers.get_mut(number).ok_or(Errno::ENOENT)?;
    let service = ip::service_id(identifier.space.number(), destination.port());
    let path = Path {
        ack_timeout: identifier.options.ack_timeout.unwrap_or(ACK_TIMEOUT),
        ..identifier.path
    };
    identifier.state = ConnectionState::Connecting;
    state.attach(number, StateMachine::to(ours, service, path));
    state.tell(number, request)
}

/// Raises the event for a request that reached no listener.
fn unreachable(command: &Command<'_>, state: &mut State, error: Errno) -> Result<()> {
    let wanted: Connect = command.read_lenient(size_of::<Ece>())?;
    let identifier = state.identifier(command.channel, wanted.id)?;
    identifier.state = ConnectionState::Over;
    let event = match (error.0, identifier.space.is_datagram()) {
        (libc::ECONNREFUSED, false) => {
            Event::plain(EventKind::Rejected, message::INVALID_SERVICE as i32)
        }
        (libc::ECONNREFUSED, true) => {
            Event::plain(EventKind::Unreachable, message::SIDR_UNSUPPORTED as i32)
        }
        _ => Event::plain(EventKind::Unreachable, -error.0),
    };
    state.raise(wanted.id, event);
    Ok(())
}

/// Stores the program's parameters for the local queue pair.
fn agree(identifier: &mut Identifier, parameters: &ConnectionParameters) {
    identifier.agreement.queue_pair = parameters.qp_num;
    identifier.agreement.responder_resources = parameters.responder_resources;
    identifier.agreement.initiator_depth = parameters.initiator_depth;
}

/// Accepts a request; or, without parameters, sends the RTU after a reply.
///
/// # Errors
/// EINVAL if there is nothing to accept, or the peer is dead.
pub fn accept(command: &Command<'_>, state: &mut State) -> Result<()> {
    let wanted: Accept = command.read_lenient(size_of::<Ece>())?;
    let identifier = state.identifier(command.channel, wanted.id)?;
    if wanted.conn_param.valid == 0 {
        if identifier.state != ConnectionState::Replied {
            return Err(Errno::EINVAL);
        }
        identifier.state = ConnectionState::Established;
        return state.tell(wanted.id, &Message::bare(MessageKind::Rtu));
    }
    if identifier.state != ConnectionState::Requested {
        return Err(Errno::EINVAL);
    }
    let datagram = identifier.space.is_datagram();
    let kind = if datagram {
        MessageKind::SidrRep
    } else {
        MessageKind::Rep
    };
    let mut reply = Message::proposing(kind, &wanted.conn_param).ok_or(Errno::EINVAL)?;
    reply.psn = identifier.psn;
    if datagram && reply.queue_key == 0 {
        reply.queue_key = super::attributes::QUEUE_KEY;
    }
    agree(identifier, &wanted.conn_param);
    state.tell(wanted.id, &reply)?;
    let identifier = state.identifier(command.channel, wanted.id)?;
    identifier.uid = wanted.uid;
    identifier.state = if datagram {
        ConnectionState::Established
    } else {
        ConnectionState::Accepted
    };
    was_answered(state, wanted.id);
    Ok(())
}

fn was_answered(state: &mut State, number: u32) {
    let identifier = state.identifiers.get_mut(number);
    if let Some(listener) = identifier.and_then(|of| of.requested_from.take()) {
        state.answered(listener);
    }
}

/// Rejects a request.
///
/// # Errors
/// EINVAL if there is none, or for more private data than a rejection carries.
pub fn reject(command: &Command<'_>, state: &mut State) -> Result<()> {
    let wanted: Reject = command.read()?;
    let identifier = state.identifier(command.channel, wanted.id)?;
    if !matches!(
        identifier.state,
        ConnectionState::Requested | ConnectionState::Replied
    ) {
        return Err(Errno::EINVAL);
    }
    let datagram = identifier.space.is_datagram();
    let (kind, status) = match (datagram, wanted.reason) {
        (true, _) => (MessageKind::SidrRep, message::SIDR_REJECTED),
        (false, 0) => (MessageKind::Rej, message::CONSUMER_DEFINED),
        (false, reason) => (MessageKind::Rej, reason.into()),
    };
    let parameters = ConnectionParameters {
        private_data: wanted.private_data,
        private_data_len: wanted.private_data_len,
        ..Default::default()
    };
    let mut rejection = Message::proposing(kind, &parameters).ok_or(Errno::EINVAL)?;
    rejection.status = status;
    identifier.state = ConnectionState::Over;
    let said = state.tell(wanted.id, &rejection);
    was_answered(state, wanted.id);
    said
}

/// Ends a connection. The peer gets its event at once, this side when the peer has answered.
///
/// # Errors
/// EINVAL if there never was a connection.
pub fn disconnect(command: &Command<'_>, state: &mut State) -> Result<()> {
    let wanted: Disconnect = command.read()?;
    let identifier = state.identifier(command.channel, wanted.id)?;
    match identifier.state {
        ConnectionState::Accepted | ConnectionState::Established
            if !identifier.space.is_datagram() =>
        {
            identifier.state = ConnectionState::Disconnecting;
            state.send(wanted.id, &Message::bare(MessageKind::Dreq));
            Ok(())
        }
        // The peer disconnected first: now both sides have.
        ConnectionState::Disconnected => {
            state.begin_time_wait(wanted.id);
            Ok(())
        }
        ConnectionState::Over | ConnectionState::Disconnecting | ConnectionState::TimeWait => {
            Ok(())
        }
        _ => Err(Errno::EINVAL),
    }
}

/// Handles the event of the queue pair that stands in for the peer's RTU.
///
/// # Errors
/// EINVAL for another event than "communication established".
pub fn notify(command: &Command<'_>, state: &mut State) -> Result<()> {
    let wanted: Notify = command.read()?;
    let identifier = state.identifier(command.channel, wanted.id)?;
    if wanted.event != COMMUNICATION_ESTABLISHED {
        return Err(Errno::EINVAL);
    }
    if identifier.state == ConnectionState::Accepted {
        identifier.state = ConnectionState::Established;
        let number = identifier
            .peer_transport
            .as_mut()
            .and_then(PeerTransport::state_machine)
            .map(|of| of.number());
        state.raise(wanted.id, Event::plain(EventKind::Established, 0));
        if let Some(number) = number {
            state.update_death_record(number);
        }
    }
    Ok(())
}
