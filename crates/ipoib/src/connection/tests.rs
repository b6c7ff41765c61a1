use super::*;
use crate::administration::record::Path;
use proptest::prelude::*;
use std::collections::HashSet;
use verbena_verbs::Gid;

const MTU: u32 = 65_520;

fn neighbour(number: u32, flags: u8) -> Neighbour {
    Neighbour {
        hardware: HardwareAddress {
            flags,
            queue_pair: number,
            gid: Gid([number as u8; 16]),
        },
        path: path(number),
    }
}

fn path(number: u32) -> Path {
    Path {
        lid: number as u16,
        service_level: 0,
    }
}

fn source(number: u32) -> Source {
    let neighbour = neighbour(number, 0);
    Source {
        queue_pair: neighbour.hardware.queue_pair,
        path: neighbour.path,
        gid: Some(neighbour.hardware.gid),
    }
}

/// Queue pairs that record.
#[derive(Default)]
struct Recorder {
    pairs: HashSet<u32>,
    connected: HashSet<u32>,
    told: Vec<(Neighbour, Message)>,
    sent: Vec<Vec<u8>>,
    is_busy: bool,
    /// Queue pairs that can still be made.
    left: usize,
}

impl Pairs for Recorder {
    fn create(&mut self, id: u32, _: Side) -> Option<u32> {
        self.left = self.left.checked_sub(1)?;
        assert!(self.pairs.insert(id), "{id} is made twice");
        Some(1000 + id)
    }

    fn connect(&mut self, id: u32, _: &Neighbour, end: &End, _: u32, _: Side) -> bool {
        assert!(self.pairs.contains(&id) && end.queue_pair > 1000);
        assert!(self.connected.insert(id), "{id} is connected twice");
        true
    }

    fn destroy(&mut self, id: u32) {
        if self.pairs.remove(&id) {
            self.left += 1;
        }
        self.connected.remove(&id);
    }

    fn send(&mut self, id: u32, _: Protocol, packet: &[u8]) -> Sent {
        assert!(self.connected.contains(&id), "{id} is not connected");
        if self.is_busy {
            return Sent::Busy;
        }
        self.sent.push(packet.to_vec());
        Sent::Done
    }

    fn tell(&mut self, to: &Neighbour, message: &Message) {
        self.told.push((*to, *message));
    }
}

/// An interface and its queue pairs.
struct Node {
    connections: Connections,
    pairs: Recorder,
}

impl Node {
    fn new(number: u32, flags: u8) -> Node {
        let own = neighbour(number, flags).hardware;
        Node {
            connections: Connections::new(own, MTU, 5, 0),
            pairs: Recorder {
                left: 4 * MOST,
                ..Recorder::default()
            },
        }
    }

    /// Sends a packet. Returns the way, or `None` if it was dropped.
    fn send(&mut self, to: &Neighbour, packet: &[u8], now: u64) -> Option<Way> {
        let way = self.connections.way(to, now, &mut self.pairs);
        let is_taken = match way {
            Way::Connection(id, _) => self.pairs.send(id, Protocol::Ipv4, packet) == Sent::Done,
            Way::Waits => self.connections.wait(to, Protocol::Ipv4, packet),
            Way::Datagram => true,
        };
        is_taken.then_some(way)
    }

    fn receive(&mut self, message: &Message, from: u32, now: u64) -> bool {
        let (bytes, pairs) = (message.bytes(), &mut self.pairs);
        self.connections.receive(&bytes, source(from), now, pairs)
    }
}

/// Delivers all messages between two nodes until there are none.
fn settle(nodes: &mut [Node; 2], now: u64) {
    while nodes.iter().any(|node| !node.pairs.told.is_empty()) {
        for from in 0..2 {
            for (_, message) in std::mem::take(&mut nodes[from].pairs.told) {
                nodes[1 - from].receive(&message, from as u32 + 1, now);
            }
        }
    }
}

/// Has a connection fail whose queue pair at the peer exists no longer, as the adapter does.
fn break_dead(nodes: &mut [Node; 2], from: usize, to: &Neighbour) {
    let Some(one) = nodes[from].connections.outgoing.get(to) else {
        return;
    };
    let (id, incoming) = (one.id, &nodes[1 - from].connections.incoming);
    if let State::Established { peer_id, .. } = one.state
        && incoming.get(&peer_id).is_none_or(|peer| peer.peer_id != id)
    {
        let Node { connections, pairs } = &mut nodes[from];
        connections.fail(id, pairs);
    }
}

