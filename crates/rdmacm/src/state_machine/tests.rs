use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;
use verbena_wire::mad::cm::ip;

const SERVICE: u64 = ip::service_id(0x0106, 7174);
const SECOND: u64 = 1_000_000_000;

fn path(source: [u8; 4], destination: [u8; 4]) -> Path {
    Path {
        port: 1,
        source: std::net::Ipv4Addr::from(source).to_ipv6_mapped().octets(),
        index: 1,
        pkey_index: 0,
        destination: std::net::Ipv4Addr::from(destination)
            .to_ipv6_mapped()
            .octets(),
        lid: 0,
        mtu: 5,
        ack_timeout: 15,
    }
}

fn there() -> Path {
    path([10, 9, 0, 2], [10, 9, 0, 1])
}

fn back() -> Path {
    path([10, 9, 0, 1], [10, 9, 0, 2])
}

fn message(kind: MessageKind) -> Message {
    let source = "10.9.0.2:40000".parse().unwrap();
    let destination = "10.9.0.1:7174".parse().unwrap();
    let mut message = Message {
        source: crate::address::encode(Some(source)),
        destination: crate::address::encode(Some(destination)),
        queue_pair: match kind {
            MessageKind::Req => 0x101,
            _ => 0x202,
        },
        psn: 0x12_3456,
        responder_resources: 3,
        initiator_depth: 4,
        retry_count: 7,
        rnr_retry_count: 6,
        ..Message::bare(kind)
    };
    message.private_data[..4].copy_from_slice(b"data");
    message
}

fn asking() -> (StateMachine, CmMad) {
    let mut caller = StateMachine::to(0x1_0041, SERVICE, there());
    let cm_mad = caller.send(&message(MessageKind::Req), 0).unwrap();
    (caller, cm_mad)
}

fn asked(cm_mad: &CmMad) -> (StateMachine, Message) {
    let (transaction, read) = mad::read(&cm_mad.mad).unwrap();
    let request = mad::request(transaction, &read).unwrap();
    let called = StateMachine::of(0x2_0042, &request, SERVICE, back());
    (called, request.message)
}

fn receive(who: &mut StateMachine, cm_mad: &CmMad, now: u64) -> ReceiveOutcome {
    let (transaction, read) = mad::read(&cm_mad.mad).unwrap();
    who.receive(cm_mad.source, transaction, &read, now)
}

fn told(outcome: ReceiveOutcome) -> Message {
    match outcome {
        ReceiveOutcome::Message(message) => *message,
        other => panic!("{other:?}"),
    }
}

/// Returns both sides after the exchange of REQ, REP and RTU.
fn connected() -> (StateMachine, StateMachine) {
    let (mut caller, cm_mad) = asking();
    let (mut called, _) = asked(&cm_mad);
    let reply = called.send(&message(MessageKind::Rep), 0).unwrap();
    told(receive(&mut caller, &reply, 0));
    let ready = caller.send(&Message::bare(MessageKind::Rtu), 0).unwrap();
    told(receive(&mut called, &ready, 0));
    (caller, called)
}

#[test]
fn messages_arrive_unchanged() {
    let (mut caller, cm_mad) = asking();
    let (mut called, request) = asked(&cm_mad);
    assert_eq!(request, message(MessageKind::Req));
    let reply = called.send(&message(MessageKind::Rep), 0).unwrap();
    let outcome = told(receive(&mut caller, &reply, 0));
    let without_addresses = Message {
        source: Default::default(),
        destination: Default::default(),
        // A REP has no retry count: the active side chooses it.
        retry_count: 0,
        ..message(MessageKind::Rep)
    };
    assert_eq!(outcome, without_addresses);
}

