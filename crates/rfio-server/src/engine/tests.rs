//! Tests of the engine without a network: requests to a temporary export, and their answers.

use std::sync::Arc;

use verbena_rfio_common::scratch::Scratch;
use verbena_rfio_protocol::checksum;
use verbena_rfio_protocol::request::*;
use verbena_rfio_protocol::types::{Handle, Path, Range};
use verbena_rfio_protocol::{Reply, Request, Status};

use super::{Answer, Engine};
use crate::audit::{Audit, ClientIdentity};
use crate::export::{Access as ExportAccess, Export, Exports};
use crate::rights::Subject;
use crate::service::{Limits, Service};
use crate::storage::{Storage, StorageMethod};

const BLOCK: usize = 16 << 10;

fn engine(scratch: &Scratch) -> Engine {
    engine_with(
        scratch,
        Limits {
            block: BLOCK,
            cache: 16 * BLOCK,
            ..Limits::default()
        },
    )
}

fn engine_with(scratch: &Scratch, limits: Limits) -> Engine {
    engine_reading(scratch, limits, Storage::open(StorageMethod::Auto).unwrap())
}

fn engine_reading(scratch: &Scratch, limits: Limits, storage: Storage) -> Engine {
    let export = Export::open("", &scratch.path(""), ExportAccess::ReadWrite).unwrap();
    let exports = Exports::new(vec![export]).unwrap();
    let mut service = Service::new(exports, limits, Audit::none()).unwrap();
    service.storage = storage;
    let service = Arc::new(service);
    Engine::new(
        service,
        ClientIdentity {
            user: "test".into(),
            peer: "test".into(),
            session: 0,
        },
        Subject::user("test"),
    )
}

fn path(text: &str) -> Path {
    Path::new(text).unwrap()
}

fn open(engine: &mut Engine, name: &str, flags: u32) -> Handle {
    let request = Request::Open(Open {
        path: path(name),
        flags,
        mode: 0o644,
    });
    match engine.execute(&request, &[]).outcome {
        Ok(Reply::Opened(opened)) => opened.handle,
        other => panic!("{other:?}"),
    }
}

fn read(engine: &mut Engine, handle: Handle, offset: u64, length: u32) -> Answer {
    let range = Range { offset, length };
    engine.execute(
        &Request::Read(Read {
            handle,
            range,
            checksums: true,
            window: None,
        }),
        &[],
    )
}

fn bytes(answer: &Answer) -> Vec<u8> {
    answer
        .data
        .iter()
        .flat_map(|segment| segment.bytes().to_vec())
        .collect()
}

fn status(answer: &Answer) -> Status {
    answer
        .outcome
        .as_ref()
        .err()
        .map_or(Status::OK, |refusal| refusal.status)
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length)
        .map(|index| (index * 31 + index / 251) as u8)
        .collect()
}

#[test]
fn reads_of_every_alignment_give_the_files_bytes_and_checksums() {
    let scratch = Scratch::new();
    let content = pattern(5 * BLOCK + 17);
    std::fs::write(scratch.path("f"), &content).unwrap();
    let mut engine = engine(&scratch);
    let handle = open(&mut engine, "/f", OpenFlags::READ);
    for offset in [
        0,
        1,
        BLOCK - 1,
        BLOCK,
        3 * BLOCK + 5,
        content.len() - 1,
        content.len(),
        content.len() + 9,
    ] {
        for length in [0, 1, 100, BLOCK - 1, BLOCK, 2 * BLOCK + 3, 6 * BLOCK] {
            let answer = read(&mut engine, handle, offset as u64, length as u32);
            let from = offset.min(content.len());
            let expected = &content[from..(offset + length).min(content.len()).max(from)];
            assert_eq!(bytes(&answer), expected, "{offset}+{length}");
            let Ok(Reply::ReadDone(done)) = &answer.outcome else {
                panic!("{answer:?}")
            };
            assert_eq!(done.end, offset + length >= content.len());
            let checksums: Vec<u32> = verbena_rfio_protocol::checksum::pieces(
                offset as u64,
                expected.len() as u64,
                BLOCK as u32,
            )
            .map(|(start, piece)| {
                checksum::crc32c(&expected[start as usize..start as usize + piece as usize])
            })
            .collect();
            assert_eq!(done.checksums, checksums, "{offset}+{length}");
        }
    }
}