/// Delivers a packet of an established connection to the peer.
fn use_incoming(nodes: &mut [Node; 2], from: usize, to: &Neighbour, now: u64) {
    let one = nodes[from].connections.outgoing.get(to);
    if let Some(State::Established { peer_id, .. }) = one.map(|one| &one.state) {
        let id = *peer_id;
        nodes[1 - from].connections.source(id, now);
    }
}

fn pair() -> ([Node; 2], [Neighbour; 2]) {
    let rc = hardware_address::RC;
    let nodes = [1, 2].map(|number| Node::new(number, rc));
    (nodes, [1, 2].map(|number| neighbour(number, rc)))
}

#[test]
fn packets_wait_for_a_connection_and_keep_their_order() {
    let (mut nodes, at) = pair();
    for number in 0..3 {
        assert_eq!(nodes[0].send(&at[1], &[number], 0), Some(Way::Waits));
    }
    assert_eq!(nodes[0].pairs.told.len(), 1);
    settle(&mut nodes, 1);
    let way = nodes[0].send(&at[1], &[3], 2);
    assert!(matches!(way, Some(Way::Connection(..))), "{way:?}");
    assert_eq!(nodes[0].pairs.sent, [[0], [1], [2], [3]]);
    assert_eq!(
        (
            nodes[0].connections.waiting(),
            nodes[0].connections.waiting_bytes
        ),
        (0, 0)
    );
    // The peer sends by its own connection.
    assert_eq!(nodes[1].send(&at[0], &[9], 3), Some(Way::Waits));
}

#[test]
fn both_ends_may_request_a_connection_at_the_same_time() {
    let (mut nodes, at) = pair();
    for from in 0..2 {
        nodes[from].send(&at[1 - from], &[7], 0);
    }
    settle(&mut nodes, 1);
    for node in &nodes {
        assert_eq!(node.pairs.sent, [[7]]);
        assert_eq!(node.pairs.connected.len(), 2);
    }
}

#[test]
fn neighbours_without_the_flag_get_datagrams() {
    let mut node = Node::new(1, hardware_address::RC);
    assert_eq!(node.send(&neighbour(2, 0), &[1], 0), Some(Way::Datagram));
    // RFC 4755's flag of unreliable connections.
    assert_eq!(node.send(&neighbour(2, 0x40), &[1], 0), Some(Way::Datagram));
    let mut node = Node::new(1, 0);
    let to = neighbour(2, hardware_address::RC);
    assert_eq!(node.send(&to, &[1], 0), Some(Way::Datagram));
    assert!(node.pairs.told.is_empty() && node.pairs.pairs.is_empty());
}

#[test]
fn a_refused_connection_gives_its_packets_back_and_is_requested_again_later() {
    let (mut nodes, at) = pair();
    nodes[1] = Node::new(2, 0);
    nodes[0].send(&at[1], &[1], 0);
    settle(&mut nodes, 10);
    assert_eq!(nodes[0].connections.take_returned(), [[1]]);
    assert!(nodes[0].pairs.pairs.is_empty() && nodes[1].pairs.pairs.is_empty());
    assert_eq!(nodes[0].send(&at[1], &[2], 11), Some(Way::Datagram));
    assert_eq!(nodes[0].send(&at[1], &[3], 10 + REFUSED), Some(Way::Waits));
}

#[test]
fn requests_are_repeated_and_given_up() {
    let (mut nodes, at) = pair();
    let node = &mut nodes[0];
    node.send(&at[1], &[1], 0);
    for number in 1..=u64::from(REQUESTS) {
        node.connections.tick(number * PAUSE, &mut node.pairs);
    }
    assert_eq!(node.pairs.told.len(), REQUESTS as usize);
    assert_eq!(node.connections.take_returned(), [[1]]);
    assert!(node.pairs.pairs.is_empty());
    let given_up = u64::from(REQUESTS) * PAUSE;
    assert_eq!(node.send(&at[1], &[2], given_up), Some(Way::Datagram));
    assert_eq!(node.send(&at[1], &[2], 99_000), Some(Way::Waits));
}

