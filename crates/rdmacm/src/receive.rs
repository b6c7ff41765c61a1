//! Messages of an existing connection.

use crate::abi::{ConnectionParameters, DatagramParameters};
use crate::connection_state::ConnectionState;
use crate::event::{Event, EventKind, Parameters};
use crate::message::{Message, MessageKind};
use crate::path::Path;
use crate::state::State;

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

/// Processes a message for an identifier (12.9.7, the state machine of a connection). A message
/// that is unexpected in the identifier's state is dropped.
pub fn receive(state: &mut State, number: u32, message: &Message) {
    let Some(identifier) = state.identifiers.get_mut(number) else {
        return;
    };
    match (message.kind, identifier.state) {
        (MessageKind::Rep, ConnectionState::Connecting) if !identifier.space.is_datagram() => {
            let (retry, rnr) = (identifier.agreement.retry_count, message.rnr_retry_count);
            identifier.learn(message);
            identifier.agreement.retry_count = retry;
            identifier.agreement.rnr_retry_count = rnr;
            identifier.state = ConnectionState::Replied;
            raise_connection(state, number, EventKind::ConnectResponse, message, 0);
        }
        (MessageKind::SidrRep, ConnectionState::Connecting) if identifier.space.is_datagram() => {
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
        (MessageKind::Rtu, ConnectionState::Accepted) => {
            identifier.state = ConnectionState::Established;
            state.raise(number, Event::plain(EventKind::Established, 0));
        }
        (
            MessageKind::Rej,
            ConnectionState::Connecting | ConnectionState::Replied | ConnectionState::Accepted,
        ) => {
            identifier.state = ConnectionState::Over;
            let status = message.status as i32;
            raise_connection(state, number, EventKind::Rejected, message, status);
        }
        // It ended when it was about to be connected.
        (MessageKind::Rej, ConnectionState::Established) if !identifier.space.is_datagram() => {
            identifier.state = ConnectionState::Disconnected;
            state.raise(number, Event::plain(EventKind::Disconnected, 0));
        }
        (MessageKind::Dreq, before) if before.is_connected() => {
            identifier.state = ConnectionState::Disconnected;
            state.send(number, &Message::bare(MessageKind::Drep));
            // Both sides sent a DREQ at once: the program expects the event.
            if before == ConnectionState::Disconnecting {
                state.raise(number, Event::plain(EventKind::Disconnected, 0));
                state.begin_time_wait(number);
            } else {
                state.disconnected(number);
            }
        }
        // The peer has missed the end, or retransmits its DREQ.
        (
            MessageKind::Dreq,
            ConnectionState::Disconnected | ConnectionState::TimeWait | ConnectionState::Over,
        ) => {
            let _ = state.tell(number, &Message::bare(MessageKind::Drep));
        }
        (MessageKind::Drep, ConnectionState::Disconnecting) => {
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
