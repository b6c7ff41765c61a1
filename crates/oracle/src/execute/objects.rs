//! A worker's objects: the program's names and the library's handles.

use super::binds::Binds;
use super::library::Library;
use super::message::Fact;
use super::route::Own;
use crate::program::{CqId, Key, MrId, MwId, PdId, QpId, Service, SrqId, Waits, XrcdId};
use crate::reference::memory::pattern;
use std::collections::HashMap;
use std::ptr;
use verbena_abi as abi;

/// Every process has its arena at the same address, so that an offset names the same bytes
/// everywhere.
const ARENA_ADDRESS: usize = 0x0150_0000_0000;
/// A key and a number that nothing has.
pub const NOTHING: u32 = 0x00ff_fff0;
/// The port of the adapter.
pub const PORT: u8 = 1;

/// Numbers and keys by what they are of.
pub type Facts = HashMap<(Fact, u16), u64>;

/// A queue pair and what the worker must know of it.
pub struct QueuePair {
    /// The library's.
    pub handle: *mut abi::ibv_qp,
    /// Its service.
    pub service: Service,
    /// Whether its receives come from a shared queue.
    pub shared: bool,
}

/// Everything that a worker has made.
#[allow(missing_docs, reason = "a table of each kind of object")]
pub struct Objects {
    pub library: Library,
    pub context: *mut abi::ibv_context,
    pub own: Own,
    /// Where queues announce completions, if the program waits for events.
    pub channel: *mut abi::ibv_comp_channel,
    pub arena: *mut u8,
    pub arena_len: usize,
    pub pds: HashMap<PdId, *mut abi::ibv_pd>,
    pub mrs: HashMap<MrId, *mut abi::ibv_mr>,
    pub mws: HashMap<MwId, *mut abi::ibv_mw>,
    pub cqs: HashMap<CqId, *mut abi::ibv_cq>,
    pub srqs: HashMap<SrqId, *mut abi::ibv_srq>,
    pub qps: HashMap<QpId, QueuePair>,
    pub xrcds: HashMap<XrcdId, *mut abi::ibv_xrcd>,
    pub ahs: HashMap<(PdId, [u8; 16]), *mut abi::ibv_ah>,
    pub facts: Facts,
    pub binds: Binds,
}

impl Objects {
    /// Opens the first device and maps the arena, filled with the process's pattern.
    pub fn open(process: u16, arena_len: usize, waits: Waits) -> Result<Objects, String> {
        let library = Library::open(c"libibverbs.so.1")?;
        let mut count = 0;
        // SAFETY: the count is a valid place.
        let list = unsafe { (library.get_device_list)(&mut count) };
        if list.is_null() || count < 1 {
            return Err("there is no device".to_owned());
        }
        // SAFETY: the list has at least one entry.
        let context = unsafe { (library.open_device)(*list) };
        if context.is_null() {
            return Err(format!(
                "ibv_open_device: {}",
                std::io::Error::last_os_error()
            ));
        }
        let own = Own::of(&library, context)?;
        // SAFETY: the context is open; its descriptor is read without blocking from here on.
        unsafe { unblock((*context).async_fd) };
        let channel = match waits {
            Waits::Polling => ptr::null_mut(),
            // SAFETY: the context is open.
            Waits::Events => unsafe { (library.create_comp_channel)(context) },
        };
        if waits == Waits::Events {
            if channel.is_null() {
                return Err("ibv_create_comp_channel failed".to_owned());
            }
            // SAFETY: it was just made; it is read without blocking.
            unsafe { unblock((*channel).fd) };
        }
        let arena = map_arena(arena_len)?;
        // SAFETY: the arena was just mapped with this length and nobody else knows it.
        let bytes = unsafe { std::slice::from_raw_parts_mut(arena, arena_len) };
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = pattern(process.into(), index as u32);
        }
        Ok(Objects {
            library,
            context,
            own,
            channel,
            arena,
            arena_len,
            pds: HashMap::new(),
            mrs: HashMap::new(),
            mws: HashMap::new(),
            cqs: HashMap::new(),
            srqs: HashMap::new(),
            qps: HashMap::new(),
            xrcds: HashMap::new(),
            ahs: HashMap::new(),
            facts: HashMap::new(),
            binds: Binds::default(),
        })
    }

    /// The address of a place in the arena.
    pub fn address(&self, at: u32) -> u64 {
        self.arena as u64 + u64::from(at)
    }

    /// A fact, or a number that nothing has.
    pub fn fact(&self, fact: Fact, id: u16) -> u32 {
        self.facts
            .get(&(fact, id))
            .map_or(NOTHING, |value| *value as u32)
    }

    /// A remote key.
    pub fn remote_key(&self, key: Key) -> u32 {
        match key {
            Key::Mr(mr) => self.fact(Fact::MrKey, mr.0),
            Key::Mw(mw) => self.fact(Fact::MwKey, mw.0),
            Key::Bad => NOTHING,
        }
    }

    /// A local key.
    pub fn local_key(&self, key: Key) -> u32 {
        let Key::Mr(mr) = key else { return NOTHING };
        // SAFETY: a region in the table is registered.
        self.mrs
            .get(&mr)
            .map_or(NOTHING, |mr| unsafe { (**mr).lkey })
    }

    /// The extended context in front of the plain one.
    pub fn extended(&self) -> Result<&abi::verbs_context, i32> {
        // SAFETY: the context is open; a library that has an extended context says so in this
        // field, and the plain context is then its member.
        unsafe {
            if (*self.context).abi_compat != abi::VERBS_ABI_IS_EXTENDED {
                return Err(libc::EOPNOTSUPP);
            }
            let offset = std::mem::offset_of!(abi::verbs_context, context);
            Ok(&*self.context.byte_sub(offset).cast::<abi::verbs_context>())
        }
    }

    /// The plain operations.
    pub fn operations(&self) -> &abi::ibv_context_ops {
        // SAFETY: the context is open for as long as the process lives.
        unsafe { &(*self.context).ops }
    }
}

/// Lets reads of a descriptor return at once.
///
/// # Safety
/// The descriptor is the library's own and open.
unsafe fn unblock(descriptor: i32) {
    // SAFETY: as the caller promises; flags are read and written back with one more.
    unsafe {
        let flags = libc::fcntl(descriptor, libc::F_GETFL);
        libc::fcntl(descriptor, libc::F_SETFL, flags | libc::O_NONBLOCK);
    }
}

fn map_arena(len: usize) -> Result<*mut u8, String> {
    // SAFETY: a new mapping at an address that must be free.
    let address = unsafe {
        libc::mmap(
            ARENA_ADDRESS as *mut _,
            len,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE,
            -1,
            0,
        )
    };
    if address == libc::MAP_FAILED || address.is_null() {
        return Err(format!("the arena: {}", std::io::Error::last_os_error()));
    }
    Ok(address.cast())
}
