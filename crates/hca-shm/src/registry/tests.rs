//! Each registry here is opened separately, as another process would open it: the locks belong to
//! open files, not to processes.

use super::*;
use crate::context_table::QpRecord;
use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt, FileExt};

fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("verbena-registry-{}-{name}", std::process::id()))
}

/// Raises the limit of descriptors to the maximum: a registry takes three.
fn allow_many_descriptors() {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is valid for both calls.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
    }
}

/// A process: dropping it closes its file and listener, as when it is killed.
struct Member {
    registry: Registry,
    identity: Identity,
    _listener: Socket,
}

fn enter(path: &Path) -> Member {
    let (registry, identity, listener) = Registry::enter(path).unwrap();
    Member {
        registry,
        identity,
        _listener: listener,
    }
}

impl Member {
    fn leave(self) {
        self.registry.leave(self.identity);
    }

    fn block(&self) -> Result<u32> {
        self.registry.allocate_block(self.identity)
    }
}

#[test]
fn registry_is_removed_with_its_last_process() {
    let path = scratch("join");
    let me = enter(&path);
    let first = me.block().unwrap();
    assert!(first >= BLOCK);
    assert_eq!(me.registry.owner(first + 7), Some(me.identity));
    assert_eq!(me.registry.owner(first + BLOCK), None);
    assert!(me.registry.is_alive(me.identity));
    me.leave();
    assert!(!path.exists());
}

#[test]
fn removed_registry_refuses_joins_and_spares_its_successor() {
    let path = scratch("stale");
    let early = Registry::open(&path).unwrap();
    enter(&path).leave();
    assert_eq!(early.join().err(), Some(Errno::ESTALE));
    let successor = enter(&path);
    early.sweep();
    assert!(path.join(FILE).exists(), "the successor's file is not ours");
    assert!(successor.block().is_ok());
    successor.leave();
    assert!(!path.exists());
}

#[test]
fn process_can_enter_while_others_leave() {
    let path = scratch("crowd");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..300 {
                    let me = enter(&path);
                    let number = me.block().unwrap();
                    assert_eq!(me.registry.owner(number), Some(me.identity));
                    assert!(path.join(FILE).exists());
                    me.leave();
                }
            });
        }
    });
    assert!(!path.exists());
}

#[test]
fn numbers_are_reclaimed_from_dead_processes_only() {
    let path = scratch("dead");
    let (me, other) = (enter(&path), enter(&path));
    let number = other.block().unwrap();
    let identity = other.identity;
    me.registry.reclaim(identity);
    assert_eq!(me.registry.owner(number), Some(identity), "it lives");
    drop(other);
    assert!(!me.registry.is_alive(identity));
    me.registry.reclaim(identity);
    assert_eq!(me.registry.owner(number), None);
    assert_eq!(
        fs::read_dir(&path).unwrap().count(),
        2,
        "registry and own socket"
    );
    me.leave();
    assert!(!path.exists());
}

#[test]
fn slots_of_dead_processes_are_reused_when_full() {
    allow_many_descriptors();
    let path = scratch("slots");
    let me = enter(&path);
    let dead: Vec<Identity> = (1..SLOTS).map(|_| enter(&path).identity).collect();
    // None of them has left: their slots say that they live.
    assert_eq!(me.registry.processes().len(), SLOTS);
    let successor = enter(&path);
    let before = dead
        .iter()
        .find(|identity| identity.slot == successor.identity.slot)
        .unwrap();
    assert_ne!(before.generation, successor.identity.generation);
    me.leave();
    successor.leave();
    assert!(!path.exists());
}

#[test]
fn enter_fails_when_every_slot_is_taken() {
    allow_many_descriptors();
    let path = scratch("full");
    let all: Vec<Member> = (0..SLOTS).map(|_| enter(&path)).collect();
    assert_eq!(Registry::enter(&path).err(), Some(Errno::ENOMEM));
    drop(all);
    enter(&path).leave();
    assert!(!path.exists());
}

#[test]
fn numbers_of_dead_processes_are_reused_when_exhausted() {
    let path = scratch("blocks");
    let (me, other) = (enter(&path), enter(&path));
    let mine: Vec<u32> = (0..1000).map(|_| me.block().unwrap()).collect();
    while other.block().is_ok() {}
    assert_eq!(me.block(), Err(Errno::ENOMEM), "both live");
    drop(other);
    let got: std::collections::HashSet<u32> = std::iter::from_fn(|| me.block().ok()).collect();
    assert_eq!(got.len(), BLOCKS as usize - 1 - mine.len());
    assert!(mine.iter().all(|number| !got.contains(number)));
    me.leave();
    assert!(!path.exists());
}

#[test]
fn released_numbers_have_no_owner_and_are_reused_last() {
    let path = scratch("again");
    let (me, other) = (enter(&path), enter(&path));
    let its = other.block().unwrap();
    other.leave();
    assert_eq!(me.registry.owner(its), None);
    let last = (1..BLOCKS).map(|_| me.block().unwrap()).last();
    assert_eq!(last, Some(its));
    me.leave();
    assert!(!path.exists());
}

