//! Correspondences of this process: their numbers, whose they are, what is said in them, and what is said again in time.

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
use verbena_hca::roce::management::{Letter, SLOT_BITS};
use verbena_hca::sys::clock;

/// Correspondences that are over and are remembered.
const MOST_ENDED: usize = 4096;
/// How long a request may be on its way that was sent again before it was answered.
const MEMORY: u64 = 4_000_000_000;

/// What a process knows of its correspondences.
#[derive(Default)]
pub struct Office {
    /// Whose they are, by our numbers.
    pub(crate) owners: HashMap<u32, u32>,
    /// Those whose identifier is gone, and that have asked to disconnect.
    pub(crate) farewells: HashMap<u32, Correspondence>,
    /// Those that others began and that are over, with the end of the time in which the request may come again.
    ended: VecDeque<(u64, Ipv6Addr, u32)>,
    /// Requests that nobody listens for, and until when they wait.
    pub(crate) unclaimed: Vec<(u64, Letter)>,
    /// What is to be said if we are killed.
    pub(crate) will: Will,
    /// Whether the alarm is set that probes the hosts of peers.
    pub(crate) probes: bool,
    /// Hosts that are being asked for private ports, and the correspondences that wait for it.
    seeking: HashMap<Host, Vec<u32>>,
    /// Numbers given out.
    count: u32,
}

impl Office {
    /// A correspondence is over, whatever the peer believes.
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

    /// Whether a request is late: of a correspondence that is over.
    pub fn is_late(&mut self, letter: &Letter, number: u32) -> bool {
        let now = clock::now();
        while self.ended.front().is_some_and(|(until, ..)| *until <= now) {
            self.ended.pop_front();
        }
        let mut ended = self.ended.iter();
        ended.any(|(_, address, called)| (*address, *called) == (letter.source, number))
    }
}

impl State {
    /// A number for a correspondence of identifier `owner`, by which letters come to this process.
    ///
    /// # Errors
    /// ENODEV without a port over which other hosts are reached.
    pub fn number_correspondence(&mut self, owner: u32) -> Result<u32> {
        let slot = Process::current()?.management_slot()?;
        let Office { owners, count, .. } = &mut self.office;
        if *count == 0 {
            // Late letters to a process that had our slot shall find nobody.
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

    /// Begins a correspondence of an identifier.
    pub fn correspond(&mut self, owner: u32, correspondence: Correspondence) {
        if let Some(identifier) = self.identifiers.get_mut(owner) {
            identifier.line = Some(Line::Distant(Box::new(correspondence)));
        }
        if !std::mem::replace(&mut self.office.probes, true) {
            self.set_alarm(clock::now() + PROBING, Alarm::Probe);
        }
    }

    /// Says something in a correspondence.
    pub(crate) fn write(&mut self, owner: u32, message: &Message) -> Result<()> {
        let line = self
            .identifiers
            .get_mut(owner)
            .and_then(|of| of.line.as_mut());
        let correspondence = line.and_then(Line::correspondence).ok_or(Errno::EINVAL)?;
        let letter = correspondence.say(message, clock::now())?;
        let (number, deadline) = (correspondence.number(), correspondence.deadline());
        // Before it leaves: who is killed in between has perhaps said less than he has left.
        self.write_will(number);
        send(&letter);
        self.remind(number, deadline);
        Ok(())
    }

    /// Leaves what there is to be said in a correspondence if we are killed now.
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

    /// An identifier in `stage` is gone, and its peer is to know.
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

    /// Whether everybody has heard that we have left.
    pub fn has_left(&self) -> bool {
        self.office.farewells.is_empty()
    }

    /// The process ends by itself, and nobody has to speak for it.
    pub fn destroy_will(&mut self) {
        self.office.will.destroy();
    }

    /// Says again what is due in a correspondence, or gives it up.
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

    /// Has a host asked for private ports, by a thread of its own: this one cannot wait. Whoever wants to know the same
    /// meanwhile waits for the same answer.
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
                .and_then(|process| process.private_residences(interface, source, destination));
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

    /// A host's private ports were sought.
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

    /// Does something with the correspondence that has a number of ours, if there is one.
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

    /// Nobody has answered what an identifier has said (events and their status as Linux' rdma_cm has them).
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

    /// The correspondence of this host with somebody who calls it so, if there is one already.
    pub fn correspondence_called(&self, letter: &Letter, number: u32) -> Option<u32> {
        self.correspondences()
            .find(|(_, of)| of.is_called(letter.source, number))
            .map(|(_, of)| of.number())
    }

    /// The identifier that is connected with a queue pair.
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
