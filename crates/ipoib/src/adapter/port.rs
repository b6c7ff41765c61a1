//! Events of the port, and properties of the broadcast group that change.

use std::os::fd::BorrowedFd;

use verbena_verbs::qp::attributes::Change;
use verbena_verbs::{Event, PortAttributes};

use super::Adapter;
use super::failure::Failure;
use crate::administration::record::Properties;

/// The effect of events of the port.
#[derive(Debug, Clone, Copy, Default)]
pub struct PortChange {
    /// Paths to the port, or memberships, may be others.
    pub are_paths_changed: bool,
    /// Connections must be made anew: the LID of the port or the P_Key index has changed.
    pub is_moved: bool,
    /// The port is not in the partition any more.
    pub is_outside: bool,
}

impl Adapter {
    /// Returns the descriptor that is readable when an event of the port waits.
    pub fn port_events(&self) -> BorrowedFd<'_> {
        self.context.events()
    }

    /// Takes the events of the port, and uses the P_Key index that they state. Returns `None`
    /// if nothing has changed.
    ///
    /// # Errors
    ///
    /// The adapter fails.
    pub fn take_port_events(&mut self) -> Result<Option<PortChange>, Failure> {
        let mut change = PortChange::default();
        while let Some(event) = self.context.take_event()? {
            change.are_paths_changed |= event == Event::Paths;
            if event == Event::Partitions {
                match self.context.partition(self.port, self.partition) {
                    Ok(index) => {
                        change.are_paths_changed = true;
                        change.is_moved |= index != self.partition_index;
                        change.is_outside = false;
                        self.move_to(index, self.queue_key)?;
                    }
                    Err(_) => change.is_outside = true,
                }
            }
        }
        if !change.are_paths_changed {
            return Ok(change.is_outside.then_some(change));
        }
        let before = self.attributes.lid;
        self.attributes = PortAttributes {
            // The memory for datagrams does not grow.
            mtu: self.attributes.mtu,
            mtu_code: self.attributes.mtu_code,
            ..self.context.port(self.port)?
        };
        change.is_moved |= self.attributes.lid != before;
        Ok(Some(change))
    }

    /// Uses other properties of the broadcast group.
    ///
    /// # Errors
    ///
    /// The adapter refuses the queue key.
    pub fn set_properties(&mut self, properties: &Properties) -> Result<(), Failure> {
        self.addresses.clear();
        if self.traffic_class != properties.traffic_class {
            self.traffic_class = properties.traffic_class;
            self.discard_lanes();
        }
        self.move_to(self.partition_index, properties.queue_key)
    }

    /// Moves the queue pairs of datagrams to another P_Key index or queue key. Requests that wait
    /// for neighbours are discarded.
    fn move_to(&mut self, partition_index: u16, queue_key: u32) -> Result<(), Failure> {
        if (partition_index, queue_key) == (self.partition_index, self.queue_key) {
            return Ok(());
        }
        (self.partition_index, self.queue_key) = (partition_index, queue_key);
        for change in [
            Change::to_drained(),
            Change::while_drained(partition_index, queue_key),
            Change::from_drained(),
        ] {
            self.main.pair().modify(&change)?;
        }
        self.discard_lanes();
        self.renew_answers()
    }

    fn discard_lanes(&mut self) {
        for number in self.lanes.keys().copied().collect::<Vec<_>>() {
            self.discard(number);
        }
    }
}