#[test]
fn a_changed_file_is_read_again() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("f"), vec![1; 2 * BLOCK]).unwrap();
    let mut engine = engine(&scratch);
    let handle = open(&mut engine, "/f", OpenFlags::READ);
    assert_eq!(bytes(&read(&mut engine, handle, 0, BLOCK as u32))[0], 1);
    std::fs::write(scratch.path("f"), vec![2; 2 * BLOCK]).unwrap();
    assert_eq!(
        bytes(&read(&mut engine, handle, 0, BLOCK as u32)),
        vec![2; BLOCK]
    );
    std::fs::write(scratch.path("f"), vec![3; 10]).unwrap();
    assert_eq!(
        bytes(&read(&mut engine, handle, 0, BLOCK as u32)),
        vec![3; 10]
    );
}

#[test]
fn a_full_cache_gives_short_but_correct_reads() {
    let scratch = Scratch::new();
    let content = pattern(4 * BLOCK);
    std::fs::write(scratch.path("f"), &content).unwrap();
    // Let the file settle, so that its blocks are shared.
    std::thread::sleep(std::time::Duration::from_millis(25));
    let mut engine = engine_with(
        &scratch,
        Limits {
            block: BLOCK,
            cache: 2 * BLOCK,
            ..Limits::default()
        },
    );
    let handle = open(&mut engine, "/f", OpenFlags::READ);
    let slow_reader = read(&mut engine, handle, 0, 2 * BLOCK as u32);
    assert_eq!(bytes(&slow_reader).len(), 2 * BLOCK);
    let short = read(&mut engine, handle, 2 * BLOCK as u64, 2 * BLOCK as u32);
    let got = bytes(&short);
    assert!(!got.is_empty() && got.len() <= BLOCK);
    assert_eq!(got, content[2 * BLOCK..2 * BLOCK + got.len()]);
    let Ok(Reply::ReadDone(done)) = &short.outcome else {
        panic!()
    };
    assert!(!done.end);
    assert_eq!(bytes(&slow_reader), content[..2 * BLOCK]);
}

#[test]
fn sizes_beyond_the_limits_are_refused_before_allocation() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("f"), "x").unwrap();
    let mut engine = engine(&scratch);
    let handle = open(&mut engine, "/f", OpenFlags::READ);
    assert_eq!(
        status(&read(&mut engine, handle, 0, u32::MAX)),
        Status::errno(libc::EINVAL)
    );
    assert_eq!(
        status(&read(&mut engine, handle, u64::MAX, 2)),
        Status::errno(libc::EINVAL)
    );
    let ranges = vec![
        Range {
            offset: 0,
            length: u32::MAX
        };
        3
    ];
    let vector = Request::ReadVector(ReadVector {
        handle,
        ranges,
        checksums: false,
        window: None,
    });
    assert_eq!(
        status(&engine.execute(&vector, &[])),
        Status::errno(libc::EINVAL)
    );
}

#[test]
fn vector_replies_are_packed_in_request_order() {
    let scratch = Scratch::new();
    let content = pattern(3 * BLOCK);
    std::fs::write(scratch.path("f"), &content).unwrap();
    let mut engine = engine(&scratch);
    let handle = open(&mut engine, "/f", OpenFlags::READ);
    let ends = [
        (40_000u64, 10u32),
        (0, 4),
        (BLOCK as u64 - 3, 6),
        (content.len() as u64 - 2, 9),
        (1 << 40, 5),
    ];
    let ranges = ends
        .iter()
        .map(|&(offset, length)| Range { offset, length })
        .collect();
    let answer = engine.execute(
        &Request::ReadVector(ReadVector {
            handle,
            ranges,
            checksums: true,
            window: None,
        }),
        &[],
    );
    let Ok(Reply::ReadVectorDone(done)) = &answer.outcome else {
        panic!("{answer:?}")
    };
    assert_eq!(done.lengths, [10, 4, 6, 2, 0]);
    let mut expected = content[40_000..40_010].to_vec();
    expected.extend_from_slice(&content[..4]);
    expected.extend_from_slice(&content[BLOCK - 3..BLOCK + 3]);
    expected.extend_from_slice(&content[content.len() - 2..]);
    assert_eq!(bytes(&answer), expected);
    assert_eq!(done.checksums[1], checksum::crc32c(&content[..4]));
}

