//! Fuzzes the server's side of a connection: handshake, authentication, requests, and the files
//! that they access in a temporary directory.
//!
//! The first byte selects the interpretation of the rest. With 0, the rest is the raw byte stream
//! from the connection's start. Otherwise the client is admitted as an anonymous user, with
//! protocol version 3 if the byte is even, else 2, and the rest is requests: operation (2 bytes),
//! length of the body (2), length of the payload (1, in units of 64 bytes), body. They are framed
//! correctly, so that the code behind the framing is reached. The same byte determines the order in
//! which jobs finish.
#![no_main]

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use libfuzzer_sys::fuzz_target;
use verbena_rfio_auth::secrets::Secrets;
use verbena_rfio_common::socket::{Blocking, Socket};
use verbena_rfio_protocol::frame::Kind;
use verbena_rfio_protocol::handshake::Methods;
use verbena_rfio_protocol::request::{Hello, Prove};
use verbena_rfio_protocol::types::Text;
use verbena_rfio_protocol::{ANY_ORDER, Header, IN_ORDER, Request};
use verbena_rfio_server::audit::Audit;
use verbena_rfio_server::export::{Access, Export, Exports};
use verbena_rfio_server::service::{Limits, Service};
use verbena_rfio_server::session::authenticator::{
    Authenticator, ConnectionOrigin, LocalUserPolicy,
};
use verbena_rfio_server::session::connection::{Connection, Context, NextStep};

/// Capacity of a socket in bytes while the peer does not read.
const ROOM: usize = 64 << 10;

fn root() -> &'static PathBuf {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        let root = std::env::temp_dir().join(format!("rfio-fuzz-{}", std::process::id()));
        std::fs::create_dir_all(&root).expect("the temporary directory is writable");
        root
    })
}

/// Returns a service that exports a fresh directory.
fn context() -> Context {
    let root = root();
    let _ = std::fs::remove_dir_all(root.join("export"));
    std::fs::create_dir(root.join("export")).expect("the directory is ours");
    std::fs::write(root.join("export/f"), [7; 5000]).expect("the directory is ours");
    let export = Export::open("", &root.join("export"), Access::ReadWrite).expect("it is there");
    let limits = Limits {
        cache: 1 << 20,
        block: 64 << 10,
        buffers: 1 << 20,
        payload: 256 << 10,
        ..Limits::default()
    };
    let exports = Exports::new(vec![export]).expect("one export is a set");
    let service = Service::new(exports, limits, Audit::none()).expect("memory is there");
    Context {
        service: Arc::new(service),
        authenticator: Authenticator::new(
            Secrets::default(),
            LocalUserPolicy::Own,
            Some(Access::ReadWrite),
        ),
        tls: None.into(),
        tls_only: false,
    }
}

fn frame(id: u64, operation: u16, body: &[u8], payload: &[u8]) -> Vec<u8> {
    let header = Header {
        kind: Kind::request(operation),
        body: body.len() as u32,
        payload: payload.len() as u32,
        id,
    };
    [&header.emit(), body, payload].concat()
}

fn ask(id: u64, request: &Request) -> Vec<u8> {
    frame(id, request.operation(), &request.encode(), &[])
}

fn requests(newest: u16, mut input: &[u8]) -> Vec<u8> {
    let hello = Request::Hello(Hello {
        lowest: 2,
        highest: newest,
        methods: Methods::ANONYMOUS,
        user: Text::new("nobody"),
        nonce: [0; 32],
    });
    let mut bytes = ask(1, &hello);
    bytes.extend(ask(2, &Request::Prove(Prove { proof: [0; 32] })));
    let mut id = 3;
    while let Some((&[o0, o1, b0, b1, payload], rest)) = input.split_first_chunk::<5>() {
        let length = usize::from(u16::from_be_bytes([b0, b1])).min(rest.len());
        let (body, rest) = rest.split_at(length);
        let payload = vec![id as u8; usize::from(payload) * 64];
        bytes.extend(frame(id, u16::from_be_bytes([o0, o1]), body, &payload));
        id += 1;
        input = rest;
    }
    bytes
}

fuzz_target!(|input: &[u8]| {
    let Some((&manner, rest)) = input.split_first() else {
        return;
    };
    let said = match manner {
        0 => rest.to_vec(),
        _ => requests(if manner % 2 == 0 { ANY_ORDER } else { IN_ORDER }, rest),
    };
    let context = context();
    let (mut client, server) = UnixStream::pair().expect("descriptors are there");
    client.set_nonblocking(true).expect("a socket can be");
    let server = Socket::unix(server);
    server.set_blocking(Blocking::No).expect("a socket can be");
    let origin = ConnectionOrigin::Remote("192.0.2.1:9".parse().expect("an address"));
    let mut connection = Connection::new(server, origin, &context, Instant::now());
    let mut waiting = &said[..said.len().min(4 * ROOM)];
    let mut answers = vec![0; ROOM];
    let mut jobs = Vec::new();
    // Bounds the rounds: a server that neither waits nor ends the connection fails the run.
    for round in 0..10_000 {
        if let Ok(written) = client.write(waiting) {
            waiting = &waiting[written..];
        }
        let next = connection.drive(&context, Instant::now());
        let taken = client.read(&mut answers).unwrap_or(0);
        jobs.extend(connection.jobs());
        if matches!(next, NextStep::End) {
            return;
        }
        if !jobs.is_empty() && round % (1 + usize::from(manner) % 3) == 0 {
            let job = jobs.swap_remove((round * 7 + usize::from(manner)) % jobs.len());
            connection.resume(job.run(), &context);
            continue;
        }
        match next {
            NextStep::End | NextStep::Again | NextStep::Starved => {}
            NextStep::Wait(_) if waiting.is_empty() && taken == 0 && jobs.is_empty() => return,
            NextStep::Wait(_) => {}
        }
    }
    panic!("the connection does not come to rest");
});
