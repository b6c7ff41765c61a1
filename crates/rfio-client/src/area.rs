//! Memory that the server may access, in parts, each exposed for one request.
//!
//! # Rules
//!
//! - A part is **local** or **exposed**. It is exposed by binding a memory window to it, just
//!   before the request that carries the window's key, and made local again by invalidating the
//!   window, after the reply and before the part is accessed.
//! - A reply may overtake the last of the data that it announces, since data arrive through the
//!   adapter and the reply through the network. Checksums detect this. Data that do not match are
//!   checked again for a while before they count as damaged.
//! - If the adapter has no windows, the area itself is registered with the remote right for the
//!   whole session. A server that violates the protocol may then write to a local part, so received
//!   data are copied out, and the copy is verified and used.

use std::time::{Duration, Instant};

use verbena_rfio_common::fabric::{Adapter, FabricError};
use verbena_rfio_protocol::types::Window;
use verbena_verbs::{AccessFlags, Buffer, Region, Window as MemoryWindow};

use super::error::Error;

/// Number of parts of an area: the maximum number of concurrent transfers.
pub const PARTS: usize = 4;

/// How long acknowledged data may take to become visible: an adapter's bus needs microseconds.
const BECOME_VISIBLE: Duration = Duration::from_millis(50);

/// The server's access to an area.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemoteAccess {
    /// Write the requested data.
    Write,
    /// Read the data to be written.
    Read,
}

impl RemoteAccess {
    fn flags(self) -> AccessFlags {
        match self {
            Self::Write => AccessFlags::LOCAL.remote_write(),
            Self::Read => AccessFlags::default().remote_read(),
        }
    }
}

/// An area.
pub struct Area {
    // Declared first, so dropped before the region.
    windows: Vec<MemoryWindow>,
    exposed: [bool; PARTS],
    access: RemoteAccess,
    part: usize,
    region: Region,
}

impl Area {
    /// Creates an area of `PARTS` parts of `part` bytes each.
    ///
    /// # Errors
    /// Memory or windows cannot be allocated or registered.
    pub fn new(adapter: &Adapter, part: usize, access: RemoteAccess) -> Result<Self, FabricError> {
        let has_windows = adapter.has_windows();
        // A window for remote writes can only be bound to memory with local write access.
        let own_access = match has_windows {
            true => AccessFlags::LOCAL.bindable(),
            false => access.flags(),
        };
        let count = if has_windows { PARTS } else { 0 };
        let windows = (0..count)
            .map(|_| adapter.domain().window())
            .collect::<Result<_, _>>()?;
        let buffer = Buffer::allocate(PARTS * part)?;
        Ok(Self {
            windows,
            exposed: [false; PARTS],
            access,
            part,
            region: adapter.domain().register(buffer, own_access)?,
        })
    }

    /// Returns whether a part is exposed.
    pub fn is_exposed(&self, part: usize) -> bool {
        self.exposed[part]
    }

    /// Exposes bytes from the beginning of a part on. `bind` binds the window.
    ///
    /// # Errors
    /// `length` exceeds a part, or `bind` fails.
    pub fn expose(
        &mut self,
        part: usize,
        length: usize,
        bind: impl FnOnce(
            &mut MemoryWindow,
            &Region,
            std::ops::Range<usize>,
            AccessFlags,
        ) -> Result<(), FabricError>,
    ) -> Result<Window, Error> {
        let offset = part * self.part;
        if length > self.part {
            return Err(Error::Setup(format!(
                "{length} bytes for a part of {}",
                self.part
            )));
        }
        let key = match self.windows.get_mut(part) {
            Some(window) => {
                let range = offset..offset + length;
                bind(window, &self.region, range, self.access.flags())?;
                self.exposed[part] = true;
                window.remote_key()
            }
            None => self.region.remote_key(),
        };
        Ok(Window {
            address: self.region.address() + offset as u64,
            key,
            length: length as u32,
        })
    }

