use super::*;
use proptest::prelude::*;

const LOCAL: Local = Local {
    gid: Gid([7; 16]),
    partition: 0xffff,
};
const BROADCAST: Gid = Gid([0xff; 16]);
const SET: u8 = 2;
const DELETE: u8 = 0x15;
const PATH: u8 = 0x35;
const FULL: u8 = 1;
const SEND_ONLY: u8 = 8;
const NOT_FOUND: u16 = 0x0200;

fn group(number: u16) -> Gid {
    let mut bytes = [0xff; 16];
    bytes[14..].copy_from_slice(&number.to_be_bytes());
    Gid(bytes)
}

fn port(number: u16) -> Gid {
    let mut bytes = [0; 16];
    bytes[14..].copy_from_slice(&number.to_be_bytes());
    Gid(bytes)
}

fn packet(to: Gid, number: u16) -> Waiting {
    let bytes = number.to_be_bytes().to_vec();
    Waiting::Multicast(to, Protocol::Ipv4, bytes, Origin::Program)
}

fn unicast(to: Gid, length: usize) -> Waiting {
    let hardware = crate::hardware_address::HardwareAddress {
        flags: 0,
        queue_pair: 1,
        gid: to,
    };
    let path = record::Path {
        lid: 0,
        service_level: 0,
    };
    Waiting::Unicast(
        Neighbour { hardware, path },
        Protocol::Ipv4,
        vec![0; length],
    )
}

/// A request: method, low byte of the attribute, GID, join state.
fn read(datagram: &Datagram) -> (u8, u8, Gid, u8) {
    let at = if datagram[17] == PATH { 64 } else { 56 };
    let gid = std::array::from_fn(|byte| datagram[at + byte]);
    (datagram[3], datagram[17], Gid(gid), datagram[56 + 48])
}

fn sent(all: &mut Administration) -> Vec<Datagram> {
    all.outgoing.drain(..).collect()
}

/// Answers a request: a group or port has this LID.
fn answer(mut datagram: Datagram, status: u16, lid: u16) -> Datagram {
    datagram[3] |= 0x80;
    datagram[4..6].copy_from_slice(&status.to_be_bytes());
    let is_path = datagram[17] == PATH;
    let record = &mut datagram[56..];
    if is_path {
        record[40..42].copy_from_slice(&lid.to_be_bytes());
        return datagram;
    }
    record[32..36].copy_from_slice(&0x0b1b_u32.to_be_bytes());
    record[36..38].copy_from_slice(&lid.to_be_bytes());
    (record[38], record[42], record[44]) = (0x84, 0x83, 0x30);
    datagram
}

/// Answers all requests: groups get this LID, ports one of 1 to 5.
fn answer_all(all: &mut Administration, lid: u16, now: u64) {
    for datagram in sent(all) {
        let lid = if datagram[17] == PATH {
            lid % 5 + 1
        } else {
            lid
        };
        all.receive(&answer(datagram, 0, lid), now);
    }
}

/// An interface that has joined its broadcast group.
fn joined() -> Administration {
    let mut all = Administration::new(LOCAL, BROADCAST, 5, 0);
    answer_all(&mut all, 0xc000, 0);
    assert_eq!(all.take_events(), [Event::Joined(BROADCAST, 0xc000)]);
    all
}

#[test]
fn packets_wait_for_a_path_and_come_back_in_order() {
    let mut all = joined();
    assert_eq!(all.path(port(1), 0), Lookup::Waits);
    for length in [10, 20] {
        assert_eq!(all.hold(unicast(port(1), length)), Sent::Waits);
    }
    assert_eq!(all.path(port(1), 0), Lookup::Waits);
    let [request] = sent(&mut all).try_into().unwrap();
    assert_eq!(read(&request).2, port(1));
    all.receive(&answer(request, 0, 9), 1);
    let waited = [10, 20].map(|length| unicast(port(1), length));
    assert_eq!(all.take_events(), [Event::Ready(waited.into())]);
    assert_eq!((all.waiting, all.waiting_bytes), (0, 0));
    let path = record::Path {
        lid: 9,
        service_level: 0,
    };
    assert_eq!(all.path(port(1), 1), Lookup::Known(path));
    // A second answer has no effect.
    all.receive(&answer(request, 0, 10), 2);
    assert_eq!(all.path(port(1), 2), Lookup::Known(path));
    assert!(!all.is_waiting());
}

