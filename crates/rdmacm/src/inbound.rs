//! Input from peers: requests at a listener, and messages of an existing connection.

use crate::abi::{ConnectionParameters, DatagramParameters};
use crate::address;
use crate::alarm::Alarm;
use crate::channel::Waiting;
use crate::connection_state::ConnectionState;
use crate::conversation::{Conversation, Heard};
use crate::event::{Event, Kind as EventKind, Parameters};
use crate::identifier::{Identifier, Listening, QueuePairKind};
use crate::mad;
use crate::message::{INVALID_TRANSPORT, Kind, Message};
use crate::no_listener;
use crate::path::Path;
use crate::peer_transport::PeerTransport;
use crate::service::{Caller, Service, State};
use crate::state_machine::{INVALID_MTU, STALE_CONNECTION, StateMachine};
use crate::thread::Source;
use std::io::ErrorKind;
use verbena_hca::device::active_mtu;
use verbena_hca::roce::management::CmMad;
use verbena_hca_os::clock;
use verbena_hca_os::errno::Result;
use verbena_wire::mad::cm::ip;

/// Maximum number of callers without a request.
const MOST_CALLERS: usize = 4096;

/// Nanoseconds within which a caller must send its request.
const PATIENCE: u64 = 10_000_000_000;

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
        Source::Caller(number) => hear_caller(state, number),
        Source::Identifier(number, generation) => hear_peer(state, number, generation),
        Source::Alarm => state.take_alarms(clock::now()),
        Source::Inbox => {
            for cm_mad in service.inbox.take() {
                state.process_cm_mad(cm_mad);
            }
            for private_ports in service.inbox.take_private_ports() {
                state.take_private_ports(&private_ports);
            }
            if service.inbox.was_probed() {
                state.reap();
            }
        }
        Source::DeathRecords => state.death_record_closed(),
    }
    Ok(())
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
    if !crowded && let Ok(conversation) = Conversation::new(stream) {
        admit(state, number, generation, conversation);
    }
    Ok(())
}

/// Waits for the request of a caller.
fn admit(state: &mut State, number: u32, generation: u32, conversation: Conversation) {
    let deadline = clock::now() + PATIENCE;
    let caller = Caller {
        listener: number,
        generation,
        conversation,
        deadline,
    };
    let Some(caller) = state.callers.insert(caller) else {
        return;
    };
    state.set_alarm(deadline, Alarm::Caller(caller));
    let State { callers, watch, .. } = state;
    if let Some(waiting) = callers.get(caller)
        && watch
            .add(&waiting.conversation, Source::Caller(caller))
            .is_err()
    {
        callers.remove(caller);
    }
}

/// Processes the request of a caller: for a connection, or for a datagram service.
fn hear_caller(state: &mut State, number: u32) {
    let Some(caller) = state.callers.get_mut(number) else {
        return;
    };
    let heard = caller.conversation.hear();
    if heard == Heard::Nothing {
        return;
    }
    let Some(caller) = state.callers.remove(number) else {
        return;
    };
    state.watch.forget(&caller.conversation);
    // Without an answer, a caller on this host reads the end of the stream and takes it for a
    // rejection; a caller on another host retransmits.
    let _ = match heard {
        Heard::Message(request) => accept_call(state, caller, &request),
        Heard::CmMad(cm_mad) => accept_cm_mad(state, &caller, &cm_mad),
        Heard::Nothing | Heard::End => None,
    };
}

