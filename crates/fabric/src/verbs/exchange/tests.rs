//! Tests of the exchange with processes that die, hang or stay away, and with unauthenticated
//! clients.

use super::handshake::authenticate;
use super::hub::take;
use super::*;
use crate::error::Error;
use crate::verbs::wait_limit::WaitLimit;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// Time limit of the hub for absent processes. The others are connected before and send their parts
/// at once; a shorter time might end before a busy machine has scheduled all of them.
const ABSENCE: Duration = Duration::from_secs(2);

fn wait_limit() -> WaitLimit {
    WaitLimit::new(Duration::from_secs(20))
}

fn secret() -> Secret {
    Secret::told("known to the job")
}

fn at(address: SocketAddr) -> Rendezvous {
    Rendezvous::at(address, &secret())
}

fn join(address: SocketAddr, rank: usize) -> Connection {
    connect_to_hub(|| Ok(at(address)), "job", rank, &wait_limit()).unwrap()
}

#[test]
fn subsets_gather_independently_and_in_order() {
    let hub = Hub::listen("127.0.0.1:0", "job", &secret(), 4).unwrap();
    let address = hub.address();
    std::thread::scope(|scope| {
        for rank in 0..4usize {
            scope.spawn(move || {
                let wait_limit = wait_limit();
                let mut end = join(address, rank);
                let half = if rank < 2 { [0, 1] } else { [2, 3] };
                for turn in 0..50u8 {
                    let got = end.gather(&half, &[rank as u8, turn], &wait_limit).unwrap();
                    assert_eq!(got[0], [half[0] as u8, turn]);
                    assert_eq!(got[1], [half[1] as u8, turn]);
                }
                let all = end.gather(&[0, 1, 2, 3], &vec![rank as u8; rank], &wait_limit);
                let lengths: Vec<usize> = all.unwrap().iter().map(Vec::len).collect();
                assert_eq!(lengths, [0, 1, 2, 3]);
            });
        }
    });
}

#[test]
fn losing_a_process_ends_the_wait_of_the_others() {
    let hub = Hub::listen("127.0.0.1:0", "job", &secret(), 2).unwrap();
    let wait_limit = wait_limit();
    let places = || Ok(at(hub.address()));
    let mut first = connect_to_hub(places, "job", 0, &wait_limit).unwrap();
    let second = join(hub.address(), 1);
    second.stream.shutdown(std::net::Shutdown::Both).unwrap();
    let outcome = first.gather(&[0, 1], b"x", &wait_limit);
    assert!(
        matches!(&outcome, Err(Error::PeerLost(peer)) if peer.rank == 1),
        "{outcome:?}"
    );
    assert_eq!(hub.lost(), Some(1));
}

#[test]
fn waiting_for_an_absent_process_times_out() {
    let hub = Hub::listen_with_timeout("127.0.0.1:0", "job", &secret(), 3, ABSENCE).unwrap();
    let address = hub.address();
    let mut awake = wait_limit();
    awake.limit = Duration::from_secs(3600);
    let mut hung = connect_to_hub(|| Ok(at(address)), "job", 1, &awake).unwrap();
    let ends = [0, 2].map(|rank| join(address, rank));
    std::thread::scope(|scope| {
        for mut end in ends {
            scope.spawn(move || {
                let wait_limit = wait_limit();
                for turn in 0..3u8 {
                    let got = end.gather(&[0, 1, 2], &[turn], &wait_limit).unwrap();
                    assert_eq!(got, [vec![turn], vec![], vec![turn]]);
                }
            });
        }
    });
    assert_eq!(hub.absent(), [1]);
    // When it wakes up, its waits fail with `LeftBehind`; its end is not reported to the others.
    assert_eq!(awake.until::<()>("a peer", || None), Err(Error::LeftBehind));
    let late = hung.gather(&[0, 1, 2], b"late", &awake);
    assert_eq!(late, Err(Error::LeftBehind));
    drop(hung);
    assert_eq!(hub.lost(), None);
}

/// Returns the result of process 0's exchange when process 1, which is authenticated, sends these
/// bytes.
fn gathered_beside(bytes: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
    let hub = Hub::listen("127.0.0.1:0", "job", &secret(), 2).unwrap();
    let wait_limit = wait_limit();
    let rendezvous = || Ok(at(hub.address()));
    let mut honest = connect_to_hub(rendezvous, "job", 0, &wait_limit).unwrap();
    let mut liar = join(hub.address(), 1);
    liar.stream.write_all(bytes).unwrap();
    honest.gather(&[0, 1], b"x", &wait_limit)
}

/// Returns a frame with a set and a part.
fn framed(members: &[u32], part: &[u8]) -> Vec<u8> {
    let count = members.len() as u32;
    let words = [count].into_iter().chain(members.iter().copied());
    let body: Vec<u8> = words
        .flat_map(u32::to_le_bytes)
        .chain(part.to_vec())
        .collect();
    [&(body.len() as u32).to_le_bytes(), &body[..]].concat()
}

