//! Fuzzes a client with a hostile server. The input is replies: length of the body (2 bytes),
//! length of the payload (2), body, payload. Their headers match the client's requests, so that the
//! code behind the framing is reached. The first byte selects the client, one with many requests in
//! flight if it is odd, and the requests to which the replies are addressed.
#![no_main]

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use verbena_rfio_client::connection::{Operation, PipelinedReads, PipelinedWrites, SharedFile};
use verbena_rfio_client::copy::list;
use verbena_rfio_client::{Address, MultiplexedConnection, Options};
use verbena_rfio_protocol::Header;
use verbena_rfio_protocol::frame::{HEADER, Kind, Limits, MOST_BODY, MOST_PAYLOAD};
use verbena_rfio_protocol::types::{Handle, Path, Range};

fn listener() -> &'static (PathBuf, UnixListener) {
    static LISTENER: OnceLock<(PathBuf, UnixListener)> = OnceLock::new();
    LISTENER.get_or_init(|| {
        let path = std::env::temp_dir().join(format!("rfio-fuzz-{}.sock", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).expect("the temporary directory is writable");
        (path, listener)
    })
}

/// Sends the next reply of the input for each request that arrives, addressed to that request or an
/// earlier one; returns at the end of the input.
fn answer(mut peer: UnixStream, variant: u8, mut input: &[u8]) -> Option<()> {
    let mut asked_before: Vec<Header> = Vec::new();
    let limits = Limits {
        body: MOST_BODY,
        payload: MOST_PAYLOAD,
    };
    loop {
        let mut raw = [0; HEADER];
        peer.read_exact(&mut raw).ok()?;
        let asked = Header::parse(&raw, limits).ok()?;
        let mut rest = vec![0; (asked.body + asked.payload) as usize];
        peer.read_exact(&mut rest).ok()?;
        let (&[b0, b1, p0, p1], behind) = input.split_first_chunk::<4>()?;
        let body = usize::from(u16::from_be_bytes([b0, b1])).min(behind.len());
        let (body, behind) = behind.split_at(body);
        let payload = usize::from(u16::from_be_bytes([p0, p1])).min(behind.len());
        let (payload, behind) = behind.split_at(payload);
        asked_before.push(asked);
        // Sometimes addresses an earlier request, answered or not.
        let back = match (asked_before.len() + usize::from(variant)) % 5 {
            0 => usize::from(variant) % asked_before.len(),
            _ => 0,
        };
        let asked = asked_before[asked_before.len() - 1 - back];
        let header = Header {
            kind: Kind::reply(asked.kind.operation()),
            body: body.len() as u32,
            payload: payload.len() as u32,
            id: asked.id,
        };
        peer.write_all(&[&header.emit(), body, payload].concat())
            .ok()?;
        input = behind;
    }
}

fn options() -> Options {
    Options {
        timeout: Duration::from_secs(5),
        ..Options::plain("nobody")
    }
}

/// Uses a connection with many requests in flight, which are awaited, cancelled or dropped.
fn use_server_at_once(address: &Address) -> Option<()> {
    let connection = MultiplexedConnection::connect(address, &options()).ok()?;
    let handle = Handle(1);
    let read = |offset| Operation::Read { handle, offset };
    let ranges = vec![
        Range {
            offset: 0,
            length: 100,
        },
        Range {
            offset: 4000,
            length: 1,
        },
    ];
    let first = connection.begin(read(10), vec![0; 3000]).ok()?;
    let second = connection
        .begin(Operation::Vector { handle, ranges }, vec![0; 101])
        .ok()?;
    let third = connection.begin(read(5000), vec![0; 10]).ok()?;
    let fourth = connection
        .begin(Operation::Write { handle, offset: 5 }, vec![1; 50])
        .ok()?;
    let _ = third.cancel();
    drop(first);
    for ticket in [fourth, second, third] {
        let _ = ticket.wait();
    }
    let file = SharedFile::open(connection, &Path::new("/f")?, 1, 0).ok()?;
    let ranges = [
        Range {
            offset: 0,
            length: 100,
        },
        Range {
            offset: 4000,
            length: 9000,
        },
    ];
    let mut packed = Vec::new();
    if let Ok(lengths) = file.read_packed(&ranges, &mut packed) {
        let whole: u32 = lengths.iter().sum();
        assert_eq!(packed.len(), whole as usize);
    }
    let _ = file.checksum();
    file.close().ok()
}

fn use_server(address: &Address) -> Option<()> {
    let options = options();
    let path = Path::new("/f")?;
    let session = MultiplexedConnection::for_copies(address, &options).ok()?;
    let _ = list(|request| session.call(request), &path);
    let file = SharedFile::open(session, &path, 1, 0).ok()?;
    let _ = file.read(10, vec![0; 3000]);
    let most = file.connection().max_request_bytes() as u32;
    let mut reads = PipelinedReads::of(&file, Some(1));
    for offset in [0, 100, 4000] {
        let _ = reads.start(offset, most.min(3000));
    }
    while let Ok(Some(length)) = reads.finish_oldest(|_, _, data| data.len()) {
        assert!(length <= 3000);
    }
    let mut writes = PipelinedWrites::default();
    let _ = writes.start(&file, 5, &[1; 50]);
    let _ = writes.finish();
    let _ = file.examine();
    file.close().ok()
}

fuzz_target!(|input: &[u8]| {
    let Some((&variant, input)) = input.split_first() else {
        return;
    };
    let (path, listener) = listener();
    let address = Address::Socket(path.clone());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            if let Ok((peer, _)) = listener.accept() {
                answer(peer, variant, input);
            }
        });
        match variant % 2 {
            0 => use_server(&address),
            _ => use_server_at_once(&address),
        }
    });
});
