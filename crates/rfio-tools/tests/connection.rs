//! The client against a real server: operations on a file take effect as if carried out one after
//! the other, however many are in progress.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::Config as ProptestConfig;
use verbena_rfio_client::connection::{Memory, Operation, OperationOutput, PendingOperation};
use verbena_rfio_client::{Address, Error, MultiplexedConnection, Options};
use verbena_rfio_common::scratch::Scratch;
use verbena_rfio_protocol::request::{Checksum, OnHandle, Open, OpenFlags, Ping, Truncate};
use verbena_rfio_protocol::types::{Handle, Path, Range};
use verbena_rfio_protocol::{Reply, Request};
use verbena_rfio_server::audit::Audit;
use verbena_rfio_server::export::{Access, Export, Exports};
use verbena_rfio_server::running::{Layout, Server};
use verbena_rfio_server::service::{Limits, Service};
use verbena_rfio_server::session::authenticator::{Authenticator, LocalUserPolicy};
use verbena_rfio_server::session::connection::Context;

/// Returns a configuration with this number of cases, or that of `PROPTEST_CASES`.
fn cases(few: u32) -> ProptestConfig {
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => ProptestConfig::default(),
        None => ProptestConfig::with_cases(few),
    }
}

fn options() -> Options {
    Options::plain("nobody")
}

const PAYLOAD: usize = 64 << 20;

/// A server with a separate directory.
struct Running {
    scratch: Scratch,
    _server: Server,
}

fn server(limits: Limits) -> Running {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("export")).unwrap();
    let export = Export::open("", &scratch.path("export"), Access::ReadWrite).unwrap();
    let service = Service::new(Exports::new(vec![export]).unwrap(), limits, Audit::none()).unwrap();
    let context = Context {
        service: Arc::new(service),
        authenticator: Authenticator::new(Default::default(), LocalUserPolicy::Own, None),
        tls: None.into(),
        tls_only: false,
    };
    let layout = Layout {
        local: Some(scratch.path("rfiod.sock")),
        shards: 2,
        workers: 3,
        ..Layout::default()
    };
    Running {
        _server: Server::start(context, &layout).unwrap(),
        scratch,
    }
}

impl Running {
    fn connection(&self) -> Arc<MultiplexedConnection> {
        let address = Address::Socket(self.scratch.path("rfiod.sock"));
        MultiplexedConnection::connect(&address, &options()).unwrap()
    }
}

fn open(connection: &Arc<MultiplexedConnection>, name: &str) -> Handle {
    let request = Request::Open(Open {
        path: Path::new(name).unwrap(),
        flags: OpenFlags::READ | OpenFlags::WRITE | OpenFlags::CREATE,
        mode: 0o600,
    });
    match connection.call(request).unwrap() {
        Reply::Opened(opened) => opened.handle,
        other => panic!("{other:?}"),
    }
}

#[derive(Debug, Clone)]
enum Step {
    Write(u64, u8, usize),
    Read(u64, usize),
    Vector(Vec<(u64, u32)>),
    Truncate(u64),
    Examine,
    /// Continues on a new handle from the server.
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    const FAR: u64 = 60_000;
    prop_oneof![
        4 => (0..FAR, any::<u8>(), 1usize..20_000)
            .prop_map(|(offset, byte, length)| Step::Write(offset, byte, length)),
        6 => (0..FAR, 0usize..30_000).prop_map(|(offset, length)| Step::Read(offset, length)),
        2 => proptest::collection::vec((0..FAR, 0u32..5000), 0..20).prop_map(Step::Vector),
        1 => (0..FAR).prop_map(Step::Truncate),
        1 => Just(Step::Examine),
        1 => Just(Step::Reopen),
    ]
}

/// The expected result of an operation.
enum Expected {
    Nothing,
    Bytes(Vec<u8>),
    Parts(Vec<Vec<u8>>),
    Size(u64),
}

