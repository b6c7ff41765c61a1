//! Counts outcomes in the data file that VERBENA_COVERAGE names (`verbena_coverage::file`), which
//! all processes of a run map.

use std::cell::Cell;
use std::env;
use std::fs::{File, OpenOptions};
use std::hint;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use verbena_abi::*;
use verbena_coverage::file::{self, places};
use verbena_coverage::outcome::{Key, Outcome, UNKNOWN_OPERATION, WITH_IMM, WITH_INV};

use crate::real::VERBS;

/// Looks at a cell that another thread is filling, before the next cell is taken: that thread may
/// have been killed.
const LOOKS: usize = 100;

/// The mapped data file.
struct Table {
    base: *mut u8,
}

// SAFETY: the mapping lasts as long as the process, and is only accessed by atomics.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

fn table() -> Option<&'static Table> {
    static TABLE: OnceLock<Option<Table>> = OnceLock::new();
    TABLE.get_or_init(Table::named).as_ref()
}

/// Whether this process has been counted.
static KNOWN: AtomicBool = AtomicBool::new(false);

/// Has this process counted as one at its next call; called in a child of fork(2).
pub fn begin_process() {
    KNOWN.store(false, Ordering::Relaxed);
}

/// Returns whether outcomes are counted.
pub fn counts() -> bool {
    table().is_some()
}

/// Counts an outcome.
pub fn count(outcome: Outcome<'_>) {
    if let Some(table) = table() {
        if !KNOWN.load(Ordering::Relaxed) && !KNOWN.swap(true, Ordering::Relaxed) {
            table.word(file::PROCESSES).fetch_add(1, Ordering::Relaxed);
        }
        table.add(outcome.key(), stripe());
    }
}

/// Counts a completion.
pub fn completion(wc: &ibv_wc) {
    if !counts() {
        return;
    }
    let mut operation = UNKNOWN_OPERATION;
    if wc.status == IBV_WC_SUCCESS || tells_failed_operation() {
        operation = (wc.opcode & 0xffff) as i32;
    }
    if wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV {
        for (flag, mark) in [(IBV_WC_WITH_IMM, WITH_IMM), (IBV_WC_WITH_INV, WITH_INV)] {
            if wc.wc_flags & flag != 0 {
                operation |= mark;
            }
        }
    }
    count(Outcome::Completion(wc.status as i32, operation));
}

/// Returns whether the opcode of a failed completion is that of its request. The specification
/// leaves it undefined; Verbena's library sets it.
pub fn tells_failed_operation() -> bool {
    static TELLS: OnceLock<bool> = OnceLock::new();
    *TELLS.get_or_init(|| {
        let tells = !VERBS.find(c"verbena_sysfs_root").is_null();
        if !tells {
            // SAFETY: it takes no arguments. The program must not find the error of this look-up.
            unsafe { libc::dlerror() };
        }
        tells
    })
}

/// Returns the thread's stripe: threads count in different cells, so they do not compete for one.
fn stripe() -> u32 {
    thread_local! {
        static STRIPE: Cell<u32> = const { Cell::new(u32::MAX) };
    }
    STRIPE.with(|stripe| {
        if stripe.get() == u32::MAX {
            // SAFETY: gettid(2) takes no arguments and cannot fail.
            let thread = unsafe { libc::syscall(libc::SYS_gettid) };
            stripe.set(thread as u32 % file::STRIPES);
        }
        stripe.get()
    })
}

impl Table {
    fn named() -> Option<Table> {
        let path = env::var_os(file::VARIABLE).filter(|path| !path.is_empty())?;
        let opened = OpenOptions::new().read(true).write(true).open(&path);
        match opened.and_then(Table::map) {
            Ok(table) => Some(table),
            Err(error) => {
                let (path, process) = (path.display(), std::process::id());
                eprintln!(
                    "verbena coverage: process {process} is not counted: cannot use {path}: {error}"
                );
                None
            }
        }
    }

