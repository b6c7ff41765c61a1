//! What arrives from peers: callers at a listener, and messages in a conversation.

use crate::abi::{ConnectionParameters, DatagramParameters};
use crate::address;
use crate::alarm::Alarm;
use crate::channel::Waiting;
use crate::conversation::{Conversation, Heard};
use crate::device;
use crate::event::{Event, Kind as EventKind, Parameters};
use crate::identifier::{Identifier, Listening};
use crate::message::{Kind, Message};
use crate::service::{Caller, State};
use crate::stage::Stage;
use crate::thread::Source;
use std::io::ErrorKind;
use verbena_hca::errno::Result;
use verbena_hca::sys::clock;

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
pub fn handle(state: &mut State, source: Source) -> Result<()> {
    match source {
        Source::Listener(number, generation) => return answer_call(state, number, generation),
        Source::Caller(number) => hear_caller(state, number),
        Source::Identifier(number, generation) => hear_peer(state, number, generation),
        Source::Alarm => state.take_alarms(clock::now()),
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
    let request = match caller.conversation.hear() {
        Heard::Nothing => return,
        Heard::Message(message) => Some(message),
        Heard::End => None,
    };
    let Some(caller) = state.callers.remove(number) else {
        return;
    };
    state.watch.forget(&caller.conversation);
    if let Some(request) = request {
        // Without an answer the caller hears the end of the stream, and takes it for a rejection.
        let _ = accept_request(state, caller, &request);
    }
}

/// Makes an identifier for a request and tells the listener's program of it; `None` drops the request.
fn accept_request(state: &mut State, caller: Caller, request: &Message) -> Option<()> {
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

    let mut identifier = Identifier::new(listener.channel, listener.space, 0, generation);
    identifier.stage = Stage::Requested;
    identifier.source = Some(source);
    identifier.destination = Some(destination);
    identifier.options = listener.options;
    identifier.requested_from = Some(caller.listener);
    identifier.learn(request);
    identifier.agreement.retry_count = request.retry_count;
    identifier.agreement.rnr_retry_count = request.rnr_retry_count;
    identifier.conversation = Some(caller.conversation);
    let channel = identifier.channel;

    let Some(number) = state.identifiers.insert(identifier) else {
        state.answered(caller.listener);
        return None;
    };
    let conversation = state.identifiers.get(number)?.conversation.as_ref()?;
    let source = Source::Identifier(number, generation);
    if state.watch.add(conversation, source).is_err() {
        state.destroy(number);
        return None;
    }
    let parameters = request.parameters();
    let parameters = match request.kind {
        Kind::SidrReq => Parameters::Datagram(Box::new(datagram(&parameters))),
        _ => Parameters::Connection(Box::new(parameters)),
    };
    state.channels.get_mut(&channel)?.push(Waiting {
        owner: caller.listener,
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
pub fn datagram(parameters: &ConnectionParameters) -> DatagramParameters {
    DatagramParameters {
        qp_num: parameters.qp_num,
        qkey: parameters.qkey,
        ah_attr: device::address_vector(),
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
        let Some(conversation) = identifier.conversation.as_mut() else {
            return;
        };
        match conversation.hear() {
            Heard::Nothing => return,
            Heard::Message(message) => receive(state, number, &message),
            Heard::End => return state.lost(number),
        }
    }
}

/// A message to an identifier (12.9.7, the state machine of a connection). What its stage does not expect is dropped.
fn receive(state: &mut State, number: u32, message: &Message) {
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
                    parameters: Parameters::Datagram(Box::new(datagram(&message.parameters()))),
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
        (Kind::Dreq, stage) if stage.is_connected() => {
            identifier.stage = Stage::Disconnected;
            state.say(number, &Message::bare(Kind::Drep));
            state.raise(number, Event::plain(EventKind::Disconnected, 0));
            // Both asked at once.
            if stage == Stage::Disconnecting {
                state.begin_time_wait(number);
            }
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
