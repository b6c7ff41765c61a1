//! An open device: context, protection domain, and the first active port.

use std::sync::Arc;

use verbena_rfio_protocol::types::Endpoint;
use verbena_verbs::qp::attributes::Path;
use verbena_verbs::{Context, Gid, Library, PortAttributes, ProtectionDomain};

use super::FabricError;

/// Maximum number of segments that one request gathers; each enlarges a send queue entry.
const MOST_SEGMENTS: u32 = 16;

/// The device and its port.
pub struct Adapter {
    context: Arc<Context>,
    domain: Arc<ProtectionDomain>,
    port_number: u8,
    port: PortAttributes,
    gid: Gid,
    gid_index: u8,
    reads: u8,
    has_windows: bool,
    segments: usize,
}

impl Adapter {
    /// Opens `$RFIO_DEVICE` or the first device of the system's verbs library, with the GID at
    /// `$RFIO_GID_INDEX` or the routable one.
    ///
    /// # Errors
    /// There is no such device, or [`FabricError::NoPort`] if it has no active port.
    pub fn open() -> Result<Arc<Self>, FabricError> {
        let library = Library::system()?;
        let device = std::env::var("RFIO_DEVICE").ok();
        let context = library.device(device.as_deref())?.open()?;
        let attributes = context.attributes()?;
        let wanted = std::env::var("RFIO_GID_INDEX").ok();
        let wanted = wanted.and_then(|index| index.parse().ok());
        for port_number in 1..=attributes.ports {
            let port = context.port(port_number)?;
            if !port.active {
                continue;
            }
            let gid_index = match wanted {
                Some(index) => index,
                None => context.routed_gid_index(port_number)?,
            };
            let gid = context.gid(port_number, gid_index)?;
            let domain = context.protection_domain()?;
            // Sixteen outstanding reads cover a 100 Gbit/s link at 10 us; adapters that support
            // fewer report it.
            let reads = attributes
                .max_reads
                .min(attributes.max_reads_initiated)
                .clamp(1, 16) as u8;
            return Ok(Arc::new(Self {
                context,
                domain,
                port_number,
                port,
                gid,
                gid_index,
                reads,
                has_windows: attributes.has_windows(),
                segments: attributes.max_segments.clamp(1, MOST_SEGMENTS) as usize,
            }));
        }
        Err(FabricError::NoPort(context.name().to_owned()))
    }

    /// Returns the open device.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Returns the protection domain.
    pub fn domain(&self) -> &Arc<ProtectionDomain> {
        &self.domain
    }

    /// Returns the port number.
    pub fn port(&self) -> u8 {
        self.port_number
    }

    /// Returns the number of outstanding RDMA reads in each direction.
    pub fn reads(&self) -> u8 {
        self.reads
    }

    /// Returns whether the adapter has memory windows of type 2, which grant access for a single
    /// request.
    pub fn has_windows(&self) -> bool {
        self.has_windows
    }

    /// Returns the number of memory segments that one request may gather.
    pub fn segments(&self) -> usize {
        self.segments
    }

    /// Returns the local endpoint of a connection.
    pub fn endpoint(&self, queue_pair: u32, sequence: u32) -> Endpoint {
        Endpoint {
            queue_pair,
            sequence,
            lid: self.port.lid,
            gid: self.gid.0,
            mtu: self.port.mtu_code as u8,
            reads: self.reads,
        }
    }

    /// Returns the path to a peer, with a global route if the port has no local identifier.
    pub fn path_to(&self, peer: &Endpoint) -> Path {
        let global = self.port.ethernet || self.port.lid == 0;
        Path {
            lid: peer.lid,
            gid: global.then_some(Gid(peer.gid)),
            source_gid: self.gid_index,
            traffic_class: 0,
            service_level: 0,
            port: self.port_number,
        }
    }

    /// Returns the code of the largest MTU that both sides support.
    pub fn mtu_with(&self, peer: &Endpoint) -> u32 {
        self.port.mtu_code.min(u32::from(peer.mtu))
    }
}

impl std::fmt::Debug for Adapter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "adapter {} port {}",
            self.context.name(),
            self.port_number
        )
    }
}