    fn map(mut file: File) -> io::Result<Table> {
        let mut magic = [0; file::MAGIC.len()];
        file.read_exact(&mut magic)?;
        if magic != file::MAGIC || file.metadata()?.len() != file::SIZE as u64 {
            return Err(io::Error::other(
                "it is no coverage data file of this version",
            ));
        }
        // SAFETY: a new mapping of an open file; the kernel chooses the address.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                file::SIZE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        match base == libc::MAP_FAILED {
            true => Err(io::Error::last_os_error()),
            false => Ok(Table { base: base.cast() }),
        }
    }

    /// Returns the word at an offset, a multiple of 8 below the file's size.
    fn word(&self, at: usize) -> &AtomicU64 {
        debug_assert!(at.is_multiple_of(8) && at < file::SIZE);
        // SAFETY: within the mapping, and aligned.
        unsafe { &*self.base.add(at).cast() }
    }

    /// Returns the half word at an offset, a multiple of 4 below the file's size.
    fn half(&self, at: usize) -> &AtomicU32 {
        debug_assert!(at.is_multiple_of(4) && at < file::SIZE);
        // SAFETY: within the mapping, and aligned.
        unsafe { &*self.base.add(at).cast() }
    }

    fn add(&self, key: Key, stripe: u32) {
        let hash = key.hash(stripe);
        for cell in places(hash) {
            let owner = self.word(cell);
            let mut found = owner.load(Ordering::Relaxed);
            if found == 0 {
                match owner.compare_exchange(0, hash, Ordering::Relaxed, Ordering::Relaxed) {
                    Ok(_) => {
                        self.fill(cell, &key);
                        found = hash;
                    }
                    Err(other) => found = other,
                }
            }
            if found == hash && self.holds(cell, &key) {
                self.word(cell + 8).fetch_add(1, Ordering::Relaxed);
                return;
            }
        }
        self.word(file::LOST).fetch_add(1, Ordering::Relaxed);
    }

    /// Writes the key into a claimed cell.
    fn fill(&self, cell: usize, key: &Key) {
        let numbers = [key.kind, key.first as u32, key.second as u32];
        for (at, number) in numbers.into_iter().enumerate() {
            self.half(cell + 20 + 4 * at)
                .store(number, Ordering::Relaxed);
        }
        for (at, word) in key.name.as_chunks::<8>().0.iter().enumerate() {
            let word = u64::from_ne_bytes(*word);
            self.word(cell + 32 + 8 * at).store(word, Ordering::Relaxed);
        }
        self.half(cell + 16).store(1, Ordering::Release);
    }

    /// Returns whether a cell has this key.
    fn holds(&self, cell: usize, key: &Key) -> bool {
        let complete = || self.half(cell + 16).load(Ordering::Acquire) == 1;
        if !(0..LOOKS).any(|_| {
            complete() || {
                hint::spin_loop();
                false
            }
        }) {
            return false;
        }
        let numbers = [key.kind, key.first as u32, key.second as u32];
        let mut numbers = numbers.into_iter().enumerate();
        let mut words = key.name.as_chunks::<8>().0.iter().enumerate();
        numbers.all(|(at, number)| self.half(cell + 20 + 4 * at).load(Ordering::Relaxed) == number)
            && words.all(|(at, word)| {
                let word = u64::from_ne_bytes(*word);
                self.word(cell + 32 + 8 * at).load(Ordering::Relaxed) == word
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A mapped new data file.
    struct Fixture {
        path: std::path::PathBuf,
        table: Table,
    }

    impl Fixture {
        fn new(name: &str) -> Fixture {
            let name = format!("verbena-counters-{name}-{}", std::process::id());
            let path = env::temp_dir().join(name);
            file::create(&path).unwrap();
            let opened = OpenOptions::new()
                .read(true)
                .write(true)
                .open(&path)
                .unwrap();
            let table = Table::map(opened).unwrap();
            Fixture { path, table }
        }
    }

    impl Drop for Fixture {
        fn drop(&mut self) {
            fs::remove_file(&self.path).unwrap();
        }
    }

    #[test]
    fn threads_lose_no_counts() {
        let one = Fixture::new("threads");
        let table = &one.table;
        std::thread::scope(|scope| {
            for thread in 0..8 {
                scope.spawn(move || {
                    for round in 0..1000 {
                        table.add(Outcome::Completion(0, 1).key(), thread % 3);
                        table.add(Outcome::Call("ibv_reg_mr", round % 9).key(), 0);
                    }
                });
            }
        });
        let seen = file::read(&one.path).unwrap();
        assert_eq!(seen.completions[&(0, 1)], 8000);
        assert_eq!(seen.calls["ibv_reg_mr"].values().sum::<u64>(), 8000);
        assert_eq!((seen.calls["ibv_reg_mr"].len(), seen.lost), (9, 0));
    }

    #[test]
    fn a_cell_of_a_killed_process_is_passed_over() {
        let one = Fixture::new("killed");
        let key = Outcome::Event(9).key();
        let cell = places(key.hash(0)).next().unwrap();
        one.table.word(cell).store(key.hash(0), Ordering::Relaxed);
        one.table.add(key, 0);
        one.table.add(key, 0);
        assert_eq!(file::read(&one.path).unwrap().events[&9], 2);
    }

    #[test]
    fn a_full_table_counts_what_it_loses() {
        let one = Fixture::new("full");
        for status in 0..2 * file::CELLS as i32 {
            one.table.add(Outcome::CmEvent(8, status).key(), 0);
        }
        let seen = file::read(&one.path).unwrap();
        assert!(seen.lost > 0);
        assert_eq!(
            seen.lost + seen.cm_events.len() as u64,
            2 * file::CELLS as u64
        );
    }

    #[test]
    fn other_files_are_refused() {
        let path = env::temp_dir().join(format!("verbena-counters-other-{}", std::process::id()));
        for contents in [&b"VBCOVER1"[..], &b"a text that is long enough"[..], b""] {
            fs::write(&path, contents).unwrap();
            let opened = OpenOptions::new()
                .read(true)
                .write(true)
                .open(&path)
                .unwrap();
            assert!(Table::map(opened).is_err());
        }
        fs::remove_file(&path).unwrap();
    }
}
