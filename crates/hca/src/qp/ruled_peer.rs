//! The peers of a queue pair as rules name them ([`verbena_faults::peer`]).

use super::Qp;
use super::send::{SendQueue, SendRequest};
use crate::roce::path::leads_elsewhere;
use std::net::Ipv6Addr;
use verbena_abi::*;
use verbena_faults::firing::command_line;
use verbena_faults::peer::PeerAddress;

impl Qp {
    /// Notes the peer of the requests and receives that follow, if rules name peers.
    #[cold]
    pub(super) fn meet_peer(&self, send: &mut SendQueue, number: u32, vector: &ibv_ah_attr) {
        let gid = (vector.is_global != 0).then(|| vector.grh.dgid.bytes());
        let destination = (number, vector.dlid, gid.unwrap_or_default());
        let causes = send.causes.as_deref_mut();
        let sends = causes.filter(|causes| causes.awaits_peer(destination));
        let mut receive = (self.kind != IBV_QPT_UD).then(|| self.lock_receive());
        let receives = receive.as_mut().and_then(|one| one.causes.as_deref_mut());
        let receives = receives.filter(|causes| causes.name_peers());
        if sends.is_none() && receives.is_none() {
            return;
        }
        let process = match leads_elsewhere(vector) {
            true => 0,
            false => self.owner_of(number).unwrap_or(0),
        };
        let words = match process {
            0 => Vec::new(),
            process => std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default(),
        };
        let address = PeerAddress {
            lid: vector.dlid,
            gid: gid.map(Ipv6Addr::from),
            queue_pair: number,
            process,
            command: command_line(&words),
        };
        if let Some(sends) = sends {
            sends.meet(destination, &address);
        }
        if let Some(receives) = receives {
            receives.meet(&address);
        }
    }

    /// As [`Qp::meet_peer`], for the receiver of a datagram.
    pub(super) fn meet_receiver(&self, send: &mut SendQueue, request: &SendRequest<'_>) {
        if let Some(address) = request.address.filter(|_| self.kind == IBV_QPT_UD) {
            self.meet_peer(send, request.remote_qpn, address.attributes());
        }
    }

    /// Returns the id of the process on this host that owns a queue pair number.
    fn owner_of(&self, number: u32) -> Option<u32> {
        let registry = &self.process.membership.get()?.registry;
        let owner = registry.owner(number)?;
        let mut all = registry.processes().into_iter();
        all.find_map(|(identity, process)| (identity == owner).then_some(process))
    }
}
