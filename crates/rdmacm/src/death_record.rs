//! The death record: the messages to be sent to other hosts if this process is killed. A kernel
//! ends the connections of a process that dies (its communication manager destroys their
//! identifiers); here another process of the host does it ([`crate::reaper`]), and reads the
//! messages from this record.
//!
//! A record is a file in the runtime directory, named after its process, with one MAD for each
//! exchange: the one that would be sent if the process ended now. It is updated with each change of
//! an exchange. A MAD is written by one call and lies within one page, so that a process killed
//! during the write leaves either the old or the new one.

use crate::message::FRAME;
use crate::relay;
use std::collections::HashMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use verbena_hca::process::Process;
use verbena_hca_net::roce::management::CmMad;
use verbena_hca_os::errno::Result;
use verbena_hca_shm::registry::{Identity, death_records};

/// Bytes of a slot: a divisor of a page.
const SLOT: usize = 512;
const _: () = assert!(FRAME <= SLOT);
/// Maximum bytes read of a record: more exchanges than a process can have.
pub const LONGEST: u64 = (SLOT << 17) as u64;

/// The death record of this process.
#[derive(Default)]
pub struct DeathRecord {
    file: Option<(File, PathBuf)>,
    /// Slot of an exchange's MAD, by local communication ID.
    slots: HashMap<u32, u32>,
    /// Free slots.
    free: Vec<u32>,
}

impl DeathRecord {
    /// Records a MAD for an exchange in place of the previous one, or removes it. Write errors are
    /// ignored.
    pub fn set(&mut self, number: u32, cm_mad: Option<&CmMad>) {
        let Some(cm_mad) = cm_mad else {
            return self.clear(number);
        };
        let slot = match self.slots.get(&number) {
            Some(slot) => *slot,
            None => self.new_slot(number),
        };
        if self.file.is_none() {
            self.file = make().ok();
        }
        self.write(slot, &relay::encode(cm_mad));
    }

    /// Removes the MAD of an exchange.
    pub fn clear(&mut self, number: u32) {
        if let Some(slot) = self.slots.remove(&number) {
            self.write(slot, &[0; FRAME]);
            self.free.push(slot);
        }
    }

    /// Deletes the record: the process sends its messages itself.
    pub fn destroy(&mut self) {
        if let Some((_, path)) = self.file.take() {
            let _ = fs::remove_file(path);
        }
    }

    fn new_slot(&mut self, number: u32) -> u32 {
        let slot = self.free.pop().unwrap_or(self.slots.len() as u32);
        self.slots.insert(number, slot);
        slot
    }

    fn write(&self, slot: u32, frame: &[u8; FRAME]) {
        if let Some((file, _)) = &self.file {
            let _ = file.write_all_at(frame, u64::from(slot) * SLOT as u64);
        }
    }
}

fn make() -> Result<(File, PathBuf)> {
    let process = Process::current()?;
    let path = directory(&process.directory()?)?.join(name(process.join()?.identity));
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)?;
    Ok((file, path))
}

/// Returns the directory of the death records in a runtime directory; creates it if necessary.
///
/// # Errors
/// Those of mkdir(2), except EEXIST.
pub fn directory(runtime: &Path) -> Result<PathBuf> {
    let path = death_records(runtime);
    match DirBuilder::new().mode(0o700).create(&path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error.into()),
        _ => Ok(path),
    }
}

fn name(process: Identity) -> String {
    format!("{}.{}", process.slot, process.generation)
}

/// Returns the process that a record's file name stands for.
pub fn process_of(name: &str) -> Option<Identity> {
    let (slot, generation) = name.split_once('.')?;
    Some(Identity {
        slot: slot.parse().ok()?,
        generation: generation.parse().ok()?,
    })
}

/// Returns the MADs of a record.
pub fn cm_mads(death_record: &[u8]) -> Vec<CmMad> {
    let frames = death_record
        .chunks(SLOT)
        .filter_map(|slot| slot.first_chunk());
    frames.filter_map(relay::decode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn cm_mad(byte: u8) -> CmMad {
        CmMad {
            interface: 7,
            source: "::ffff:10.9.0.1".parse().unwrap(),
            destination: "fd09::2".parse().unwrap(),
            udp_port: verbena_hca_net::roce::udp_port::UdpPort::PUBLIC,
            mad: [byte; 256],
        }
    }

    proptest! {
        /// After any sequence of changes, the latest MADs are read.
        #[test]
        fn the_latest_mads_are_read(
            orders in proptest::collection::vec((0..8_u32, proptest::option::of(any::<u8>())),
                0..64),
        ) {
            let path = std::env::temp_dir()
                .join(format!("verbena-death-record-{}", std::process::id()));
            let file = File::create(&path).unwrap();
            let mut death_record = DeathRecord { file: Some((file, path.clone())),
                ..DeathRecord::default() };
            let mut standing = BTreeMap::new();
            for (number, byte) in orders {
                death_record.set(number, byte.map(cm_mad).as_ref());
                match byte {
                    Some(byte) => standing.insert(number, byte),
                    None => standing.remove(&number),
                };
            }
            let mut read: Vec<u8> = cm_mads(&fs::read(&path).unwrap()).iter().map(|of| of.mad[0])
                .collect();
            let mut expected: Vec<u8> = standing.into_values().collect();
            read.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(read, expected);
            death_record.destroy();
            prop_assert!(!path.exists());
        }

        #[test]
        fn arbitrary_bytes_hold_no_mads(bytes in proptest::collection::vec(any::<u8>(), 0..2048)) {
            prop_assert!(cm_mads(&bytes).is_empty());
        }
    }

    #[test]
    fn a_record_name_identifies_its_process() {
        let process = Identity {
            slot: 7,
            generation: 12,
        };
        assert_eq!(process_of(&name(process)), Some(process));
        assert_eq!(process_of("7"), None);
        assert_eq!(process_of("seven.12"), None);
    }
}
