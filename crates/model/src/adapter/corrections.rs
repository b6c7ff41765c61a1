//! How an adapter and its processors apply the corrections of verbs operations
//! ([`crate::correction`]).

use super::operation::{Kind, Transport};
use crate::correction::{Correction, Operation, taken};
use crate::kernel::Time;
use crate::profile::{Bus, System};

/// How a system applies the correction of a verbs operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Plan {
    /// Time by which a message is held at the adapter.
    pub held: Time,
    /// Taken from the doorbell's flight.
    pub doorbell: Time,
    /// Taken from the sending pipeline.
    pub sending: Time,
    /// Taken from the receiving pipeline.
    pub receiving: Time,
    /// Taken from the way from the bus to the processor's view.
    pub placement: Time,
    /// Processor time after a message.
    pub after: Time,
    /// Taken from posting.
    pub posting: Time,
    /// Taken from the serial steps of a queue pair in the adapter.
    pub adapter: Time,
    /// Part of a negative latency that the path does not have.
    pub unmet: Time,
    /// Part of a negative occupancy that posting does not have.
    pub unmet_occupancy: Time,
}

impl Plan {
    /// Returns the plan of requests that are posted together: their processor times add up, and
    /// their doorbell waits for the latest.
    pub(crate) fn of_list<'a>(plans: impl Iterator<Item = &'a Plan>) -> Plan {
        let both = |one: Plan, other: &Plan| Plan {
            held: one.held.max(other.held),
            doorbell: one.doorbell.min(other.doorbell),
            after: one.after + other.after,
            posting: one.posting + other.posting,
            ..one
        };
        let mut plans = plans;
        let first = plans.next().copied().unwrap_or_default();
        plans.fold(first, both)
    }

    /// Returns whether nothing changes.
    pub fn is_none(&self) -> bool {
        *self == Plan::default()
    }

    /// Returns the plan of a verbs operation on a system.
    pub fn of(system: &System, operation: Operation) -> Plan {
        let correction = system.corrections.of(operation);
        if correction == Correction::default() {
            return Plan::default();
        }
        Plan::of_correction(correction, system)
    }

    fn of_correction(correction: Correction, system: &System) -> Plan {
        let host = &system.host;
        let mut plan = Plan {
            held: correction.latency.added(),
            after: correction.occupancy.added(),
            ..Plan::default()
        };
        let (flight, placement) = match &host.bus {
            Bus::Pcie(pcie) => {
                let sockets = host.numa.as_ref().map_or(Time::ZERO, |numa| numa.latency);
                let flight = pcie.propagation + sockets;
                (flight, flight + pcie.write_latency)
            }
            Bus::Pcix(pcix) => (pcix.bridge, pcix.bridge),
        };
        plan.adapter = correction.occupancy.removed();
        let mut occupancy = plan.adapter;
        plan.posting = taken(&mut occupancy, host.cpu.post + host.cpu.doorbell);
        plan.unmet_occupancy = occupancy;
        let mut latency = correction.latency.removed();
        let pipeline = system.adapter.engines.pipeline;
        // Posting that ends earlier lengthens the flight, from which latency can be taken.
        plan.doorbell = taken(&mut latency, flight + plan.posting);
        plan.sending = taken(&mut latency, pipeline);
        plan.receiving = taken(&mut latency, pipeline);
        plan.placement = taken(&mut latency, placement);
        plan.unmet = latency;
        plan
    }
}

/// The plans of a system's verbs operations.
#[derive(Debug, Default)]
pub struct Plans {
    plans: [Plan; Operation::ALL.len()],
    none: Plan,
}

impl Plans {
    /// Returns the plans of a system.
    pub fn of_system(system: &System) -> Plans {
        Plans {
            plans: Operation::ALL.map(|operation| Plan::of(system, operation)),
            none: Plan::default(),
        }
    }

    /// Returns the plan of a request; writes with immediate data and atomics have none.
    pub fn of(&self, kind: Kind, transport: Transport) -> &Plan {
        let operation = operation_of(kind, transport);
        operation.map_or(&self.none, |operation| &self.plans[operation as usize])
    }
}

/// Returns the operation of a request; `None` if it is never corrected.
fn operation_of(kind: Kind, transport: Transport) -> Option<Operation> {
    match (kind, transport) {
        (Kind::Write, _) => Some(Operation::Write),
        (Kind::Send, Transport::Datagram) => Some(Operation::Datagram),
        (Kind::Send, _) => Some(Operation::Send),
        (Kind::Read, _) => Some(Operation::Read),
        (Kind::WriteNotify | Kind::Atomic, _) => None,
    }
}
