//! Loss detection and retransmission: explicit and implied NAKs, timeouts, receivers that are not
//! ready (specification 9.7.5, 9.7.6), and invalid responses.

mod support;

use support::adapter::{Adapter, BASE, KEY, Posted};
use support::packets::answers;
use support::{requester, responder};
use verbena_transport::completion::Status;
use verbena_transport::reliable::{Reliable, Requester, Responder};
use verbena_transport::request::{
    Addressee, Fence, Operation as Work, Remote, SendRequest, SendTail,
};
use verbena_transport::retry::{RetryCount, RnrRetry};
use verbena_transport::{Disposition, Dropped, Instant};
use verbena_wire::aeth::{Aeth, Syndrome};
use verbena_wire::bth::Bth;
use verbena_wire::opcode::{Opcode, Operation, Service};
use verbena_wire::packet::{Extensions, Headers, Packet};
use verbena_wire::{AckTimeout, Mtu, Psn, Qpn};

const NOW: Instant = Instant(1_000);
const PSN: Psn = Psn::new(0x00ff_ffff);

struct Pair {
    /// Arrival time of answers.
    now: Instant,
    requester: Requester,
    here: Adapter,
    responder: Responder,
    there: Adapter,
}

fn pair(retries: u8, rnr: u8) -> Pair {
    let mut ours = requester(Reliable::Rc, Mtu::B1024, PSN);
    ours.retry_count = RetryCount::new(retries).unwrap();
    ours.rnr_retry = RnrRetry::new(rnr).unwrap();
    let mut here = Adapter::requesting(Mtu::B1024, PSN);
    for id in 0..8 {
        here.buffers.insert(id, vec![id as u8; 16384]);
    }
    Pair {
        now: NOW,
        requester: Requester::new(ours),
        here,
        responder: Responder::new(responder(Reliable::Rc, Mtu::B1024, PSN)),
        there: Adapter::new(8192),
    }
}

impl Pair {
    fn post(&mut self, id: u64, operation: Work, length: u32) {
        let request = SendRequest {
            operation,
            length,
            addressee: Addressee::Connected,
            solicited: false,
        };
        let fence = Fence::Off;
        let posted = Posted { id, request, fence };
        self.here.post(&self.requester, posted).unwrap();
    }

    fn write(&mut self, id: u64, length: u32) {
        let remote = Remote {
            address: BASE,
            key: KEY,
        };
        self.post(
            id,
            Work::Write {
                remote,
                immediate: None,
            },
            length,
        );
    }

    fn read(&mut self, id: u64, length: u32) {
        let remote = Remote {
            address: BASE,
            key: KEY,
        };
        self.post(id, Work::Read { remote }, length);
    }

    /// Returns the packets that the requester sends at this time.
    fn sends(&mut self, now: Instant) -> Vec<Vec<u8>> {
        let mut buffer = [0; 1200];
        let mut made = Vec::new();
        while let Some(length) = self
            .requester
            .poll_transmit(now, &mut self.here, &mut buffer)
            .unwrap()
        {
            made.push(buffer[..length].to_vec());
        }
        made
    }

    /// Delivers packets to the responder and returns its answers.
    fn answered(&mut self, packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
        for bytes in packets {
            let _ = self
                .responder
                .handle(&Packet::parse(bytes).unwrap(), &mut self.there);
            while let Some(early) = self.responder.next_early(&mut self.there) {
                let _ = self.responder.handle(&early.packet(), &mut self.there);
            }
        }
        answers(&mut self.responder, &mut self.there)
    }

    fn hears(&mut self, bytes: &[u8]) -> Disposition {
        self.requester
            .handle(&Packet::parse(bytes).unwrap(), self.now, &mut self.here)
    }

    fn hears_word(&mut self, bits: u8, packets: u32) -> Disposition {
        let opcode = Opcode::new(Service::Rc, Operation::Acknowledge).unwrap();
        let bth = Bth::new(opcode, Qpn::new(0x11), PSN.plus(packets));
        let aeth = Some(Aeth {
            syndrome: Syndrome::from_bits(bits).unwrap(),
            msn: 0,
        });
        let headers = Headers {
            bth,
            extensions: Extensions {
                aeth,
                ..Extensions::NONE
            },
        };
        let packet = Packet {
            headers,
            payload: &[],
        };
        self.requester.handle(&packet, self.now, &mut self.here)
    }

