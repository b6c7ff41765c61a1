//! Set of PortInfo: which values are taken, and the changes of state that are allowed (7.2.7,
//! 14.2.5.6).

use crate::attribute::port_info::{self, physical, state};
use crate::fabric::{End, Fabric, Kind, UNICAST_LIDS};
use crate::field::Field;
use crate::mad::status;

/// Fields with masks of widths or speeds: enabled, supported, and the value that means "all".
const MASKS: [(Field, Field, u64); 4] = [
    (port_info::WIDTH_ENABLED, port_info::WIDTH_SUPPORTED, 255),
    (port_info::SPEED_ENABLED, port_info::SPEED_SUPPORTED, 15),
    (
        port_info::EXTENDED_ENABLED,
        port_info::EXTENDED_SUPPORTED,
        31,
    ),
    (
        port_info::EXTENDED_2_ENABLED,
        port_info::EXTENDED_2_SUPPORTED,
        7,
    ),
];

impl Fabric {
    /// Executes a Set of PortInfo. An invalid value changes nothing.
    ///
    /// # Errors
    ///
    /// Fails with the status of the answer.
    pub(super) fn set_port_info(&mut self, at: End, modifier: u32, new: &[u8]) -> Result<(), u16> {
        let end = self.named_port(at, modifier as u8)?;
        let kind = self.node(at)?.kind;
        let is_end = kind != Kind::Switch || end.port == 0;
        let port = self.port(end).ok_or(status::INVALID)?;
        let logical = new_state(port.state(), port_info::STATE.get(new), end.port == 0)?;
        let info = &port.info;
        let lid = port_info::LID.get(new);
        let lmc = port_info::LMC.get(new);
        if is_end && (lid == 0 || lid + (1 << lmc) > UNICAST_LIDS as u64) {
            return Err(status::INVALID);
        }
        let mtu = port_info::NEIGHBOR_MTU.get(new);
        if mtu > port_info::MTU_CAP.get(info) {
            return Err(status::INVALID);
        }
        let lanes = port_info::OPERATIONAL_VLS.get(new);
        if lanes > port_info::VL_CAP.get(info) {
            return Err(status::INVALID);
        }
        for (enabled, supported, all) in MASKS {
            let value = enabled.get(new);
            if value != all && value & !supported.get(info) != 0 {
                return Err(status::INVALID);
            }
        }
        let is_external = end.port != 0;
        let new_physical = port_info::PHYSICAL_STATE.get(new);
        if new_physical > physical::DISABLED {
            return Err(status::INVALID);
        }
        let port = self.port_mut(end).ok_or(status::INVALID)?;
        let info = &mut port.info;
        for field in port_info::WRITABLE {
            field.copy(new, info);
        }
        for (field, value) in [
            (port_info::NEIGHBOR_MTU, mtu),
            (port_info::OPERATIONAL_VLS, lanes),
        ] {
            if value != 0 {
                field.set(info, value);
            }
        }
        for (enabled, supported, all) in MASKS {
            match enabled.get(new) {
                0 => {}
                value if value == all => {
                    let all = supported.get(info);
                    enabled.set(info, all);
                }
                value => enabled.set(info, value),
            }
        }
        if is_end {
            port_info::LID.set(info, lid);
            port_info::LMC.set(info, lmc);
            for field in port_info::WRITABLE_OF_ENDS {
                field.copy(new, info);
            }
            let asks = port_info::CLIENT_REREGISTER.get(new) as u32;
            port.reregistrations = port.reregistrations.wrapping_add(asks);
        }
        let default = port_info::DOWN_DEFAULT.get(new);
        if default != 0 {
            port_info::DOWN_DEFAULT.set(info, default);
        }
        if !is_external {
            port_info::STATE.set(info, logical);
            return Ok(());
        }
        // Either change makes the link train anew, or ends it.
        match (new_physical, port_info::STATE.get(new)) {
            (physical::DISABLED, _) => self.set_link(end, physical::DISABLED),
            (physical::POLLING, _) | (_, state::DOWN) => self.set_link(end, physical::POLLING),
            _ => {
                // A change that a subnet manager asks for is not reported (14.2.5.4).
                let port = self.port_mut(end).ok_or(status::INVALID)?;
                port_info::STATE.set(&mut port.info, logical);
            }
        }
        Ok(())
    }
}

/// Returns the state after a Set of a state.
fn new_state(now: u64, wanted: u64, is_port_0: bool) -> Result<u64, u16> {
    match (wanted, now) {
        (state::UNCHANGED, _) => Ok(now),
        // Port 0 has no link.
        (_, _) if is_port_0 && wanted <= state::ACTIVE => Ok(state::ACTIVE),
        (state::DOWN, _) => Ok(state::DOWN),
        (state::ARMED, state::INIT | state::ARMED) => Ok(state::ARMED),
        (state::ACTIVE, state::ARMED | state::ACTIVE) => Ok(state::ACTIVE),
        _ => Err(status::INVALID),
    }
}
