//! What arrives from peers: callers at a listener, and messages in a conversation.

use crate::abi::{ConnectionParameters, DatagramParameters};
use crate::address;
use crate::alarm::Alarm;
use crate::channel::Waiting;
use crate::conversation::{Conversation, Heard};
use crate::correspondence::{Correspondence, INVALID_MTU, STALE_CONNECTION};
use crate::event::{Event, Kind as EventKind, Parameters};
use crate::identifier::{Identifier, Listening, QueuePairKind};
use crate::line::Line;
use crate::mad;
use crate::message::{INVALID_TRANSPORT, Kind, Message};
use crate::nobody;
use crate::service::{Caller, Service, State};
use crate::stage::Stage;
use crate::thread::Source;
use crate::way::Way;
use std::io::ErrorKind;
use verbena_hca::device::active_mtu;
use verbena_hca::errno::Result;
use verbena_hca::roce::management::Letter;
use verbena_hca::sys::clock;
use verbena_wire::mad::cm::ip;

/// Callers that may be silent at once.
const MOST_CALLERS: usize = 4096;

/// Nanoseconds that a caller may be silent.
const PATIENCE: u64 = 10_000_000_000;

/// Messages of one peer that are handled before others get their turn.
const BATCH: usize = 16;

/// Handles what made a source readable.
///
/// # Errors
/// A call that waits cannot be taken now, for want of descriptors; it goes on waiting.
pub fn handle(service: &Service, source: Source) -> Result<()> {
    let state = &mut *service.lock();
    match source {
        Source::Listener(number, generation) => return answer_call(state, number, generation),
        Source::Caller(number) => hear_caller(state, number),
        Source::Identifier(number, generation) => hear_peer(state, number, generation),
        Source::Alarm => state.take_alarms(clock::now()),
        Source::Post => {
            for letter in service.letterbox.take() {
                state.take_letter(letter);
            }
            for doors in service.letterbox.take_doors() {
                state.take_doors(&doors);
            }
            if service.letterbox.was_asked() {
                state.execute_wills();
            }
        }
        Source::Wills => state.will_was_closed(),
    }
    Ok(())
}

/// Takes the call that has waited longest at a listener.
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
        // The caller has hung up, or another event had told of the same one.
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

/// Waits for what a caller has to say.
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

/// Hears what a caller wants: a connection, or a datagram service.
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
    // Without an answer a caller of this host hears the end of the stream, and takes it for a rejection; one of another
    // host asks again.
    let _ = match heard {
        Heard::Message(request) => accept_call(state, caller, &request),
        Heard::Letter(letter) => accept_letter(state, &caller, &letter),
        Heard::Nothing | Heard::End => None,
    };
}

/// A request of this host.
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
    let number = accept_request(state, &caller, request, Way::within(destination, source))?;
    let identifier = state.identifiers.get_mut(number)?;
    let source = Source::Identifier(number, identifier.generation);
    let watched = state.watch.add(&caller.conversation, source);
    identifier.line = Some(Line::Neighbour(Box::new(caller.conversation)));
    if watched.is_err() {
        state.destroy(number);
        return None;
    }
    announce(state, caller.listener, number, request)
}

/// A request of another host, which somebody has handed on. It may have come before.
fn accept_letter(state: &mut State, caller: &Caller, letter: &Letter) -> Option<()> {
    let (transaction, message) = mad::read(&letter.mad)?;
    let request = mad::request(transaction, &message)?.on_link(letter.interface);
    if let Some(known) = state.correspondence_called(letter, request.number) {
        state.hear_again(known, letter);
        return None;
    }
    if state.office.is_late(letter, request.number) {
        return None;
    }
    let way = request.way().ok()?;
    if let Some(proposal) = request.connection {
        let largest = active_mtu(way.port) as u8;
        if !is_offered(state, caller.listener, &request.message) {
            nobody::refuse(letter, INVALID_TRANSPORT, &[]);
            return None;
        }
        if proposal.mtu > largest {
            nobody::refuse(letter, INVALID_MTU, &[largest]);
            return None;
        }
        // Its queue pair has another connection now, so the one that we know of is over (12.9.8.3.1).
        let queue_pair = request.message.queue_pair;
        if let Some(stale) = state.connected_with(proposal.guid, queue_pair) {
            nobody::refuse(letter, STALE_CONNECTION, &[]);
            state.lost(stale);
            return None;
        }
    }
    let number = accept_request(state, caller, &request.message, way)?;
    let service = ip::service_id(request.space, request.destination.port());
    let Ok(ours) = state.number_correspondence(number) else {
        state.destroy(number);
        return None;
    };
    let correspondence = Correspondence::of(ours, &request, service, way);
    state.correspond(number, correspondence.called_from(letter.residence));
    announce(state, caller.listener, number, &request.message)
}