#[test]
fn a_process_with_invalid_frames_is_dropped_and_reported() {
    let too_long = |length: u32| length.to_le_bytes().to_vec();
    for bytes in [
        too_long(0),
        too_long(1 << 31),
        too_long(u32::MAX),
        framed(&[0, 1, 2], b""),
        framed(&[1, 1], b""),
        framed(&[0], b""),
        framed(&[1, 9], b""),
    ] {
        let heard = gathered_beside(&bytes);
        let is_lost = matches!(&heard, Err(Error::PeerLost(peer)) if peer.rank == 1);
        assert!(is_lost, "{bytes:?}: {heard:?}");
    }
    let hub = Hub::listen("127.0.0.1:0", "job", &secret(), 2).unwrap();
    let mut liar = join(hub.address(), 1);
    let twice = [framed(&[0, 1], b"a"), framed(&[0, 1], b"b")].concat();
    liar.stream.write_all(&twice).unwrap();
    let reply = liar.replies.recv().unwrap();
    assert_eq!(&reply[1..], b"it sent an invalid message");
}

#[test]
fn an_incomplete_frame_counts_as_absent() {
    let brief = Duration::from_millis(50);
    let hub = Hub::listen_with_timeout("127.0.0.1:0", "job", &secret(), 2, brief).unwrap();
    let mut half = join(hub.address(), 1);
    let frame = framed(&[0, 1], &[7; 100]);
    half.stream.write_all(&frame[..50]).unwrap();
    let mut whole = join(hub.address(), 0);
    let got = whole.gather(&[0, 1], b"x", &wait_limit()).unwrap();
    assert_eq!(got, [&b"x"[..], b""]);
    assert_eq!(hub.absent(), [1]);
}

#[test]
fn a_process_that_never_reads_does_not_block_the_others() {
    let hub = Hub::listen("127.0.0.1:0", "job", &secret(), 3).unwrap();
    let deaf = deaf(hub.address(), 2);
    // More than the kernel buffers for a process that does not read.
    let large = vec![1; 64 << 20];
    let mut ends = [0, 1].map(|rank| join(hub.address(), rank));
    std::thread::scope(|scope| {
        for end in &mut ends {
            scope.spawn(|| {
                let got = end.gather(&[0, 1, 2], &large, &wait_limit()).unwrap();
                assert_eq!(
                    got.iter().map(Vec::len).collect::<Vec<_>>(),
                    [large.len(), large.len(), 0]
                );
                let got = end.gather(&[0, 1, 2], b"x", &wait_limit()).unwrap();
                assert_eq!(got, [&b"x"[..], b"x", b""]);
            });
        }
    });
    drop(deaf);
    assert_eq!((hub.absent(), hub.lost()), (vec![2], None));
}

/// Connects a process that sends its part of the first set and never reads.
fn deaf(address: SocketAddr, rank: u32) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    let limit = Duration::from_secs(20);
    authenticate(&mut stream, "job", &secret(), rank as usize, limit).unwrap();
    stream.write_all(&framed(&[0, 1, 2], b"")).unwrap();
    stream
}

#[test]
fn refused_ranks_get_a_reason() {
    let hub = Hub::listen("127.0.0.1:0", "job", &secret(), 2).unwrap();
    let _first = join(hub.address(), 1);
    for (rank, why) in [
        (1, "another process 1 is already connected"),
        (7, "the job's last process is 1"),
    ] {
        let refused = join(hub.address(), rank).gather(&[rank], b"", &wait_limit());
        let words = refused.unwrap_err().to_string();
        assert!(words.contains(why), "{words}");
    }
    assert_eq!(hub.lost(), None);
}

#[test]
fn a_process_that_gave_up_takes_no_rank() {
    let hub = Hub::listen("127.0.0.1:0", "job", &secret(), 1).unwrap();
    let impatient = TcpListener::bind("127.0.0.1:0").unwrap();
    // Relays a complete handshake except the confirmation: the hub sees a process that gave up
    // meanwhile.
    let mut stream = TcpStream::connect(hub.address()).unwrap();
    let mut end = TcpStream::connect(impatient.local_addr().unwrap()).unwrap();
    let (mut relay, _) = impatient.accept().unwrap();
    let told = std::thread::spawn(move || {
        let limit = Duration::from_secs(20);
        authenticate(&mut end, "job", &secret(), 0, limit).unwrap();
    });
    let mut bytes = [0; 32];
    stream.read_exact(&mut bytes).unwrap();
    relay.write_all(&bytes).unwrap();
    let mut answer = [0; 68];
    relay.read_exact(&mut answer).unwrap();
    stream.write_all(&answer).unwrap();
    stream.read_exact(&mut bytes).unwrap();
    relay.write_all(&bytes).unwrap();
    told.join().unwrap();
    drop(stream);
    let mut again = join(hub.address(), 0);
    assert_eq!(again.gather(&[0], b"x", &wait_limit()).unwrap(), [b"x"]);
    assert_eq!(hub.lost(), None);
}