fn piece(model: &[u8], offset: u64, length: usize) -> Vec<u8> {
    let from = (offset as usize).min(model.len());
    model[from..(from + length).min(model.len())].to_vec()
}

/// Begins an operation without waiting for earlier ones; returns the result expected if it follows
/// them.
fn begin(
    connection: &Arc<MultiplexedConnection>,
    handle: Handle,
    step: &Step,
    model: &mut Vec<u8>,
) -> (PendingOperation, Expected) {
    let (operation, memory, expected) = match step {
        Step::Write(offset, byte, length) => {
            let end = *offset as usize + length;
            model.resize(model.len().max(end), 0);
            model[*offset as usize..end].fill(*byte);
            let operation = Operation::Write {
                handle,
                offset: *offset,
            };
            (operation, vec![*byte; *length], Expected::Nothing)
        }
        Step::Read(offset, length) => {
            let operation = Operation::Read {
                handle,
                offset: *offset,
            };
            let expected = Expected::Bytes(piece(model, *offset, *length));
            (operation, vec![0xee; *length], expected)
        }
        Step::Vector(ranges) => {
            let expected = ranges
                .iter()
                .map(|&(offset, length)| piece(model, offset, length as usize));
            let expected = Expected::Parts(expected.collect());
            let length = ranges.iter().map(|&(_, length)| length as usize).sum();
            let ranges = ranges
                .iter()
                .map(|&(offset, length)| Range { offset, length });
            let operation = Operation::Vector {
                handle,
                ranges: ranges.collect(),
            };
            (operation, vec![0xee; length], expected)
        }
        Step::Truncate(size) => {
            model.resize(*size as usize, 0);
            let request = Request::Truncate(Truncate {
                handle,
                size: *size,
            });
            (Operation::Call(request), Vec::new(), Expected::Nothing)
        }
        Step::Examine | Step::Reopen => {
            let request = Request::Examine(OnHandle { handle });
            let expected = Expected::Size(model.len() as u64);
            (Operation::Call(request), Vec::new(), expected)
        }
    };
    (connection.begin(operation, memory).unwrap(), expected)
}

fn verify(succeeded: &OperationOutput, memory: &dyn Memory, expected: &Expected, step: &Step) {
    let memory = memory.bytes();
    match (succeeded, expected) {
        (
            OperationOutput::Written | OperationOutput::Reply(Reply::Truncated(_), 0),
            Expected::Nothing,
        ) => {}
        (OperationOutput::Read(length), Expected::Bytes(bytes)) => {
            assert!(memory[..*length] == bytes[..], "{step:?} gave other bytes");
        }
        (OperationOutput::Vector(lengths), Expected::Parts(parts)) => {
            let Step::Vector(ranges) = step else {
                panic!("{step:?}")
            };
            let mut at = 0;
            for ((&length, part), (_, whole)) in lengths.iter().zip(parts).zip(ranges) {
                assert!(
                    memory[at..at + length as usize] == part[..],
                    "{step:?} gave other bytes"
                );
                at += *whole as usize;
            }
        }
        (OperationOutput::Reply(Reply::Examined(about), 0), Expected::Size(size)) => {
            assert_eq!(about.attributes.size, *size, "{step:?}");
        }
        (succeeded, _) => panic!("{step:?} gave {succeeded:?}"),
    }
}