#[test]
fn concurrent_allocations_never_share_a_number() {
    let path = scratch("race");
    let members = [enter(&path), enter(&path)];
    let taken: Vec<Vec<u32>> = std::thread::scope(|scope| {
        let taking = members
            .each_ref()
            .map(|member| scope.spawn(|| (0..20_000).map(|_| member.block().unwrap()).collect()));
        taking.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let all: std::collections::HashSet<u32> = taken.iter().flatten().copied().collect();
    assert_eq!(all.len(), 40_000);
    for (member, numbers) in members.iter().zip(&taken) {
        for number in numbers {
            assert_eq!(members[0].registry.owner(*number), Some(member.identity));
        }
    }
    for member in members {
        member.leave();
    }
    assert!(!path.exists());
}

#[test]
fn orphaned_sockets_are_removed_with_the_registry() {
    let path = scratch("orphan");
    let (me, lost) = (enter(&path), enter(&path));
    lost.registry
        .table
        .end_life(lost.identity.slot, lost.identity.generation);
    drop(lost);
    me.leave();
    assert!(!path.exists());
}

#[test]
fn existing_file_at_the_socket_path_is_replaced() {
    let path = scratch("way");
    let me = enter(&path);
    let (slot, generation) = (1, 1);
    fs::write(path.join(format!("{slot}.{generation}")), b"").unwrap();
    let other = enter(&path);
    assert_eq!(other.identity, Identity { slot, generation });
    assert!(me.registry.connect(other.identity).is_ok());
    me.leave();
    other.leave();
    assert!(!path.exists());
}

#[test]
fn directory_accessible_to_others_is_refused() {
    let path = scratch("open");
    DirBuilder::new().mode(0o755).create(&path).unwrap();
    assert_eq!(Registry::open(&path).err(), Some(Errno::EPERM));
    fs::remove_dir(&path).unwrap();
}

#[test]
fn registry_file_is_fully_allocated() {
    let path = scratch("room");
    let me = enter(&path);
    // In units of 512 bytes (stat(2)), regardless of the file system's block size.
    let allocated = fs::metadata(path.join(FILE)).unwrap().blocks() * 512;
    assert!(allocated >= layout::LENGTH as u64, "{allocated} bytes");
    me.leave();
}

#[test]
fn registry_errors_name_their_cause() {
    let kib = layout::LENGTH.div_ceil(1024).to_string();
    assert!(obstacle(Errno(libc::ENOSPC)).contains(&kib));
    assert!(obstacle(Errno(libc::ENOSPC)).contains("inodes"));
    assert!(obstacle(Errno(libc::EROFS)).contains("read-only"));
    assert!(obstacle(Errno::EPERM).contains("0700"));
    assert!(obstacle(Errno(libc::EACCES)).contains("denied"));
}

#[test]
fn invalid_registry_file_is_refused() {
    let path = scratch("other");
    DirBuilder::new().mode(0o700).create(&path).unwrap();
    fs::write(path.join(FILE), b"something else").unwrap();
    assert_eq!(Registry::open(&path).err(), Some(Errno::EPROTO));
    assert!(path.join(FILE).exists());
    fs::remove_dir_all(&path).unwrap();
}

#[test]
fn registry_of_another_version_stays_while_its_processes_live() {
    let path = scratch("version");
    let member = enter(&path);
    // Of the version before: magic and layout were 32 bits each.
    let old = [0x5665_7262u32.to_le_bytes(), 1u32.to_le_bytes()].concat();
    let file = fs::OpenOptions::new()
        .write(true)
        .open(path.join(FILE))
        .unwrap();
    file.write_all_at(&old, 0).unwrap();
    assert_eq!(Registry::open(&path).err(), Some(Errno::EPROTO));
    // Killed: its locks end with it, and its remains block no process.
    drop(member);
    enter(&path).leave();
}

/// Processes of two versions whose slots of a lane differ would misread each other: change LAYOUT,
/// too.
#[test]
fn slots_of_lanes_have_the_offsets_of_the_layout() {
    use crate::lane::{Header, PAYLOAD, SLOT, SLOTS};
    use std::mem::{offset_of, size_of};
    assert_eq!(super::layout::LAYOUT, 9);
    assert_eq!(
        (SLOTS, SLOT, PAYLOAD, size_of::<Header>()),
        (64, 64, 48, 12)
    );
    let offsets = [
        offset_of!(Header, length),
        offset_of!(Header, flags),
        offset_of!(Header, generation),
        offset_of!(Header, psn_and_lane),
        offset_of!(Header, acknowledged),
    ];
    assert_eq!(offsets, [0, 1, 2, 4, 8]);
}

/// Processes of two versions whose records differ would misread each other: change LAYOUT, too.
#[test]
fn records_have_the_offsets_of_the_layout() {
    use std::mem::{offset_of, size_of};
    assert_eq!(super::layout::LAYOUT, 9);
    assert_eq!(size_of::<QpRecord>(), 64);
    let offsets = [
        offset_of!(QpRecord, state),
        offset_of!(QpRecord, destination),
        offset_of!(QpRecord, pd),
        offset_of!(QpRecord, access),
        offset_of!(QpRecord, receive_psn),
        offset_of!(QpRecord, incarnation),
        offset_of!(QpRecord, xrcd),
        offset_of!(QpRecord, rd_atomic),
        offset_of!(QpRecord, rnr_timer),
        offset_of!(QpRecord, interfaces),
        offset_of!(QpRecord, gate),
        offset_of!(QpRecord, p_key),
    ];
    assert_eq!(offsets, [0, 4, 8, 12, 16, 20, 24, 32, 36, 40, 48, 52]);
}

#[test]
fn a_registry_that_is_only_looked_at_is_not_created() {
    let path = scratch("looked");
    assert_eq!(Registry::open_existing(&path).err(), Some(Errno::ENOENT));
    DirBuilder::new().mode(0o700).create(&path).unwrap();
    // As when the last process removes the file after it was found.
    assert!(Registry::try_open(&path, false).unwrap().is_none());
    assert!(!path.join(FILE).exists());
    fs::remove_dir(&path).unwrap();
}
