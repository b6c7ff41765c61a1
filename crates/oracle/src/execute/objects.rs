//! A worker's objects: library handles by the program's identifiers.

use super::binds::Binds;
use super::message::Fact;
use super::route::Own;
use crate::program::{CqId, Key, MrId, MwId, PdId, QpId, Service, SrqId, Waits, XrcdId};
use crate::reference::memory::pattern;
use std::collections::HashMap;
use std::ptr;
use verbena_abi as abi;
use verbena_verbs::library::Functions;

/// The arena's address is the same in every process, so that an offset denotes the same bytes
/// everywhere.
const ARENA_ADDRESS: usize = 0x0150_0000_0000;
/// An unused key and number.
pub const NOTHING: u32 = 0x00ff_fff0;
/// The adapter's port.
pub const PORT: u8 = 1;

/// Numbers and keys by object.
pub type Facts = HashMap<(Fact, u16), u64>;

/// A queue pair and its attributes for the worker.
pub struct QueuePair {
    /// The library's handle.
    pub handle: *mut abi::ibv_qp,
    /// Its service.
    pub service: Service,
    /// Whether its receives come from a shared queue.
    pub shared: bool,
}

/// All objects of a worker.
#[allow(missing_docs, reason = "a table of each kind of object")]
pub struct Objects {
    pub library: Functions,
    pub context: *mut abi::ibv_context,
    pub own: Own,
    /// The completion channel, if the program waits for events.
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
    ///
    /// # Errors
    ///
    /// The library, device, port, channel or arena is not available.
    pub fn open(process: u16, arena_len: usize, waits: Waits) -> Result<Objects, String> {
        let library = Functions::load(c"libibverbs.so.1")?;
        if library.rereg_mr.is_none() {
            return Err("no ibv_rereg_mr@IBVERBS_1.1".to_owned());
        }
        let mut count = 0;
        // SAFETY: the out-pointer is valid.
        let list = unsafe { (library.get_device_list)(&mut count) };
        if list.is_null() || count < 1 {
            return Err("no device was found".to_owned());
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
        // SAFETY: the context is open; its descriptor is only read without blocking from here on.
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
            // SAFETY: it was just created; it is only read without blocking.
            unsafe { unblock((*channel).fd) };
        }
        let arena = map_arena(arena_len)?;
        // SAFETY: the arena was just mapped with this length, and no other reference exists.
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

    /// Returns the address of an offset in the arena.
    pub fn address(&self, at: u32) -> u64 {
        self.arena as u64 + u64::from(at)
    }

    /// Returns a fact, or an unused number if it is unknown.
    pub fn fact(&self, fact: Fact, id: u16) -> u32 {
        self.facts
            .get(&(fact, id))
            .map_or(NOTHING, |value| *value as u32)
    }

    /// Returns a remote key.
    pub fn remote_key(&self, key: Key) -> u32 {
        match key {
            Key::Mr(mr) => self.fact(Fact::MrKey, mr.0),
            Key::Mw(mw) => self.fact(Fact::MwKey, mw.0),
            Key::Bad => NOTHING,
        }
    }

    /// Returns a local key.
    pub fn local_key(&self, key: Key) -> u32 {
        let Key::Mr(mr) = key else { return NOTHING };
        // SAFETY: a region in the table is registered.
        self.mrs
            .get(&mr)
            .map_or(NOTHING, |mr| unsafe { (**mr).lkey })
    }

    /// Returns the extended context around the plain one.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if the library has none.
    pub fn extended(&self) -> Result<&abi::verbs_context, i32> {
        // SAFETY: the context is open; a library with an extended context marks it in this field,
        // and the plain context is then its member.
        unsafe {
            if (*self.context).abi_compat != abi::VERBS_ABI_IS_EXTENDED {
                return Err(libc::EOPNOTSUPP);
            }
            let offset = std::mem::offset_of!(abi::verbs_context, context);
            Ok(&*self.context.byte_sub(offset).cast::<abi::verbs_context>())
        }
    }

    /// Returns the plain operations.
    pub fn operations(&self) -> &abi::ibv_context_ops {
        // SAFETY: the context is open for the process's lifetime.
        unsafe { &(*self.context).ops }
    }
}

/// Makes a descriptor non-blocking.
///
/// # Safety
/// The descriptor is owned by the library and open.
unsafe fn unblock(descriptor: i32) {
    // SAFETY: the descriptor is open; the call only adds a flag.
    unsafe {
        let flags = libc::fcntl(descriptor, libc::F_GETFL);
        libc::fcntl(descriptor, libc::F_SETFL, flags | libc::O_NONBLOCK);
    }
}

fn map_arena(len: usize) -> Result<*mut u8, String> {
    // SAFETY: a new mapping; MAP_FIXED_NOREPLACE fails if the address is in use.
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
