//! Fuzzes a process with real queue pairs and memory: noise, intact and damaged packets, and forged
//! ones with correct checksums from the peer's address and from others, in any state of its
//! connections. Nothing panics, only granted memory is written, and every work request completes at
//! most once.
//!
//! Datagrams are handed to the process in place of its socket. Its answers leave by the loopback
//! interface for an address without a host, so port 4791 must be free.
#![no_main]

/// Placeholders for values that are known only at run time; `Target::forge` replaces them.
mod adapter {
    use verbena_wire::{RKey, SrqNumber};

    pub const BASE: u64 = 0x1000_0000;
    pub const KEY: RKey = RKey(0x1111_1111);
    pub const WINDOW: RKey = RKey(0x2222_2222);
    pub const SRQ: SrqNumber = SrqNumber::new(9);
}
#[allow(dead_code)]
mod forged;

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, OnceLock};

use adapter::{BASE, KEY, SRQ};
use forged::{Choices, forged};
use libfuzzer_sys::fuzz_target;
use verbena_abi::*;
use verbena_hca::context::Context;
use verbena_hca::cq::Timestamps;
use verbena_hca::process::Cq;
use verbena_hca::qp::multicast_groups::Loopback;
use verbena_hca::qp::{Qp, QpInit, SendRequest};
use verbena_hca::srq::Srq;
use verbena_hca::xrcd::Xrcd;
use verbena_hca_memory::domain::Pd;
use verbena_hca_memory::region::Region;
use verbena_hca_net::device::Device;
use verbena_hca_net::roce::route;
use verbena_hca_os::udp::{Address, Arrived};
use verbena_wire::opcode::Service;
use verbena_wire::packet::Packet;
use verbena_wire::{Psn, Qpn, RKey, SrqNumber, roce, udp};

/// Interface index of `lo`.
const LOOPBACK: u32 = 1;
const OURS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 1);
const PEERS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const STRANGERS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);
/// Index of the local IPv4 address among the GIDs of the loopback interface.
const GID_INDEX: u8 = 1;
const PSN: u32 = 0x00ff_fffe;
const NOBODY: u32 = 0xab_cdef;
const ROOM: usize = 1 << 16;
const GRANT_AT: usize = 20_000;
const GRANTED: usize = 2500;
const RECEIVE_AT: usize = 40_000;
const RECEIVED: u32 = 1000;
/// Local buffer of the requests that the process posts.
const LOCAL_AT: usize = 50_000;
const LOCAL: u32 = 3000;
const REMOTE: u32 = IBV_ACCESS_LOCAL_WRITE
    | IBV_ACCESS_REMOTE_WRITE
    | IBV_ACCESS_REMOTE_READ
    | IBV_ACCESS_REMOTE_ATOMIC;

struct Target {
    context: Arc<Context>,
    cq: Arc<Cq>,
    victims: Vec<(Arc<Qp>, Service)>,
    srq: Arc<Srq>,
    memory: usize,
    grant: Region,
    own: Region,
}

static TARGET: OnceLock<Target> = OnceLock::new();

fn attributes() -> ibv_qp_attr {
    let mut attributes = ibv_qp_attr {
        port_num: 1,
        qkey: 3,
        qp_access_flags: REMOTE,
        path_mtu: IBV_MTU_256,
        dest_qp_num: NOBODY,
        rq_psn: PSN,
        sq_psn: PSN,
        max_dest_rd_atomic: 2,
        max_rd_atomic: 2,
        min_rnr_timer: 1,
        timeout: 1,
        retry_cnt: 1,
        rnr_retry: 1,
        ..ibv_qp_attr::default()
    };
    attributes.ah_attr.is_global = 1;
    attributes.ah_attr.port_num = 1;
    attributes.ah_attr.grh.sgid_index = GID_INDEX;
    attributes.ah_attr.grh.dgid = route::gid(PEERS.to_ipv6_mapped());
    attributes
}