#[test]
fn a_path_without_an_answer_fails_after_three_requests_and_is_asked_for_later() {
    let mut all = joined();
    all.path(port(1), 0);
    all.hold(unicast(port(1), 10));
    for number in 1..=REQUESTS {
        assert_eq!(sent(&mut all).len(), 1);
        assert!(all.take_events().is_empty());
        all.tick(u64::from(number) * PAUSE);
    }
    let waited = VecDeque::from([unicast(port(1), 10)]);
    assert_eq!(all.take_events(), [Event::Failed(waited, Drop::NoPath)]);
    let now = 3 * PAUSE;
    assert_eq!(all.path(port(1), now), Lookup::Failed(Drop::NoPath));
    assert_eq!(all.path(port(1), now + PAUSE), Lookup::Waits);
    assert_eq!(sent(&mut all).len(), 1);
}

#[test]
fn refused_and_invalid_answers_fail() {
    let mut all = joined();
    for (status, lid) in [(0x0300, 9), (0, 0), (0, 0xc000)] {
        all.path(port(lid), 0);
        let [request] = sent(&mut all).try_into().unwrap();
        all.receive(&answer(request, status, lid), 0);
        assert_eq!(all.path(port(lid), 0), Lookup::Failed(Drop::NoPath));
    }
    // Busy is no answer: the request is sent again.
    all.path(port(1), 0);
    let [request] = sent(&mut all).try_into().unwrap();
    all.receive(&answer(request, 1, 0), 0);
    all.tick(PAUSE);
    assert_eq!(sent(&mut all), [request]);
    all.receive(&answer(request, 0, 9), PAUSE);
    assert!(matches!(all.path(port(1), PAUSE), Lookup::Known(_)));
}

#[test]
fn a_path_is_asked_for_again_when_its_port_sends_from_another_lid() {
    let mut all = joined();
    all.path(port(1), 0);
    answer_all(&mut all, 0xc000, 0);
    let Lookup::Known(path) = all.path(port(1), 0) else {
        panic!("no path");
    };
    all.hear(port(1), path.lid, PAUSE);
    all.hear(port(2), 77, PAUSE);
    assert!(sent(&mut all).is_empty());
    all.hear(port(1), path.lid + 1, PAUSE);
    all.hear(port(1), path.lid + 2, PAUSE);
    assert_eq!(all.path(port(1), PAUSE), Lookup::Waits);
    assert_eq!(sent(&mut all).len(), 1);
}

#[test]
fn groups_have_the_properties_of_the_broadcast_group() {
    let mut all = joined();
    all.set_members(&HashSet::from([BROADCAST, group(1)]), 0);
    assert_eq!(all.group(group(2), 0), Lookup::Waits);
    let mut requests = sent(&mut all);
    requests.sort();
    let read: Vec<_> = requests.iter().map(read).collect();
    assert!(read.contains(&(SET, 0x38, group(1), FULL)), "{read:?}");
    assert!(read.contains(&(SET, 0x38, group(2), SEND_ONLY)), "{read:?}");
    for datagram in &requests {
        assert_eq!(datagram[56 + 32..56 + 36], 0x0b1b_u32.to_be_bytes());
        // Exactly its MTU and rate; its service level.
        assert_eq!((datagram[56 + 38], datagram[56 + 42]), (0x84, 0x83));
        assert_eq!(datagram[56 + 44], 0x30);
    }
}

