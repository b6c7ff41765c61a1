//! Input of the thread: requests at a listener, messages of an existing connection, alarms.

use crate::address;
use crate::alarm::Alarm;
use crate::channel::Waiting;
use crate::command::bind;
use crate::connection_state::ConnectionState;
use crate::event::{Event, EventKind, Parameters};
use crate::identifier::{Identifier, Listening, QueuePairKind};
use crate::local_stream::{LocalStream, Received};
use crate::mad;
use crate::message::{INVALID_TRANSPORT, Message, MessageKind};
use crate::no_listener;
use crate::path::Path;
use crate::peer_transport::PeerTransport;
use crate::receive::{datagram, receive};
use crate::service::Service;
use crate::state::{Caller, State};
use crate::state_machine::{INVALID_MTU, STALE_CONNECTION, StateMachine};
use crate::watch::Source;
use std::io::ErrorKind;
use verbena_hca_net::device::active_mtu;
use verbena_hca_net::roce::management::CmMad;
use verbena_hca_os::clock;
use verbena_hca_os::errno::Result;
use verbena_wire::mad::cm::ip;

/// Maximum number of callers without a request.
const MOST_CALLERS: usize = 4096;

/// Nanoseconds within which a caller must send its request.
const REQUEST_TIMEOUT: u64 = 10_000_000_000;

/// Messages of one peer that are handled before others get their turn.
const BATCH: usize = 16;

/// Handles a readable source.
///
/// # Errors
/// A pending connection cannot be accepted for want of descriptors; it remains pending.
pub fn handle(service: &Service, source: Source) -> Result<()> {
    let state = &mut *service.lock();
    match source {
        Source::Listener(number, generation) => return answer_call(state, number, generation),
        Source::Caller(number) => receive_from_caller(state, number),
        Source::Identifier(number, generation) => receive_from_peer(state, number, generation),
        Source::Alarm => take_alarms(state, clock::now()),
        Source::Inbox => {
            for cm_mad in service.inbox.take() {
                state.process_cm_mad(cm_mad);
            }
            for private_ports in service.inbox.take_private_ports() {
                state.take_private_ports(&private_ports);
            }
            for answer in service.inbox.take_administration() {
                state.take_administration(&answer);
            }
            if service.inbox.was_probed() {
                state.reap();
            }
        }
        Source::DeathRecords => state.death_record_closed(),
    }
    Ok(())
}

/// Handles the alarms that are due.
fn take_alarms(state: &mut State, now: u64) {
    for alarm in state.due_alarms(now) {
        match alarm {
            Alarm::TimeWait(number, generation) => {
                let identifier = state.identifiers.get_mut(number);
                let waits = |of: &&mut Identifier| {
                    of.generation == generation && of.state == ConnectionState::TimeWait
                };
                if let Some(identifier) = identifier.filter(waits) {
                    identifier.state = ConnectionState::Over;
                    state.raise(number, Event::plain(EventKind::TimewaitExit, 0));
                }
            }
            Alarm::Disconnected(number, generation, deadline) => {
                let identifier = state.identifiers.get(number);
                if identifier.is_some_and(|of| of.generation == generation) {
                    state.raise_disconnected(number, deadline);
                }
            }
            Alarm::Resolution(number, generation, deadline) => {
                let identifier = state.identifiers.get(number);
                if identifier.is_some_and(|of| of.generation == generation) {
                    bind::resolve_again(state, number, deadline);
                }
            }
            Alarm::Membership(group, transaction) => state.membership_is_due(group, transaction),
            Alarm::Retransmission(number) => state.retransmit_due(number, now),
            Alarm::Unclaimed => state.offer_unclaimed(),
            Alarm::Probe => {
                state.probe_peers();
                state.reap();
            }
            Alarm::Reap => state.reap(),
            Alarm::Caller(number) => {
                let caller = state.callers.get(number);
                if caller.is_some_and(|caller| caller.deadline <= now)
                    && let Some(caller) = state.callers.remove(number)
                {
                    state.watch.forget(&caller.local_stream);
                }
            }
        }
    }
}

