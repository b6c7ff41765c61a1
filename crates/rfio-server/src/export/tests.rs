//! Path walks that try to leave the root, and rights.

use std::os::unix::fs::symlink;

use rustix::fs::FileType;
use verbena_rfio_common::scratch::Scratch;

use super::*;
use crate::rights::{Need, Operations, Rights, Subject};

const FREE: &Permit<'static> = &Permit::FREE;

fn path(text: &str) -> Path {
    Path::new(text).unwrap()
}

fn exports(scratch: &Scratch, access: Access) -> Exports {
    std::fs::create_dir_all(scratch.path("root/sub")).unwrap();
    std::fs::write(scratch.path("root/sub/file"), "inside").unwrap();
    std::fs::write(scratch.path("secret"), "outside").unwrap();
    Exports::new(vec![
        Export::open("", &scratch.path("root"), access).unwrap(),
    ])
    .unwrap()
}

fn read(exports: &Exports, name: &str) -> io::Result<String> {
    let file = exports.open(&path(name), OFlags::RDONLY, Mode::empty(), FREE)?;
    io::read_to_string(std::fs::File::from(file))
}

#[test]
fn a_file_inside_opens_by_every_spelling() {
    let scratch = Scratch::new();
    let exports = exports(&scratch, Access::ReadOnly);
    for name in ["/sub/file", "sub/file", "//sub/./file", "/sub/../sub/file"] {
        assert_eq!(read(&exports, name).unwrap(), "inside", "{name}");
    }
}

