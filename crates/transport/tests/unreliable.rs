//! UC and UD: complete messages are executed in order; incomplete ones consume no receive.

mod support;

use proptest::prelude::*;
use support::adapter::{Adapter, BASE, KEY, Posted};
use support::network::{Manners, Network, To};
use support::random::Random;
use verbena_transport::completion::{Received, Status, Tail};
use verbena_transport::fault::{Class, Fault};
use verbena_transport::request::{
    Addressee, Fence, Operation as Work, Remote, SendRequest, SendTail,
};
use verbena_transport::unreliable::{
    Configuration, ConnectedConfiguration, ConnectedResponder, DatagramConfiguration,
    DatagramResponder, PostError, ReceiveQueue, Requester, Service,
};
use verbena_transport::{Disposition, Dropped, Instant};
use verbena_wire::immediate::Immediate;
use verbena_wire::packet::Packet;
use verbena_wire::{Mtu, PKey, Psn, QKey, Qpn};

fn requester(service: Service, mtu: Mtu) -> Requester {
    Requester::new(Configuration {
        service,
        partition_key: PKey::DEFAULT,
        mtu,
        initial_psn: Psn::new(0x00ff_fff0),
    })
}

fn connected(mtu: Mtu, receive_queue: ReceiveQueue) -> ConnectedResponder {
    ConnectedResponder::new(ConnectedConfiguration {
        partition_key: PKey::DEFAULT,
        mtu,
        initial_psn: Psn::new(0x00ff_fff0),
        receive_queue,
    })
}

fn request(operation: Work, length: u32) -> SendRequest {
    SendRequest {
        operation,
        length,
        addressee: Addressee::Connected,
        solicited: false,
    }
}

fn post(adapter: &mut Adapter, requester: &Requester, id: u64, request: SendRequest) {
    let fence = Fence::Off;
    let posted = Posted { id, request, fence };
    adapter.post_unreliable(requester, posted).unwrap();
}

/// Returns the packets of SENDs with these lengths, each filled with its number.
fn sends(mtu: Mtu, lengths: &[u32]) -> Vec<Vec<Vec<u8>>> {
    let mut requester = requester(Service::Connected(Qpn::new(1)), mtu);
    let mut adapter = Adapter::new(0);
    let mut messages = Vec::new();
    for (id, length) in (0u64..).zip(lengths) {
        adapter
            .buffers
            .insert(id, vec![id as u8 + 1; *length as usize]);
        let send = request(Work::Send(SendTail::Nothing), *length);
        post(&mut adapter, &requester, id, send);
        let mut packets = Vec::new();
        let mut buffer = [0; 4200];
        while let Some(length) = requester.poll_transmit(&mut adapter, &mut buffer).unwrap() {
            packets.push(buffer[..length].to_vec());
        }
        messages.push(packets);
    }
    assert!(
        adapter
            .sent
            .iter()
            .all(|completion| completion.status == Status::Success)
    );
    assert_eq!(adapter.sent.len(), lengths.len());
    messages
}

fn give(responder: &mut ConnectedResponder, adapter: &mut Adapter, bytes: &[u8]) -> Disposition {
    responder.handle(&Packet::parse(bytes).unwrap(), adapter)
}

#[test]
fn a_message_without_a_receive_does_not_affect_the_next() {
    let messages = sends(Mtu::B1024, &[2500, 8, 2500]);
    let mut responder = connected(Mtu::B1024, ReceiveQueue::Own);
    let mut adapter = Adapter::new(0);
    for packet in &messages[0] {
        let disposition = give(&mut responder, &mut adapter, packet);
        assert!(matches!(disposition, Disposition::Refused(told) if told.class == Class::D));
    }
    adapter.post_receive(0, 8);
    adapter.post_receive(1, 4096);
    for packet in messages[1].iter().chain(&messages[2]) {
        assert_eq!(
            give(&mut responder, &mut adapter, packet),
            Disposition::Accepted
        );
    }
    let lengths: Vec<_> = adapter
        .received
        .iter()
        .map(|done| (done.id.0, done.length))
        .collect();
    assert_eq!(lengths, [(0, 8), (1, 2500)]);
    assert_eq!(adapter.receive_buffers[&1][..2500], [3; 2500]);
}

#[test]
fn an_oversized_message_leaves_its_receive_to_the_next() {
    let messages = sends(Mtu::B1024, &[65, 64]);
    let mut responder = connected(Mtu::B1024, ReceiveQueue::Own);
    let mut adapter = Adapter::new(0);
    adapter.post_receive(0, 64);
    let disposition = give(&mut responder, &mut adapter, &messages[0][0]);
    assert!(matches!(
        disposition,
        Disposition::Refused(told) if told.fault == Fault::ReceiveTooSmall && told.class == Class::D
    ));
    assert!(adapter.received.is_empty());
    assert_eq!(
        give(&mut responder, &mut adapter, &messages[1][0]),
        Disposition::Accepted
    );
    assert_eq!(
        (adapter.received[0].id.0, adapter.received[0].length),
        (0, 64)
    );
}

