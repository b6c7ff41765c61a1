//! Encodes a MAD from another host as a frame of the size of a local message, by which the process
//! that received it passes it to the listener.

use crate::message::FRAME;
use std::net::Ipv6Addr;
use verbena_hca_net::roce::management::CmMad;
use verbena_hca_net::roce::udp_port::UdpPort;
use verbena_wire::mad::LENGTH;

const MAGIC: [u8; 4] = *b"vbmd";
const INTERFACE: usize = MAGIC.len();
const SOURCE: usize = INTERFACE + 4;
const DESTINATION: usize = SOURCE + 16;
const PORT: usize = DESTINATION + 16;
const MAD: usize = PORT + 4;
const _: () = assert!(MAD + LENGTH <= FRAME);

/// Encodes a MAD as a frame.
pub fn encode(cm_mad: &CmMad) -> [u8; FRAME] {
    let mut frame = [0; FRAME];
    frame[..INTERFACE].copy_from_slice(&MAGIC);
    frame[INTERFACE..SOURCE].copy_from_slice(&cm_mad.interface.to_ne_bytes());
    frame[SOURCE..DESTINATION].copy_from_slice(&cm_mad.source.octets());
    frame[DESTINATION..PORT].copy_from_slice(&cm_mad.destination.octets());
    frame[PORT..MAD].copy_from_slice(&u32::from(cm_mad.udp_port.port()).to_ne_bytes());
    frame[MAD..MAD + LENGTH].copy_from_slice(&cm_mad.mad);
    frame
}

/// Decodes the MAD in a frame; returns `None` if there is none.
pub fn decode(frame: &[u8; FRAME]) -> Option<CmMad> {
    let (magic, rest) = frame.split_first_chunk()?;
    let (interface, rest) = rest.split_first_chunk()?;
    let (source, rest) = rest.split_first_chunk::<16>()?;
    let (destination, rest) = rest.split_first_chunk::<16>()?;
    let (port, rest) = rest.split_first_chunk()?;
    let port = u32::from_ne_bytes(*port).try_into().ok()?;
    (*magic == MAGIC).then_some(CmMad {
        interface: u32::from_ne_bytes(*interface),
        source: Ipv6Addr::from(*source),
        destination: Ipv6Addr::from(*destination),
        udp_port: UdpPort::of_port(port)?,
        mad: *rest.first_chunk()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Message, MessageKind};

    #[test]
    fn relayed_mads_round_trip_and_messages_do_not_decode_as_mads() {
        let cm_mad = CmMad {
            interface: 7,
            source: "::ffff:10.9.0.1".parse().unwrap(),
            destination: "fd09::2".parse().unwrap(),
            udp_port: UdpPort::of_port(24792).unwrap(),
            mad: std::array::from_fn(|at| at as u8),
        };
        assert_eq!(decode(&encode(&cm_mad)), Some(cm_mad.clone()));
        assert_eq!(Message::decode(&encode(&cm_mad)), None);
        assert_eq!(decode(&Message::bare(MessageKind::Req).encode()), None);
    }
}
