//! Completions of receives and of requests, and the events that announce them.

use std::time::Duration;

use verbena_verbs::{Gid, Region, WorkCompletion};

use super::failure::Failure;
use super::{Adapter, BATCH, MAIN, RECEIVE, ROUTE};
use crate::administration::record::Path as PathRecord;
use crate::connected::{self, Completed};
use crate::station::Source;

/// The effect of a completion.
pub enum Completion {
    /// Nothing was received.
    Nothing,
    /// A datagram was received.
    Datagram(Received),
    /// A connection has received or failed.
    Connected(Completed),
}

/// A received datagram in its buffer.
pub struct Received {
    /// Its sender.
    pub source: Source,
    /// The buffer's number.
    pub buffer: usize,
    /// Its length.
    pub length: usize,
    /// Whether it was received.
    pub is_success: bool,
}

impl Adapter {
    /// Takes completions of receives; returns their number.
    ///
    /// # Errors
    ///
    /// The adapter fails.
    pub fn poll(&self, into: &mut [WorkCompletion; BATCH]) -> Result<usize, Failure> {
        Ok(self.received.poll(into, |completion| *completion)?)
    }

    /// Takes completions of requests; returns their number.
    ///
    /// # Errors
    ///
    /// The adapter fails.
    pub fn poll_sent(&self, into: &mut [WorkCompletion; BATCH]) -> Result<usize, Failure> {
        Ok(self.sent.poll(into, |completion| *completion)?)
    }

    /// Uses a completion. The buffer of a datagram is in use until it is released.
    pub fn complete(&mut self, completion: &WorkCompletion) -> Completion {
        if completion.id & connected::CONNECTED != 0 {
            let connected = self.connected.as_mut();
            let completed = connected.map(|connected| connected.complete(completion));
            return completed.map_or(Completion::Nothing, Completion::Connected);
        }
        if completion.id & RECEIVE == 0 {
            let number = (completion.id >> 32) as u32;
            let lane = match number {
                MAIN => Some(&mut self.main),
                number if number == self.answers.number() => Some(&mut self.answers),
                number => self.lanes.get_mut(&number).map(|found| &mut found.lane),
            };
            if let Some(lane) = lane {
                lane.complete(&mut self.slots, completion.id);
            }
            return Completion::Nothing;
        }
        let buffer = (completion.id & !RECEIVE) as usize;
        let mtu = self.attributes.mtu as usize;
        let at = buffer * (ROUTE + mtu);
        let mut gid = [0; 16];
        let is_read = self.receives.read(at + 8, &mut gid).is_ok();
        Completion::Datagram(Received {
            source: Source {
                queue_pair: completion.source,
                path: PathRecord {
                    lid: completion.source_lid,
                    service_level: 0,
                },
                gid: completion.has_route.then_some(Gid(gid)),
            },
            buffer,
            length: (completion.length as usize).saturating_sub(ROUTE).min(mtu),
            is_success: completion.status.is_success() && is_read,
        })
    }

    /// Returns the memory of received datagrams, and where one starts.
    pub fn datagram(&self, received: &Received) -> (&Region, usize) {
        let size = ROUTE + self.attributes.mtu as usize;
        (&self.receives, received.buffer * size + ROUTE)
    }

    /// Takes back the buffer of a datagram that has been used.
    pub fn release(&self, received: &Received) {
        self.post_receive(received.buffer);
    }

    pub(super) fn post_receive(&self, index: usize) {
        let size = ROUTE + self.attributes.mtu as usize;
        let id = RECEIVE | index as u64;
        if let Some(segment) = self.receives.part(index * size, size) {
            // Refused only if the queue pair has failed, and then nothing is received.
            let _ = self.main.pair().post_receive_one(id, segment);
        }
    }

    /// Requests an event for the next receive, and for the next completion of a request if packets
    /// wait for one.
    ///
    /// # Errors
    ///
    /// The adapter fails.
    pub fn arm(&self, is_blocked: bool) -> Result<(), Failure> {
        if let Some(management) = &self.management {
            management.arm()?;
        }
        if is_blocked {
            self.sent.arm()?;
        }
        Ok(self.received.arm()?)
    }

    /// Takes an event, for which [`Adapter::events`] is readable.
    ///
    /// # Errors
    ///
    /// The adapter fails.
    pub fn take_event(&self) -> Result<(), Failure> {
        self.channel.wait(Duration::ZERO)?;
        Ok(())
    }
}