    /// Revokes the access to a part. `invalidate` invalidates the window.
    ///
    /// # Errors
    /// `invalidate` fails.
    pub fn revoke(
        &mut self,
        part: usize,
        invalidate: impl FnOnce(&MemoryWindow) -> Result<(), FabricError>,
    ) -> Result<(), FabricError> {
        if std::mem::take(&mut self.exposed[part]) {
            invalidate(&self.windows[part])?;
        }
        Ok(())
    }

    /// Copies bytes into a part.
    ///
    /// # Errors
    /// They do not fit the area.
    pub fn fill(&self, part: usize, bytes: &[u8]) -> Result<(), FabricError> {
        Ok(self.region.write(part * self.part, bytes)?)
    }

    /// Copies data out of a local part once `verdict` accepts them.
    ///
    /// # Errors
    /// The copy fails, or `verdict` rejects the data for too long.
    pub fn copy_out(
        &self,
        part: usize,
        into: &mut [u8],
        verdict: impl Fn(&[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        until_visible(|| {
            self.region.read(part * self.part, into)?;
            verdict(into)
        })
    }

    /// Returns whether the data of a local part may be used in place, which requires that no peer
    /// can write there; waits until `verdict` accepts them.
    ///
    /// # Errors
    /// `verdict` rejects the data for too long.
    pub fn verify_in_place(
        &self,
        part: usize,
        length: usize,
        verdict: impl Fn(&[u8]) -> Result<(), Error>,
    ) -> Result<bool, Error> {
        if self.windows.is_empty() {
            return Ok(false);
        }
        until_visible(|| verdict(self.content(part, length)?)).map(|()| true)
    }

    /// Returns the data of a local part in place.
    ///
    /// # Errors
    /// [`Error::Fabric`] if the part is exposed or may be written by the peer.
    #[allow(unsafe_code, reason = "a reference into registered memory")]
    pub fn content(&self, part: usize, length: usize) -> Result<&[u8], Error> {
        let offset = part * self.part;
        let (start, _) = self.region.as_raw_parts();
        if self.windows.is_empty() || self.exposed[part] || length > self.part {
            return Err(Error::Fabric(format!(
                "{length} bytes of part {part} are not ours to read"
            )));
        }
        // SAFETY: inside the region, which lives as long as the slice. The part's window is
        // invalidated and no other covers it, so neither the adapter nor the peer writes there. In
        // this process only `fill` writes, and only to areas whose data the server reads.
        Ok(unsafe { std::slice::from_raw_parts(start.add(offset), length) })
    }
}

/// Repeats `look` while it reports damage, for as long as data may take to become visible.
fn until_visible(mut look: impl FnMut() -> Result<(), Error>) -> Result<(), Error> {
    let mut since = None;
    loop {
        match look() {
            Err(damaged @ Error::Damaged { .. }) => {
                if since.get_or_insert_with(Instant::now).elapsed() >= BECOME_VISIBLE {
                    return Err(damaged);
                }
                std::thread::yield_now();
            }
            other => return other,
        }
    }
}

impl std::fmt::Debug for Area {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "area of {} bytes, exposed {:?}",
            self.region.length(),
            self.exposed
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    const DAMAGED: Error = Error::Damaged {
        offset: 0,
        expected: 1,
        found: 2,
    };

    #[test]
    fn late_data_are_awaited_and_damage_is_reported() {
        let looks = Cell::new(0);
        let late = until_visible(|| {
            looks.set(looks.get() + 1);
            if looks.get() < 3 {
                Err(DAMAGED)
            } else {
                Ok(())
            }
        });
        assert!(late.is_ok());
        assert_eq!(looks.get(), 3);
        assert!(matches!(
            until_visible(|| Err(DAMAGED)),
            Err(Error::Damaged { .. })
        ));
        let other = until_visible(|| Err(Error::Changed));
        assert!(matches!(other, Err(Error::Changed)), "{other:?}");
    }
}
