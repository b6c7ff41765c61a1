//! The connection manager: implements the kernel side of `/dev/infiniband/rdma_cm` in user space.
//!
//! librdmacm talks to the kernel through that device: it opens it once per event channel, writes
//! commands to it (structures of `<rdma/rdma_user_cm.h>`, [`abi`]) and polls it for events. The
//! path shim passes open, write and close on to this crate, so that the distribution's librdmacm
//! runs unchanged, and with it everything above it: rsockets, `perftest -R`, libfabric's verbs
//! provider.
//!
//! A command names an identifier ([`identifier`]) of its channel ([`channel`]) and moves it through
//! the states of a connection ([`stage`]); [`command`] has one file per group of commands. An
//! identifier reaches its peer through a transport ([`line`]). One state machine serves both kinds
//! of transport, and one thread per process listens to them ([`thread`], [`arrival`]).
//!
//! - Two processes of a host talk over a stream socket in the runtime directory ([`conversation`]),
//!   in messages modelled on those of the InfiniBand communication manager ([`message`]: REQ, REP,
//!   RTU, REJ, DREQ, DREP and SIDR's two). When a process dies its sockets close, which informs its
//!   peers.
//! - Two hosts exchange those messages themselves ([`mad`]) in datagrams ([`post`]) that may be
//!   lost ([`correspondence`]). A process that exits sends DREQs ([`leave`]); for one that is
//!   killed another process of its host sends them ([`executor`]) from the death record it has left
//!   ([`will`]).
//!
//! **Addresses.** Every address of this host resolves to the adapter, as all its processes share
//! one port ([`address`]). An address of another host is reached over RoCE if its route starts at
//! the port ([`way`]); otherwise it does not resolve.
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
pub mod arrival;
pub mod channel;
pub mod command;
pub mod conversation;
pub mod correspondence;
pub mod device;
pub mod event;
pub mod executor;
pub mod identifier;
pub mod leave;
pub mod line;
pub mod mad;
pub mod message;
pub mod nobody;
pub mod office;
pub mod port;
pub mod post;
pub mod probe;
pub mod relay;
pub mod service;
pub mod stage;
pub mod table;
pub mod thread;
pub mod way;
pub mod will;
