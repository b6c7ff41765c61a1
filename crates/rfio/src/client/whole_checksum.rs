//! The CRC32C of a whole file, put together from what the server says of its blocks: no data travel.

use verbena_rfio_protocol::request::{Checksum, OnHandle};
use verbena_rfio_protocol::types::Handle;
use verbena_rfio_protocol::{Reply, Request};

use super::error::Error;
use super::session::unexpected;
use crate::checksum;

/// Blocks that are asked for at a time.
const BATCH: u64 = 256;

/// The checksum of an open file of a server whose blocks have `block` bytes; `call` asks it.
pub fn of(
    handle: Handle,
    block: u32,
    mut call: impl FnMut(Request) -> Result<Reply, Error>,
) -> Result<u32, Error> {
    let about = match call(Request::Examine(OnHandle { handle }))? {
        Reply::Examined(about) => about.attributes,
        other => return Err(unexpected(&other)),
    };
    let (mut sum, mut offset) = (0, 0);
    while offset < about.size {
        let wanted = (about.size - offset).div_ceil(block.into()).min(BATCH);
        let part = match call(Request::Checksum(Checksum {
            handle,
            offset,
            block,
            count: wanted as u32,
        }))? {
            Reply::Checksums(part) => part,
            other => return Err(unexpected(&other)),
        };
        if part.checksums.len() as u64 > wanted {
            return Err(Error::Protocol("more checksums than were asked for".into()));
        }
        if part.checksums.is_empty() || part.version != about.version {
            return Err(Error::Changed);
        }
        for each in part.checksums {
            let length = (about.size - offset).min(block.into());
            sum = checksum::combine(sum, each, length);
            offset += length;
        }
    }
    Ok(sum)
}
