//! The connection table of this process: local IDs, owning identifiers, messages and
//! retransmissions.

use crate::alarm::Alarm;
use crate::arrival;
use crate::correspondence::{Correspondence, Due};
use crate::event::{Event, Kind as EventKind};
use crate::line::Line;
use crate::message::{Kind, Message};
use crate::post::{Doors, Host, send};
use crate::probe::PROBING;
use crate::service::{Service, State};
use crate::stage::Stage;
use crate::will::Will;
use std::collections::{HashMap, VecDeque};
use std::net::Ipv6Addr;
use std::thread;
use verbena_hca::errno::{Errno, Result};
use verbena_hca::link;
use verbena_hca::process::Process;
use verbena_hca::roce::management::{CmMad, SLOT_BITS};
use verbena_hca::sys::clock;

/// Number of ended exchanges that are remembered.
const MOST_ENDED: usize = 4096;
/// Longest delay, in nanoseconds, of a retransmitted request that was answered already.
const MEMORY: u64 = 4_000_000_000;

/// The connection table of a process.
#[derive(Default)]
pub struct Office {
    /// Owning identifiers, by local communication ID.
    pub(crate) owners: HashMap<u32, u32>,
    /// Pending DREQs: exchanges whose identifier was destroyed.
    pub(crate) farewells: HashMap<u32, Correspondence>,
    /// Ended exchanges: time until which a request may arrive again, peer, peer's ID.
    ended: VecDeque<(u64, Ipv6Addr, u32)>,
    /// Requests without a listener, and until when they are kept.
    pub(crate) unclaimed: Vec<(u64, CmMad)>,
    /// This process's death record.
    pub(crate) will: Will,
    /// Whether the alarm that probes the peers' hosts is set.
    pub(crate) probes: bool,
    /// Hosts that are being asked for private ports, and the exchanges that wait for the result.
    seeking: HashMap<Host, Vec<u32>>,
    /// The last number assigned.
    count: u32,
}

impl Office {
    /// Removes an exchange that is over.
    pub fn forget(&mut self, correspondence: &Correspondence) {
        self.owners.remove(&correspondence.number());
        self.will.revoke(correspondence.number());
        if self.ended.len() == MOST_ENDED {
            self.ended.pop_front();
        }
        let (address, number) = (correspondence.address(), correspondence.remote_number());
        let until = clock::now() + MEMORY;
        self.ended.push_back((until, address, number));
    }

    /// Returns whether a request belongs to an exchange that is over.
    pub fn is_late(&mut self, letter: &CmMad, number: u32) -> bool {
        let now = clock::now();
        while self.ended.front().is_some_and(|(until, ..)| *until <= now) {
            self.ended.pop_front();
        }
        let mut ended = self.ended.iter();
        ended.any(|(_, address, called)| (*address, *called) == (letter.source, number))
    }
}

impl State {
    /// Assigns a communication ID to an exchange of identifier `owner`. It contains this process's
    /// slot, by which MADs reach this process.
    ///
    /// # Errors
    /// ENODEV without a port over which other hosts are reached.
    pub fn number_correspondence(&mut self, owner: u32) -> Result<u32> {
        let slot = Process::current()?.management_slot()?;
        let Office { owners, count, .. } = &mut self.office;
        if *count == 0 {
            // Random, so that late MADs to a process that had this slot earlier match no exchange.
            *count = crate::port::random_word();
        }
        loop {
            *count = count.wrapping_add(SLOT_BITS + 1);
            let number = *count & !SLOT_BITS | slot;
            if number != 0 && !owners.contains_key(&number) {
                owners.insert(number, owner);
                return Ok(number);
            }
        }
    }

    /// Attaches an exchange to an identifier.
    pub fn correspond(&mut self, owner: u32, correspondence: Correspondence) {
        if let Some(identifier) = self.identifiers.get_mut(owner) {
            identifier.line = Some(Line::Distant(Box::new(correspondence)));
        }
        if !std::mem::replace(&mut self.office.probes, true) {
            self.set_alarm(clock::now() + PROBING, Alarm::Probe);
        }
    }

