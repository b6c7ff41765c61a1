//! A requester, a responder and the network between them, driven until nothing is left to do.

use std::collections::VecDeque;

use verbena_transport::reliable::{Requester, Responder, requester, responder};
use verbena_transport::{Disposition, Instant};
use verbena_wire::icrc;
use verbena_wire::middles::Middles;
use verbena_wire::packet::Packet;

use super::adapter::{Adapter, Posted};
use super::network::{Manners, Network, To};
use super::program::Program;
use super::random::Random;

/// The longest packet: headers and the largest MTU.
const PACKET: usize = 4096 + 64;

pub struct World {
    pub now: Instant,
    pub here: Adapter,
    pub there: Adapter,
    pub requester: Requester,
    pub responder: Responder,
    pub network: Network,
    pub random: Random,
    /// Packets as they were made.
    pub trace: Vec<(To, Vec<u8>)>,
    pub traced: bool,
    /// Probability per thousand that a side does not transmit although it could, so that packets
    /// and acknowledgements accumulate.
    pub silence: u64,
    /// Whether consecutive middle packets are made and handled together.
    pub together: bool,
    /// Packets that the responder has handled together.
    pub handled_together: usize,
    pub dispositions: Vec<Disposition>,
    /// Receives to post, each with its time.
    pub receives: Vec<(Instant, u64, u32)>,
}

impl World {
    pub fn new(
        seed: u64,
        manners: Manners,
        requester: requester::Configuration,
        responder: responder::Configuration,
        memory: usize,
    ) -> Self {
        Self {
            now: Instant(1),
            here: Adapter::requesting(requester.mtu, requester.initial_psn),
            there: Adapter::new(memory),
            requester: Requester::new(requester),
            responder: Responder::new(responder),
            network: Network::new(seed, manners),
            random: Random(!seed),
            trace: Vec::new(),
            traced: false,
            silence: 0,
            together: false,
            handled_together: 0,
            dispositions: Vec::new(),
            receives: Vec::new(),
        }
    }

    pub fn post(&mut self, posted: Posted) {
        self.here.post(&self.requester, posted).unwrap();
    }

    /// Transmits the packets of both sides, unless they are silenced; never silences both forever.
    pub fn transmit(&mut self) {
        let under_way = self.network.next_arrival().is_some();
        let speaks = [(); 2].map(|()| !(under_way && self.random.permille(self.silence)));
        let mut buffer = [0; PACKET];
        let mut made = 0;
        loop {
            let mut quiet = true;
            if speaks[0] {
                let request = self
                    .requester
                    .poll_transmit(self.now, &mut self.here, &mut buffer)
                    .expect("room for the packet");
                if let Some(length) = request {
                    quiet = false;
                    self.carry(To::Responder, &buffer[..length]);
                    self.transmit_middles();
                }
            }
            if speaks[1] {
                let response = self
                    .responder
                    .poll_transmit(&mut self.there, &mut buffer)
                    .expect("room");
                if let Some(length) = response {
                    quiet = false;
                    self.carry(To::Requester, &buffer[..length]);
                }
            }
            made += 1;
            assert!(made < 1_000_000, "something is said without end");
            if quiet {
                return;
            }
        }
    }

    /// Transmits the middle packets that are next, if they are made together.
    fn transmit_middles(&mut self) {
        if !self.together {
            return;
        }
        let length = self.requester.middle_length();
        let mut room = vec![0; 7 * (length + icrc::LENGTH)];
        let (now, spacing) = (self.now, length + icrc::LENGTH);
        let made = self
            .requester
            .poll_transmit_middles(now, &mut self.here, &mut room, spacing);
        for packet in room.chunks_exact(spacing).take(made) {
            self.carry(To::Responder, &packet[..length]);
        }
    }

    /// Handles the middle packets at the front together, if the responder accepts them so.
    fn handle_middles(&mut self, arrived: &mut VecDeque<(To, Vec<u8>)>) -> bool {
        let length = match arrived.front() {
            Some((To::Responder, first)) if self.together => first.len(),
            _ => return false,
        };
        let mut bytes = Vec::new();
        for (to, packet) in arrived.iter() {
            if *to != To::Responder || packet.len() != length {
                break;
            }
            bytes.extend(packet);
            bytes.extend([0; icrc::LENGTH]);
        }
        let Some(middles) = Middles::at_front(&bytes, length + icrc::LENGTH) else {
            return false;
        };
        let accepted = self.responder.handle_middles(&middles, &mut self.there);
        if accepted {
            let count = middles.count() as usize;
            arrived.drain(..count);
            self.dispositions
                .extend([Disposition::Accepted].repeat(count));
            self.handled_together += count;
        }
        accepted
    }

    fn carry(&mut self, to: To, packet: &[u8]) {
        if self.traced {
            self.trace.push((to, packet.to_vec()));
        }
        self.network.send(self.now, to, packet);
    }

    /// Handles everything that is due; returns false if nothing is pending.
    pub fn step(&mut self) -> bool {
        self.transmit();
        let next = [
            self.network.next_arrival(),
            self.requester.next_timeout(),
            self.receives.first().map(|(at, ..)| *at),
        ];
        let Some(next) = next.into_iter().flatten().min() else {
            return false;
        };
        self.now = self.now.max(next);
        while self
            .receives
            .first()
            .is_some_and(|(at, ..)| *at <= self.now)
        {
            let (_, id, length) = self.receives.remove(0);
            self.there.post_receive(id, length);
        }
        let mut arrived: VecDeque<_> =
            std::iter::from_fn(|| self.network.receive(self.now)).collect();
        while !arrived.is_empty() {
            if self.handle_middles(&mut arrived) {
                continue;
            }
            let Some((to, bytes)) = arrived.pop_front() else {
                break;
            };
            let packet = Packet::parse(&bytes).expect("the sent bytes");
            let disposition = match to {
                To::Responder => {
                    if self.random.permille(self.network.manners.congestion) {
                        self.requester.congested();
                    }
                    let first = self.responder.handle(&packet, &mut self.there);
                    self.dispositions.push(first);
                    while let Some(early) = self.responder.next_early(&mut self.there) {
                        let next = self.responder.handle(&early.packet(), &mut self.there);
                        self.dispositions.push(next);
                    }
                    continue;
                }
                To::Requester => self.requester.handle(&packet, self.now, &mut self.here),
            };
            self.dispositions.push(disposition);
        }
        self.requester.handle_timeout(self.now, &mut self.here);
        true
    }

    /// Posts a program as space permits and runs it until every request has completed.
    pub fn run(&mut self, program: &Program) {
        self.there.memory.clone_from(&program.before);
        for (id, buffer) in (0..).zip(&program.buffers) {
            self.here.buffers.insert(id, buffer.clone());
        }
        let mut posted = 0;
        let mut steps = 0;
        while self.here.sent.len() < program.requests.len() {
            while posted < program.requests.len()
                && self.here.send_queue.len() < self.here.send_queue.capacity
            {
                self.post(program.requests[posted]);
                posted += 1;
            }
            if !self.step() {
                // A flush completes without a packet.
                self.transmit();
                assert!(
                    self.requester.has_failed()
                        || self.here.sent.len() == program.requests.len()
                        || posted < program.requests.len(),
                    "nothing happens, and {} of {} requests are complete: {:?}",
                    self.here.sent.len(),
                    program.requests.len(),
                    self.requester,
                );
            }
            steps += 1;
            assert!(steps < 2_000_000, "no end: {:?}", self.requester);
        }
    }
}
