//! The state of a node's ports as its adapter sees them: the message that follows each change.

/// Entries of a port's table of partition keys.
pub const P_KEYS: usize = 128;
/// GUIDs and partition keys of a port that a message may have.
const MOST_ENTRIES: usize = 256;

/// Makes a structure of numbers with its conversion to bytes and back.
macro_rules! numbers {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl $name {
            fn emit(&self, to: &mut Vec<u8>) {
                $(self.$field.put(to);)*
            }

            fn parse(from: &mut &[u8]) -> Option<Self> {
                Some($name { $($field: Value::take(from)?,)* })
            }
        }
    };
}

trait Value: Sized {
    fn put(&self, to: &mut Vec<u8>);
    fn take(from: &mut &[u8]) -> Option<Self>;
}

macro_rules! number {
    ($($type:ty)*) => {$(
        impl Value for $type {
            fn put(&self, to: &mut Vec<u8>) {
                to.extend_from_slice(&self.to_ne_bytes());
            }

            fn take(from: &mut &[u8]) -> Option<Self> {
                let (first, rest) = from.split_first_chunk()?;
                *from = rest;
                Some(<$type>::from_ne_bytes(*first))
            }
        }
    )*};
}

number!(u8 u16 u32 u64);

impl<T: Value> Value for Vec<T> {
    fn put(&self, to: &mut Vec<u8>) {
        (self.len() as u16).put(to);
        self.iter().for_each(|one| one.put(to));
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let count = usize::from(u16::take(from)?);
        if count > MOST_ENTRIES {
            return None;
        }
        (0..count).map(|_| T::take(from)).collect()
    }
}

impl Value for PortState {
    fn put(&self, to: &mut Vec<u8>) {
        self.emit(to);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        PortState::parse(from)
    }
}

numbers! {
    /// A port. Codes are those of PortInfo, but for the speed.
    PortState {
        /// Number of the network that reaches the port, unlike that of any other port.
        network: u32,
        /// Number of Sets of PortInfo that asked programs to register again.
        reregistrations: u32,
        /// Base LID.
        lid: u16,
        /// LID mask control.
        lmc: u8,
        /// LID of the subnet manager.
        sm_lid: u16,
        /// Service level of the subnet manager.
        sm_sl: u8,
        /// State.
        state: u8,
        /// Physical state.
        physical: u8,
        /// Width.
        width: u8,
        /// Speed of a lane, as verbs number it: 1 SDR, 2 DDR, 4 QDR, 8 FDR10, 16 FDR, 32 EDR,
        /// 64 HDR, 128 NDR, 256 XDR.
        speed: u16,
        /// Largest MTU.
        mtu_cap: u8,
        /// MTU in use.
        mtu: u8,
        /// Virtual lanes.
        lanes: u8,
        /// Timeout of the subnet.
        subnet_timeout: u8,
        /// Type of initialisation.
        init_type: u8,
        /// Capabilities.
        capabilities: u32,
        /// Capabilities of the second mask.
        capabilities_2: u16,
        /// Violations of partition keys.
        p_key_violations: u16,
        /// Violations of queue keys.
        q_key_violations: u16,
        /// Prefix of GIDs.
        prefix: u64,
        /// GUIDs; 0 for an unused entry.
        guids: Vec<u64>,
        /// Partition keys; 0 for an unused entry.
        p_keys: Vec<u16>,
    }
}

numbers! {
    /// A node.
    NodeState {
        /// Version of the fabric: changes with any state of it, so that paths must be looked up
        /// again.
        version: u64,
        /// Number of the network that reaches the members of multicast groups.
        groups: u32,
        /// GUID of the node.
        guid: u64,
        /// GUID of the system that it is a part of.
        system_guid: u64,
        /// Ports, the first one's number is 1.
        ports: Vec<PortState>,
    }
}

impl NodeState {
    /// Returns the message.
    pub fn bytes(&self) -> Vec<u8> {
        let mut all = Vec::new();
        self.emit(&mut all);
        all
    }

    /// Reads the message; `None` if it is none.
    pub fn of(mut bytes: &[u8]) -> Option<NodeState> {
        let state = NodeState::parse(&mut bytes)?;
        bytes.is_empty().then_some(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_read_back() {
        let port = PortState {
            network: 0x8000_0001,
            lid: 7,
            prefix: 0xfe80 << 48,
            guids: vec![1, 2],
            p_keys: vec![0xffff, 0x8001],
            ..PortState::default()
        };
        let state = NodeState {
            version: 9,
            guid: 3,
            ports: vec![port.clone(), port],
            ..NodeState::default()
        };
        let bytes = state.bytes();
        assert_eq!(NodeState::of(&bytes), Some(state));
        for cut in 0..bytes.len() {
            assert_eq!(NodeState::of(&bytes[..cut]), None, "{cut}");
        }
    }
}