    /// Sends a message in an exchange.
    pub(crate) fn write(&mut self, owner: u32, message: &Message) -> Result<()> {
        let line = self
            .identifiers
            .get_mut(owner)
            .and_then(|of| of.line.as_mut());
        let correspondence = line.and_then(Line::correspondence).ok_or(Errno::EINVAL)?;
        let letter = correspondence.say(message, clock::now())?;
        let (number, deadline) = (correspondence.number(), correspondence.deadline());
        // Before the MAD leaves: a process killed in between has sent less than its record says,
        // never more.
        self.write_will(number);
        send(&letter);
        self.remind(number, deadline);
        Ok(())
    }

    /// Records the message to be sent in an exchange if this process is killed now.
    pub(crate) fn write_will(&mut self, number: u32) {
        let letter = self.office.owners.get(&number).and_then(|owner| {
            let identifier = self.identifiers.get(*owner)?;
            match identifier.line.as_ref()? {
                Line::Distant(of) if identifier.stage.is_connected() && of.is_connected() => {
                    of.disconnection()
                }
                Line::Distant(of) => of.breach(),
                Line::Neighbour(_) => None,
            }
        });
        self.office.will.leave(number, letter.as_ref());
    }

    pub(crate) fn remind(&mut self, number: u32, deadline: Option<u64>) {
        if let Some(deadline) = deadline {
            self.set_alarm(deadline, Alarm::Correspondence(number));
        }
    }

    /// Ends the exchange of a destroyed identifier that was in `stage`, and informs its peer.
    pub fn take_leave(&mut self, stage: Stage, mut correspondence: Correspondence) {
        let number = correspondence.number();
        self.office.forget(&correspondence);
        match stage {
            Stage::Established if correspondence.is_connected() => {
                if let Ok(letter) = correspondence.say(&Message::bare(Kind::Dreq), clock::now()) {
                    send(&letter);
                }
            }
            Stage::Disconnecting => (),
            _ => {
                if let Some(letter) = correspondence.break_off() {
                    send(&letter);
                }
            }
        }
        if correspondence.is_waiting() {
            self.remind(number, correspondence.deadline());
            self.office.farewells.insert(number, correspondence);
        }
    }

    /// Returns whether all DREQs of destroyed identifiers are answered.
    pub fn has_left(&self) -> bool {
        self.office.farewells.is_empty()
    }

    /// Removes the death record: the process exits in the regular way.
    pub fn destroy_will(&mut self) {
        self.office.will.destroy();
    }

    /// Retransmits the message that is due in an exchange, or gives it up.
    pub fn tend_correspondence(&mut self, number: u32, now: u64) {
        self.note_failures();
        let Some((due, deadline)) = self.with(number, |correspondence| {
            (correspondence.due(now), correspondence.deadline())
        }) else {
            return;
        };
        let is_said = matches!(due, Due::Again(_) | Due::Seek(_));
        self.remind(number, deadline.filter(|_| is_said));
        self.carry_out(number, due);
    }

    /// Asks a host for its private ports, in a thread of its own because this one must not block.
    /// Later requests for the same host wait for the same result.
    fn seek_doors(&mut self, number: u32) {
        let Some(way) = self.with(number, |correspondence| *correspondence.way()) else {
            return;
        };
        let host = (way.port, way.source, way.destination);
        let waiting = self.office.seeking.entry(host).or_default();
        waiting.push(number);
        if waiting.len() > 1 {
            return;
        }
        let seek = move || {
            let interface = link::interface_number(way.port);
            let (source, destination) = (way.source.into(), way.destination.into());
            let found = Process::current()
                .and_then(|process| process.private_udp_ports(interface, source, destination));
            if let Ok(service) = Service::current() {
                let found = found.unwrap_or_default();
                service.letterbox.put_doors(Doors { host, found });
            }
        };
        let seeking = thread::Builder::new().name("verbena-doors".into());
        if seeking.spawn(seek).is_err() {
            let found = Vec::new();
            self.take_doors(&Doors { host, found });
        }
    }