/// Random reads and vectors, with a cache too small for them, read in batches and one by one.
#[test]
fn batched_reads_equal_single_reads() {
    let scratch = Scratch::new();
    let content = pattern(300 * BLOCK + 99);
    std::fs::write(scratch.path("f"), &content).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(25));
    let limits = Limits {
        block: BLOCK,
        cache: 160 * BLOCK,
        ..Limits::default()
    };
    let engines = [StorageMethod::Auto, StorageMethod::Threads].map(|wish| {
        let storage = Storage::open(wish).unwrap();
        let mut engine = engine_reading(&scratch, limits.clone(), storage);
        let handle = open(&mut engine, "/f", OpenFlags::READ);
        (engine, handle)
    });
    let expected = |offset: u64, length: u32| {
        let from = content.len().min(offset as usize);
        &content[from..content.len().min(from + length as usize)]
    };
    let range = (0..content.len() as u64 + 5000, 0..3 * BLOCK as u32);
    let small = (0..content.len() as u64 + 5000, 0..2000u32);
    let ranges = proptest::collection::vec(proptest::prop_oneof![range, small], 1..90);
    let config = proptest::test_runner::Config::with_cases(60);
    let property = |ranges: Vec<(u64, u32)>| {
        for (engine, handle) in &engines {
            let ranges = ranges
                .iter()
                .map(|&(offset, length)| Range { offset, length });
            let vector = Request::ReadVector(ReadVector {
                handle: *handle,
                ranges: ranges.clone().collect(),
                checksums: true,
                window: None,
            });
            let answer = engine.execute(&vector, &[]);
            let Ok(Reply::ReadVectorDone(done)) = &answer.outcome else {
                panic!("{answer:?}")
            };
            let parts: Vec<&[u8]> = ranges
                .map(|range| expected(range.offset, range.length))
                .collect();
            proptest::prop_assert_eq!(bytes(&answer), parts.concat());
            let checksums: Vec<u32> = parts.iter().map(|part| checksum::crc32c(part)).collect();
            proptest::prop_assert_eq!(&done.checksums, &checksums);
        }
        let (offset, length) = ranges[0];
        for (engine, handle) in &engines {
            let read = Request::Read(Read {
                handle: *handle,
                range: Range {
                    offset,
                    length: 8 * length,
                },
                checksums: false,
                window: None,
            });
            proptest::prop_assert_eq!(
                bytes(&engine.execute(&read, &[])),
                expected(offset, 8 * length)
            );
        }
        Ok(())
    };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    runner.run(&ranges, property).unwrap();
    let [together, in_turn] = engines.map(|(engine, _)| {
        let metrics = &engine.service.metrics;
        metrics
            .reads_together
            .load(std::sync::atomic::Ordering::Relaxed)
    });
    assert_eq!(in_turn, 0);
    if Storage::open(StorageMethod::Auto).unwrap().reads_together() {
        assert!(
            together > 1000,
            "only {together} reads were under way together"
        );
    }
}

#[test]
fn a_long_vector_is_not_read_while_others_wait() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("f"), pattern(BLOCK)).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(25));
    let mut engine = engine(&scratch);
    let handle = open(&mut engine, "/f", OpenFlags::READ);
    read(&mut engine, handle, 0, BLOCK as u32);
    let vector = |count: usize| {
        let range = |index| Range {
            offset: index as u64,
            length: 1,
        };
        let request = Request::ReadVector(ReadVector {
            handle,
            ranges: (0..count).map(range).collect(),
            checksums: false,
            window: None,
        });
        engine.execute_quickly(&request).is_some()
    };
    assert!(vector(1024), "cached data are read at once");
    assert!(!vector(1025), "it takes a worker");
}

#[test]
fn a_user_s_open_files_are_bounded_over_all_sessions() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("f"), "x").unwrap();
    let mut limits = Limits {
        cache: 16 * BLOCK,
        block: BLOCK,
        ..Limits::default()
    };
    limits.caps.open_files_per_user = 2;
    limits.caps.open_files = 3;
    let mut first = engine_with(&scratch, limits);
    let service = Arc::clone(&first.service);
    let another = |user: &str| {
        let client = ClientIdentity {
            user: user.into(),
            peer: "test".into(),
            session: 1,
        };
        Engine::new(Arc::clone(&service), client, Subject::user("test"))
    };
    let (mut second, mut other) = (another("test"), another("other"));
    let request = Request::Open(Open {
        path: path("/f"),
        flags: OpenFlags::READ,
        mode: 0,
    });
    let opened = open(&mut first, "/f", OpenFlags::READ);
    open(&mut second, "/f", OpenFlags::READ);
    let refused = second.execute(&request, &[]);
    assert_eq!(status(&refused), Status::errno(libc::EMFILE));
    open(&mut other, "/f", OpenFlags::READ);
    let refused = other.execute(&request, &[]);
    assert_eq!(status(&refused), Status::errno(libc::ENFILE));
    first.execute(&Request::Close(OnHandle { handle: opened }), &[]);
    open(&mut second, "/f", OpenFlags::READ);
    drop(second);
    open(&mut first, "/f", OpenFlags::READ);
}