#[test]
fn unanswered_messages_are_retried_and_then_fail() {
    let (mut caller, first) = asking();
    let (mut now, mut pauses) = (0, Vec::new());
    let given_up = loop {
        let deadline = caller.deadline().unwrap();
        assert_eq!(caller.due(deadline - 1), Due::Nothing);
        pauses.push(deadline - now);
        now = deadline;
        match caller.due(now) {
            Due::Again(cm_mad) => assert_eq!(*cm_mad, first),
            Due::SearchPorts(Some(cm_mad)) => {
                assert_eq!(*cm_mad, first);
                assert_eq!(caller.try_private_ports(Vec::new(), now), Due::Nothing);
            }
            other => break other,
        }
    };
    assert_eq!(
        given_up,
        Due::GivenUp(MessageKind::Req, Errno(libc::ETIMEDOUT))
    );
    assert_eq!(pauses.len(), usize::from(RETRIES) + 1);
    assert_eq!(pauses[..3], [SECOND / 4, SECOND / 2, SECOND]);
    let longest = 4096 << RESPONSE_TIMEOUT;
    assert!(pauses[8..].iter().all(|pause| *pause >= longest));
    assert_eq!((caller.deadline(), caller.is_waiting()), (None, false));
}

#[test]
fn a_repeated_req_before_the_decision_is_answered_by_mra() {
    let (mut caller, cm_mad) = asking();
    let (mut called, _) = asked(&cm_mad);
    let ReceiveOutcome::Again(mra) = receive(&mut called, &cm_mad, 0) else {
        panic!("no answer");
    };
    let before = caller.deadline().unwrap();
    assert_eq!(receive(&mut caller, &mra, 0), ReceiveOutcome::Nothing);
    assert!(caller.deadline().unwrap() > before + (4096 << mad::SERVICE_TIMEOUT) / 2);
}

#[test]
fn a_repeated_request_gets_the_same_reply() {
    let (mut caller, cm_mad) = asking();
    let (mut called, _) = asked(&cm_mad);
    let reply = called.send(&message(MessageKind::Rep), 0).unwrap();
    assert_eq!(
        receive(&mut called, &cm_mad, 0),
        ReceiveOutcome::Again(reply.clone().into())
    );
    told(receive(&mut caller, &reply, 0));
    // While the program makes its queue pair ready, the answer is an MRA.
    assert!(matches!(
        receive(&mut caller, &reply, 0),
        ReceiveOutcome::Again(_)
    ));
    let ready = caller.send(&Message::bare(MessageKind::Rtu), 0).unwrap();
    assert_eq!(
        receive(&mut caller, &reply, 0),
        ReceiveOutcome::Again(ready.into())
    );

    let (mut caller, mut called) = connected();
    let end = caller.send(&Message::bare(MessageKind::Dreq), 0).unwrap();
    told(receive(&mut called, &end, 0));
    let ended = called.send(&Message::bare(MessageKind::Drep), 0).unwrap();
    assert_eq!(
        receive(&mut called, &end, 0),
        ReceiveOutcome::Again(ended.clone().into())
    );
    told(receive(&mut caller, &ended, 0));
    assert_eq!(receive(&mut caller, &ended, 0), ReceiveOutcome::Nothing);
}

#[test]
fn a_dreq_implies_a_lost_rtu() {
    let (mut caller, cm_mad) = asking();
    let (mut called, _) = asked(&cm_mad);
    let reply = called.send(&message(MessageKind::Rep), 0).unwrap();
    told(receive(&mut caller, &reply, 0));
    let _lost = caller.send(&Message::bare(MessageKind::Rtu), 0).unwrap();
    let end = caller.send(&Message::bare(MessageKind::Dreq), 0).unwrap();
    assert_eq!(told(receive(&mut called, &end, 0)).kind, MessageKind::Dreq);
    assert!(!called.is_waiting());
}

#[test]
fn a_rej_after_a_rep_is_ignored() {
    let (mut caller, cm_mad) = asking();
    let (mut called, _) = asked(&cm_mad);
    let refusal = called.send(&refusal(MessageKind::Rej), 0).unwrap();
    let (mut granting, _) = asked(&cm_mad);
    let reply = granting.send(&message(MessageKind::Rep), 0).unwrap();
    told(receive(&mut caller, &reply, 0));
    assert_eq!(receive(&mut caller, &refusal, 0), ReceiveOutcome::Nothing);
    let (mut caller, _) = asking();
    let outcome = told(receive(&mut caller, &refusal, 0));
    assert_eq!(
        (outcome.kind, outcome.status),
        (MessageKind::Rej, crate::message::CONSUMER_DEFINED)
    );
}

