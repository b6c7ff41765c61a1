//! Management datagrams (MADs) between this host and others, and their assignment to exchanges.
//!
//! Queue pair 1 belongs to the host and not to a process (`verbena_hca::roce::management`). A MAD
//! of an existing exchange reaches its process directly, by the slot in the communication ID. A
//! first MAD (a request) reaches any process, which passes it to the listener of the requested port
//! over the socket that local processes connect to ([`crate::port`]): so a dead listener is no
//! listener, and a stopped one blocks no other process. If there is no listener, the process that
//! received the MAD answers.
//!
//! Over RoCE, a process that never uses the connection manager gets one with the first MAD it
//! receives.

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
use verbena_hca::roce::management::{Agent, CmMad, SLOT_BITS};
use verbena_hca::roce::udp_port::UdpPort;
use verbena_hca::sys::clock;
use verbena_hca::sys::doorbell::Doorbell;
use verbena_wire::mad::cm;

/// Capacity of the inbox. Further MADs are dropped, and retransmitted by their senders.
const MOST: usize = 4096;
/// Number of requests that may wait for a listener.
const MOST_UNCLAIMED: usize = 256;
/// How long they wait, in nanoseconds. A kernel would refuse at once; but on a busy machine a
/// program that listens again just in time for the next connection (perftest with `-R`) is slower
/// than there.
const PATIENCE: u64 = 1_000_000_000;
/// Interval at which they are offered again, in nanoseconds.
const ROUND: u64 = 10_000_000;

/// Another host: local port number, source GID, destination GID.
pub type Host = (u8, [u8; 16], [u8; 16]);

/// The private UDP ports of a host's Verbena adapters.
pub struct Doors {
    /// The host.
    pub host: Host,
    /// Its private ports.
    pub found: Vec<UdpPort>,
}

/// The inbox that MADs wait in until the thread takes them.
pub struct Letterbox {
    letters: Mutex<VecDeque<CmMad>>,
    /// Results of asking hosts for private ports.
    doors: Mutex<Vec<Doors>>,
    /// Whether another host has probed for processes here.
    is_asked: AtomicBool,
    bell: Doorbell,
}

impl Letterbox {
    /// Returns an empty inbox.
    ///
    /// # Errors
    /// Those of eventfd(2).
    pub fn new() -> Result<Letterbox> {
        Ok(Letterbox {
            letters: Mutex::default(),
            doors: Mutex::default(),
            is_asked: AtomicBool::new(false),
            bell: Doorbell::new()?,
        })
    }

    /// Registers the inbox with the thread.
    ///
    /// # Errors
    /// Those of [`crate::thread::Watch::add`].
    pub fn open(&self, state: &mut State) -> Result<()> {
        state.watch.add(&self.bell, Source::Post)
    }

    fn put(&self, letter: CmMad) {
        let mut letters = self.letters.lock().unwrap_or_else(PoisonError::into_inner);
        if letters.len() < MOST {
            letters.push_back(letter);
            self.bell.ring();
        }
    }

    /// Adds the result of asking a host for private ports.
    pub fn put_doors(&self, doors: Doors) {
        let mut all = self.doors.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(doors);
        self.bell.ring();
    }

    /// Takes the results of asking hosts for private ports.
    pub fn take_doors(&self) -> Vec<Doors> {
        std::mem::take(&mut *self.doors.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn note_question(&self) {
        if !self.is_asked.swap(true, Ordering::AcqRel) {
            self.bell.ring();
        }
    }

    /// Returns whether another host has probed since the last call.
    pub fn was_asked(&self) -> bool {
        self.is_asked.swap(false, Ordering::AcqRel)
    }

    /// Takes all MADs.
    pub fn take(&self) -> VecDeque<CmMad> {
        self.bell.clear();
        std::mem::take(&mut *self.letters.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Callbacks of the adapter, for every MAD and for probes of other hosts. They only fill the inbox.
pub const AGENT: Agent = Agent {
    received: |letter| {
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

/// Sends a MAD.
pub fn send(letter: &CmMad) {
    if let Ok(process) = Process::current() {
        // A failure counts as a lost datagram.
        let _ = process.send_management(letter);
    }
}

impl State {
    /// Processes a received MAD.
    pub fn take_letter(&mut self, letter: CmMad) {
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

    /// Passes a MAD to the exchange with a local ID. Returns false if there is none.
    fn hear(
        &mut self,
        number: u32,
        letter: &CmMad,
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
                    // A REJ may have reduced the MTU.
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
        letter: &CmMad,
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

    /// Passes a request to its listener.
    fn offer(&mut self, letter: CmMad, deadline: u64) {
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
                    // A listener that does not take it has just exited; the request is
                    // retransmitted.
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
            // The listener is overloaded, or no descriptors are left: the request is retransmitted.
            Err(_) => (),
        }
    }

    /// Offers the requests without a listener again.
    pub fn offer_unclaimed(&mut self) {
        for (deadline, letter) in std::mem::take(&mut self.office.unclaimed) {
            self.offer(letter, deadline);
        }
    }

    /// Processes a retransmitted request for which an exchange exists.
    pub fn hear_again(&mut self, number: u32, letter: &CmMad) {
        if let Some((transaction, message)) = mad::read(&letter.mad) {
            self.hear(number, letter, transaction, &message);
        }
    }
}

/// Returns whether this process has assigned a communication ID, or could have. The kernel may
/// deliver datagrams of one sender that arrive close together to one socket, whichever process each
/// is for; those of another process are lost then, and retransmitted.
fn is_of_this_process(number: u32) -> bool {
    let process = Process::current();
    process.is_ok_and(|process| process.has_management_slot(number & SLOT_BITS))
}