#[test]
fn addresses_without_the_jobs_hub_are_skipped() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    // One of another job, and one with another secret.
    let other = Hub::listen("127.0.0.1:0", "another job", &secret(), 1).unwrap();
    let false_one = Hub::listen("127.0.0.1:0", "job", &Secret::random(), 1).unwrap();
    let hub = Hub::listen("127.0.0.1:0", "job", &secret(), 1).unwrap();
    let mut asked = 0;
    let rendezvous = || {
        asked += 1;
        let all = [
            silent.local_addr().unwrap(),
            other.address(),
            false_one.address(),
            hub.address(),
        ];
        match asked {
            1 => Err("not yet".to_owned()),
            _ => Ok(Rendezvous {
                places: all.map(|address| address.to_string()).to_vec(),
                secret: secret(),
            }),
        }
    };
    let mut end = connect_to_hub(rendezvous, "job", 0, &wait_limit()).unwrap();
    assert_eq!(end.gather(&[0], b"x", &wait_limit()).unwrap(), [b"x"]);
    assert_eq!((other.lost(), false_one.lost()), (None, None));
}

#[test]
fn a_process_without_the_secret_takes_no_rank() {
    let hub = Hub::listen("127.0.0.1:0", "job", &secret(), 2).unwrap();
    let brief = WaitLimit::new(Duration::from_millis(1));
    for (job, told) in [
        ("job", Secret::random()),
        ("job", Secret::told("")),
        ("jo", secret()),
    ] {
        let wrong = || Ok(Rendezvous::at(hub.address(), &told));
        let words = connect_to_hub(wrong, job, 1, &brief)
            .err()
            .unwrap()
            .to_string();
        assert!(words.contains("another secret"), "{words}");
    }
    let mut ends = [join(hub.address(), 0), join(hub.address(), 1)];
    // A second process with the same rank is rejected even with the secret: during the handshake if
    // the hub has admitted all processes by now, else at its first frame.
    let second = || Ok(at(hub.address()));
    let told = connect_to_hub(second, "job", 1, &brief)
        .and_then(|mut end| end.gather(&[0, 1], &[9], &wait_limit()));
    assert!(told.is_err(), "{told:?}");
    std::thread::scope(|scope| {
        for (rank, end) in ends.iter_mut().enumerate() {
            scope.spawn(move || {
                let got = end.gather(&[0, 1], &[rank as u8], &wait_limit()).unwrap();
                assert_eq!(got, [[0], [1]]);
            });
        }
    });
    assert_eq!(hub.lost(), None);
}

#[test]
fn foreign_connections_do_not_delay_the_job() {
    let hub = Hub::listen("127.0.0.1:0", "job", &secret(), 1).unwrap();
    let strangers: Vec<TcpStream> = (0..400)
        .map(|turn| {
            let mut stream = TcpStream::connect(hub.address()).unwrap();
            // Some send nothing, some a little, some too much.
            let _ = stream.write_all(&vec![turn as u8; [0, 1, 67, 4096][turn % 4]]);
            stream
        })
        .collect();
    let mut end = join(hub.address(), 0);
    assert_eq!(end.gather(&[0], b"x", &wait_limit()).unwrap(), [b"x"]);
    // Dropped clients received no proof.
    for mut stream in strangers {
        let mut heard = Vec::new();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let _ = stream.read_to_end(&mut heard);
        assert!(heard.len() <= 32, "{} bytes", heard.len());
    }
}

#[test]
fn a_slow_false_hub_delays_no_longer_than_a_silent_one() {
    let slow = TcpListener::bind("127.0.0.1:0").unwrap();
    let places = at(slow.local_addr().unwrap());
    let spoken = std::thread::scope(|scope| {
        let speaker = scope.spawn(|| {
            let (mut stream, _) = slow.accept().unwrap();
            let mut spoken = 0;
            while stream.write_all(b".").is_ok() {
                spoken += 1;
                std::thread::sleep(Duration::from_millis(200));
            }
            spoken
        });
        let brief = WaitLimit::new(Duration::ZERO);
        assert!(connect_to_hub(|| Ok(places.clone()), "job", 0, &brief).is_err());
        speaker.join().unwrap()
    });
    // A time limit per byte would let the process read a whole handshake, a nonce and a proof of 32
    // bytes each.
    assert!(spoken < 64, "{spoken} bytes");
}

#[test]
fn the_hub_refuses_garbage() {
    let hub = Hub::listen("127.0.0.1:0", "job", &secret(), 2).unwrap();
    let state = &hub.state;
    for frame in [
        &[][..],
        &[255, 255, 255, 255],
        &[1, 0, 0, 0],
        &[1, 0, 0, 0, 9, 0, 0, 0],
    ] {
        assert_eq!(take(frame, 0, state), None, "{frame:?}");
    }
    // Descending members, and a set without the sender.
    let two = |a: u32, b: u32| {
        [2, a, b]
            .iter()
            .flat_map(|w| w.to_le_bytes())
            .collect::<Vec<_>>()
    };
    assert_eq!(take(&two(1, 0), 0, state), None);
    let one: Vec<u8> = [1u32, 1].iter().flat_map(|w| w.to_le_bytes()).collect();
    assert_eq!(take(&one, 0, state), None);
}