#[test]
fn writes_are_verified_and_placed_at_their_offset() {
    let scratch = Scratch::new();
    let mut engine = engine(&scratch);
    let handle = open(&mut engine, "/f", OpenFlags::WRITE | OpenFlags::CREATE);
    let data = pattern(BLOCK + 5);
    let range = Range {
        offset: BLOCK as u64 - 2,
        length: data.len() as u32,
    };
    let good = [&data[..2], &data[2..BLOCK + 2], &data[BLOCK + 2..]]
        .map(checksum::crc32c)
        .to_vec();
    let mut bad = good.clone();
    bad[1] ^= 1;
    let write = |checksums| {
        Request::Write(Write {
            handle,
            range: range.clone(),
            checksums,
            window: None,
        })
    };
    assert_eq!(
        status(&engine.execute(&write(bad), &data)),
        Status::CHECKSUM
    );
    assert_eq!(
        std::fs::metadata(scratch.path("f")).unwrap().len(),
        0,
        "nothing may be written of damaged data"
    );
    assert_eq!(
        status(&engine.execute(&write(good.clone()), &data[1..])),
        Status::COMMUNICATION
    );
    assert_eq!(status(&engine.execute(&write(good), &data)), Status::OK);
    assert_eq!(std::fs::read(scratch.path("f")).unwrap()[BLOCK - 2..], data);
}

#[test]
fn handles_are_wide_and_never_reused() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("f"), "x").unwrap();
    let mut engine = engine_with(
        &scratch,
        Limits {
            handles: 2,
            ..Limits::default()
        },
    );
    let mut last = Handle(0);
    // More opens than 16 bits can number.
    for _ in 0..70_000 {
        let handle = open(&mut engine, "/f", OpenFlags::READ);
        assert!(handle > last);
        last = handle;
        assert_eq!(
            status(&engine.execute(&Request::Close(OnHandle { handle }), &[])),
            Status::OK
        );
    }
    assert_eq!(
        status(&read(&mut engine, last, 0, 1)),
        Status::errno(libc::EBADF)
    );
    open(&mut engine, "/f", OpenFlags::READ);
    open(&mut engine, "/f", OpenFlags::READ);
    let third = Request::Open(Open {
        path: path("/f"),
        flags: OpenFlags::READ,
        mode: 0,
    });
    assert_eq!(
        status(&engine.execute(&third, &[])),
        Status::errno(libc::EMFILE)
    );
}

#[test]
fn a_sole_writer_excludes_other_writers_and_truncation() {
    let scratch = Scratch::new();
    let mut engine = engine(&scratch);
    let flags = OpenFlags::WRITE | OpenFlags::CREATE | OpenFlags::SOLE_WRITER | OpenFlags::TRUNCATE;
    let handle = open(&mut engine, "/f", flags);
    std::fs::write(scratch.path("f"), "half").unwrap();
    let second = Request::Open(Open {
        path: path("/f"),
        flags,
        mode: 0o644,
    });
    assert_eq!(
        status(&engine.execute(&second, &[])),
        Status::errno(libc::EBUSY)
    );
    assert_eq!(std::fs::read(scratch.path("f")).unwrap(), b"half");
    engine.execute(&Request::Close(OnHandle { handle }), &[]);
    assert_eq!(status(&engine.execute(&second, &[])), Status::OK);
}

