//! Partitions of a port: `ibv_query_pkey(3)`.

use crate::error::{Error, Result};
use crate::object::context::Context;

/// The membership bit of a P_Key, set for full members; the other bits identify the partition
/// (InfiniBand 10.9.1.1).
const FULL_MEMBER: u16 = 0x8000;

impl Context {
    /// Returns the index of a partition in a port's P_Key table: the exact key, or else the same
    /// partition with the other membership.
    ///
    /// # Errors
    ///
    /// The port is not in the partition, or a query fails.
    pub fn partition(&self, port: u8, key: u16) -> Result<u16> {
        let table = self.partitions(port)?;
        let at = |wanted: &dyn Fn(u16) -> bool| table.iter().position(|&known| wanted(known));
        let found = at(&|known| known == key)
            .or_else(|| at(&|known| known & !FULL_MEMBER == key & !FULL_MEMBER));
        found.map(|at| at as u16).ok_or_else(|| {
            let keys: Vec<String> = table.iter().map(|key| format!("{key:#06x}")).collect();
            let reason = format!(
                "{} port {port} is not a member of partition {key:#06x}; its P_Keys are {}",
                self.name(),
                keys.join(", ")
            );
            Error::invalid("ibv_query_pkey", reason)
        })
    }

    /// Returns a port's P_Key table without empty entries at its end.
    fn partitions(&self, port: u8) -> Result<Vec<u16>> {
        let places = self.port(port)?.partitions;
        let mut table = Vec::new();
        for index in 0..places {
            let mut key: u16 = 0;
            // SAFETY: the context is open, the out-pointer is valid.
            let outcome = unsafe {
                (self.library.functions.query_pkey)(self.raw.as_ptr(), port, index.into(), &mut key)
            };
            if outcome != 0 {
                let object = format!("{} port {port} index {index}", self.name());
                return Err(Error::last("ibv_query_pkey", object));
            }
            table.push(u16::from_be(key));
        }
        let filled = table.iter().rposition(|&key| key & !FULL_MEMBER != 0);
        table.truncate(filled.map_or(0, |last| last + 1));
        Ok(table)
    }
}