#[test]
fn a_repeated_request_gets_the_same_reply_and_a_new_one_replaces_the_connection() {
    let (mut nodes, at) = pair();
    nodes[0].send(&at[1], &[1], 0);
    let (_, request) = nodes[0].pairs.told[0];
    let mut replies = Vec::new();
    for _ in 0..2 {
        assert!(nodes[1].receive(&request, 1, 0));
        replies.push(nodes[1].pairs.told.pop().unwrap());
    }
    assert_eq!(replies[0], replies[1]);
    let Message::Request { own, end, from, to } = request else {
        panic!("{request:?}");
    };
    let again = Message::Request {
        own: own + 1,
        end,
        from,
        to,
    };
    assert!(nodes[1].receive(&again, 1, 0));
    assert_ne!(nodes[1].pairs.told.pop().unwrap(), replies[0]);
    assert_eq!(nodes[1].pairs.pairs.len(), 1);
}

#[test]
fn messages_of_others_have_no_effect() {
    let (mut nodes, at) = pair();
    nodes[0].send(&at[1], &[1], 0);
    let (_, request) = nodes[0].pairs.told[0];
    // For another interface, and with the GID of another sender.
    assert!(!Node::new(3, hardware_address::RC).receive(&request, 1, 0));
    assert!(!nodes[1].receive(&request, 3, 0));
    assert!(nodes[1].receive(&request, 1, 0));
    let (_, reply) = nodes[1].pairs.told[0];
    assert!(!nodes[0].receive(&reply, 3, 0));
    // The other sender alone learns that it has no connection.
    let (to, reject) = nodes[0].pairs.told.pop().unwrap();
    assert_eq!(to.hardware.gid, neighbour(3, 0).hardware.gid);
    assert!(matches!(reject, Message::Reject { .. }), "{reject:?}");
    settle(&mut nodes, 0);
    nodes[0].receive(&reply, 2, 0);
    settle(&mut nodes, 0);
    let id = nodes[0].connections.outgoing[&at[1]].id;
    let own = nodes[1]
        .connections
        .incoming
        .keys()
        .next()
        .copied()
        .unwrap();
    for (message, from) in [
        (Message::Disconnect { own, peer: id }, 3),
        (
            Message::Disconnect {
                own: own + 1,
                peer: id,
            },
            2,
        ),
        (Message::Ready { own, peer: id }, 2),
    ] {
        assert!(!nodes[0].receive(&message, from, 0), "{message:?}");
    }
    assert_eq!(nodes[0].pairs.connected.len(), 1);
    assert!(nodes[0].receive(&Message::Disconnect { own, peer: id }, 2, 0));
    assert!(nodes[0].pairs.pairs.is_empty());
}

#[test]
fn an_unknown_reply_is_rejected_and_its_connection_ends() {
    let (mut nodes, at) = pair();
    nodes[0].send(&at[1], &[1], 0);
    let (_, request) = nodes[0].pairs.told.remove(0);
    assert!(nodes[1].receive(&request, 1, 0));
    // The end that has requested the connection is replaced by another that knows nothing of it.
    nodes[0] = Node::new(1, hardware_address::RC);
    let (_, reply) = nodes[1].pairs.told.remove(0);
    assert!(!nodes[0].receive(&reply, 2, 1));
    let [(to, reject)] = nodes[0].pairs.told[..] else {
        panic!("{:?}", nodes[0].pairs.told);
    };
    assert_eq!(to, at[1]);
    assert!(nodes[1].receive(&reject, 1, 1));
    assert!(nodes[1].pairs.pairs.is_empty() && nodes[1].pairs.told.is_empty());
    // It has no answer, so that two ends do not reject each other forever.
    assert!(!nodes[1].receive(&reject, 1, 1));
    assert!(nodes[1].pairs.told.is_empty());
}

#[test]
fn a_reply_of_another_number_than_the_established_connection_is_rejected() {
    let (mut nodes, at) = pair();
    nodes[0].send(&at[1], &[1], 0);
    let (_, request) = nodes[0].pairs.told[0];
    settle(&mut nodes, 0);
    let Node { connections, pairs } = &mut nodes[1];
    // The peer closes the connection, its message is lost, and the repeated request comes late.
    let id = *connections.incoming.keys().next().unwrap();
    connections.fail(id, pairs);
    pairs.told.clear();
    assert!(nodes[1].receive(&request, 1, 1));
    assert_eq!(nodes[1].pairs.pairs.len(), 1);
    settle(&mut nodes, 1);
    assert!(nodes[1].pairs.pairs.is_empty());
}

