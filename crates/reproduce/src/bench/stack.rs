//! Protocols above the verbs that run in the kernel: IP over InfiniBand; and gigabit Ethernet for
//! comparison.
//!
//! A socket write is copied into packets of the stack's MTU. Each packet costs the sender the
//! transmit path of the stack, and the receiver the receive path plus an interrupt if it sleeps.
//! The core that handles the packet makes the copy.

use super::bandwidth::Direction;
use super::operation::run;
use std::cell::Cell;
use std::rc::Rc;
use verbena_model::adapter::{Fidelity, Kind, Pair, Placement, Request, Transport};
use verbena_model::cluster::{CacheState, Cluster, Process};
use verbena_model::kernel::Mailbox;
use verbena_model::profile::{Ethernet, Stack, System};

struct Socket {
    process: Process,
    pair: Rc<Pair>,
    inbox: Mailbox<u64>,
    stack: Stack,
}

impl Socket {
    async fn send(&self, bytes: u64, peer: &Mailbox<u64>) {
        let mut left = bytes;
        loop {
            let part = left.min(self.stack.mtu.0);
            self.process.compute(self.stack.packet).await;
            self.process.copy(part, CacheState::Cold).await;
            let mut request = Request::new(Kind::Send, part, Placement::Reference);
            let peer = peer.clone();
            request.placed = Some(Box::new(move || peer.send(part)));
            self.process.post(&self.pair, vec![request]).await;
            left -= part;
            if left == 0 {
                return;
            }
        }
    }

    /// Receives one packet. An interrupt is charged only if the inbox was empty: a busy receiver
    /// polls.
    async fn receive(&self) -> u64 {
        let bytes = match self.inbox.try_receive() {
            Some(bytes) => bytes,
            None => {
                let bytes = self.inbox.receive().await;
                self.process.sim().sleep(self.stack.interrupt).await;
                bytes
            }
        };
        self.process.compute(self.stack.packet).await;
        self.process.copy(bytes, CacheState::Cold).await;
        bytes
    }

    /// Receives the packets of a message.
    async fn receive_message(&self, bytes: u64) {
        let mut left = bytes;
        while left > 0 {
            left -= self.receive().await;
        }
    }
}

fn sockets(cluster: &Rc<Cluster>, stack: &Stack) -> (Socket, Socket) {
    let (one, other) = cluster.connected((0, 1), 0, Transport::Reliable);
    one.receives().post(1 << 40);
    other.receives().post(1 << 40);
    let socket = |node, pair| Socket {
        process: cluster.process(node),
        pair,
        inbox: Mailbox::new(cluster.sim()),
        stack: stack.clone(),
    };
    (socket(0, one), socket(1, other))
}

/// Returns half a round trip of a message of at least one byte over sockets, in microseconds.
pub fn ipoib_latency(system: &System, stack: &Stack, bytes: u64) -> f64 {
    let cluster = Cluster::new(system, 2, Fidelity::Packet);
    let (one, other) = sockets(&cluster, stack);
    let (to_one, to_other) = (one.inbox.clone(), other.inbox.clone());
    const ROUNDS: u32 = 6;
    cluster.sim().start(async move {
        for _ in 0..ROUNDS {
            other.receive_message(bytes).await;
            other.send(bytes, &to_one).await;
        }
    });
    run(&cluster, async move {
        let begun = one.process.now();
        for _ in 0..ROUNDS {
            one.send(bytes, &to_other).await;
            one.receive_message(bytes).await;
        }
        (one.process.now() - begun).micros() / 2.0 / f64::from(ROUNDS)
    })
}

/// Returns the received rate of one stream or of one in each direction together, in 10^6 bytes a
/// second, of messages of at least one byte that are written one by one. Each direction has its own
/// processes.
pub fn ipoib_bandwidth(system: &System, stack: &Stack, bytes: u64, direction: Direction) -> f64 {
    const MESSAGES: u64 = 120;
    let cluster = Cluster::new(system, 2, Fidelity::Packet);
    let total = Rc::new(Cell::new(0.0));
    let mut ends = Vec::new();
    for way in 0..if direction == Direction::Both { 2 } else { 1 } {
        let (one, other) = sockets(&cluster, stack);
        let (from, to) = if way == 0 { (one, other) } else { (other, one) };
        let inbox = to.inbox.clone();
        cluster.sim().start(async move {
            for _ in 0..MESSAGES {
                from.send(bytes, &inbox).await;
            }
        });
        let total = total.clone();
        ends.push(cluster.sim().spawn(async move {
            to.receive_message(bytes).await;
            let begun = to.process.now();
            for _ in 1..MESSAGES {
                to.receive_message(bytes).await;
            }
            let received = ((MESSAGES - 1) * bytes) as f64;
            let rate = received / (to.process.now() - begun).seconds() / 1e6;
            total.set(total.get() + rate);
        }));
    }
    run(&cluster, async move {
        for end in ends {
            end.await;
        }
        total.get()
    })
}

/// Returns half a round trip of a minimum-size frame over one switch, in microseconds: the kernel
/// stack without InfiniBand.
pub fn ethernet_latency(ethernet: &Ethernet, stack: &Stack) -> f64 {
    let frame = ethernet.rate.time(ethernet.frame.0 + ethernet.gap.0);
    // The switch stores and forwards each frame once.
    let way = stack.packet * 2 + frame * 2 + stack.interrupt;
    way.micros()
}
