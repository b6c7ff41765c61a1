//! Tests with a scripted peer, for orders of events that randomized tests would seldom reach.

use std::os::unix::net::UnixListener;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use verbena_rfio_common::scratch::Scratch;
use verbena_rfio_protocol::reply::{Done, ReadDone};
use verbena_rfio_protocol::{ANY_ORDER, Reply, Request};

use super::peer::{BLOCK, Peer, PeerBehavior, content};
use super::*;
use crate::blocks::checksums_of;

fn ping() -> Operation {
    Operation::Call(Request::Ping(verbena_rfio_protocol::request::Ping {}))
}

/// Runs `body` on a connection to a peer that runs `part` after the handshake.
fn with_peer(
    part: impl FnOnce(Peer) + Send,
    body: impl FnOnce(std::sync::Arc<MultiplexedConnection>),
) {
    with_peer_and(&options(), part, body);
}

fn with_peer_and(
    options: &Options,
    part: impl FnOnce(Peer) + Send,
    body: impl FnOnce(std::sync::Arc<MultiplexedConnection>),
) {
    let scratch = Scratch::new();
    let path = scratch.path("peer.sock");
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let behavior = PeerBehavior {
                version: ANY_ORDER,
                seed: 1,
                disconnects_after: None,
            };
            let mut peer = Peer::new(stream, behavior);
            peer.handshake().unwrap();
            part(peer);
        });
        body(MultiplexedConnection::connect(&Address::Socket(path.clone()), options).unwrap());
    });
}

/// A check of one operation may receive the reply of another one that was checked before.
#[test]
fn a_reply_received_for_another_operation_is_not_awaited() {
    let (may_answer, asked) = mpsc::channel();
    let (has_answered, answered) = mpsc::channel();
    with_peer(
        move |mut peer| {
            let first = peer.next().unwrap();
            let second = peer.next().unwrap();
            for (header, request) in [first, second] {
                asked.recv().unwrap();
                peer.answer(header, &request).unwrap();
                has_answered.send(()).unwrap();
            }
        },
        |connection| {
            let first = connection.begin(ping(), Vec::new()).unwrap();
            let second = connection.begin(ping(), Vec::new()).unwrap();
            let ended = connection.ended().unwrap();
            assert!(!first.is_done().unwrap());
            may_answer.send(()).unwrap();
            answered.recv().unwrap();
            assert!(!second.is_done().unwrap());
            // No more data arrive before this call returns; with the fault it waits until the
            // session times out.
            connection.pause(ended, None).unwrap();
            assert!(first.is_done().unwrap());
            may_answer.send(()).unwrap();
            assert!(first.wait().unwrap().outcome.is_ok());
            assert!(second.wait().unwrap().outcome.is_ok());
        },
    );
}

/// The rest of a canceled operation that got a short answer nevertheless is not requested.
#[test]
fn the_rest_of_a_canceled_operation_is_not_requested() {
    let (may_answer, taken_back) = mpsc::channel();
    with_peer(
        move |mut peer| {
            let (header, request) = peer.next().unwrap();
            let Request::Read(read) = request else {
                panic!("{request:?} was not begun");
            };
            taken_back.recv().unwrap();
            let (cancel, request) = peer.next().unwrap();
            assert!(matches!(request, Request::Cancel(_)), "{request:?}");
            let data = content(read.handle.0, read.range.offset, 10);
            let done = ReadDone {
                length: data.len() as u32,
                end: false,
                version: 1,
                checksums: checksums_of(read.range.offset, &data, BLOCK),
            };
            peer.send(header, &Ok(Reply::ReadDone(done)), &data)
                .unwrap();
            peer.send(cancel, &Ok(Reply::Cancelled(Done {})), &[])
                .unwrap();
            let (header, request) = peer.next().unwrap();
            assert!(matches!(request, Request::Ping(_)), "{request:?}");
            peer.answer(header, &request).unwrap();
        },
        |connection| {
            let operation = Operation::Read {
                handle: Handle(1),
                offset: 0,
            };
            let read = connection.begin(operation, vec![0; 3000]).unwrap();
            read.cancel().unwrap();
            may_answer.send(()).unwrap();
            let error = read.wait().unwrap().outcome.unwrap_err();
            assert_eq!(error.errno(), Some(libc::ECANCELED));
            let last = connection.begin(ping(), Vec::new()).unwrap();
            assert!(last.wait().unwrap().outcome.is_ok());
        },
    );
}

/// A program that computes for longer than the time limit has not waited for the answer.
#[test]
fn computing_time_does_not_count_as_waiting() {
    const TIMEOUT: Duration = Duration::from_millis(400);
    let (may_answer, waits) = mpsc::channel();
    let patient = Options {
        timeout: TIMEOUT,
        ..options()
    };
    with_peer_and(
        &patient,
        move |mut peer| {
            let (header, request) = peer.next().unwrap();
            waits.recv().unwrap();
            std::thread::sleep(TIMEOUT / 4);
            peer.answer(header, &request).unwrap();
        },
        |connection| {
            let late = connection.begin(ping(), Vec::new()).unwrap();
            std::thread::sleep(TIMEOUT + TIMEOUT / 4);
            may_answer.send(()).unwrap();
            let outcome = late.wait().unwrap().outcome;
            assert!(outcome.is_ok(), "{outcome:?}");
        },
    );
}

#[test]
fn a_silent_server_times_out() {
    const TIMEOUT: Duration = Duration::from_millis(100);
    let (given_up, is_over) = mpsc::channel();
    let patient = Options {
        timeout: TIMEOUT,
        ..options()
    };
    with_peer_and(
        &patient,
        move |_peer| is_over.recv().unwrap(),
        |connection| {
            let begun = Instant::now();
            let outcome = connection
                .begin(ping(), Vec::new())
                .unwrap()
                .wait()
                .unwrap();
            assert!(matches!(outcome.outcome, Err(Error::TimedOut)));
            assert!(begun.elapsed() >= TIMEOUT && connection.is_broken());
            given_up.send(()).unwrap();
        },
    );
}

#[test]
fn data_of_another_version_of_the_file_are_refused() {
    with_peer(
        |mut peer| {
            for _ in 0..2 {
                let (header, request) = peer.next().unwrap();
                peer.answer(header, &request).unwrap();
            }
        },
        |connection| {
            let operation = Operation::Chunk {
                handle: Handle(1),
                offset: 0,
                length: 1,
                version: Some(2),
            };
            let chunk = connection.begin(operation, Vec::new()).unwrap();
            let looked = chunk.look(<[u8]>::len);
            assert!(matches!(looked, Err(Error::Changed)), "{looked:?}");
            // The connection remains usable.
            let last = connection.begin(ping(), Vec::new()).unwrap();
            assert!(last.wait().unwrap().outcome.is_ok());
        },
    );
}

/// A chunk larger than the server's limit is refused before it is sent.
#[test]
fn a_chunk_is_one_request() {
    with_peer(
        |_| {},
        |connection| {
            let operation = Operation::Chunk {
                handle: Handle(1),
                offset: 0,
                length: connection.max_request_bytes() as u32 + 1,
                version: None,
            };
            assert!(matches!(
                connection.begin(operation, Vec::new()),
                Err(Error::Setup(_))
            ));
        },
    );
}
