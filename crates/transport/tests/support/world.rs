//! A requester, a responder and the network between them, driven until nothing is left to do.

use verbena_transport::reliable::{Requester, Responder, requester, responder};
use verbena_transport::{Disposition, Instant};
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
        while let Some((to, bytes)) = self.network.receive(self.now) {
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