#[test]
fn a_group_that_gets_packets_is_left_when_they_end_and_one_that_programs_join_is_received() {
    let mut all = joined();
    assert_eq!(all.group(group(1), 0), Lookup::Waits);
    all.hold(packet(group(1), 3));
    answer_all(&mut all, 0xc001, 0);
    let waited = VecDeque::from([packet(group(1), 3)]);
    assert_eq!(all.take_events(), [Event::Ready(waited)]);
    // It becomes a full member, and stays one without packets.
    let wanted = HashSet::from([group(1)]);
    all.set_members(&wanted, 1);
    let requests = sent(&mut all);
    let read_all: Vec<_> = requests.iter().map(read).collect();
    let wanted_requests = [
        (SET, 0x38, group(1), FULL),
        (DELETE, 0x38, group(1), SEND_ONLY),
    ];
    assert_eq!(read_all, wanted_requests);
    for request in requests {
        all.receive(&answer(request, 0, 0xc001), 1);
    }
    assert_eq!(all.take_events(), [Event::Joined(group(1), 0xc001)]);
    all.tick(2 * UNUSED);
    assert!(matches!(all.group(group(1), 2 * UNUSED), Lookup::Known(_)));
    all.set_members(&HashSet::new(), 2 * UNUSED);
    assert_eq!(all.take_events(), [Event::Left(group(1))]);
    answer_all(&mut all, 0xc001, 2 * UNUSED);
    // Joined to send only, it is left when it is not used.
    assert_eq!(all.group(group(1), 2 * UNUSED), Lookup::Waits);
    answer_all(&mut all, 0xc001, 2 * UNUSED);
    all.tick(3 * UNUSED);
    let [request] = sent(&mut all).try_into().unwrap();
    assert_eq!(read(&request), (DELETE, 0x38, group(1), SEND_ONLY));
    assert!(all.groups.len() == 1 && all.take_events().is_empty());
}

#[test]
fn a_refused_group_is_reported_once_and_requested_with_growing_pauses() {
    let mut all = joined();
    all.set_members(&HashSet::from([group(1)]), 0);
    let mut now = 0;
    for pause in [1, 2, 4, 8, 16, 16] {
        let [request] = sent(&mut all).try_into().unwrap();
        all.receive(&answer(request, NOT_FOUND, 0), now);
        let is_first = now == 0;
        let refused = Event::Refused(group(1), Refusal::Status(NOT_FOUND));
        let events = all.take_events();
        assert_eq!(events, Vec::from_iter(is_first.then_some(refused)));
        assert_eq!(all.group(group(1), now), Lookup::Failed(Drop::NoGroup));
        all.tick(now + pause * PAUSE - 1);
        assert!(sent(&mut all).is_empty() && all.is_waiting());
        now += pause * PAUSE;
        all.tick(now);
    }
    answer_all(&mut all, 0xc001, now);
    assert_eq!(all.take_events(), [Event::Joined(group(1), 0xc001)]);
}

#[test]
fn known_groups_and_paths_stay_in_use_while_they_are_renewed() {
    let mut all = joined();
    all.path(port(1), 0);
    answer_all(&mut all, 0xc000, 0);
    all.renew(0);
    assert_eq!(read(&all.outgoing[0]).2, BROADCAST);
    for number in 0..=u64::from(REQUESTS) {
        all.tick(number * PAUSE);
    }
    // Without an answer, too.
    let now = u64::from(REQUESTS) * PAUSE;
    assert!(matches!(all.path(port(1), now), Lookup::Known(_)));
    assert!(matches!(all.group(BROADCAST, now), Lookup::Known(_)));
    assert!(all.is_waiting());
    sent(&mut all);
    all.tick(now + PAUSE);
    answer_all(&mut all, 0xc005, now + PAUSE);
    let events = all.take_events();
    assert!(
        events.contains(&Event::Joined(BROADCAST, 0xc005)),
        "{events:?}"
    );
}

#[test]
fn another_queue_key_of_the_broadcast_group_is_reported_and_another_lid_is_not() {
    let mut all = joined();
    for (lid, queue_key) in [(0xc003, 0x0b1b), (0xc003, 7_u32), (0xc003, 7)] {
        let before = all.properties().unwrap();
        all.renew(0);
        let [request] = sent(&mut all).try_into().unwrap();
        let mut bytes = answer(request, 0, lid);
        bytes[56 + 32..56 + 36].copy_from_slice(&queue_key.to_be_bytes());
        all.receive(&bytes, 0);
        let mut wanted = vec![Event::Joined(BROADCAST, lid)];
        if queue_key != before.queue_key {
            let mut changed = before;
            (changed.lid, changed.queue_key) = (lid, queue_key);
            wanted.push(Event::Changed(changed));
        }
        assert_eq!(all.take_events(), wanted);
    }
}