fn work(connection: &Arc<MultiplexedConnection>, name: &str, steps: &[Step]) -> Vec<u8> {
    let mut handle = open(connection, name);
    let mut model = Vec::new();
    let mut begun = Vec::new();
    let finish = |begun: &mut Vec<(Step, PendingOperation, Expected)>| {
        // In reverse, since the order of waiting must not matter.
        while let Some((step, pending, expected)) = begun.pop() {
            let done = pending.wait().unwrap();
            match &done.outcome {
                Ok(succeeded) => verify(succeeded, &*done.memory, &expected, &step),
                Err(error) => panic!("{step:?}: {error}"),
            }
        }
    };
    for step in steps {
        let (pending, expected) = begin(connection, handle, step, &mut model);
        begun.push((step.clone(), pending, expected));
        if matches!(step, Step::Reopen) {
            // Requests on the old handle are carried out before it is closed.
            let close = Request::Close(OnHandle { handle });
            let closed = connection
                .begin(Operation::Call(close), Vec::new())
                .unwrap();
            closed.wait().unwrap().outcome.unwrap();
            handle = open(connection, name);
        }
        if begun.len() >= 25 {
            finish(&mut begun);
        }
    }
    finish(&mut begun);
    model
}

proptest! {
    #![proptest_config(cases(12))]

    #[test]
    fn concurrent_operations_on_a_file_equal_sequential_ones(
        threads in proptest::collection::vec(proptest::collection::vec(step(), 1..60), 1..4),
        small in any::<bool>(),
    ) {
        // With little memory, reads are answered short and requests wait for memory; the results
        // are the same.
        let limits = match small {
            true => Limits {
                cache: 64 << 10,
                block: 4 << 10,
                buffers: 256 << 10,
                payload: 64 << 10,
                ..Limits::default()
            },
            false => Limits { cache: 1 << 20, block: 16 << 10, ..Limits::default() },
        };
        let running = server(limits);
        let connection = running.connection();
        std::thread::scope(|scope| {
            for (number, steps) in threads.iter().enumerate() {
                let (connection, running) = (&connection, &running);
                scope.spawn(move || {
                    let name = format!("/{number}");
                    let model = work(connection, &name, steps);
                    let path = running.scratch.path("export").join(&name[1..]);
                    assert!(std::fs::read(path).unwrap() == model, "the file is another");
                });
            }
        });
    }
}

/// Begins eight slow requests: checksums over half a gigabyte each.
fn begin_slow_ones(
    running: &Running,
    connection: &Arc<MultiplexedConnection>,
) -> Vec<PendingOperation> {
    let path = running.scratch.path("export/large");
    std::fs::File::create(path)
        .unwrap()
        .set_len(1 << 30)
        .unwrap();
    let handle = open(connection, "/large");
    let slow = Request::Checksum(Checksum {
        handle,
        offset: 0,
        block: connection.server_limits().block,
        count: 1024,
    });
    (0..8)
        .map(|_| {
            connection
                .begin(Operation::Call(slow.clone()), Vec::new())
                .unwrap()
        })
        .collect()
}

fn patient() -> Running {
    server(Limits {
        payload: PAYLOAD,
        ..Limits::default()
    })
}

/// Number of attempts, since the scheduler may suspend this process at the wrong moment. An
/// impossible outcome never occurs.
const TRIES: usize = 20;

#[test]
fn quick_requests_overtake_slow_ones() {
    let running = patient();
    let connection = running.connection();
    let other = open(&connection, "/other");
    let overtakes = || {
        let slow = begin_slow_ones(&running, &connection);
        connection.call(Request::Ping(Ping {})).unwrap();
        connection
            .call(Request::Examine(OnHandle { handle: other }))
            .unwrap();
        let under_way = slow
            .iter()
            .filter(|pending| !pending.is_done().unwrap())
            .count();
        for pending in slow {
            pending.wait().unwrap().outcome.unwrap();
        }
        under_way > 0
    };
    assert!(
        (0..TRIES).any(|_| overtakes()),
        "an answer waits for all that was asked before"
    );
}

