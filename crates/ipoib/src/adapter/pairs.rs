//! The queue pairs of connections, as the rules of connections use them.

use super::Adapter;
use crate::connection::message::Message;
use crate::connection::{End, Pairs, Side};
use crate::encapsulation::Protocol;
use crate::neighbour::Neighbour;
use crate::station::Sent;

impl Pairs for Adapter {
    fn create(&mut self, id: u32, side: Side) -> Option<u32> {
        let port = (self.port, self.partition_index);
        self.connected.as_mut()?.create(id, side, port)
    }

    fn connect(&mut self, id: u32, peer: &Neighbour, end: &End, psn: u32, side: Side) -> bool {
        let code = match side {
            Side::Sender => self.attributes.mtu_code,
            // The receiver of a request accepts no longer packets than its port has.
            Side::Receiver if end.path_mtu > self.path_mtu() => return false,
            Side::Receiver => end.path_mtu.into(),
        };
        let path = self.path(peer.path, peer.hardware.gid);
        let connected = self.connected.as_ref();
        connected.is_some_and(|connected| connected.connect(id, path, code, end, psn))
    }

    fn destroy(&mut self, id: u32) {
        if let Some(connected) = &mut self.connected {
            self.discarded += connected.destroy(id) as u64;
        }
    }

    fn send(&mut self, id: u32, protocol: Protocol, packet: &[u8]) -> Sent {
        match &mut self.connected {
            Some(connected) => connected.send(id, protocol.header(), packet),
            None => Sent::Refused,
        }
    }

    fn tell(&mut self, to: &Neighbour, message: &Message) {
        // Messages that are lost are sent again, or their connections found to be unused.
        let _ = self.answer(to, Protocol::Connection, &message.bytes());
    }
}
