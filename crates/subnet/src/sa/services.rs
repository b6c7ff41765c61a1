//! Services that programs register: ServiceRecord. A lease is kept, but does not end.

use super::Records;
use super::record::{Component, at, matches};
use crate::mad::{Mad, sa_status};

/// Number of the attribute.
pub const NUMBER: u16 = 0x31;
const SIZE: usize = 176;
/// Maximum number of services.
pub const MOST_SERVICES: usize = 1 << 16;
/// Service ID, GID and partition key: the name of a service.
const NAMED: u64 = 0b111;

const COMPONENTS: [Component; 7] = [
    at(0, 64),
    Component::Bytes(8, 16),
    at(24, 16),
    Component::Reserved,
    at(28, 32),
    Component::Bytes(32, 16),
    Component::Bytes(48, 64),
];

/// The services of a subnet.
#[derive(Debug, Clone, Default)]
pub(super) struct Services(Vec<Vec<u8>>);

impl Services {
    /// Returns the services that match.
    pub fn query(&self, request: &Mad) -> (usize, Vec<Vec<u8>>) {
        let (mask, template) = (request.components(), request.record());
        let found = self
            .0
            .iter()
            .filter(|record| matches(&COMPONENTS, mask, template, record));
        (SIZE, found.cloned().collect())
    }

    /// Registers a service, or replaces it.
    pub fn register(&mut self, request: &Mad) -> Records {
        if request.components() & 1 == 0 {
            return Err(sa_status::REQUEST_INVALID);
        }
        let record = request.record()[..SIZE].to_vec();
        self.0
            .retain(|known| !matches(&COMPONENTS, NAMED, &record, known));
        if self.0.len() >= MOST_SERVICES {
            return Err(super::NO_RESOURCES);
        }
        self.0.push(record.clone());
        Ok((SIZE, vec![record]))
    }

    /// Removes the service that the request names.
    pub fn remove(&mut self, request: &Mad) -> Records {
        let (mask, template) = (request.components(), request.record());
        if mask & NAMED != NAMED {
            return Err(sa_status::REQUEST_INVALID);
        }
        let found = self
            .0
            .iter()
            .position(|record| matches(&COMPONENTS, mask, template, record));
        let at = found.ok_or(sa_status::NO_RECORDS)?;
        Ok((SIZE, vec![self.0.remove(at)]))
    }
}
