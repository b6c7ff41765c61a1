//! Letters: management datagrams between this host and others, and which conversation each belongs to.
//!
//! Queue pair 1 is the host's and not a process's (`verbena_hca::roce::management`). What belongs to a conversation comes
//! straight to the process that has it, by the number that the process gave to it. What begins one comes to any process,
//! and that one hands it to whoever listens at the port that is asked for, over the same socket by which processes of this
//! host call ([`crate::port`]): so a listener that has died is no listener, and one that is stopped keeps nobody else
//! waiting. If nobody listens, whoever had the letter says so.
//!
//! A process that never uses the connection manager has one all the same over RoCE, from the first letter on that it
//! comes by.

use crate::alarm::Alarm;
use crate::arrival;
use crate::conversation::Conversation;
use crate::correspondence::Heard;
use crate::line::Line;
use crate::mad;
use crate::message::{Kind, Message};
use crate::nobody::{answer_for_nobody, decline};
use crate::service::{Service, State};
use crate::thread::Source;
use crate::way::mapped;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use verbena_hca::errno::{Errno, Result};
use verbena_hca::process::Process;
use verbena_hca::roce::management::{Agent, Letter, SLOT_BITS};
use verbena_hca::roce::residence::Residence;
use verbena_hca::sys::clock;
use verbena_hca::sys::doorbell::Doorbell;
use verbena_wire::mad::cm;

/// Letters that may lie in the box. Those beyond it are lost, as datagrams are, and sent again.
const MOST: usize = 4096;
/// Requests that may wait for somebody to listen.
const MOST_UNCLAIMED: usize = 256;
/// How long they do. A kernel would answer at once; but then its host would also be faster at listening again for the
/// next connection, just in time for which some programs do (perftest with `-R`), than one whose processors are busy.
const PATIENCE: u64 = 1_000_000_000;
/// How often they are offered again.
const ROUND: u64 = 10_000_000;

/// Another host, as it is reached: by a port of ours, from a GID, at a GID.
pub type Host = (u8, [u8; 16], [u8; 16]);

/// Where else requests may be made: the private ports of a host at which adapters like this one are.
pub struct Doors {
    /// Which host.
    pub host: Host,
    /// At which.
    pub found: Vec<Residence>,
}

/// The box that letters lie in until the thread takes them.
pub struct Letterbox {
    letters: Mutex<VecDeque<Letter>>,
    /// What came of asking hosts for private ports.
    doors: Mutex<Vec<Doors>>,
    /// Another host has asked whether there is anybody here.
    is_asked: AtomicBool,
    bell: Doorbell,
}

impl Letterbox {
    /// An empty one.
    ///
    /// # Errors
    /// What eventfd(2) says.
    pub fn new() -> Result<Letterbox> {
        Ok(Letterbox {
            letters: Mutex::default(),
            doors: Mutex::default(),
            is_asked: AtomicBool::new(false),
            bell: Doorbell::new()?,
        })
    }

    /// Has the thread look into it.
    ///
    /// # Errors
    /// As [`crate::thread::Watch::add`].
    pub fn open(&self, state: &mut State) -> Result<()> {
        state.watch.add(&self.bell, Source::Post)
    }

    fn put(&self, letter: Letter) {
        let mut letters = self.letters.lock().unwrap_or_else(PoisonError::into_inner);
        if letters.len() < MOST {
            letters.push_back(letter);
            self.bell.ring();
        }
    }

    /// Puts what came of asking a host into it.
    pub fn put_doors(&self, doors: Doors) {
        let mut all = self.doors.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(doors);
        self.bell.ring();
    }