#[test]
fn unused_connections_are_closed_at_both_ends() {
    let (mut nodes, at) = pair();
    nodes[0].send(&at[1], &[1], 0);
    settle(&mut nodes, 0);
    for now in [UNUSED - 1, UNUSED] {
        let [one, _] = &mut nodes;
        assert_eq!(one.pairs.pairs.len(), 1);
        one.connections.tick(now, &mut one.pairs);
    }
    settle(&mut nodes, UNUSED);
    assert!(nodes.iter().all(|node| node.pairs.pairs.is_empty()));
}

#[test]
fn a_failed_connection_is_made_again_by_the_next_packet() {
    let (mut nodes, at) = pair();
    nodes[0].send(&at[1], &[1], 0);
    settle(&mut nodes, 0);
    let id = nodes[0].connections.outgoing[&at[1]].id;
    let [one, _] = &mut nodes;
    one.connections.fail(id, &mut one.pairs);
    one.connections.fail(id, &mut one.pairs);
    assert!(one.pairs.pairs.is_empty());
    assert_eq!(one.send(&at[1], &[2], 1), Some(Way::Waits));
    settle(&mut nodes, 1);
    assert_eq!(nodes[0].pairs.sent, [[1], [2]]);
    assert_eq!(nodes[1].pairs.pairs.len(), 1);
}

#[test]
fn connections_of_each_direction_are_bounded() {
    let mut node = Node::new(1, hardware_address::RC);
    for number in 2..3 + MOST as u32 {
        node.send(
            &neighbour(number, hardware_address::RC),
            &[1],
            number.into(),
        );
        let mut peer = Node::new(number, hardware_address::RC);
        peer.send(&neighbour(1, hardware_address::RC), &[1], 0);
        node.receive(&peer.pairs.told[0].1, number, number.into());
    }
    assert_eq!(node.connections.outgoing.len(), MOST);
    assert_eq!(node.connections.incoming.len(), MOST);
    assert_eq!(node.pairs.pairs.len(), 2 * MOST);
    // The first of each was closed.
    assert_eq!(node.connections.take_dropped(), 1);
    let of_first = |one: &Incoming| one.peer.hardware.queue_pair == 2;
    assert!(!node.connections.incoming.values().any(of_first));
}

#[test]
fn waiting_packets_are_bounded() {
    let mut node = Node::new(1, hardware_address::RC);
    let packet = vec![0; 65_520];
    for number in 0..1000u32 {
        node.send(
            &neighbour(2 + number % 100, hardware_address::RC),
            &packet,
            0,
        );
    }
    assert!(node.connections.waiting_bytes <= MOST_WAITING_BYTES);
    assert_eq!(
        node.connections.waiting(),
        MOST_WAITING_BYTES / packet.len()
    );
}

#[derive(Debug, Clone)]
enum Step {
    /// A packet of a node.
    Send(usize),
    /// Delivers (or loses, or repeats) the next message of a node.
    Deliver(usize, u8),
    /// Time passes.
    Tick(u64),
    /// Queue pairs of a node become busy or free.
    Busy(usize, bool),
    /// A connection of a node fails.
    Fail(usize, u32),
    /// A node has no more queue pairs, or some.
    Limit(usize, usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0usize..2).prop_map(Step::Send),
        8 => (0usize..2, 0u8..6).prop_map(|(node, fate)| Step::Deliver(node, fate)),
        4 => (0u64..600).prop_map(Step::Tick),
        1 => (0u64..700_000).prop_map(Step::Tick),
        1 => (0usize..2, any::<bool>()).prop_map(|(node, busy)| Step::Busy(node, busy)),
        1 => (0usize..2, 0u32..20).prop_map(|(node, id)| Step::Fail(node, id)),
        1 => (0usize..2, 0usize..6).prop_map(|(node, left)| Step::Limit(node, left)),
    ];
    prop::collection::vec(step, 0..300)
}