#[test]
fn canceled_operations_are_not_awaited() {
    let running = patient();
    let connection = running.connection();
    let is_refused = || {
        let slow = begin_slow_ones(&running, &connection);
        for pending in &slow {
            pending.cancel().unwrap();
        }
        let outcomes: Vec<_> = slow
            .into_iter()
            .map(|pending| pending.wait().unwrap().outcome)
            .collect();
        outcomes
            .iter()
            .filter_map(|outcome| outcome.as_ref().err())
            .any(|error| error.errno() == Some(libc::ECANCELED))
    };
    assert!(
        (0..TRIES).any(|_| is_refused()),
        "all are carried out all the same"
    );
    // The session and the file are unchanged.
    let handle = open(&connection, "/large");
    let done = connection
        .begin(Operation::Read { handle, offset: 5 }, vec![1; 10])
        .unwrap()
        .wait()
        .unwrap();
    assert_eq!(done.outcome.unwrap(), OperationOutput::Read(10));
    assert_eq!(done.memory.bytes(), [0; 10]);
}

#[test]
fn polling_a_connection_never_blocks() {
    use rustix::event::{PollFd, PollFlags, poll};
    let running = server(Limits::default());
    let connection = running.connection();
    let handle = open(&connection, "/f");
    let written = connection
        .begin(Operation::Write { handle, offset: 0 }, vec![7; 100_000])
        .unwrap();
    let read = connection
        .begin(Operation::Read { handle, offset: 0 }, vec![0; 100_000])
        .unwrap();
    while !read.is_done().unwrap() {
        let mut looked = [PollFd::from_borrowed_fd(connection.events(), PollFlags::IN)];
        poll(&mut looked, None).unwrap();
        connection.advance().unwrap();
    }
    assert!(written.is_done().unwrap());
    assert_eq!(read.wait().unwrap().memory.bytes(), [7; 100_000]);
}

#[test]
fn a_lost_server_is_detected_without_a_request() {
    use rustix::event::{PollFd, PollFlags, poll};
    let Running { scratch, _server } = server(Limits::default());
    let address = Address::Socket(scratch.path("rfiod.sock"));
    let connection = MultiplexedConnection::connect(&address, &options()).unwrap();
    connection.advance().unwrap();
    assert!(!connection.is_broken());
    drop(_server);
    let mut looked = [PollFd::from_borrowed_fd(connection.events(), PollFlags::IN)];
    poll(&mut looked, None).unwrap();
    connection.advance().unwrap();
    assert!(connection.is_broken());
    let operation = Operation::Read {
        handle: Handle(1),
        offset: 0,
    };
    assert!(matches!(
        connection.begin(operation, vec![0; 5]),
        Err(Error::Dropped(_))
    ));
}

/// A forked child touches nothing; its parent continues.
#[test]
fn a_forked_child_gets_an_error_and_the_parent_continues() {
    let running = server(Limits::default());
    let connection = running.connection();
    let handle = open(&connection, "/f");
    let pending = connection
        .begin(Operation::Write { handle, offset: 0 }, vec![9; 50_000])
        .unwrap();
    // SAFETY: the child calls only the functions under test, and _exit.
    #[allow(unsafe_code, reason = "fork(2)")]
    let child = unsafe { libc::fork() };
    if child == 0 {
        let told = matches!(connection.call(Request::Ping(Ping {})), Err(Error::Forked))
            && matches!(pending.is_done(), Err(Error::Forked));
        drop(pending);
        drop(connection);
        // SAFETY: ends the child without running the parent's exit handlers.
        #[allow(unsafe_code, reason = "_exit(2)")]
        unsafe {
            libc::_exit(if told { 0 } else { 1 })
        }
    }
    let mut status = 0;
    // SAFETY: a child of this process, and valid memory for its status.
    #[allow(unsafe_code, reason = "waitpid(2)")]
    let waited = unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!((waited, status), (child, 0));
    assert_eq!(
        pending.wait().unwrap().outcome.unwrap(),
        OperationOutput::Written
    );
    let read = connection
        .begin(Operation::Read { handle, offset: 0 }, vec![0; 50_000])
        .unwrap();
    assert_eq!(read.wait().unwrap().memory.bytes(), [9; 50_000]);
}
