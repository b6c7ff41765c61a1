//! Two queue pairs of one process, connected with each other: shared by the examples.

use std::error::Error;
use std::sync::Arc;
use verbena_verbs::qp::PairType;
use verbena_verbs::qp::attributes::{Change, Connection, Path};
use verbena_verbs::qp::builder::PairOptions;
use verbena_verbs::{
    AccessFlags, Buffer, CompletionQueue, Library, ProtectionDomain, QueuePair, Region,
    WorkCompletion,
};

/// The port that both use.
const PORT: u8 = 1;

/// A queue pair with its completion queue and a registered buffer.
pub struct Side {
    pub pair: QueuePair,
    pub completions: Arc<CompletionQueue>,
    pub region: Region,
}

/// Opens the first device, and connects two queue pairs with buffers of `length` bytes.
pub fn sides(length: usize, access: AccessFlags) -> Result<[Side; 2], Box<dyn Error>> {
    let context = Library::system()?.device(None)?.open()?;
    let domain = context.protection_domain()?;
    let [one, other] = [(), ()].map(|()| side(&domain, length, access));
    let (one, other) = (one?, other?);

    // Peers exchange these values over any channel, for example TCP; here they are at hand.
    let port = context.port(PORT)?;
    let source_gid = context.routed_gid_index(PORT)?;
    let path = Path {
        lid: port.lid,
        gid: port
            .ethernet
            .then(|| context.gid(PORT, source_gid))
            .transpose()?,
        source_gid,
        traffic_class: 0,
        service_level: 0,
        port: PORT,
    };
    for (this, peer) in [(&one, &other), (&other, &one)] {
        let connection = Connection {
            path,
            peer: peer.pair.number(),
            peer_psn: 0,
            psn: 0,
            mtu_code: port.mtu_code,
            reads_served: 1,
            reads_initiated: 1,
            timeout: 14,
            retries: 7,
            rnr_retries: 7,
        };
        this.pair
            .modify(&Change::to_init(PairType::Rc, PORT, access, 0))?;
        this.pair
            .modify(&Change::to_rtr(PairType::Rc, &connection))?;
        this.pair
            .modify(&Change::to_rts(PairType::Rc, &connection))?;
    }
    Ok([one, other])
}

fn side(
    domain: &Arc<ProtectionDomain>,
    length: usize,
    access: AccessFlags,
) -> Result<Side, Box<dyn Error>> {
    let completions = domain.context().completion_queue(16, None)?;
    let pair = PairOptions::new(domain, PairType::Rc, &completions).create()?;
    let region = domain.register(Buffer::allocate(length)?, access)?;
    Ok(Side {
        pair,
        completions,
        region,
    })
}

impl Side {
    /// Polls until a request completes.
    pub fn completion(&self) -> Result<WorkCompletion, Box<dyn Error>> {
        let mut taken = [WorkCompletion::default()];
        while self
            .completions
            .poll(&mut taken, |completion| *completion)?
            == 0
        {
            std::hint::spin_loop();
        }
        let [completion] = taken;
        match completion.status.is_success() {
            true => Ok(completion),
            false => Err(completion.status.to_string().into()),
        }
    }
}