#[test]
fn mads_of_other_hosts_or_connections_are_dropped() {
    let (mut caller, mut called) = connected();
    let end = caller.send(&Message::bare(MessageKind::Dreq), 0).unwrap();
    let (transaction, read) = mad::read(&end.mad).unwrap();
    let stranger = "::ffff:10.9.0.3".parse().unwrap();
    assert_eq!(
        called.receive(stranger, transaction, &read, 0),
        ReceiveOutcome::Nothing
    );
    let cm::Message::Dreq(dreq) = read else {
        panic!("{read:?}");
    };
    for wrong in [
        cm::Dreq {
            local_comm_id: 9,
            ..dreq
        },
        cm::Dreq {
            remote_qpn: verbena_wire::Qpn::new(9),
            ..dreq
        },
    ] {
        let outcome = called.receive(end.source, transaction, &cm::Message::Dreq(wrong), 0);
        assert_eq!(outcome, ReceiveOutcome::Nothing);
    }
    told(receive(&mut called, &end, 0));
}

#[test]
fn a_req_with_too_large_an_mtu_is_repeated_with_the_accepted_one() {
    let (mut caller, cm_mad) = asking();
    let numbers = Numbers {
        local: 0,
        remote: caller.number(),
        transaction: 0,
    };
    let home = back();
    let header = CmHeader {
        numbers,
        path: &home,
        service: SERVICE,
        refused: Rejected::Req,
        remote_queue_pair: 0,
    };
    let refuse = |good: u8| CmMad {
        interface: 0,
        source: cm_mad.destination,
        destination: cm_mad.source,
        udp_port: UdpPort::PUBLIC,
        mad: header.rejection(INVALID_MTU as u16, &[good], &[]).unwrap(),
    };
    let ReceiveOutcome::Again(again) = receive(&mut caller, &refuse(3), 0) else {
        panic!("not asked again");
    };
    let (_, read) = mad::read(&again.mad).unwrap();
    let cm::Message::Req(request) = read else {
        panic!("{read:?}");
    };
    assert_eq!((request.path_mtu, caller.path().mtu), (Mtu::B1024, 3));
    // An MTU that is not smaller does not help.
    assert_eq!(
        told(receive(&mut caller, &refuse(3), 0)).kind,
        MessageKind::Rej
    );
}

#[test]
fn port_unreachable_ends_a_dreq_earlier_than_a_req() {
    let (mut caller, _) = asking();
    let refused = Errno(libc::ECONNREFUSED);
    for _ in 1..REFUSALS {
        assert_eq!(caller.note_failure(refused, 0), Due::Nothing);
    }
    assert_eq!(caller.note_failure(refused, 0), Due::SearchPorts(None));
    assert_eq!(
        caller.try_private_ports(Vec::new(), 0),
        Due::GivenUp(MessageKind::Req, refused)
    );
    let (mut caller, _called) = connected();
    caller.send(&Message::bare(MessageKind::Dreq), 0).unwrap();
    assert_eq!(
        caller.note_failure(refused, 0),
        Due::GivenUp(MessageKind::Dreq, refused)
    );
}

#[test]
fn repeated_port_unreachable_ends_a_connection() {
    let refused = Errno(libc::ECONNREFUSED);
    let (mut caller, mut called) = connected();
    for _ in 1..REFUSALS {
        assert_eq!(caller.note_failure(refused, 0), Due::Nothing);
    }
    // A message of the peer resets the count.
    let reply = called.send(&message(MessageKind::Rep), 0).unwrap();
    assert!(matches!(
        receive(&mut caller, &reply, 0),
        ReceiveOutcome::Again(_)
    ));
    for _ in 1..REFUSALS {
        assert_eq!(caller.note_failure(refused, 0), Due::Nothing);
    }
    assert_eq!(caller.note_failure(refused, 0), Due::Gone);
    // An unreachable network may recover.
    let unreachable = Errno(libc::EHOSTUNREACH);
    assert_eq!(
        called.note_failure(unreachable, 0),
        Due::GivenUp(MessageKind::Rep, unreachable)
    );
    let (mut caller, _called) = connected();
    assert_eq!(caller.note_failure(unreachable, 0), Due::Nothing);
}