    /// Processes the private ports that were found on a host.
    pub fn take_doors(&mut self, doors: &Doors) {
        for number in self.office.seeking.remove(&doors.host).unwrap_or_default() {
            let now = clock::now();
            let tried = self.with(number, |correspondence| {
                let due = correspondence.try_doors(doors.found.clone(), now);
                (due, correspondence.deadline())
            });
            if let Some((due, deadline)) = tried {
                self.write_will(number);
                self.remind(number, deadline);
                self.carry_out(number, due);
            }
        }
    }

    /// Runs `body` on the exchange with a local ID, if there is one.
    pub(crate) fn with<T>(
        &mut self,
        number: u32,
        body: impl FnOnce(&mut Correspondence) -> T,
    ) -> Option<T> {
        if let Some(farewell) = self.office.farewells.get_mut(&number) {
            return Some(body(farewell));
        }
        let owner = *self.office.owners.get(&number)?;
        let line = self.identifiers.get_mut(owner)?.line.as_mut()?;
        line.correspondence().map(body)
    }

    pub(crate) fn carry_out(&mut self, number: u32, due: Due) {
        match due {
            Due::Nothing => (),
            Due::Again(letter) => send(&letter),
            Due::Seek(again) => {
                if let Some(letter) = again {
                    send(&letter);
                }
                self.seek_doors(number);
            }
            Due::Refused(answer) => {
                if let Some(owner) = self.office.owners.get(&number).copied() {
                    arrival::receive(self, owner, &answer);
                }
            }
            Due::Gone => {
                if let Some(owner) = self.office.owners.get(&number).copied() {
                    self.lost(owner);
                }
            }
            Due::GivenUp(kind, why) => {
                self.office.farewells.remove(&number);
                if let Some(owner) = self.office.owners.get(&number).copied() {
                    self.unanswered(owner, kind, why);
                }
            }
        }
    }

    /// Raises the event for a message that stayed unanswered (events and status as in Linux'
    /// rdma_cm).
    fn unanswered(&mut self, owner: u32, kind: Kind, why: Errno) {
        let Some(identifier) = self.identifiers.get_mut(owner) else {
            return;
        };
        if kind == Kind::Dreq {
            self.raise(owner, Event::plain(EventKind::Disconnected, -why.0));
            self.begin_time_wait(owner);
        } else {
            identifier.stage = Stage::Over;
            self.raise(owner, Event::plain(EventKind::Unreachable, -why.0));
        }
    }

    /// Returns the local ID of the exchange with a peer that uses `number`, if there is one
    /// already.
    pub fn correspondence_called(&self, letter: &CmMad, number: u32) -> Option<u32> {
        self.correspondences()
            .find(|(_, of)| of.is_called(letter.source, number))
            .map(|(_, of)| of.number())
    }

    /// Returns the identifier that is connected to a queue pair.
    pub fn connected_with(&self, guid: u64, queue_pair: u32) -> Option<u32> {
        let connected = self.correspondences().find(|(owner, of)| {
            let identifier = self.identifiers.get(*owner);
            of.is_with(guid, queue_pair) && identifier.is_some_and(|of| of.stage.is_connected())
        });
        connected.map(|(owner, _)| owner)
    }

    pub(crate) fn correspondences(&self) -> impl Iterator<Item = (u32, &Correspondence)> {
        self.office.owners.values().filter_map(|owner| {
            match self.identifiers.get(*owner)?.line.as_ref()? {
                Line::Distant(correspondence) => Some((*owner, &**correspondence)),
                Line::Neighbour(_) => None,
            }
        })
    }
}
