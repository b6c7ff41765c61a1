//! The management key (14.2.4).

use crate::attribute::port_info;
use crate::fabric::{End, Fabric};
use crate::mad::{Mad, method};
use crate::notice;

/// The outcome of the check of a management key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Permission {
    /// The request is executed.
    Granted,
    /// The request is executed, but a PortInfo shows no management key.
    WithoutKey,
    /// The request is dropped.
    Refused,
}

impl Fabric {
    /// Checks the management key of a request that arrived at a port. A wrong key is counted and
    /// trapped. (The lease never ends, as the fabric has no clock.)
    pub(super) fn permit(&mut self, at: End, mad: &Mad) -> Permission {
        let Some(node) = self.nodes.get(at.node as usize) else {
            return Permission::Refused;
        };
        let kind = node.kind;
        let own = End {
            node: at.node,
            port: node.addressed(at.port),
        };
        let Some(port) = self.port_mut(own) else {
            return Permission::Refused;
        };
        let key = port_info::M_KEY.get(&port.info);
        let protection = port_info::M_KEY_PROTECTION.get(&port.info);
        if key == 0 || key == mad.m_key() {
            return Permission::Granted;
        }
        match (mad.method(), protection) {
            (method::GET, 0) => return Permission::Granted,
            (method::GET, 1) => return Permission::WithoutKey,
            _ => {}
        }
        let violations = port_info::M_KEY_VIOLATIONS.get(&port.info);
        let violations = (violations + 1).min(port_info::M_KEY_VIOLATIONS.most());
        port_info::M_KEY_VIOLATIONS.set(&mut port.info, violations);
        let lid = port.lid();
        let mut content = notice::generic(notice::SECURITY, 256, lid, kind);
        content[12..14].copy_from_slice(&lid.to_be_bytes());
        let (source, _) = mad.directed_lids();
        if mad.is_directed() {
            content[14..16].copy_from_slice(&source.to_be_bytes());
        }
        content[16] = mad.method();
        content[18..20].copy_from_slice(&mad.attribute().to_be_bytes());
        content[20..24].copy_from_slice(&mad.modifier().to_be_bytes());
        content[24..32].copy_from_slice(&mad.m_key().to_be_bytes());
        self.traps.push((own, content));
        Permission::Refused
    }
}