#[test]
fn an_oversized_message_consumes_a_shared_receive() {
    let messages = sends(Mtu::B1024, &[65, 64]);
    let mut responder = connected(Mtu::B1024, ReceiveQueue::Shared);
    let mut adapter = Adapter::new(0);
    adapter.post_receive(0, 64);
    adapter.post_receive(1, 64);
    let _ = give(&mut responder, &mut adapter, &messages[0][0]);
    let _ = give(&mut responder, &mut adapter, &messages[1][0]);
    let ended: Vec<_> = adapter
        .received
        .iter()
        .map(|done| (done.id.0, done.status))
        .collect();
    assert_eq!(ended, [(0, Status::LocalLength), (1, Status::Success)]);
}

/// For each single lost packet, the other messages arrive, with receives in order.
#[test]
fn a_lost_packet_loses_only_its_message() {
    let lengths = [2500, 10, 3000, 0, 2048];
    let messages = sends(Mtu::B1024, &lengths);
    for (lost_message, message) in messages.iter().enumerate() {
        for lost in 0..message.len() {
            let mut responder = connected(Mtu::B1024, ReceiveQueue::Own);
            let mut adapter = Adapter::new(0);
            (0..5).for_each(|id| adapter.post_receive(id, 4096));
            for (number, message) in messages.iter().enumerate() {
                for (at, packet) in message.iter().enumerate() {
                    if (number, at) != (lost_message, lost) {
                        let _ = give(&mut responder, &mut adapter, packet);
                    }
                }
            }
            let arrived: Vec<_> = adapter.received.iter().map(|done| done.length).collect();
            let mut expected = lengths.to_vec();
            expected.remove(lost_message);
            assert_eq!(arrived, expected, "packet {lost} of message {lost_message}");
            let receives: Vec<_> = adapter.received.iter().map(|done| done.id.0).collect();
            assert_eq!(receives, [0, 1, 2, 3]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Completed messages have the bytes that were sent, in the order of sending; so does written
    /// memory.
    #[test]
    fn received_messages_equal_sent_ones(
        seed: u64, loss in 0u64..200, count in 1usize..60,
        longest in prop_oneof![Just(100u64), Just(6000)]) {
        let mut random = Random(seed);
        let mut requester = requester(Service::Connected(Qpn::new(1)), Mtu::B1024);
        let mut responder = connected(Mtu::B1024, ReceiveQueue::Own);
        let (mut here, mut there) = (Adapter::new(0), Adapter::new(1 << 19));
        let mut network = Network::new(seed, Manners { loss, ..Manners::default() });
        let mut sent = Vec::new();
        for id in 0..count as u64 {
            let length = random.below(longest) as usize;
            let bytes = random.bytes(length);
            let immediate = Immediate((id as u32).to_be_bytes());
            let address = BASE + id * 8192;
            let remote = Remote { address, key: KEY };
            let operation = match random.below(3) {
                0 => Work::Send(SendTail::Immediate(immediate)),
                1 => Work::Write { remote, immediate: Some(immediate) },
                _ => Work::Write { remote, immediate: None },
            };
            here.buffers.insert(id, bytes.clone());
            post(&mut here, &requester, id, request(operation, length as u32));
            sent.push((operation, bytes));
            there.post_receive(id, 6000);
        }
        let mut buffer = [0; 4200];
        let mut now = Instant(0);
        while let Some(length) = requester.poll_transmit(&mut here, &mut buffer).unwrap() {
            network.send(now, To::Responder, &buffer[..length]);
        }
        prop_assert_eq!(here.sent.len(), count);
        while let Some(at) = network.next_arrival() {
            now = at;
            while let Some((_, bytes)) = network.receive(now) {
                let _ = responder.handle(&Packet::parse(&bytes).unwrap(), &mut there);
            }
        }
        let mut previous = None;
        for (receive, done) in (0u64..).zip(&there.received) {
            prop_assert_eq!(done.status, Status::Success);
            prop_assert_eq!(done.id.0, receive, "no receive is lost");
            let Tail::Immediate(Immediate(number)) = done.tail else { panic!("{done:?}") };
            let number = u32::from_be_bytes(number);
            prop_assert!(Some(number) > previous, "in order");
            previous = Some(number);
            let (operation, bytes) = &sent[number as usize];
            prop_assert_eq!(done.length as usize, bytes.len());
            match operation {
                Work::Send(_) => {
                    prop_assert!(there.receive_buffers[&receive][..bytes.len()] == bytes[..]);
                }
                _ => {
                    let start = number as usize * 8192;
                    prop_assert!(there.memory[start..start + bytes.len()] == bytes[..]);
                }
            }
        }
        if loss == 0 {
            let expected = sent
                .iter()
                .filter(|(operation, _)| !matches!(operation, Work::Write { immediate: None, .. }))
                .count();
            prop_assert_eq!(there.received.len(), expected);
        }
    }
}

const QKEY: QKey = QKey(0x1234);

fn datagram(queue_key: QKey, length: u32) -> Vec<u8> {
    let mut requester = requester(Service::Datagram(Qpn::new(0x55)), Mtu::B1024);
    let mut adapter = Adapter::new(0);
    adapter.buffers.insert(0, vec![7; length as usize]);
    let addressee = Addressee::Datagram {
        queue_pair: Qpn::new(1),
        queue_key,
    };
    let send = request(Work::Send(SendTail::Nothing), length);
    post(
        &mut adapter,
        &requester,
        0,
        SendRequest { addressee, ..send },
    );
    let mut buffer = [0; 4200];
    let length = requester
        .poll_transmit(&mut adapter, &mut buffer)
        .unwrap()
        .unwrap();
    buffer[..length].to_vec()
}

#[test]
fn datagrams_arrive_behind_the_grh_or_not_at_all() {
    let mut responder = DatagramResponder::new(DatagramConfiguration {
        partition_key: PKey::DEFAULT,
        queue_key: QKEY,
        mtu: Mtu::B1024,
    });
    let mut adapter = Adapter::new(0);
    let route = [0xee; 40];
    let mut give = |adapter: &mut Adapter, bytes: &[u8]| {
        responder.handle(&Packet::parse(bytes).unwrap(), &route, adapter)
    };
    let small = datagram(QKEY, 8);
    let refused = give(&mut adapter, &small);
    assert!(matches!(refused, Disposition::Refused(told) if told.class == Class::D));
    adapter.post_receive(0, 48);
    adapter.post_receive(1, 2000);
    let wrong = datagram(QKey(1), 8);
    assert_eq!(
        give(&mut adapter, &wrong),
        Disposition::Dropped(Dropped::QueueKey)
    );
    let large = datagram(QKEY, 9);
    let refused = give(&mut adapter, &large);
    assert!(matches!(refused, Disposition::Refused(told) if told.fault == Fault::ReceiveTooSmall));
    assert!(
        adapter.received.is_empty(),
        "a datagram that does not fit takes no receive"
    );
    assert_eq!(give(&mut adapter, &small), Disposition::Accepted);
    assert_eq!(
        give(&mut adapter, &datagram(QKEY, 1024)),
        Disposition::Accepted
    );
    let received = &adapter.received;
    assert_eq!((received[0].id.0, received[0].length), (0, 48));
    assert_eq!(
        received[0].received,
        Received::Datagram {
            source: Qpn::new(0x55)
        }
    );
    assert_eq!((received[1].id.0, received[1].length), (1, 1064));
    assert_eq!(
        adapter.receive_buffers[&0],
        [&[0xee; 40][..], &[7; 8]].concat()
    );
}

#[test]
fn operations_foreign_to_the_service_are_refused() {
    let requester = requester(Service::Connected(Qpn::new(1)), Mtu::B1024);
    let remote = Remote {
        address: BASE,
        key: KEY,
    };
    let read = request(Work::Read { remote }, 8);
    assert_eq!(requester.check(&read), Err(PostError::Operation));
    let invalidate = request(Work::Send(SendTail::Invalidate(KEY)), 8);
    assert_eq!(requester.check(&invalidate), Err(PostError::Operation));
    let addressee = Addressee::Datagram {
        queue_pair: Qpn::new(1),
        queue_key: QKEY,
    };
    let elsewhere = SendRequest {
        addressee,
        ..request(Work::Send(SendTail::Nothing), 8)
    };
    assert_eq!(requester.check(&elsewhere), Err(PostError::Addressee));
    let requester = self::requester(Service::Datagram(Qpn::new(1)), Mtu::B1024);
    let write = Work::Write {
        remote,
        immediate: None,
    };
    let write = SendRequest {
        addressee,
        ..request(write, 8)
    };
    assert_eq!(requester.check(&write), Err(PostError::Operation));
    let long = SendRequest {
        addressee,
        ..request(Work::Send(SendTail::Nothing), 1025)
    };
    assert_eq!(
        requester.check(&long),
        Err(PostError::Length {
            found: 1025,
            most: 1024
        })
    );
}

/// The send queue error state: the failed request has its status, the others are flushed, and the
/// queue pair can be repaired.
#[test]
fn a_local_fault_enters_the_send_queue_error_state() {
    let mut requester = requester(Service::Connected(Qpn::new(1)), Mtu::B1024);
    let mut adapter = Adapter::new(0);
    let mut buffer = [0; 4200];
    for id in 0..3 {
        adapter.buffers.insert(id, vec![0; 8]);
        let send = request(Work::Send(SendTail::Nothing), 8);
        post(&mut adapter, &requester, id, send);
    }
    adapter.protected.insert(1);
    while requester
        .poll_transmit(&mut adapter, &mut buffer)
        .unwrap()
        .is_some()
    {}
    let statuses: Vec<_> = adapter
        .sent
        .iter()
        .map(|completion| completion.status)
        .collect();
    assert_eq!(
        statuses,
        [Status::Success, Status::LocalProtection, Status::Flushed]
    );
    assert!(requester.has_failed());
    requester.resume();
    let send = request(Work::Send(SendTail::Nothing), 8);
    post(&mut adapter, &requester, 2, send);
    assert!(
        requester
            .poll_transmit(&mut adapter, &mut buffer)
            .unwrap()
            .is_some()
    );
}