/// Each packet is sent once and in order, dropped, given back, or waits; no queue pair is
/// forgotten; and when nothing is lost any more, both ends have the same connections.
fn run(steps: Vec<Step>) {
    let (mut nodes, at) = pair();
    let (mut now, mut given, mut counted) = (0, [0u64; 2], [0u64; 2]);
    for step in steps {
        match step {
            Step::Send(node) => {
                given[node] += 1;
                let number = given[node].to_be_bytes();
                let way = nodes[node].send(&at[1 - node], &number, now);
                // Busy and full queues, and datagrams, are the caller's.
                counted[node] += u64::from(matches!(way, None | Some(Way::Datagram)));
            }
            Step::Deliver(node, fate) => {
                if nodes[node].pairs.told.is_empty() {
                    continue;
                }
                let at = if fate == 5 {
                    nodes[node].pairs.told.len() - 1
                } else {
                    0
                };
                let (_, message) = nodes[node].pairs.told.remove(at);
                for _ in 0..[1, 1, 1, 0, 2, 1][usize::from(fate)] {
                    nodes[1 - node].receive(&message, node as u32 + 1, now);
                }
            }
            Step::Tick(time) => {
                now += time;
                for node in &mut nodes {
                    node.connections.tick(now, &mut node.pairs);
                }
            }
            Step::Busy(node, is_busy) => nodes[node].pairs.is_busy = is_busy,
            Step::Fail(node, id) => {
                let node = &mut nodes[node];
                node.connections.fail(id, &mut node.pairs);
            }
            Step::Limit(node, left) => nodes[node].pairs.left = left,
        }
        for (node, counted) in nodes.iter_mut().zip(&mut counted) {
            *counted += node.connections.take_dropped();
            *counted += node.connections.take_returned().len() as u64;
            let ids = node.connections.neighbours.keys();
            let ids = ids.chain(node.connections.incoming.keys());
            let ids: HashSet<u32> = ids.copied().collect();
            assert_eq!(&ids, &node.pairs.pairs);
            let waiting = node
                .connections
                .outgoing
                .values()
                .flat_map(|one| &one.waiting);
            let (count, bytes) = waiting.fold((0, 0), |(count, bytes), (_, packet)| {
                (count + 1, bytes + packet.len())
            });
            assert_eq!(count, node.connections.waiting());
            assert_eq!(bytes, node.connections.waiting_bytes);
        }
    }
    for node in 0..2 {
        let sent = &nodes[node].pairs.sent;
        assert!(sent.is_sorted());
        let waiting = nodes[node].connections.waiting() as u64;
        assert_eq!(given[node], sent.len() as u64 + counted[node] + waiting);
    }
    // The network is perfect from now on.
    for node in &mut nodes {
        (node.pairs.left, node.pairs.is_busy) = (100, false);
    }
    settle(&mut nodes, now);
    for _ in 0..2 * u64::from(REQUESTS) {
        now += PAUSE.max(REFUSED);
        for (one, other) in [(0, 1), (1, 0)] {
            nodes[one].send(&at[other], &u64::MAX.to_be_bytes(), now);
            break_dead(&mut nodes, one, &at[other]);
            use_incoming(&mut nodes, one, &at[other], now);
            let Node { connections, pairs } = &mut nodes[one];
            connections.tick(now, pairs);
            settle(&mut nodes, now);
        }
    }
    for node in 0..2 {
        assert_eq!(nodes[node].connections.waiting(), 0);
        let one = &nodes[node].connections.outgoing[&at[1 - node]];
        let State::Established { peer_id, .. } = one.state else {
            panic!("{one:?}");
        };
        let incoming = &nodes[1 - node].connections.incoming;
        assert_eq!(
            incoming.get(&peer_id).map(|peer| peer.peer_id),
            Some(one.id)
        );
    }
}

proptest! {
    #[test]
    fn two_ends_agree_over_any_network(steps in steps()) {
        run(steps);
    }
}

/// A connection that was made at the beginning becomes old while both ends use it.
#[test]
fn two_ends_agree_on_a_connection_that_they_use_for_long() {
    let (send, deliver) = (Step::Send(0), Step::Deliver);
    let mut steps = vec![send; 10];
    steps.extend([deliver(0, 0), deliver(1, 0), deliver(0, 0)]);
    steps.extend([
        Step::Tick(265_325),
        Step::Send(0),
        Step::Tick(82_096),
        Step::Tick(132_579),
    ]);
    run(steps);
}