/// Accepts a request from this host.
fn accept_call(state: &mut State, mut caller: Caller, request: &Message) -> Option<()> {
    if !is_offered(state, caller.listener, request) {
        let refusal = Message {
            status: INVALID_TRANSPORT,
            ..Message::bare(Kind::Rej)
        };
        let _ = caller.conversation.say(&refusal);
        return None;
    }
    let destination = address::parse(&request.destination).ok()??;
    let source = address::parse(&request.source).ok()??;
    let number = accept_request(state, &caller, request, Path::local(destination, source))?;
    let identifier = state.identifiers.get_mut(number)?;
    let source = Source::Identifier(number, identifier.generation);
    let watched = state.watch.add(&caller.conversation, source);
    identifier.peer_transport = Some(PeerTransport::Local(Box::new(caller.conversation)));
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
        state.hear_again(known, cm_mad);
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
        true => Kind::SidrReq,
        false => Kind::Req,
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
        Kind::SidrReq => Parameters::Datagram(Box::new(datagram(&parameters, &identifier.path))),
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

/// Returns the parameters of a datagram service: its address and the program's values.
pub fn datagram(parameters: &ConnectionParameters, path: &Path) -> DatagramParameters {
    DatagramParameters {
        qp_num: parameters.qp_num,
        qkey: parameters.qkey,
        ah_attr: path.address_vector(),
        private_data: parameters.private_data,
        private_data_len: parameters.private_data_len,
        ..Default::default()
    }
}

/// Processes messages from the peer of an identifier.
fn hear_peer(state: &mut State, number: u32, generation: u32) {
    // A peer that sends without end must not delay the program's own commands.
    for _ in 0..BATCH {
        let identifier = state.identifiers.get_mut(number);
        let Some(identifier) = identifier.filter(|of| of.generation == generation) else {
            return;
        };
        let Some(conversation) = identifier
            .peer_transport
            .as_mut()
            .and_then(PeerTransport::conversation)
        else {
            return;
        };
        match conversation.hear() {
            Heard::Nothing => return,
            Heard::Message(message) => receive(state, number, &message),
            // MADs are passed to listeners only.
            Heard::CmMad(_) | Heard::End => return state.lost(number),
        }
    }
}

/// Processes a message for an identifier (12.9.7, the state machine of a connection). A message
/// that is unexpected in the identifier's state is dropped.
pub fn receive(state: &mut State, number: u32, message: &Message) {
    let Some(identifier) = state.identifiers.get_mut(number) else {
        return;
    };
    match (message.kind, identifier.state) {
        (Kind::Rep, ConnectionState::Connecting) if !identifier.space.is_datagram() => {
            let (retry, rnr) = (identifier.agreement.retry_count, message.rnr_retry_count);
            identifier.learn(message);
            identifier.agreement.retry_count = retry;
            identifier.agreement.rnr_retry_count = rnr;
            identifier.state = ConnectionState::Replied;
            raise_connection(state, number, EventKind::ConnectResponse, message, 0);
        }
        (Kind::SidrRep, ConnectionState::Connecting) if identifier.space.is_datagram() => {
            if message.status == 0 {
                identifier.state = ConnectionState::Established;
                let event = Event {
                    kind: EventKind::Established,
                    status: 0,
                    parameters: Parameters::Datagram(Box::new(datagram(
                        &message.parameters(),
                        &identifier.path,
                    ))),
                };
                state.raise(number, event);
            } else {
                identifier.state = ConnectionState::Over;
                let status = message.status as i32;
                state.raise(number, Event::plain(EventKind::Unreachable, status));
            }
        }
        (Kind::Rtu, ConnectionState::Accepted) => {
            identifier.state = ConnectionState::Established;
            state.raise(number, Event::plain(EventKind::Established, 0));
        }
        (
            Kind::Rej,
            ConnectionState::Connecting | ConnectionState::Replied | ConnectionState::Accepted,
        ) => {
            identifier.state = ConnectionState::Over;
            let status = message.status as i32;
            raise_connection(state, number, EventKind::Rejected, message, status);
        }
        // It ended when it was about to be connected.
        (Kind::Rej, ConnectionState::Established) if !identifier.space.is_datagram() => {
            identifier.state = ConnectionState::Disconnected;
            state.raise(number, Event::plain(EventKind::Disconnected, 0));
        }
        (Kind::Dreq, before) if before.is_connected() => {
            identifier.state = ConnectionState::Disconnected;
            state.say(number, &Message::bare(Kind::Drep));
            state.raise(number, Event::plain(EventKind::Disconnected, 0));
            // Both sides sent a DREQ at once.
            if before == ConnectionState::Disconnecting {
                state.begin_time_wait(number);
            }
        }
        // The peer has missed the end, or retransmits its DREQ.
        (
            Kind::Dreq,
            ConnectionState::Disconnected | ConnectionState::TimeWait | ConnectionState::Over,
        ) => {
            let _ = state.tell(number, &Message::bare(Kind::Drep));
        }
        (Kind::Drep, ConnectionState::Disconnecting) => {
            state.raise(number, Event::plain(EventKind::Disconnected, 0));
            state.begin_time_wait(number);
        }
        _ => (),
    }
}

fn raise_connection(
    state: &mut State,
    number: u32,
    kind: EventKind,
    message: &Message,
    status: i32,
) {
    let parameters = Parameters::Connection(Box::new(message.parameters()));
    state.raise(
        number,
        Event {
            kind,
            status,
            parameters,
        },
    );
}