#[test]
fn devices_and_fifos_are_refused() {
    let scratch = Scratch::new();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        scratch.path("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let engine = engine(&scratch);
    let request = Request::Open(Open {
        path: path("/fifo"),
        flags: OpenFlags::READ,
        mode: 0,
    });
    assert_eq!(
        status(&engine.execute(&request, &[])),
        Status::errno(libc::EINVAL)
    );
}

#[test]
fn clients_cannot_make_set_user_id_files() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new();
    std::fs::write(scratch.path("f"), "x").unwrap();
    let engine = engine(&scratch);
    let change = Request::ChangeMode(PathMode {
        path: path("/f"),
        mode: 0o6755,
    });
    assert_eq!(status(&engine.execute(&change, &[])), Status::OK);
    let store = Store {
        path: path("/s"),
        mode: 0o4755,
        modified: i64::MIN,
        checksum: checksum::crc32c(b"y"),
        care: 0,
    };
    assert_eq!(
        status(&engine.execute(&Request::Store(store), b"y")),
        Status::OK
    );
    for name in ["f", "s"] {
        let mode = std::fs::metadata(scratch.path(name))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o6000, 0, "{name}: {mode:o}");
    }
    // On a directory the set-group-ID bit grants no rights, and is kept when other bits are
    // changed.
    std::fs::create_dir(scratch.path("d")).unwrap();
    for (asked, set) in [(0o7775, 0o3775), (0o750, 0o2750)] {
        let change = Request::ChangeMode(PathMode {
            path: path("/d"),
            mode: asked,
        });
        assert_eq!(status(&engine.execute(&change, &[])), Status::OK);
        let about = std::fs::metadata(scratch.path("d")).unwrap();
        assert_eq!(about.permissions().mode() & 0o7777, set);
    }
}

#[test]
fn a_directory_listing_in_parts_is_complete() {
    let scratch = Scratch::new();
    for number in 0..300 {
        std::fs::write(scratch.path(format!("file-{number}")), "x").unwrap();
    }
    let engine = engine(&scratch);
    let (mut names, mut cookie) = (Vec::new(), 0);
    loop {
        let list = Request::List(List {
            path: path("/"),
            cookie,
            count: 7,
        });
        let Ok(Reply::Listing(listing)) = engine.execute(&list, &[]).outcome else {
            panic!()
        };
        names.extend(
            listing
                .entries
                .into_iter()
                .map(|entry| entry.name.to_string()),
        );
        if listing.cookie == 0 {
            break;
        }
        cookie = listing.cookie;
    }
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 300);
}

#[test]
fn name_operations_take_effect() {
    let scratch = Scratch::new();
    let engine = engine(&scratch);
    let ok = |request: Request| {
        let answer = engine.execute(&request, &[]);
        assert_eq!(status(&answer), Status::OK, "{request:?}: {answer:?}");
        answer
    };
    ok(Request::MakeDirectory(PathMode {
        path: path("/d"),
        mode: 0o755,
    }));
    ok(Request::Store(Store {
        path: path("/d/a"),
        mode: 0o600,
        modified: 1_000_000_007,
        checksum: 0,
        care: 0,
    }));
    ok(Request::Rename(TwoPaths {
        from: path("/d/a"),
        to: path("/d/b"),
    }));
    ok(Request::MakeLink(TwoPaths {
        from: path("b"),
        to: path("/d/l"),
    }));
    let Ok(Reply::Target(target)) = ok(Request::ReadLink(OnPath { path: path("/d/l") })).outcome
    else {
        panic!()
    };
    assert_eq!(target.path, path("b"));
    let Ok(Reply::Status(about)) = ok(Request::Status(OnPath { path: path("/d/l") })).outcome
    else {
        panic!()
    };
    assert_eq!(
        (about.attributes.modified, about.attributes.size),
        (1_000_000_007, 0)
    );
    ok(Request::Access(Access {
        path: path("/d/b"),
        mode: 4,
    }));
    ok(Request::Space(OnPath { path: path("/d") }));
    ok(Request::Unlink(OnPath { path: path("/d/l") }));
    ok(Request::Unlink(OnPath { path: path("/d/b") }));
    ok(Request::RemoveDirectory(OnPath { path: path("/d") }));
    assert!(!scratch.path("d").exists());
}