/// Whether a listener's queue pairs are of the service that a request is for.
fn is_offered(state: &State, listener: u32, request: &Message) -> bool {
    let listener = state.identifiers.get(listener);
    listener.is_none_or(|of| of.queue_pair_kind.transport() == request.transport)
}

/// Makes an identifier for a request, which takes a place of the listener's backlog; `None` drops the request.
fn accept_request(state: &mut State, caller: &Caller, request: &Message, way: Way) -> Option<u32> {
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
    identifier.stage = Stage::Requested;
    identifier.source = Some(source);
    identifier.destination = Some(destination);
    identifier.way = way;
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

/// Tells the listener's program of a request.
fn announce(state: &mut State, listener: u32, number: u32, request: &Message) -> Option<()> {
    let identifier = state.identifiers.get(number)?;
    let channel = identifier.channel;
    let parameters = request.parameters();
    let parameters = match request.kind {
        Kind::SidrReq => Parameters::Datagram(Box::new(datagram(&parameters, &identifier.way))),
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

/// Parameters of a datagram service: where it is, and what its program says.
pub fn datagram(parameters: &ConnectionParameters, way: &Way) -> DatagramParameters {
    DatagramParameters {
        qp_num: parameters.qp_num,
        qkey: parameters.qkey,
        ah_attr: way.address_vector(),
        private_data: parameters.private_data,
        private_data_len: parameters.private_data_len,
        ..Default::default()
    }
}

/// Hears the peer of an identifier.
fn hear_peer(state: &mut State, number: u32, generation: u32) {
    // One that talks without end does not keep the program from its own commands.
    for _ in 0..BATCH {
        let identifier = state.identifiers.get_mut(number);
        let Some(identifier) = identifier.filter(|of| of.generation == generation) else {
            return;
        };
        let Some(conversation) = identifier.line.as_mut().and_then(Line::conversation) else {
            return;
        };
        match conversation.hear() {
            Heard::Nothing => return,
            Heard::Message(message) => receive(state, number, &message),
            // Letters are handed to listeners.
            Heard::Letter(_) | Heard::End => return state.lost(number),
        }
    }
}

/// A message to an identifier (12.9.7, the state machine of a connection). What its stage does not expect is dropped.
pub fn receive(state: &mut State, number: u32, message: &Message) {
    let Some(identifier) = state.identifiers.get_mut(number) else {
        return;
    };
    match (message.kind, identifier.stage) {
        (Kind::Rep, Stage::Connecting) if !identifier.space.is_datagram() => {
            let (retry, rnr) = (identifier.agreement.retry_count, message.rnr_retry_count);
            identifier.learn(message);
            identifier.agreement.retry_count = retry;
            identifier.agreement.rnr_retry_count = rnr;
            identifier.stage = Stage::Replied;
            raise_connection(state, number, EventKind::ConnectResponse, message, 0);
        }
        (Kind::SidrRep, Stage::Connecting) if identifier.space.is_datagram() => {
            if message.status == 0 {
                identifier.stage = Stage::Established;
                let event = Event {
                    kind: EventKind::Established,
                    status: 0,
                    parameters: Parameters::Datagram(Box::new(datagram(
                        &message.parameters(),
                        &identifier.way,
                    ))),
                };
                state.raise(number, event);
            } else {
                identifier.stage = Stage::Over;
                let status = message.status as i32;
                state.raise(number, Event::plain(EventKind::Unreachable, status));
            }
        }
        (Kind::Rtu, Stage::Accepted) => {
            identifier.stage = Stage::Established;
            state.raise(number, Event::plain(EventKind::Established, 0));
        }
        (Kind::Rej, Stage::Connecting | Stage::Replied | Stage::Accepted) => {
            identifier.stage = Stage::Over;
            let status = message.status as i32;
            raise_connection(state, number, EventKind::Rejected, message, status);
        }
        // It was about to be connected when it ended.
        (Kind::Rej, Stage::Established) if !identifier.space.is_datagram() => {
            identifier.stage = Stage::Disconnected;
            state.raise(number, Event::plain(EventKind::Disconnected, 0));
        }
        (Kind::Dreq, stage) if stage.is_connected() => {
            identifier.stage = Stage::Disconnected;
            state.say(number, &Message::bare(Kind::Drep));
            state.raise(number, Event::plain(EventKind::Disconnected, 0));
            // Both asked at once.
            if stage == Stage::Disconnecting {
                state.begin_time_wait(number);
            }
        }
        // It has not heard that it is over, or asks once more.
        (Kind::Dreq, Stage::Disconnected | Stage::TimeWait | Stage::Over) => {
            let _ = state.tell(number, &Message::bare(Kind::Drep));
        }
        (Kind::Drep, Stage::Disconnecting) => {
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
