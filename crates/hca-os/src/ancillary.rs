//! Control messages of one call to send: cmsg(3).

use std::mem;

/// Bytes of control messages; the received ones have addresses, type of service, time to live and
/// segment length.
pub(super) const ROOM: usize = 192;

/// Space for control messages, with the required alignment.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(super) struct Room(pub [u8; ROOM]);

/// Control messages under construction.
pub(super) struct Ancillary {
    room: Room,
    used: usize,
}

impl Ancillary {
    pub(super) fn new() -> Ancillary {
        Ancillary {
            room: Room([0; ROOM]),
            used: 0,
        }
    }

    /// Adds one. `T` is the plain data that the kernel takes for it.
    pub(super) fn add<T: Copy>(&mut self, level: libc::c_int, kind: libc::c_int, value: T) {
        let payload = mem::size_of::<T>() as u32;
        // SAFETY: plain arithmetic.
        let (length, space) = unsafe { (libc::CMSG_LEN(payload), libc::CMSG_SPACE(payload)) };
        let Some(place) = self.room.0.get_mut(self.used..self.used + space as usize) else {
            unreachable!("{ROOM} bytes are room for all that one call has")
        };
        let header = place.as_mut_ptr().cast::<libc::cmsghdr>();
        // SAFETY: `place` is as long as header and value with their padding, and aligned, as the
        // room and CMSG_SPACE are.
        unsafe {
            (*header).cmsg_level = level;
            (*header).cmsg_type = kind;
            // Lengths are size_t in glibc and socklen_t in musl.
            (*header).cmsg_len = length as _;
            libc::CMSG_DATA(header).cast::<T>().write_unaligned(value);
        }
        self.used += space as usize;
    }

    /// Attaches them to a message, which must not outlive them.
    pub(super) fn attach(&mut self, message: &mut libc::msghdr) {
        if self.used > 0 {
            message.msg_control = self.room.0.as_mut_ptr().cast();
            message.msg_controllen = self.used as _;
        }
    }
}
