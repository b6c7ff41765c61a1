//! Which datagrams a queue pair receives (specification 9.8.3.2). Others are dropped silently, and
//! take no receive (class D).

use verbena_wire::{QKey, grh};

use crate::assembly;
use crate::disposition::Dropped;
use crate::state::State;

/// The state of a queue pair that decides about a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receiver {
    /// Its state.
    pub state: State,
    /// Its Q_Key.
    pub queue_key: QKey,
    /// The bytes of the next receive, if one is posted.
    pub receive: Option<u64>,
}

/// Returns the bytes of a receive that a datagram with `payload` bytes takes: the global route
/// header, or its substitute, comes first.
pub const fn length(payload: u64) -> u64 {
    grh::LENGTH as u64 + payload
}

/// Checks a datagram's Q_Key against the queue pair's.
///
/// # Errors
///
/// [`Dropped::QueueKey`].
pub fn check_key(queue_pair: QKey, datagram: QKey) -> Result<(), Dropped> {
    match queue_pair == datagram {
        true => Ok(()),
        false => Err(Dropped::QueueKey),
    }
}

/// Checks whether a queue pair receives a datagram with `payload` bytes.
///
/// # Errors
///
/// Why it is dropped.
pub fn admit(receiver: Receiver, queue_key: QKey, payload: u64) -> Result<(), Dropped> {
    if !receiver.state.responds() {
        return Err(Dropped::State);
    }
    check_key(receiver.queue_key, queue_key)?;
    let room = receiver.receive.ok_or(Dropped::NoReceive)?;
    assembly::fits(length(payload), room).map_err(|_| Dropped::TooLong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_needs_state_key_and_receive() {
        let key = QKey(7);
        let table = [
            (State::ReadyToReceive, key, Some(48), Ok(())),
            (State::ReadyToSend, key, Some(48), Ok(())),
            (State::SendQueueError, key, Some(100), Ok(())),
            (State::Initialized, key, Some(48), Err(Dropped::State)),
            (State::Error, key, Some(48), Err(Dropped::State)),
            (
                State::ReadyToSend,
                QKey(8),
                Some(48),
                Err(Dropped::QueueKey),
            ),
            (State::ReadyToSend, key, None, Err(Dropped::NoReceive)),
            (State::ReadyToSend, key, Some(47), Err(Dropped::TooLong)),
        ];
        for (state, queue_key, receive, verdict) in table {
            let receiver = Receiver {
                state,
                queue_key,
                receive,
            };
            assert_eq!(admit(receiver, key, 8), verdict, "{receiver:?}");
        }
    }
}