#[test]
fn nothing_but_a_regular_file_is_opened() {
    let scratch = Scratch::new();
    let exports = exports(&scratch, Access::ReadWrite);
    let fifo = scratch.path("root/fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        FileType::Fifo,
        Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    // Opening for writing without a reader fails anyway (fifo(7)), so inotify is used to detect an
    // open.
    let watch = rustix::fs::inotify::init(rustix::fs::inotify::CreateFlags::NONBLOCK).unwrap();
    rustix::fs::inotify::add_watch(&watch, &fifo, rustix::fs::inotify::WatchFlags::OPEN).unwrap();
    let create = OFlags::RDWR | OFlags::CREATE;
    for flags in [OFlags::RDONLY, OFlags::WRONLY, create] {
        let flags = flags | OFlags::NONBLOCK;
        let mode = Mode::from_raw_mode(0o600);
        assert!(
            exports
                .open_file(&path("/fifo"), flags, mode, FREE)
                .is_err()
        );
    }
    let seen = rustix::io::read(&watch, &mut [0u8; 256]);
    assert_eq!(seen.unwrap_err(), Errno::AGAIN, "the FIFO was opened");
    assert!(
        exports
            .open_file(&path("/sub"), OFlags::RDONLY, Mode::empty(), FREE)
            .is_err()
    );
    for name in ["/new", "/sub/file", "/new"] {
        let mode = Mode::from_raw_mode(0o600);
        exports.open_file(&path(name), create, mode, FREE).unwrap();
    }
    symlink("nowhere", scratch.path("root/dangling")).unwrap();
    assert!(
        exports
            .open_file(&path("/dangling"), create, Mode::empty(), FREE)
            .is_err()
    );
}

#[test]
fn no_path_leaves_the_root() {
    let scratch = Scratch::new();
    let exports = exports(&scratch, Access::ReadWrite);
    symlink("../secret", scratch.path("root/up")).unwrap();
    symlink(scratch.path("secret"), scratch.path("root/absolute")).unwrap();
    symlink("..", scratch.path("root/parent")).unwrap();
    symlink("/proc/self/root", scratch.path("root/magic")).unwrap();
    for name in [
        "/../secret",
        "/sub/../../secret",
        "/up",
        "/absolute",
        "/parent/secret",
        "/magic/etc/passwd",
    ] {
        let error = read(&exports, name).unwrap_err();
        assert_eq!(
            error.raw_os_error(),
            Some(Errno::ACCESS.raw_os_error()),
            "{name}: {error}"
        );
        // Nor can a name below such a path be used.
        assert!(
            exports.name(&path(&format!("{name}/new")), FREE).is_err(),
            "{name}"
        );
    }
    assert!(exports.name(&path("/../new"), FREE).is_err());
}

#[test]
fn a_link_that_stays_inside_is_followed() {
    let scratch = Scratch::new();
    let exports = exports(&scratch, Access::ReadOnly);
    symlink("sub/file", scratch.path("root/link")).unwrap();
    assert_eq!(read(&exports, "/link").unwrap(), "inside");
}

#[test]
fn a_directory_that_becomes_a_link_during_the_walk_never_leads_out() {
    // A race that defeats a check before the open: one thread swaps a directory with a link to the
    // outside.
    let scratch = Scratch::new();
    let exports = exports(&scratch, Access::ReadOnly);
    std::fs::create_dir(scratch.path("outside")).unwrap();
    std::fs::write(scratch.path("outside/file"), "outside").unwrap();
    symlink("../outside", scratch.path("root/evil")).unwrap();
    let (sub, evil) = (scratch.path("root/sub"), scratch.path("root/evil"));
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let exchange = rustix::fs::RenameFlags::EXCHANGE;
                rustix::fs::renameat_with(rustix::fs::CWD, &sub, rustix::fs::CWD, &evil, exchange)
                    .unwrap();
            }
        });
        for _ in 0..20_000 {
            if let Ok(text) = read(&exports, "/sub/file") {
                assert_eq!(text, "inside");
            }
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn a_directory_that_becomes_a_link_during_the_walk_never_leads_to_other_rights() {
    let scratch = Scratch::new();
    let exports = exports(&scratch, Access::ReadWrite);
    for name in ["ann", "ann/d", "bob"] {
        std::fs::create_dir(scratch.path("root").join(name)).unwrap();
    }
    std::fs::write(scratch.path("root/ann/d/f"), "own").unwrap();
    std::fs::write(scratch.path("root/bob/f"), "secret").unwrap();
    symlink("../bob", scratch.path("root/ann/evil")).unwrap();
    let rights = Arc::new(Rights::parse(b"ann all /ann").unwrap());
    let ann = Subject::user("ann");
    let permit = |operation| Permit::new(Some(Arc::clone(&rights)), &ann, Need::All(operation));
    let (may_read, may_write) = (permit(Operations::READ), permit(Operations::WRITE));
    let (dir, evil) = (scratch.path("root/ann/d"), scratch.path("root/ann/evil"));
    let stop = std::sync::atomic::AtomicBool::new(false);
    let mut opened = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let exchange = rustix::fs::RenameFlags::EXCHANGE;
            let here = rustix::fs::CWD;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                rustix::fs::renameat_with(here, &dir, here, &evil, exchange).unwrap();
            }
        });
        for number in 0..5_000 {
            let file =
                exports.open_file(&path("/ann/d/f"), OFlags::RDONLY, Mode::empty(), &may_read);
            if let Ok((file, _)) = file {
                let text = io::read_to_string(std::fs::File::from(file)).unwrap();
                assert_eq!(text, "own");
                opened += 1;
            }
            let (new, mode) = (format!("/ann/d/{number}"), Mode::from_raw_mode(0o600));
            let make = OFlags::WRONLY | OFlags::CREATE;
            let _ = exports.open_file(&path(&new), make, mode, &may_write);
            if let Ok(named) = exports.name(&path("/ann/d/f"), &may_write) {
                let at = std::fs::File::from(named.parent);
                let about = rustix::fs::statat(&at, "f", rustix::fs::AtFlags::empty());
                let size = about.map(|about| about.st_size);
                assert_eq!(size, Ok(3), "a name in another directory");
            }
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert!(opened > 0);
    assert_eq!(
        std::fs::read_dir(scratch.path("root/bob")).unwrap().count(),
        1
    );
}