    /// Takes what came of asking hosts.
    pub fn take_doors(&self) -> Vec<Doors> {
        std::mem::take(&mut *self.doors.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn note_question(&self) {
        if !self.is_asked.swap(true, Ordering::AcqRel) {
            self.bell.ring();
        }
    }

    /// Whether another host has asked after us since this was asked last.
    pub fn was_asked(&self) -> bool {
        self.is_asked.swap(false, Ordering::AcqRel)
    }

    /// Empties it.
    pub fn take(&self) -> VecDeque<Letter> {
        self.bell.clear();
        std::mem::take(&mut *self.letters.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What the adapter calls: with every management datagram, and when another host asks after us. It only puts it into the box.
pub const AGENT: Agent = Agent {
    letter: |letter| {
        if let Ok(service) = Service::current() {
            service.letterbox.put(letter);
        }
    },
    question: || {
        if let Ok(service) = Service::current() {
            service.letterbox.note_question();
        }
    },
};

/// Sends a letter.
pub fn send(letter: &Letter) {
    if let Ok(process) = Process::current() {
        // What cannot leave is lost, as datagrams are.
        let _ = process.send_management(letter);
    }
}

impl State {
    /// A letter has come.
    pub fn take_letter(&mut self, letter: Letter) {
        let Some((transaction, message)) = mad::read(&letter.mad) else {
            return;
        };
        let ours = match &message {
            cm::Message::Req(_) | cm::Message::SidrReq(_) => {
                self.offer(letter, clock::now() + PATIENCE);
                return;
            }
            cm::Message::Mra(mra) => mra.remote_comm_id,
            cm::Message::Rej(rej) => rej.remote_comm_id,
            cm::Message::Rep(rep) => rep.remote_comm_id,
            cm::Message::Rtu(rtu) => rtu.remote_comm_id,
            cm::Message::Dreq(dreq) => dreq.remote_comm_id,
            cm::Message::Drep(drep) => drep.remote_comm_id,
            cm::Message::SidrRep(rep) => rep.request_id,
        };
        if !self.hear(ours, &letter, transaction, &message) && is_of_this_process(ours) {
            answer_for_nobody(&letter, transaction, &message);
        }
    }

    /// Hears a letter in the correspondence that has a number of ours. False when there is none.
    fn hear(
        &mut self,
        number: u32,
        letter: &Letter,
        transaction: u64,
        message: &cm::Message<'_>,
    ) -> bool {
        let now = clock::now();
        let owner = self.office.owners.get(&number).copied();
        let line = owner
            .and_then(|owner| self.identifiers.get_mut(owner))
            .and_then(|identifier| identifier.line.as_mut());
        let (heard, deadline, way) = match line.and_then(Line::correspondence) {
            Some(correspondence) => {
                let heard = correspondence.hear(letter.source, transaction, message, now);
                (heard, correspondence.deadline(), *correspondence.way())
            }
            None => return self.hear_farewell(number, letter, transaction, message, now),
        };
        self.remind(number, deadline);
        match (heard, owner) {
            (Heard::Message(told), Some(owner)) => arrival::receive(self, owner, &told),
            (Heard::Elsewhere(due), Some(_)) => self.carry_out(number, *due),
            (Heard::Again(again), Some(owner)) => {
                send(&again);
                if let Some(identifier) = self.identifiers.get_mut(owner) {
                    // What was asked for may have been less this time.
                    identifier.way = way;
                }
            }
            _ => (),
        }
        self.write_will(number);
        true
    }

    fn hear_farewell(
        &mut self,
        number: u32,
        letter: &Letter,
        transaction: u64,
        message: &cm::Message<'_>,
        now: u64,
    ) -> bool {
        let Some(farewell) = self.office.farewells.get_mut(&number) else {
            return false;
        };
        let heard = farewell.hear(letter.source, transaction, message, now);
        if let Heard::Message(told) = &heard {
            if told.kind == Kind::Dreq
                && let Ok(answer) = farewell.say(&Message::bare(Kind::Drep), now)
            {
                send(&answer);
            }
            self.office.farewells.remove(&number);
        }
        true
    }

    /// Offers a request to whoever listens for it.
    fn offer(&mut self, letter: Letter, deadline: u64) {
        let Some((transaction, message)) = mad::read(&letter.mad) else {
            return;
        };
        let request = mad::request(transaction, &message);
        let Some(request) = request.filter(|of| mapped(of.destination.ip()) == letter.destination)
        else {
            return decline(&letter);
        };
        let request = request.on_link(letter.interface);
        match self.ports.connect(request.space, request.destination) {
            Ok(stream) => {
                if let Ok(mut line) = Conversation::new(stream) {
                    // One that does not take it has just gone; the request comes again.
                    let _ = line.hand_on(&letter);
                }
            }
            Err(Errno(libc::ECONNREFUSED)) if clock::now() < deadline => {
                let unclaimed = &mut self.office.unclaimed;
                if unclaimed.len() < MOST_UNCLAIMED {
                    unclaimed.push((deadline, letter));
                    self.set_alarm(clock::now() + ROUND, Alarm::Unclaimed);
                }
            }
            Err(Errno(libc::ECONNREFUSED)) => decline(&letter),
            // It does not keep up, or we have no descriptors: the request comes again.
            Err(_) => (),
        }
    }

    /// Offers what nobody has claimed again.
    pub fn offer_unclaimed(&mut self) {
        for (deadline, letter) in std::mem::take(&mut self.office.unclaimed) {
            self.offer(letter, deadline);
        }
    }

    /// A request has come again that there is a correspondence about.
    pub fn hear_again(&mut self, number: u32, letter: &Letter) {
        if let Some((transaction, message)) = mad::read(&letter.mad) {
            self.hear(number, letter, transaction, &message);
        }
    }
}

/// Whether we have given a number, or could have. Datagrams of one sender that come close together the kernel may give to
/// one socket, whomever each is for; what is another process's is lost then, and sent again.
fn is_of_this_process(number: u32) -> bool {
    let process = Process::current();
    process.is_ok_and(|process| process.has_management_slot(number & SLOT_BITS))
}