impl Target {
    fn new() -> Target {
        let directory = std::env::temp_dir().join(format!("verbena-fuzz-{}", std::process::id()));
        // SAFETY: the adapter has not started its threads, and no other thread accesses the
        // environment.
        unsafe {
            std::env::set_var("VERBENA_RUNTIME_DIR", directory);
            std::env::set_var("VERBENA_LINK", "roce");
            std::env::set_var("VERBENA_INTERFACE", "lo");
        }
        let context = Context::open(Device::FIRST).expect("a device");
        let pd = Pd::allocate(&context.process.memory).expect("a domain");
        let cq = Cq::create(
            &context.process,
            &context.events,
            4096,
            None,
            Timestamps::Off,
        )
        .expect("a completion queue");
        let memory = vec![0u8; ROOM].leak().as_ptr() as usize;
        let register = |at: usize, length: usize, access| {
            let address = (memory + at) as u64;
            Region::register(&pd, address, length as u64, address, access).expect("a region")
        };
        let grant = register(GRANT_AT, GRANTED, REMOTE);
        let own = register(0, ROOM, IBV_ACCESS_LOCAL_WRITE);
        let xrcd = Xrcd::open(|| context.process.join(), -1, libc::O_CREAT).expect("a domain");
        let xrc = Some((xrcd.clone(), cq.clone()));
        let srq = Srq::create(&context, &pd, 64, 1, xrc).expect("a shared receive queue");
        let victim = |kind| {
            let receives = kind == IBV_QPT_XRC_RECV;
            let init = QpInit {
                kind,
                pd: (!receives).then(|| pd.clone()),
                send_cq: (!receives).then(|| cq.clone()),
                recv_cq: (!receives).then(|| cq.clone()),
                srq: None,
                xrcd: receives.then(|| xrcd.clone()),
                cap: ibv_qp_cap {
                    max_send_wr: 8,
                    max_recv_wr: 8,
                    max_send_sge: 1,
                    max_recv_sge: 1,
                    max_inline_data: 0,
                },
                signal_all: true,
                loopback: Loopback::Wanted,
            };
            Qp::create(&context, init).expect("a queue pair")
        };
        let victims = vec![
            (victim(IBV_QPT_RC), Service::Rc),
            (victim(IBV_QPT_UC), Service::Uc),
            (victim(IBV_QPT_UD), Service::Ud),
            (victim(IBV_QPT_XRC_RECV), Service::Xrc),
        ];
        Target {
            context,
            cq,
            victims,
            srq,
            memory,
            grant,
            own,
        }
    }

    /// Resets and reconnects all queue pairs.
    fn revive(&self) {
        for (qp, service) in &self.victims {
            let is_datagram = *service == Service::Ud;
            let is_reliable = matches!(service, Service::Rc | Service::Xrc);
            let to = |state, mask| {
                let new = ibv_qp_attr {
                    qp_state: state,
                    ..attributes()
                };
                qp.modify(&new, IBV_QP_STATE | mask).expect("a transition");
            };
            to(IBV_QPS_RESET, 0);
            let access = if is_datagram {
                IBV_QP_QKEY
            } else {
                IBV_QP_ACCESS_FLAGS
            };
            to(IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | access);
            let connected = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
            let receiving = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
            match (is_datagram, is_reliable) {
                (true, _) => to(IBV_QPS_RTR, 0),
                (_, true) => to(IBV_QPS_RTR, connected | receiving),
                _ => to(IBV_QPS_RTR, connected),
            }
            if *service == Service::Xrc {
                continue;
            }
            let retries =
                IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
            to(
                IBV_QPS_RTS,
                IBV_QP_SQ_PSN | if is_reliable { retries } else { 0 },
            );
        }
    }

    fn sge(&self, at: usize, length: u32) -> [ibv_sge; 1] {
        [ibv_sge {
            addr: (self.memory + at) as u64,
            length,
            lkey: self.own.key(),
        }]
    }

    fn post_receive(&self, victim: usize) {
        let sge = self.sge(RECEIVE_AT, RECEIVED);
        let (qp, service) = &self.victims[victim];
        // A full queue rejects the request.
        let _ = match service {
            Service::Xrc => self.srq.post(1, &sge),
            _ => qp.post_receive(1, &sge),
        };
    }

    /// Posts a request to the peer, which does not exist; the fuzzer's packets serve as its
    /// answers.
    fn post_request(&self, victim: usize, choices: &mut Choices<'_>) {
        let opcode = match choices.next() % 6 {
            0 => IBV_WR_RDMA_READ,
            1 => IBV_WR_ATOMIC_FETCH_AND_ADD,
            2 => IBV_WR_RDMA_WRITE,
            3 => IBV_WR_ATOMIC_WRITE,
            4 => IBV_WR_FLUSH,
            _ => IBV_WR_SEND,
        };
        let length = choices.length().min(LOCAL);
        let sge = self.sge(LOCAL_AT, length);
        let request = SendRequest {
            wr_id: 2,
            opcode,
            flags: 0,
            immediate: 0,
            sges: &sge,
            remote_address: 0x1000,
            rkey: 1,
            compare_add: 1,
            swap: 1,
            srq: 0,
            address: None,
            remote_qpn: 0,
            remote_qkey: 0,
            bind: None,
        };
        let _ = self.victims[victim].0.poster().post(&request);
    }