#[test]
fn a_replaced_directory_is_exported_and_the_old_one_reported() {
    let scratch = Scratch::new();
    let exports = exports(&scratch, Access::ReadWrite);
    let named = exports.name(&path("/sub/new"), FREE).unwrap();
    let (file, root) = exports
        .open_file(&path("/sub/file"), OFlags::RDWR, Mode::empty(), FREE)
        .unwrap();
    named.confirm().unwrap();
    std::fs::rename(scratch.path("root"), scratch.path("aside")).unwrap();
    let errno_of = |error: io::Error| {
        let message = error.get_ref().and_then(|inner| inner.downcast_ref());
        message.map(|ClientMessage { errno, .. }| *errno)
    };
    let gone = exports.name(&path("/sub/new"), FREE).unwrap_err();
    assert_eq!(errno_of(gone), Some(Errno::STALE));
    std::fs::create_dir_all(scratch.path("root/sub")).unwrap();
    let now = exports.name(&path("/sub/new"), FREE).unwrap();
    now.confirm().unwrap();
    for old in [
        named.confirm(),
        root.must_not_be_replaced(),
        root.must_be_at_its_path(),
    ] {
        assert_eq!(errno_of(old.unwrap_err()), Some(Errno::STALE));
    }
    assert!(
        read(&exports, "/sub/file").is_err(),
        "it is in the directory of before"
    );
    assert_eq!(
        io::read_to_string(std::fs::File::from(file)).unwrap(),
        "inside"
    );
    std::fs::rename(scratch.path("root"), scratch.path("other")).unwrap();
    std::fs::rename(scratch.path("aside"), scratch.path("root")).unwrap();
    assert_eq!(read(&exports, "/sub/file").unwrap(), "inside");
    assert_eq!(exports.reopen(), Ok(()));
}

#[test]
fn a_directory_that_is_no_mount_point_is_refused() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("d")).unwrap();
    let opened = Export::open_mounted("", &scratch.path("d"), Access::ReadOnly);
    assert!(
        opened
            .unwrap_err()
            .to_string()
            .contains("not a mount point")
    );
}

#[test]
fn a_read_only_export_refuses_changes() {
    let scratch = Scratch::new();
    let exports = exports(&scratch, Access::ReadOnly);
    let flags = OFlags::WRONLY | OFlags::CREATE;
    assert!(
        exports
            .open(&path("/new"), flags, Mode::from_raw_mode(0o600), FREE)
            .is_err()
    );
    assert!(exports.name(&path("/new"), FREE).is_err());
    assert!(!scratch.path("root/new").exists());
}

#[test]
fn named_exports_appear_in_a_virtual_root() {
    let scratch = Scratch::new();
    for name in ["a", "b"] {
        std::fs::create_dir(scratch.path(name)).unwrap();
        std::fs::write(scratch.path(name).join("f"), name).unwrap();
    }
    let open = |name: &str| Export::open(name, &scratch.path(name), Access::ReadOnly).unwrap();
    let exports = Exports::new(vec![open("a"), open("b")]).unwrap();
    assert_eq!(read(&exports, "/b/f").unwrap(), "b");
    assert!(
        read(&exports, "/b/../a/f").is_err(),
        "one export must not lead into another"
    );
    assert!(matches!(
        exports.locate(&path("/")).unwrap(),
        PathTarget::Above
    ));
}

#[test]
fn conflicting_exports_are_refused() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("d")).unwrap();
    let open = |name: &str| Export::open(name, &scratch.path("d"), Access::ReadOnly).unwrap();
    assert_eq!(Exports::new(vec![]).unwrap_err(), BadExports::None);
    assert_eq!(
        Exports::new(vec![open("a"), open("a")]).unwrap_err(),
        BadExports::Twice("a".into())
    );
    assert_eq!(
        Exports::new(vec![open(""), open("a")]).unwrap_err(),
        BadExports::RootBesideOthers
    );
    assert_eq!(
        Exports::new(vec![open("a/b")]).unwrap_err(),
        BadExports::Name("a/b".into())
    );
}

#[test]
fn names_of_exports_and_directories_are_bytes() {
    let scratch = Scratch::new();
    let directory = scratch.path("").join(OsStr::from_bytes(b"d\xff"));
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join("f"), "inside").unwrap();
    let export = Export::open(b"n\xfe", &directory, Access::ReadOnly).unwrap();
    assert!(
        export.directory().ends_with("d\\xff"),
        "{}",
        export.directory()
    );
    let exports = Exports::new(vec![export]).unwrap();
    let file = Path::new(&b"/n\xfe/f"[..]).unwrap();
    let file = exports.open(&file, OFlags::RDONLY, Mode::empty(), FREE);
    let file = std::fs::File::from(file.unwrap());
    assert_eq!(io::read_to_string(file).unwrap(), "inside");
}