    fn statuses(&self) -> Vec<Status> {
        self.here
            .sent
            .iter()
            .map(|completion| completion.status)
            .collect()
    }
}

const ACK: u8 = 0x1f;
const SEQUENCE_ERROR: u8 = 0x60;
const NOT_READY: u8 = 0x21;

fn numbers(packets: &[Vec<u8>]) -> Vec<i32> {
    packets
        .iter()
        .map(|bytes| Packet::parse(bytes).unwrap().headers.bth.psn.since(PSN))
        .collect()
}

#[test]
fn a_nak_retransmits_the_missing_packets() {
    let mut pair = pair(7, 7);
    for id in 0..4 {
        pair.write(id, 1500);
    }
    assert_eq!(numbers(&pair.sends(NOW)), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(pair.hears_word(SEQUENCE_ERROR, 3), Disposition::Retry);
    assert_eq!(
        pair.statuses(),
        [Status::Success],
        "earlier packets are acknowledged"
    );
    assert_eq!(
        numbers(&pair.sends(NOW)),
        [3],
        "at once, without a timeout, and no more than that"
    );
    pair.write(4, 8);
    assert_eq!(numbers(&pair.sends(NOW)), [8], "new packets do not wait");
    assert_eq!(pair.hears_word(ACK, 7), Disposition::Accepted);
    assert_eq!(pair.statuses(), [Status::Success; 4]);
    assert!(pair.sends(NOW).is_empty(), "the peer has kept the rest");
    assert_eq!(pair.hears_word(ACK, 8), Disposition::Accepted);
    assert_eq!(pair.requester.next_timeout(), None);
}

/// The acknowledgement of the retransmitted packet shows the next missing one, with or without a
/// NAK.
#[test]
fn further_missing_packets_are_retransmitted_at_once() {
    let mut pair = pair(7, 7);
    pair.write(0, 4096);
    pair.write(1, 4096);
    assert_eq!(pair.sends(NOW).len(), 8);
    assert_eq!(pair.hears_word(SEQUENCE_ERROR, 1), Disposition::Retry);
    assert_eq!(numbers(&pair.sends(NOW)), [1]);
    assert_eq!(pair.hears_word(SEQUENCE_ERROR, 3), Disposition::Retry);
    assert_eq!(numbers(&pair.sends(NOW)), [3]);
    assert_eq!(
        pair.hears_word(ACK, 5),
        Disposition::Accepted,
        "a NAK was lost"
    );
    assert_eq!(numbers(&pair.sends(NOW)), [6]);
    assert_eq!(pair.hears_word(ACK, 7), Disposition::Accepted);
    assert_eq!(pair.statuses(), [Status::Success; 2]);
}

/// The peer reports one missing packet, then acknowledges it and nothing behind it: all of that is
/// retransmitted.
fn drops_behind(pair: &mut Pair, missing: u32, end: i32) {
    assert_eq!(pair.hears_word(SEQUENCE_ERROR, missing), Disposition::Retry);
    assert_eq!(numbers(&pair.sends(NOW)), [missing as i32]);
    assert_eq!(pair.hears_word(ACK, missing), Disposition::Accepted);
    let rest: Vec<i32> = (missing as i32 + 1..end).collect();
    assert_eq!(numbers(&pair.sends(NOW)), rest, "so they are removed");
    assert_eq!(
        pair.hears_word(SEQUENCE_ERROR, missing + 1),
        Disposition::Duplicate,
        "known already"
    );
}

/// Like rxe and most adapters: the first two losses show it, and from the third on no time is lost.
#[test]
fn go_back_n_is_used_for_peers_that_drop_early_packets() {
    let mut pair = pair(7, 7);
    for id in 0..8 {
        pair.write(id, 4096);
    }
    assert_eq!(pair.sends(NOW).len(), 32);
    drops_behind(&mut pair, 2, 32);
    drops_behind(&mut pair, 5, 32);
    assert_eq!(pair.hears_word(SEQUENCE_ERROR, 9), Disposition::Retry);
    assert_eq!(numbers(&pair.sends(NOW)), (9..32).collect::<Vec<i32>>());
    assert_eq!(pair.hears_word(ACK, 31), Disposition::Accepted);
    assert_eq!(pair.statuses(), [Status::Success; 8]);
}

/// The loss of two adjacent packets and of the NAK for the second looks the same once.
#[test]
fn a_suspected_peer_may_keep_early_packets_after_all() {
    for told_by_nak in [true, false] {
        let mut pair = pair(7, 7);
        for id in 0..8 {
            pair.write(id, 4096);
        }
        assert_eq!(pair.sends(NOW).len(), 32);
        drops_behind(&mut pair, 2, 32);
        assert_eq!(pair.hears_word(SEQUENCE_ERROR, 6), Disposition::Retry);
        assert_eq!(numbers(&pair.sends(NOW)), [6]);
        match told_by_nak {
            true => assert_eq!(pair.hears_word(SEQUENCE_ERROR, 12), Disposition::Retry),
            false => assert_eq!(pair.hears_word(ACK, 11), Disposition::Accepted),
        }
        assert_eq!(numbers(&pair.sends(NOW)), [12], "it has kept 7 to 11");
        assert_eq!(pair.hears_word(ACK, 19), Disposition::Accepted);
        let _ = pair.sends(NOW);
        drops_behind(&mut pair, 22, 32);
        assert_eq!(pair.hears_word(SEQUENCE_ERROR, 26), Disposition::Retry);
        assert_eq!(
            numbers(&pair.sends(NOW)),
            [26],
            "that is one doubt, not two"
        );
    }
}

/// Returns a pair whose requester has packets 0 to `end` outstanding and has received NAKs for each
/// up to 15.
fn losing_often(end: i32) -> Pair {
    let mut pair = pair(7, 7);
    let length = end as u32 * 1024 / 8;
    for id in 0..8 {
        pair.write(id, length);
    }
    assert_eq!(pair.sends(NOW).len(), end as usize);
    for missing in 1..=15 {
        assert_eq!(pair.hears_word(SEQUENCE_ERROR, missing), Disposition::Retry);
        let again = numbers(&pair.sends(NOW));
        match missing {
            1 => assert_eq!(again, [1], "a loss is no habit"),
            15 => assert_eq!(again, [15, 15], "fifteen are"),
            _ => {}
        }
    }
    pair
}

/// The packet that fills a gap and the following NAK may be lost too: both are sent twice.
#[test]
fn frequent_losses_send_missing_packets_twice() {
    let mut pair = losing_often(32);
    assert_eq!(
        pair.hears_word(ACK, 19),
        Disposition::Accepted,
        "the word of 20 was lost, and a duplicate's is here"
    );
    assert_eq!(numbers(&pair.sends(NOW)), [20, 20]);
    assert_eq!(pair.hears_word(ACK, 31), Disposition::Accepted);
    assert_eq!(pair.statuses().len(), 8);
    assert!(pair.sends(NOW).is_empty());
}

/// A peer that drops packets behind a gap is recognized here too, after more losses.
#[test]
fn frequent_losses_delay_detection_of_go_back_n_peers() {
    let end = 96;
    let mut pair = losing_often(end);
    assert_eq!(pair.hears_word(ACK, 15), Disposition::Accepted);
    let rest = |first: i32| (first..end).collect::<Vec<i32>>();
    assert_eq!(numbers(&pair.sends(NOW)), rest(16), "one doubt");
    let mut missing = 18;
    for _ in 1..8 {
        assert_eq!(pair.hears_word(SEQUENCE_ERROR, missing), Disposition::Retry);
        let first = missing as i32;
        assert_eq!(numbers(&pair.sends(NOW)), [first, first], "not known yet");
        assert_eq!(pair.hears_word(ACK, missing), Disposition::Accepted);
        assert_eq!(numbers(&pair.sends(NOW)), rest(first + 1));
        missing += 3;
    }
    assert_eq!(pair.hears_word(SEQUENCE_ERROR, missing), Disposition::Retry);
    assert_eq!(numbers(&pair.sends(NOW)), rest(missing as i32));
}

/// No NAK reports the loss of the last packet, so it is retransmitted when its answer takes longer
/// than usual.
#[test]
fn a_late_answer_triggers_a_probe() {
    let mut pair = pair(7, 7);
    pair.write(0, 8);
    let _ = pair.sends(NOW);
    let program_patience = pair.requester.next_timeout().unwrap();
    assert_eq!(program_patience, NOW.plus(4096 << 10), "nothing is known");
    pair.now = NOW.plus(50_000);
    assert_eq!(pair.hears_word(ACK, 0), Disposition::Accepted);

    pair.write(1, 2032);
    assert_eq!(numbers(&pair.sends(pair.now)), [1, 2]);
    let mut now = pair.now;
    let (mut probes, mut pause) = (0, 250_000);
    let end = now.plus(4096 << 10);
    while pair.requester.next_timeout().unwrap() < end {
        let at = pair.requester.next_timeout().unwrap();
        assert_eq!(at, now.plus(pause), "twice as long each time");
        assert!(pair.sends(Instant(at.0 - 1)).is_empty());
        assert_eq!(numbers(&pair.sends(at)), [1]);
        (probes, pause, now) = (probes + 1, 2 * pause, at);
    }
    assert_eq!(probes, 4);
    // The first was only late, and so was the second.
    pair.now = now.plus(50_000);
    assert_eq!(pair.hears_word(ACK, 1), Disposition::Accepted);
    assert_eq!(numbers(&pair.sends(pair.now)), [2]);
    assert_eq!(pair.hears_word(ACK, 2), Disposition::Accepted);
    assert_eq!(pair.statuses(), [Status::Success; 2]);
    assert_eq!(pair.requester.next_timeout(), None);
}

/// Probing does not shorten the timeout: an unreachable peer gets the configured timeout for each
/// configured retry.
#[test]
fn a_probe_costs_no_retry() {
    let mut pair = pair(1, 7);
    pair.write(0, 8);
    let _ = pair.sends(NOW);
    pair.now = NOW.plus(10_000);
    assert_eq!(pair.hears_word(ACK, 0), Disposition::Accepted);
    let start = pair.now;
    pair.write(1, 8);
    let _ = pair.sends(start);
    while let Some(at) = pair.requester.next_timeout() {
        pair.now = at;
        let _ = pair.sends(at);
    }
    assert_eq!(pair.statuses(), [Status::Success, Status::RetryExceeded]);
    // The second wait is twice as long as the first.
    assert_eq!(pair.now, start.plus(3 * (4096 << 10)));
}

/// Acknowledgements of packets behind a read imply its loss: one loss, however often it is probed.
#[test]
fn probing_a_read_counts_no_new_loss() {
    let mut pair = pair(1, 7);
    pair.write(0, 8);
    let _ = pair.sends(NOW);
    pair.now = NOW.plus(10_000);
    assert_eq!(pair.hears_word(ACK, 0), Disposition::Accepted);
    pair.read(1, 8);
    for id in 2..6 {
        pair.write(id, 8);
    }
    let _ = pair.sends(pair.now);
    assert_eq!(pair.hears_word(ACK, 2), Disposition::Retry);
    let _ = pair.sends(pair.now);
    for packets in 3..6 {
        pair.now = pair.requester.next_timeout().unwrap();
        assert_eq!(numbers(&pair.sends(pair.now)), [1], "the read alone");
        assert_eq!(pair.hears_word(ACK, packets), Disposition::Duplicate);
    }
}

/// An acknowledgement that was in flight when the oldest packet was retransmitted does not indicate
/// a loss.
#[test]
fn a_late_answer_is_not_a_loss() {
    let mut pair = pair(7, 7);
    pair.write(0, 8);
    let _ = pair.sends(NOW);
    pair.now = NOW.plus(50_000);
    assert_eq!(pair.hears_word(ACK, 0), Disposition::Accepted);
    for id in 1..4 {
        pair.write(id, 8);
    }
    let _ = pair.sends(pair.now);
    let probe = pair.requester.next_timeout().unwrap();
    assert_eq!(numbers(&pair.sends(probe)), [1]);
    pair.now = probe.plus(49_999);
    assert_eq!(pair.hears_word(ACK, 1), Disposition::Accepted);
    assert!(pair.sends(pair.now).is_empty());
}

/// Repeated NAKs for one loss cost one retry.
#[test]
fn repeated_naks_for_one_loss_are_ignored() {
    let mut pair = pair(1, 7);
    pair.write(0, 4096);
    let _ = pair.sends(NOW);
    assert_eq!(pair.hears_word(SEQUENCE_ERROR, 1), Disposition::Retry);
    for _ in 0..10 {
        assert_eq!(pair.hears_word(SEQUENCE_ERROR, 1), Disposition::Duplicate);
    }
    assert_eq!(numbers(&pair.sends(NOW)), [1]);
    assert_eq!(pair.hears_word(SEQUENCE_ERROR, 2), Disposition::Retry);
    assert_eq!(numbers(&pair.sends(NOW)), [2]);
}

#[test]
fn a_nak_after_a_timeout_is_accepted() {
    let mut pair = pair(7, 7);
    pair.write(0, 4096);
    let _ = pair.sends(NOW);
    assert_eq!(pair.hears_word(SEQUENCE_ERROR, 0), Disposition::Retry);
    assert_eq!(pair.hears_word(SEQUENCE_ERROR, 0), Disposition::Duplicate);
    let _ = pair.sends(NOW);
    let at = pair.requester.next_timeout().unwrap();
    pair.requester.handle_timeout(at, &mut pair.here);
    assert_eq!(numbers(&pair.sends(at)), [0]);
    assert_eq!(pair.hears_word(SEQUENCE_ERROR, 0), Disposition::Retry);
}

#[test]
fn without_retries_the_first_loss_is_fatal() {
    let mut pair = pair(0, 7);
    pair.write(0, 4096);
    pair.write(1, 8);
    let _ = pair.sends(NOW);
    assert_eq!(pair.hears_word(SEQUENCE_ERROR, 2), Disposition::Failed);
    assert_eq!(pair.statuses(), [Status::RetryExceeded, Status::Flushed]);
}

/// An acknowledgement of a request after a read implies that the response was lost.
#[test]
fn an_acknowledgement_beyond_a_read_implies_a_nak() {
    let mut pair = pair(7, 7);
    pair.read(0, 8);
    pair.write(1, 8);
    let asked = pair.sends(NOW);
    let said = pair.answered(&asked);
    assert_eq!(numbers(&said), [0, 1]);
    assert_eq!(pair.hears(&said[1]), Disposition::Retry);
    assert!(
        pair.statuses().is_empty(),
        "the write does not pass the read"
    );
    let asked = pair.sends(NOW);
    assert_eq!(numbers(&asked), [0, 1]);
    for bytes in pair.answered(&asked) {
        let _ = pair.hears(&bytes);
    }
    assert_eq!(pair.statuses(), [Status::Success; 2]);
}

#[test]
fn a_read_is_resumed_at_the_missing_response() {
    let mut pair = pair(7, 7);
    pair.there.memory = (0..8192u32).map(|at| (at % 253) as u8).collect();
    pair.read(0, 2500);
    let asked = pair.sends(NOW);
    let said = pair.answered(&asked);
    assert_eq!(pair.hears(&said[0]), Disposition::Accepted);
    assert_eq!(pair.hears(&said[2]), Disposition::Retry);
    let asked = pair.sends(NOW);
    let request = Packet::parse(&asked[0]).unwrap().headers;
    let reth = request.extensions.reth.unwrap();
    assert_eq!((asked.len(), request.bth.psn), (1, PSN.plus(1)));
    assert_eq!((reth.address, reth.length), (BASE + 1024, 1476));
    // Late packets of the first response are as good as those of the second.
    assert_eq!(pair.hears(&said[1]), Disposition::Accepted);
    for bytes in pair.answered(&asked) {
        let _ = pair.hears(&bytes);
    }
    assert_eq!(pair.statuses(), [Status::Success]);
    assert_eq!(pair.here.buffers[&0][..2500], pair.there.memory[..2500]);
}

#[test]
fn an_rnr_nak_delays_retransmission() {
    let mut pair = pair(0, 2);
    pair.write(0, 8);
    pair.post(1, Work::Send(SendTail::Nothing), 8);
    pair.write(2, 8);
    let _ = pair.sends(NOW);
    assert_eq!(pair.hears_word(NOT_READY, 1), Disposition::ReceiverNotReady);
    assert_eq!(
        pair.statuses(),
        [Status::Success],
        "earlier packets are acknowledged"
    );
    assert_eq!(
        pair.hears_word(NOT_READY, 1),
        Disposition::Duplicate,
        "told twice, counted once"
    );
    let at = NOW.plus(10_000);
    assert_eq!(pair.requester.next_timeout(), Some(at));
    assert!(pair.sends(Instant(at.0 - 1)).is_empty());
    assert_eq!(numbers(&pair.sends(at)), [1, 2]);
    assert_eq!(pair.hears_word(NOT_READY, 1), Disposition::ReceiverNotReady);
    assert_eq!(numbers(&pair.sends(at)), [1, 2]);
    assert_eq!(pair.hears_word(NOT_READY, 1), Disposition::Failed);
    assert_eq!(
        pair.statuses(),
        [Status::Success, Status::RnrRetryExceeded, Status::Flushed]
    );
}

#[test]
fn progress_reloads_the_retry_counters() {
    let mut pair = pair(1, 1);
    for id in 0..8 {
        pair.post(id, Work::Send(SendTail::Nothing), 8);
    }
    let mut now = NOW;
    for packets in 0..8 {
        let _ = pair.sends(now);
        assert_eq!(
            pair.hears_word(NOT_READY, packets),
            Disposition::ReceiverNotReady
        );
        now = pair.requester.next_timeout().unwrap();
        let _ = pair.sends(now);
        now = pair.requester.next_timeout().unwrap();
        pair.requester.handle_timeout(now, &mut pair.here);
        let _ = pair.sends(now);
        pair.now = now;
        assert_eq!(pair.hears_word(ACK, packets), Disposition::Accepted);
    }
    assert_eq!(pair.statuses(), [Status::Success; 8]);
}

#[test]
fn answers_outside_the_window_are_dropped() {
    let mut pair = pair(0, 0);
    pair.write(0, 8);
    pair.write(1, 8);
    let _ = pair.sends(NOW);
    assert_eq!(pair.hears_word(ACK, 0), Disposition::Accepted);
    for bits in [ACK, SEQUENCE_ERROR, NOT_READY, 0x61, 0x62, 0x63] {
        assert_eq!(pair.hears_word(bits, 0), Disposition::Duplicate);
        assert_eq!(
            pair.hears_word(bits, 2),
            Disposition::Dropped(Dropped::Window)
        );
    }
    assert_eq!(pair.statuses(), [Status::Success]);
    assert_eq!(pair.hears_word(ACK, 1), Disposition::Accepted);
}

#[test]
fn an_impossible_response_is_a_bad_response() {
    // Changes to a packet of the response.
    let changes: [fn(&mut Packet<'_>); 4] = [
        |packet| packet.payload = &packet.payload[..packet.payload.len() - 1],
        |packet| packet.payload = &[],
        |packet| {
            let opcode = Opcode::new(Service::Rc, Operation::ReadResponseMiddle).unwrap();
            packet.headers.bth.opcode = opcode;
        },
        |packet| {
            let syndrome = Syndrome::from_bits(0x60).unwrap();
            packet.headers.extensions.aeth = Some(Aeth { syndrome, msn: 0 });
        },
    ];
    for change in changes {
        let mut pair = pair(7, 7);
        pair.read(0, 8);
        pair.write(1, 8);
        let asked = pair.sends(NOW);
        let said = pair.answered(&asked[..1]);
        let mut packet = Packet::parse(&said[0]).unwrap();
        change(&mut packet);
        let disposition = pair.requester.handle(&packet, NOW, &mut pair.here);
        assert_eq!(disposition, Disposition::Failed);
        assert_eq!(pair.statuses(), [Status::BadResponse, Status::Flushed]);
        assert!(
            pair.here.buffers[&0].iter().all(|byte| *byte == 0),
            "nothing was placed"
        );
    }
}

#[test]
fn an_infinite_timeout_sets_no_deadline() {
    let mut ours = requester(Reliable::Rc, Mtu::B1024, PSN);
    ours.ack_timeout = AckTimeout::INFINITE;
    let mut pair = pair(7, 7);
    pair.requester = Requester::new(ours);
    pair.write(0, 8);
    assert_eq!(pair.sends(NOW).len(), 1);
    assert_eq!(pair.requester.next_timeout(), None);
    assert!(pair.sends(Instant(u64::MAX)).is_empty());
}

/// Access may be revoked while the response is under way.
#[test]
fn a_revoked_right_refuses_the_rest_of_a_read() {
    let mut pair = pair(7, 7);
    pair.read(0, 3000);
    let asked = pair.sends(NOW);
    let _ = pair
        .responder
        .handle(&Packet::parse(&asked[0]).unwrap(), &mut pair.there);
    let mut buffer = [0; 1200];
    let length = pair
        .responder
        .poll_transmit(&mut pair.there, &mut buffer)
        .unwrap()
        .unwrap();
    assert_eq!(pair.hears(&buffer[..length]), Disposition::Accepted);
    pair.there.refused.insert("read");
    let said = answers(&mut pair.responder, &mut pair.there);
    assert_eq!(said.len(), 1);
    assert!(pair.responder.has_failed());
    assert_eq!(pair.hears(&said[0]), Disposition::Failed);
    assert_eq!(pair.statuses(), [Status::RemoteAccess]);
}