/// One side with its program, and the messages the program has received.
struct Side {
    machine: StateMachine,
    outcome: Vec<MessageKind>,
}

impl Side {
    /// Processes a MAD as a program would, and returns the MADs sent in reply.
    fn take(&mut self, cm_mad: &CmMad, now: u64) -> Vec<CmMad> {
        match receive(&mut self.machine, cm_mad, now) {
            ReceiveOutcome::Nothing => Vec::new(),
            ReceiveOutcome::Again(cm_mad) => vec![*cm_mad],
            ReceiveOutcome::Elsewhere(due) => panic!("{due:?}"),
            ReceiveOutcome::Message(message) => {
                self.outcome.push(message.kind);
                let says: &[MessageKind] = match message.kind {
                    MessageKind::Rep => &[MessageKind::Rtu],
                    MessageKind::Dreq => &[MessageKind::Drep],
                    _ => &[],
                };
                let say =
                    |kind: &MessageKind| self.machine.send(&Message::bare(*kind), now).unwrap();
                says.iter().map(say).collect()
            }
        }
    }
}

/// A port's reaction to a request.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Reception {
    Grants,
    /// A listener refuses.
    Rejects,
    /// There is no listener.
    Declines,
    /// There is no listener, and the REJ comes after a retransmission of the request.
    DeclinesLate,
    /// The port is not open.
    Unreached,
    Silent,
}

/// Outcome of a request.
#[derive(Debug, PartialEq)]
enum Outcome {
    Connected(UdpPort),
    Rejected(u32),
    GivenUp(Errno),
}

/// A host, with the reactions of its public port and of its private ports.
struct Called {
    public: Reception,
    private: Vec<(UdpPort, Reception)>,
    /// Time until the private ports are found, in nanoseconds.
    found_after: u64,
}

/// An event at some time.
enum Happening {
    Arrives(Box<CmMad>),
    PortUnreachable,
    Found,
}

impl Called {
    fn reception(&self, residence: UdpPort) -> Reception {
        let private = self.private.iter().find(|(at, _)| *at == residence);
        private.map_or(self.public, |(_, reception)| *reception)
    }

    /// Returns the event that a request causes, and its delay.
    fn take(&self, cm_mad: &CmMad) -> Option<(u64, Happening)> {
        let reception = self.reception(cm_mad.udp_port);
        let (transaction, read) = mad::read(&cm_mad.mad).unwrap();
        let request = mad::request(transaction, &read).unwrap();
        let reason = match reception {
            Reception::Unreached => return Some((1, Happening::PortUnreachable)),
            Reception::Silent => return None,
            Reception::Grants => {
                let mut granting = StateMachine::of(0x2_0042, &request, SERVICE, back());
                let mut reply = message(MessageKind::Rep);
                let blocks = cm_mad.udp_port.blocks();
                reply.queue_pair = (blocks.start + 1) * verbena_hca_shm::registry::BLOCK;
                let answer = granting.send(&reply, 0).unwrap();
                return Some((1, Happening::Arrives(answer.into())));
            }
            Reception::Rejects => crate::message::CONSUMER_DEFINED,
            Reception::Declines | Reception::DeclinesLate => INVALID_SERVICE,
        };
        let numbers = Numbers {
            local: 0,
            remote: request.number,
            transaction,
        };
        let home = back();
        let header = CmHeader {
            numbers,
            path: &home,
            service: 0,
            refused: Rejected::Req,
            remote_queue_pair: 0,
        };
        let mad = header.rejection(reason as u16, &[], &[]).unwrap();
        let answer = CmMad {
            source: cm_mad.destination,
            destination: cm_mad.source,
            udp_port: UdpPort::PUBLIC,
            mad,
            ..cm_mad.clone()
        };
        let late = reception == Reception::DeclinesLate;
        Some((
            1 + u64::from(late) * SECOND,
            Happening::Arrives(answer.into()),
        ))
    }