/// Takes the requests, of which the first is answered as that of a broadcast group with this queue
/// key.
fn answer_broadcast(all: &mut Administration, queue_key: u32) {
    let requests = sent(all);
    assert_eq!(read(&requests[0]).2, BROADCAST);
    assert_eq!(requests.len(), 1);
    let mut bytes = answer(requests[0], 0, 0xc000);
    bytes[56 + 32..56 + 36].copy_from_slice(&queue_key.to_be_bytes());
    all.receive(&bytes, 0);
}

#[test]
fn other_groups_are_renewed_with_the_new_properties_of_the_broadcast_group() {
    let mut all = joined();
    all.set_members(&HashSet::from([group(1)]), 0);
    answer_all(&mut all, 0xc001, 0);
    for queue_key in [7_u32, 7, 8] {
        all.renew(0);
        answer_broadcast(&mut all, queue_key);
        let [request] = sent(&mut all).try_into().unwrap();
        assert_eq!(read(&request), (SET, 0x38, group(1), FULL));
        assert_eq!(request[56 + 32..56 + 36], queue_key.to_be_bytes());
        all.receive(&answer(request, 0, 0xc001), 0);
    }
    // Without another subnet manager, too.
    all.join(BROADCAST, Role::Full, 0);
    answer_broadcast(&mut all, 9);
    assert_eq!(sent(&mut all).len(), 1);
}

#[test]
fn a_leave_is_not_repeated_after_the_group_is_joined_again() {
    let mut all = joined();
    let wanted = HashSet::from([group(1)]);
    all.set_members(&wanted, 0);
    answer_all(&mut all, 0xc001, 0);
    all.set_members(&HashSet::new(), 0);
    all.set_members(&wanted, 0);
    let methods: Vec<u8> = sent(&mut all).iter().map(|one| read(one).0).collect();
    assert_eq!(methods, [DELETE, SET]);
    all.tick(PAUSE);
    let [request] = sent(&mut all).try_into().unwrap();
    assert_eq!(read(&request).0, SET);
}

#[test]
fn a_join_without_an_answer_is_left_and_a_refused_one_is_not() {
    for is_refused in [false, true] {
        let mut all = joined();
        all.set_members(&HashSet::from([group(1)]), 0);
        let [request] = sent(&mut all).try_into().unwrap();
        match is_refused {
            true => all.receive(&answer(request, NOT_FOUND, 0), 0),
            false => (1..=u64::from(REQUESTS)).for_each(|number| all.tick(number * PAUSE)),
        }
        assert_eq!(all.group(group(1), 0), Lookup::Failed(Drop::NoGroup));
        sent(&mut all);
        all.set_members(&HashSet::new(), 0);
        let methods: Vec<u8> = sent(&mut all).iter().map(|one| read(one).0).collect();
        assert_eq!(methods, Vec::from_iter((!is_refused).then_some(DELETE)));
    }
}

#[test]
fn a_known_group_that_is_refused_is_not_received_any_more() {
    let mut all = joined();
    all.set_members(&HashSet::from([group(1)]), 0);
    answer_all(&mut all, 0xc001, 0);
    all.take_events();
    all.join(group(1), Role::Full, 0);
    let [request] = sent(&mut all).try_into().unwrap();
    all.receive(&answer(request, NOT_FOUND, 0), 0);
    let refused = Event::Refused(group(1), Refusal::Status(NOT_FOUND));
    assert_eq!(all.take_events(), [refused, Event::Left(group(1))]);
}

#[test]
fn another_lid_soon_after_an_answer_is_asked_for_after_a_pause() {
    let mut all = joined();
    all.path(port(1), 0);
    answer_all(&mut all, 0xc000, 0);
    all.hear(port(1), 77, 1);
    assert!(sent(&mut all).is_empty() && all.is_waiting());
    all.tick(PAUSE);
    assert_eq!(sent(&mut all).len(), 1);
}