/// Accepts the oldest pending connection of a listener.
fn answer_call(state: &mut State, number: u32, generation: u32) -> Result<()> {
    let crowded = state.callers.iter().count() >= MOST_CALLERS;
    let listener = state.identifiers.get(number);
    let Some(Listening { socket, .. }) = listener
        .filter(|listener| listener.generation == generation)
        .and_then(|listener| listener.listening.as_ref())
    else {
        return Ok(());
    };
    let stream = match socket.accept() {
        Ok((stream, _)) => stream,
        // The caller has closed the connection, or an earlier event was for the same one.
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionAborted
            ) =>
        {
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    if !crowded && let Ok(local_stream) = LocalStream::new(stream) {
        admit(state, number, generation, local_stream);
    }
    Ok(())
}

/// Waits for the request of a caller.
fn admit(state: &mut State, number: u32, generation: u32, local_stream: LocalStream) {
    let deadline = clock::now() + REQUEST_TIMEOUT;
    let caller = Caller {
        listener: number,
        generation,
        local_stream,
        deadline,
    };
    let Some(caller) = state.callers.insert(caller) else {
        return;
    };
    state.set_alarm(deadline, Alarm::Caller(caller));
    let State { callers, watch, .. } = state;
    if let Some(waiting) = callers.get(caller)
        && watch
            .add(&waiting.local_stream, Source::Caller(caller))
            .is_err()
    {
        callers.remove(caller);
    }
}

/// Processes the request of a caller: for a connection, or for a datagram service.
fn receive_from_caller(state: &mut State, number: u32) {
    let Some(caller) = state.callers.get_mut(number) else {
        return;
    };
    let received = caller.local_stream.receive();
    if received == Received::Nothing {
        return;
    }
    let Some(caller) = state.callers.remove(number) else {
        return;
    };
    state.watch.forget(&caller.local_stream);
    // Without an answer, a caller on this host reads the end of the stream and takes it for a
    // rejection; a caller on another host retransmits.
    let _ = match received {
        Received::Message(request) => accept_call(state, caller, &request),
        Received::CmMad(cm_mad) => accept_cm_mad(state, &caller, &cm_mad),
        Received::Nothing | Received::End => None,
    };
}

/// Accepts a request from this host.
fn accept_call(state: &mut State, mut caller: Caller, request: &Message) -> Option<()> {
    if !is_offered(state, caller.listener, request) {
        let refusal = Message {
            status: INVALID_TRANSPORT,
            ..Message::bare(MessageKind::Rej)
        };
        let _ = caller.local_stream.send(&refusal);
        return None;
    }
    let destination = address::parse(&request.destination).ok()??;
    let source = address::parse(&request.source).ok()??;
    // Without a path back, the caller reads the end of the stream.
    let (path, _) = state.hosts.reach(destination, source)?;
    let number = accept_request(state, &caller, request, path)?;
    let identifier = state.identifiers.get_mut(number)?;
    let source = Source::Identifier(number, identifier.generation);
    let watched = state.watch.add(&caller.local_stream, source);
    identifier.peer_transport = Some(PeerTransport::Local(Box::new(caller.local_stream)));
    if watched.is_err() {
        state.destroy(number);
        return None;
    }
    announce(state, caller.listener, number, request)
}

/// Accepts a request from another host, passed on by the process that received it. It may be a
/// retransmission.
fn accept_cm_mad(state: &mut State, caller: &Caller, cm_mad: &CmMad) -> Option<()> {
    let (transaction, message) = mad::read(&cm_mad.mad)?;
    let request = mad::request(transaction, &message)?.on_link(cm_mad.interface);
    if let Some(known) = state.find_by_remote_id(cm_mad, request.number) {
        state.receive_again(known, cm_mad);
        return None;
    }
    if state.connections.is_late(cm_mad, request.number) {
        return None;
    }
    let path = request.path().ok()?;
    if let Some(proposal) = request.connection {
        let largest = active_mtu(path.port) as u8;
        if !is_offered(state, caller.listener, &request.message) {
            no_listener::refuse(cm_mad, INVALID_TRANSPORT, &[]);
            return None;
        }
        if proposal.mtu > largest {
            no_listener::refuse(cm_mad, INVALID_MTU, &[largest]);
            return None;
        }
        // The queue pair has a new connection, so the known one is stale (12.9.8.3.1).
        let queue_pair = request.message.queue_pair;
        if let Some(stale) = state.connected_with(proposal.guid, queue_pair) {
            no_listener::refuse(cm_mad, STALE_CONNECTION, &[]);
            state.lost(stale);
            return None;
        }
    }
    let number = accept_request(state, caller, &request.message, path)?;
    let service = ip::service_id(request.space, request.destination.port());
    let Ok(ours) = state.assign_local_id(number) else {
        state.destroy(number);
        return None;
    };
    let machine = StateMachine::of(ours, &request, service, path);
    state.attach(number, machine.from_port(cm_mad.udp_port));
    announce(state, caller.listener, number, &request.message)
}

/// Returns whether a listener's queue pairs have the transport service of a request.
fn is_offered(state: &State, listener: u32, request: &Message) -> bool {
    let listener = state.identifiers.get(listener);
    listener.is_none_or(|of| of.queue_pair_kind.transport() == request.transport)
}

/// Creates an identifier for a request, which takes a place in the listener's backlog. Returns
/// `None` if the request is dropped.
fn accept_request(
    state: &mut State,
    caller: &Caller,
    request: &Message,
    path: Path,
) -> Option<u32> {
    let generation = state.next_generation();
    let listener = state.identifiers.get_mut(caller.listener)?;
    if listener.generation != caller.generation {
        return None;
    }
    let expected = match listener.space.is_datagram() {
        true => MessageKind::SidrReq,
        false => MessageKind::Req,
    };
    if request.kind != expected {
        return None;
    }
    let source = address::parse(&request.destination).ok()??;
    let destination = address::parse(&request.source).ok()??;
    let listening = listener.listening.as_mut()?;
    listening.backlog = listening.backlog.checked_sub(1)?;

    let kind = QueuePairKind::asked_by(request.transport);
    let mut identifier = Identifier::new(listener.channel, listener.space, kind, 0, generation);
    identifier.state = ConnectionState::Requested;
    identifier.source = Some(source);
    identifier.destination = Some(destination);
    identifier.path = path;
    identifier.options = listener.options;
    identifier.requested_from = Some(caller.listener);
    identifier.learn(request);
    identifier.agreement.retry_count = request.retry_count;
    identifier.agreement.rnr_retry_count = request.rnr_retry_count;

    let number = state.identifiers.insert(identifier);
    if number.is_none() {
        state.answered(caller.listener);
    }
    number
}

/// Raises the event of a request in the listener's channel.
fn announce(state: &mut State, listener: u32, number: u32, request: &Message) -> Option<()> {
    let identifier = state.identifiers.get(number)?;
    let channel = identifier.channel;
    let parameters = request.parameters();
    let parameters = match request.kind {
        MessageKind::SidrReq => {
            Parameters::Datagram(Box::new(datagram(&parameters, &identifier.path)))
        }
        _ => Parameters::Connection(Box::new(parameters)),
    };
    state.channels.get_mut(&channel)?.push(Waiting {
        owner: listener,
        group: None,
        request: Some(number),
        event: Event {
            kind: EventKind::ConnectRequest,
            status: 0,
            parameters,
        },
    });
    Some(())
}

/// Processes messages from the peer of an identifier.
fn receive_from_peer(state: &mut State, number: u32, generation: u32) {
    // A peer that sends without end must not delay the program's own commands.
    for _ in 0..BATCH {
        let identifier = state.identifiers.get_mut(number);
        let Some(identifier) = identifier.filter(|of| of.generation == generation) else {
            return;
        };
        let Some(local_stream) = identifier
            .peer_transport
            .as_mut()
            .and_then(PeerTransport::local_stream)
        else {
            return;
        };
        match local_stream.receive() {
            Received::Nothing => return,
            Received::Message(message) => receive(state, number, &message),
            // MADs are passed to listeners only.
            Received::CmMad(_) | Received::End => return state.lost(number),
        }
    }
}