    /// Returns the expected outcome: the listener at the public port gets the request, else the
    /// first one at a private port; without a listener, the answer of the public port counts.
    fn outcome(&self) -> Outcome {
        let private_ports =
            std::iter::once((UdpPort::PUBLIC, self.public)).chain(self.private.clone());
        let listening = private_ports.filter_map(|(residence, reception)| match reception {
            Reception::Grants => Some(Outcome::Connected(residence)),
            Reception::Rejects => Some(Outcome::Rejected(crate::message::CONSUMER_DEFINED)),
            _ => None,
        });
        let no_listener = || match self.public {
            Reception::Unreached => Outcome::GivenUp(Errno(libc::ECONNREFUSED)),
            Reception::Silent => Outcome::GivenUp(Errno(libc::ETIMEDOUT)),
            _ => Outcome::Rejected(INVALID_SERVICE),
        };
        { listening }.next().unwrap_or_else(no_listener)
    }

    /// Sends a request to this host, and returns its outcome.
    fn call(&self) -> Outcome {
        let (mut caller, request) = asking();
        let (mut now, mut order) = (0, 0);
        let mut agenda = std::collections::BTreeMap::new();
        let mut dues = VecDeque::from([Due::Again(request.into())]);
        loop {
            while let Some(due) = dues.pop_front() {
                let said = match due {
                    Due::Again(cm_mad) => Some(cm_mad),
                    Due::SearchPorts(again) => {
                        order += 1;
                        agenda.insert((now + self.found_after, order), Happening::Found);
                        again
                    }
                    Due::Refused(answer) => return Outcome::Rejected(answer.status),
                    Due::GivenUp(_, why) => return Outcome::GivenUp(why),
                    Due::Gone => panic!("gone"),
                    Due::Nothing => None,
                };
                if let Some((later, happening)) = said.and_then(|cm_mad| self.take(&cm_mad)) {
                    order += 1;
                    agenda.insert((now + later, order), happening);
                }
            }
            let first = agenda.keys().next().map(|(at, _)| *at);
            let next = [first, caller.deadline()].into_iter().flatten().min();
            now = next.expect("it has nothing to wait for");
            if first != Some(now) {
                dues.push_back(caller.due(now));
                continue;
            }
            dues.push_back(match agenda.pop_first().unwrap().1 {
                Happening::PortUnreachable => caller.note_failure(Errno(libc::ECONNREFUSED), now),
                Happening::Found => {
                    let found = self.private.iter().map(|(residence, _)| *residence);
                    caller.try_private_ports(found.collect(), now)
                }
                Happening::Arrives(cm_mad) => match receive(&mut caller, &cm_mad, now) {
                    ReceiveOutcome::Elsewhere(due) => *due,
                    ReceiveOutcome::Again(cm_mad) => Due::Again(cm_mad),
                    ReceiveOutcome::Nothing => Due::Nothing,
                    ReceiveOutcome::Message(told) if told.kind == MessageKind::Rep => {
                        return Outcome::Connected(caller.residence());
                    }
                    ReceiveOutcome::Message(told) => return Outcome::Rejected(told.status),
                },
            });
        }
    }
}

fn receptions() -> impl Strategy<Value = Reception> {
    use Reception::*;
    proptest::sample::select(vec![
        Grants,
        Rejects,
        Declines,
        DeclinesLate,
        Unreached,
        Silent,
    ])
}

fn private() -> impl Strategy<Value = Vec<(UdpPort, Reception)>> {
    use Reception::*;
    // A port that was found does answer.
    let one = proptest::sample::select(vec![None, Some(Grants), Some(Rejects), Some(Declines)]);
    let three = proptest::collection::vec(one, 3);
    three.prop_map(|all| {
        let residences = UdpPort::all().skip(1).zip(all);
        let present = residences.filter_map(|(at, reception)| Some((at, reception?)));
        present.collect()
    })
}

proptest! {
    #[test]
    fn a_request_reaches_any_matching_listener(
        public in receptions(), private in private(), found_after in 0..3 * SECOND) {
        let called = Called { public, private, found_after };
        prop_assert_eq!(called.call(), called.outcome());
    }
}