#[test]
fn groups_of_programs_replace_those_that_are_only_sent_to() {
    let mut all = joined();
    for number in 0..MOST as u16 - 1 {
        all.group(group(number), 0);
        if number % 2 == 0 {
            answer_all(&mut all, 0xc001, 0);
        }
    }
    assert_eq!(all.groups.len(), MOST);
    let wanted: HashSet<Gid> = (2000..2000 + MOST as u16 - 1).map(group).collect();
    all.set_members(&wanted, 1);
    assert_eq!(all.groups.len(), MOST);
    assert!(wanted.iter().all(|gid| all.groups[gid].role == Role::Full));
}

#[test]
fn groups_paths_and_waiting_packets_are_bounded() {
    let mut all = joined();
    for number in 0..3 * MOST as u16 {
        let now = u64::from(number);
        all.group(group(number), now);
        all.path(port(number), now);
        all.hold(unicast(port(number), 60_000));
        if number % 2 == 0 {
            answer_all(&mut all, 0xc001, now);
        }
        all.take_events();
    }
    assert!(all.groups.len() <= MOST && all.paths.len() <= MOST);
    assert!(all.requests.len() <= MOST_REQUESTS);
    assert!(matches!(all.group(BROADCAST, 0), Lookup::Known(_)));
    all.path(port(1), 1 << 40);
    while all.hold(unicast(port(1), 60_000)) == Sent::Waits {
        assert!(all.waiting_bytes <= MOST_WAITING_BYTES);
    }
    assert!(all.waiting > 0);
}

#[derive(Debug, Clone)]
enum Step {
    Send(u16),
    Path(u16),
    Members(Vec<u16>),
    Answer(bool),
    Lose,
    Tick(u64),
    Renew,
    Hear(u16, u16),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0u16..4).prop_map(Step::Send),
        4 => (0u16..4).prop_map(Step::Path),
        1 => prop::collection::vec(0u16..4, 0..4).prop_map(Step::Members),
        3 => any::<bool>().prop_map(Step::Answer),
        1 => Just(Step::Lose),
        2 => (0u64..20_000).prop_map(Step::Tick),
        1 => Just(Step::Renew),
        1 => (0u16..4, 1u16..4).prop_map(|(port, lid)| Step::Hear(port, lid)),
    ];
    prop::collection::vec(step, 0..300)
}

proptest! {
    /// Each packet that waits comes back once, ready or failed.
    #[test]
    fn every_packet_is_accounted_for(steps in steps()) {
        let mut all = joined();
        let (mut now, mut held, mut back) = (0, 0, 0);
        for step in steps {
            match step {
                Step::Send(number) => {
                    if all.group(group(number), now) == Lookup::Waits {
                        held += usize::from(all.hold(packet(group(number), 1)) == Sent::Waits);
                    }
                }
                Step::Path(number) => {
                    if all.path(port(number), now) == Lookup::Waits {
                        held += usize::from(all.hold(unicast(port(number), 9)) == Sent::Waits);
                    }
                }
                Step::Members(numbers) => {
                    let wanted = numbers.into_iter().map(group).collect();
                    all.set_members(&wanted, now);
                }
                Step::Answer(true) => answer_all(&mut all, 0xc001, now),
                Step::Answer(false) => {
                    for datagram in sent(&mut all) {
                        all.receive(&answer(datagram, NOT_FOUND, 0), now);
                    }
                }
                Step::Lose => _ = sent(&mut all),
                Step::Tick(time) => {
                    now += time;
                    all.tick(now);
                }
                Step::Renew => all.renew(now),
                Step::Hear(number, lid) => all.hear(port(number), lid, now),
            }
            for event in all.take_events() {
                if let Event::Ready(waiting) | Event::Failed(waiting, _) = event {
                    back += waiting.len();
                }
            }
            prop_assert_eq!(held, back + all.waiting);
        }
        all.end();
        for event in all.take_events() {
            if let Event::Failed(waiting, _) = event {
                back += waiting.len();
            }
        }
        prop_assert_eq!((held, all.waiting, all.waiting_bytes), (back, 0, 0));
    }
}
