//! Agents: registrations of a program for a management class.

use verbena_subnet::mad::{Mad, class};

use crate::protocol::errno::EINVAL;

/// Agents of a file.
pub const MOST_AGENTS: usize = 32;

/// An agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// Its number in the upper half of transaction IDs.
    pub high: u32,
    /// Queue pair, 0 or 1.
    pub qp: u32,
    /// Class; 0 means that it only sends.
    pub class: u8,
    /// Class version.
    pub version: u8,
    /// Organisation, of vendor classes from 0x30.
    pub oui: [u8; 3],
    /// Methods of requests that it receives.
    pub methods: u128,
    /// Whether the kernel speaks RMPP for it.
    pub has_rmpp: bool,
}

/// Flag of a registration: the program speaks RMPP.
const USER_RMPP: u32 = 1;

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([0, 1, 2, 3].map(|byte| bytes[at + byte]))
}

impl Agent {
    /// Reads the argument of REGISTER_AGENT.
    ///
    /// # Errors
    ///
    /// Fails with an errno.
    pub fn of_first(argument: &[u8], high: u32) -> Result<Agent, i32> {
        let argument: &[u8; 28] = argument.try_into().map_err(|_| EINVAL)?;
        let methods = u128::from_ne_bytes(std::array::from_fn(|at| argument[4 + at]));
        let agent = Agent {
            high,
            qp: u32::from(argument[20]),
            class: argument[21],
            version: argument[22],
            oui: [argument[23], argument[24], argument[25]],
            methods,
            has_rmpp: argument[26] != 0,
        };
        agent.checked()
    }

    /// Reads the argument of REGISTER_AGENT2. Unknown flags are refused, and the known ones written
    /// back.
    ///
    /// # Errors
    ///
    /// Fails with an errno.
    pub fn of_second(argument: &mut [u8], high: u32) -> Result<Agent, i32> {
        if argument.len() != 40 {
            return Err(EINVAL);
        }
        let flags = word(argument, 12);
        if flags & !USER_RMPP != 0 {
            argument[12..16].copy_from_slice(&USER_RMPP.to_ne_bytes());
            return Err(EINVAL);
        }
        let oui = word(argument, 32).to_be_bytes();
        if oui[0] != 0 {
            return Err(EINVAL);
        }
        let agent = Agent {
            high,
            qp: word(argument, 4),
            class: argument[8],
            version: argument[9],
            oui: [oui[1], oui[2], oui[3]],
            methods: u128::from_ne_bytes(std::array::from_fn(|at| argument[16 + at])),
            has_rmpp: argument[36] != 0 && flags & USER_RMPP == 0,
        };
        agent.checked()
    }

    fn checked(self) -> Result<Agent, i32> {
        let is_management = matches!(self.class, class::SM_LID | class::SM_DIRECTED);
        let is_valid = match self.qp {
            0 => is_management || self.class == 0,
            1 => !is_management,
            _ => false,
        };
        match is_valid {
            true => Ok(self),
            false => Err(EINVAL),
        }
    }

    /// Returns whether both receive the same requests, so that only one can be registered.
    pub fn collides(&self, other: &Agent) -> bool {
        self.is_same_class(other.class, other.version, other.oui)
            && self.methods & other.methods != 0
    }

    fn is_same_class(&self, class: u8, version: u8, oui: [u8; 3]) -> bool {
        self.class != 0
            && (self.class, self.version) == (class, version)
            && (!has_oui(class) || self.oui == oui)
    }

    /// Returns whether the agent receives a request.
    pub fn receives(&self, mad: &Mad) -> bool {
        let bytes = mad.bytes();
        let oui = [bytes[37], bytes[38], bytes[39]];
        self.is_same_class(mad.class(), mad.class_version(), oui)
            && self.methods >> (mad.method() & 0x7f) & 1 != 0
    }
}

fn has_oui(class: u8) -> bool {
    (0x30..=0x4f).contains(&class)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(qp: u8, class: u8, methods: u128) -> [u8; 28] {
        let mut argument = [0; 28];
        argument[4..20].copy_from_slice(&methods.to_ne_bytes());
        (argument[20], argument[21], argument[22]) = (qp, class, 1);
        argument
    }

    #[test]
    fn classes_and_queue_pairs_must_fit() {
        assert!(Agent::of_first(&first(0, 0x81, 0), 1).is_ok());
        assert!(Agent::of_first(&first(1, 0x04, 0), 1).is_ok());
        for (qp, class) in [(1, 0x81), (0, 0x04), (2, 0x04)] {
            assert_eq!(Agent::of_first(&first(qp, class, 0), 1), Err(EINVAL));
        }
    }

    #[test]
    fn unknown_flags_are_refused_with_the_known_ones() {
        let mut argument = [0; 40];
        argument[12..16].copy_from_slice(&6u32.to_ne_bytes());
        assert_eq!(Agent::of_second(&mut argument, 1), Err(EINVAL));
        assert_eq!(word(&argument, 12), USER_RMPP);
    }

    #[test]
    fn agents_of_other_organisations_do_not_collide() {
        let mut one = Agent::of_first(&first(1, 0x32, 2), 1).unwrap();
        one.oui = [0, 0x14, 5];
        let mut other = one.clone();
        assert!(one.collides(&other));
        other.oui = [1, 2, 3];
        assert!(!one.collides(&other));
        let only_sends = Agent::of_first(&first(1, 0, 2), 1).unwrap();
        assert!(!only_sends.collides(&only_sends.clone()));
    }
}