proptest! {
    /// With MADs lost, duplicated and delayed, every message is delivered once and both sides
    /// finish. At most as many MADs are lost as either side has retries; one more could exhaust a
    /// message's retries.
    #[test]
    fn a_lossy_network_only_delays_messages(
        fates in proptest::collection::vec(0..10_u8, 0..60), both: bool) {
        let (caller, request) = asking();
        let (mut called, _) = asked(&request);
        let reply = called.send(&message(MessageKind::Rep), 0).unwrap();
        let mut sides = [caller, called].map(|machine| Side { machine, outcome: Vec::new() });
        let mut fates = fates.into_iter();
        let mut network = VecDeque::new();
        let mut losses = RETRIES;
        let mut put = |network: &mut VecDeque<CmMad>,
        cm_mad: CmMad| match fates.next().unwrap_or(9) {
            0..4 if losses > 0 => losses -= 1,
            4 => network.extend([cm_mad.clone(), cm_mad]),
            5 => network.push_front(cm_mad),
            _ => network.push_back(cm_mad),
        };
        put(&mut network, reply);
        let (mut now, mut parting) = (0, false);
        for _ in 0..10_000 {
            if let Some(cm_mad) = network.pop_front() {
                let to = usize::from(cm_mad.destination.octets() == sides[1].machine.path().source);
                for answer in sides[to].take(&cm_mad, now) {
                    put(&mut network, answer);
                }
                continue;
            }
            if !parting && sides[1].outcome.contains(&MessageKind::Rtu) {
                parting = true;
                for side in &mut sides[..1 + usize::from(both)] {
                    put(&mut network, side.machine.send(&Message::bare(MessageKind::Dreq), now)
                        .unwrap());
                }
                continue;
            }
            let Some(next) = sides.iter().filter_map(|side| side.machine.deadline()).min() else {
                break;
            };
            now = next;
            for side in &mut sides {
                match side.machine.due(now) {
                    Due::Again(cm_mad) => put(&mut network, *cm_mad),
                    Due::SearchPorts(Some(cm_mad)) => {
                        put(&mut network, *cm_mad);
                        prop_assert_eq!(side.machine.try_private_ports(Vec::new(), now),
                            Due::Nothing);
                    }
                    Due::Nothing => (),
                    other => prop_assert!(false, "{:?}", other),
                }
            }
        }
        let count = |side: &Side, kind| side.outcome.iter().filter(|outcome| **outcome == kind)
            .count();
        prop_assert_eq!((count(&sides[0], MessageKind::Rep), count(&sides[1], MessageKind::Rtu)),
            (1, 1));
        // If both sides send a DREQ at once, either DREQ or DREP may arrive first.
        let ends = sides.each_ref()
            .map(|side| (count(side, MessageKind::Dreq), count(side, MessageKind::Drep)));
        match both {
            true => prop_assert!(ends.iter()
                .all(|(asked, told)| matches!(asked + told, 1..=2) && *asked <= 1)),
            false => prop_assert_eq!(ends, [(0, 1), (1, 0)]),
        }
        prop_assert!(sides.iter().all(|side| !side.machine.is_waiting()));
    }

    /// No MAD affects an exchange that it does not name.
    #[test]
    fn arbitrary_datagrams_do_not_affect_connections(
        bytes in proptest::collection::vec(any::<u8>(), 232), attribute in 0x10..0x19_u16) {
        let (mut caller, mut called) = connected();
        let mut datagram = [0; 256];
        datagram[..4].copy_from_slice(&[1, 7, 2, 3]);
        datagram[16..18].copy_from_slice(&attribute.to_be_bytes());
        datagram[24..].copy_from_slice(&bytes);
        if let Some((transaction, read)) = mad::read(&datagram) {
            let _ = mad::request(transaction, &read);
            for side in [&mut caller, &mut called] {
                prop_assert_eq!(side.receive(side.address(), transaction, &read, 0),
                    ReceiveOutcome::Nothing);
            }
        }
    }
}