#[test]
fn replace_keeps_the_attributes_of_the_replaced_file() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new();
    let replace = |from: &str, to: &str| {
        Request::Replace(TwoPaths {
            from: path(from),
            to: path(to),
        })
    };
    let write = |name: &str, content: &str, mode: u32| {
        std::fs::write(scratch.path(name), content).unwrap();
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(scratch.path(name), mode).unwrap();
    };
    let found = |name: &str| {
        let about = std::fs::symlink_metadata(scratch.path(name)).unwrap();
        let content = std::fs::read_to_string(scratch.path(name)).unwrap();
        (content, about.permissions().mode() & 0o7777)
    };
    let engine = engine(&scratch);
    write("old", "old", 0o4640);
    write("new", "new", 0o666);
    assert_eq!(
        status(&engine.execute(&replace("/new", "/old"), &[])),
        Status::OK
    );
    assert_eq!(found("old"), ("new".to_owned(), 0o640));
    assert!(!scratch.path("new").exists());

    write("first", "first", 0o600);
    assert_eq!(
        status(&engine.execute(&replace("/first", "/fresh"), &[])),
        Status::OK
    );
    assert_eq!(found("fresh"), ("first".to_owned(), 0o600));

    write("third", "third", 0o600);
    std::os::unix::fs::symlink("old", scratch.path("link")).unwrap();
    assert_eq!(
        status(&engine.execute(&replace("/third", "/link"), &[])),
        Status::OK
    );
    assert_eq!(found("link"), ("third".to_owned(), 0o600));
    assert_eq!(found("old"), ("new".to_owned(), 0o640));
    assert_eq!(
        status(&engine.execute(&replace("/none", "/old"), &[])),
        Status::errno(libc::ENOENT)
    );
    assert_eq!(found("old"), ("new".to_owned(), 0o640));
}

#[test]
fn cached_data_are_answered_without_blocking() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("f"), pattern(4 * BLOCK)).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(25));
    let mut engine = engine(&scratch);
    let handle = open(&mut engine, "/f", OpenFlags::READ);
    let request = Request::Read(Read {
        handle,
        range: Range {
            offset: 0,
            length: BLOCK as u32,
        },
        checksums: true,
        window: None,
    });
    assert!(
        engine.execute_quickly(&request).is_none(),
        "an unread block needs storage"
    );
    let slow = engine.execute(&request, &[]);
    let quick = engine
        .execute_quickly(&request)
        .expect("the block is cached now");
    assert_eq!(bytes(&slow), bytes(&quick));
}

#[test]
fn checksums_of_blocks_are_those_of_the_data() {
    let scratch = Scratch::new();
    let content = pattern(2 * BLOCK + 100);
    std::fs::write(scratch.path("f"), &content).unwrap();
    let mut engine = engine(&scratch);
    let handle = open(&mut engine, "/f", OpenFlags::READ);
    let request = Request::Checksum(Checksum {
        handle,
        offset: 0,
        block: BLOCK as u32,
        count: 10,
    });
    let Ok(Reply::Checksums(reply)) = engine.execute(&request, &[]).outcome else {
        panic!()
    };
    let expected: Vec<u32> = content.chunks(BLOCK).map(checksum::crc32c).collect();
    assert_eq!(reply.checksums, expected);
}

/// A non-blocking answer equals the blocking one: for existing and missing names, and for links to
/// them, out of the export, and in loops.
#[test]
fn nonblocking_answers_equal_blocking_ones() {
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.path("d/e")).unwrap();
    std::fs::write(scratch.path("d/file"), "inside").unwrap();
    for (target, name) in [
        ("d/file", "to-file"),
        ("../d", "d/to-directory"),
        ("../../outside", "d/out"),
        ("/etc", "absolute"),
        ("nothing", "dangling"),
        ("circle", "circle"),
    ] {
        std::os::unix::fs::symlink(target, scratch.path(name)).unwrap();
    }
    let engine = engine(&scratch);
    let parts = [
        "d",
        "e",
        "file",
        "to-file",
        "to-directory",
        "out",
        "absolute",
        "dangling",
        "circle",
        "..",
        "missing",
    ];
    let mut quick = 0;
    for first in parts {
        for second in parts {
            for third in [None].into_iter().chain(parts.map(Some)) {
                let third = third.map_or(String::new(), |third| format!("/{third}"));
                let name = format!("/{first}/{second}{third}");
                let on = || OnPath { path: path(&name) };
                for request in [
                    Request::Status(on()),
                    Request::LinkStatus(on()),
                    Request::Access(Access {
                        path: path(&name),
                        mode: 6,
                    }),
                ] {
                    let found = engine.execute(&request, &[]);
                    let Some(known) = engine.execute_quickly(&request) else {
                        continue;
                    };
                    quick += 1;
                    let what =
                        |answer: &Answer| (status(answer), answer.outcome.as_ref().ok().cloned());
                    assert_eq!(what(&known), what(&found), "{request:?}");
                }
            }
        }
    }
    // None is answered on a file system that is not local. One without negative dentries (tmpfs)
    // answers fewer.
    assert!(quick == 0 || quick > 300, "{quick}");
}
