//! The connection manager: implements the kernel side of `/dev/infiniband/rdma_cm` in user space.
//!
//! librdmacm talks to the kernel through that device: it opens it once per event channel, writes
//! commands to it (structures of `<rdma/rdma_user_cm.h>`, [`abi`]) and polls it for events. The
//! path shim passes open, write and close on to this crate, so that the distribution's librdmacm
//! runs unchanged, and with it everything above it: rsockets, `perftest -R`, libfabric's verbs
//! provider.
//!
//! A command names an identifier ([`identifier`]) of its channel ([`channel`]) and moves it through
//! the states of a connection ([`connection_state`]); [`command`] has one file per group of
//! commands. An identifier reaches its peer through a transport ([`peer_transport`]). One state
//! machine serves both kinds of transport, and one thread per process listens to them ([`thread`],
//! [`inbound`]).
//!
//! - Two processes of a host talk over a stream socket in the runtime directory ([`local_stream`]),
//!   in messages modelled on those of the InfiniBand communication manager ([`message`]: REQ, REP,
//!   RTU, REJ, DREQ, DREP and SIDR's two). When a process dies its sockets close, which informs its
//!   peers.
//! - Two hosts exchange those messages themselves ([`mad`]) in datagrams ([`inbox`], [`outbox`])
//!   that may be lost ([`state_machine`]). A process that exits sends DREQs ([`at_exit`]); for one
//!   that is killed another process of its host sends them ([`reaper`]) from the death record that
//!   it has left ([`death_record`]).
//!
//! **Layers.** [`state`] is the data under the lock of [`service`]. [`exchange`], [`peer`],
//! [`receive`], [`due_steps`] and [`dispatch`] change it, each by means of those before it. The
//! thread calls [`inbound`]; [`start`] starts the thread.
//!
//! **Addresses.** Every address of this host resolves to the adapter, as all its processes share
//! one port ([`address`]). An address of another host is reached over RoCE if its route starts at
//! the port ([`path`]), and over InfiniBand if it is that of an interface of `verbena ipoib` and
//! the program is in the namespace of another one ([`hosts`]); otherwise it does not resolve.
//!
//! **Groups.** On a fabric, rdma_join_multicast(3) requests the membership of the port from subnet
//! administration ([`membership`]); elsewhere `ibv_attach_mcast` alone makes a member.
//!
//! **Not implemented.** AF_IB addresses (librdmacm asks once, and uses IP addresses only after the
//! refusal); alternate paths.
//!
//! Sources: rdma_cm(7) and the man pages of each function; InfiniBand Architecture Specification,
//! volume 1, chapter 12 (communication management) and annex A11 (IP addressing of connection
//! requests).

pub mod abi;
pub mod address;
pub mod alarm;
pub mod at_exit;
pub mod causes;
pub mod channel;
mod closed_port;
pub mod command;
pub mod connection_state;
pub mod connection_table;
pub mod death_record;
pub mod device;
pub mod dispatch;
pub mod due_steps;
pub mod event;
pub mod exchange;
pub mod hosts;
pub mod identifier;
pub mod inbound;
pub mod inbox;
pub mod local_stream;
pub mod mad;
pub mod membership;
pub mod message;
pub mod no_listener;
pub mod outbox;
pub mod path;
pub mod peer;
pub mod peer_transport;
pub mod port;
pub mod probe;
pub mod reaper;
pub mod reaper_schedule;
pub mod receive;
pub mod relay;
pub mod service;
pub mod start;
pub mod state;
pub mod state_machine;
pub mod table;
pub mod thread;
pub mod watch;