    /// Returns a forged packet with the process's real addresses, keys and numbers.
    fn forge(&self, victim: usize, choices: &mut Choices<'_>) -> Vec<u8> {
        let (qp, service) = &self.victims[victim];
        let bytes = forged(choices, *service, Psn::new(PSN));
        let Ok(Packet {
            mut headers,
            payload,
        }) = Packet::parse(&bytes)
        else {
            return bytes;
        };
        let grant = (self.memory + GRANT_AT) as u64;
        let place = |address: u64| match address.wrapping_sub(BASE) {
            offset if offset.wrapping_add(1) < 1 << 20 => grant.wrapping_add(offset),
            _ => address,
        };
        let key = |key: RKey| {
            if key == KEY {
                RKey(self.grant.key())
            } else {
                key
            }
        };
        headers.bth.destination = Qpn::new(match choices.next() % 16 {
            0 => choices.next().into(),
            _ => qp.number(),
        });
        let extensions = &mut headers.extensions;
        if let Some(reth) = &mut extensions.reth {
            (reth.address, reth.key) = (place(reth.address), key(reth.key));
        }
        if let Some(atomic) = &mut extensions.atomic_eth {
            (atomic.address, atomic.key) = (place(atomic.address), key(atomic.key));
        }
        if let Some(xrc) = &mut extensions.xrceth
            && xrc.srq == SRQ
        {
            xrc.srq = SrqNumber::new(self.srq.number());
        }
        let packet = Packet { headers, payload };
        let mut bytes = vec![0; packet.length()];
        packet.emit(&mut bytes).expect("the same headers");
        bytes
    }

    /// Hands a datagram to the process, with a correct ICRC in most cases.
    fn deliver(&self, packet: &[u8], choices: &mut Choices<'_>) {
        let source = match choices.next() % 16 {
            0 => STRANGERS,
            _ => PEERS,
        };
        let address = |ip: Ipv4Addr, port| Address {
            ip: ip.to_ipv6_mapped(),
            port,
            scope: 0,
        };
        let (from, to) = (address(source, 0xc123), address(OURS, udp::PORT));
        let mut bytes = packet.to_vec();
        let check = choices.next();
        if !check.is_multiple_of(16) {
            let route = route::route(from, to, 0, 64);
            bytes.resize(packet.len() + 4, 0);
            let _ = roce::seal(&route, packet.len(), &mut bytes);
        }
        if check == 1 {
            bytes.truncate(choices.next().into());
        }
        self.context.process.take_datagrams(&Arrived {
            source: from,
            destination: match check {
                2 => Ipv6Addr::LOCALHOST,
                _ => to.ip,
            },
            interface: LOOPBACK,
            traffic_class: 0,
            hop_limit: 64,
            bytes: &bytes,
            segment: match check {
                3 => 40,
                _ => bytes.len().max(1),
            },
        });
    }

    /// Polls all completions and returns their number; each belongs to a posted work request.
    fn drain(&self) -> usize {
        let mut completions = [ibv_wc::default(); 64];
        let mut all = 0;
        loop {
            let count = self.cq.poll(&mut completions);
            assert!(
                completions[..count]
                    .iter()
                    .all(|one| one.wr_id == 1 || one.wr_id == 2)
            );
            all += count;
            if count == 0 {
                return all;
            }
        }
    }

    fn check_guards(&self) {
        let writable = [
            GRANT_AT..GRANT_AT + GRANTED,
            RECEIVE_AT..RECEIVE_AT + RECEIVED as usize,
            LOCAL_AT..LOCAL_AT + LOCAL as usize,
        ];
        let mut at = 0;
        for end in writable.iter().map(|range| range.start).chain([ROOM]) {
            for place in at..end {
                // SAFETY: the address is inside the buffer, which is leaked and so never freed; the
                // read is volatile because the adapter may write to it, which this check detects.
                let byte = unsafe { ((self.memory + place) as *const u8).read_volatile() };
                assert_eq!(byte, 0, "byte {place} was written, which nobody may");
            }
            at = writable
                .iter()
                .find(|range| range.start == end)
                .map_or(ROOM, |range| range.end);
        }
    }
}

fuzz_target!(|input: &[u8]| {
    let target = TARGET.get_or_init(Target::new);
    target.revive();
    target.drain();
    let mut choices = Choices(input);
    let mut posted = 0;
    while !choices.0.is_empty() {
        let victim = usize::from(choices.next()) % target.victims.len();
        match choices.next() % 16 {
            0..=9 => {
                let packet = target.forge(victim, &mut choices);
                target.deliver(&packet, &mut choices);
            }
            10 => {
                let length = usize::from(choices.next()).min(choices.0.len());
                let (noise, rest) = choices.0.split_at(length);
                choices.0 = rest;
                target.deliver(noise, &mut choices);
            }
            11..=12 => {
                target.post_receive(victim);
                posted += 1;
            }
            _ => {
                target.post_request(victim, &mut choices);
                posted += 1;
            }
        }
    }
    let shared = 64;
    assert!(
        target.drain() <= posted + shared,
        "completed more than once"
    );
    target.check_guards();
});
