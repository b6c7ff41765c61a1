//! The connection manager: what a kernel does behind `/dev/infiniband/rdma_cm`, in user space.
//!
//! librdmacm speaks to the kernel through that device: it opens it once an event channel, writes commands to it (`write`
//! of a structure of `<rdma/rdma_user_cm.h>`, [`abi`]), and polls it for events. The path shim hands such an open, the
//! writes and the close to this crate, so that the distribution's own librdmacm runs unchanged, and with it everything
//! above it: rsockets, `perftest -R`, libfabric's verbs provider.
//!
//! A command names an identifier ([`identifier`]) of its channel ([`channel`]) and moves it through the states of a
//! connection ([`stage`]); [`command`] has one file a group of commands. Its peer is at the other end of a [`line`], and one
//! state machine serves both kinds of line; one thread a process listens to them ([`thread`], [`arrival`]).
//!
//! - Two processes of a host agree over a stream socket in the runtime directory ([`conversation`]), in messages modelled
//!   on those of the InfiniBand communication manager ([`message`]: REQ, REP, RTU, REJ, DREQ, DREP and SIDR's two). A
//!   process dies, its sockets close, and that is how a peer learns of it.
//! - Two hosts agree by those messages themselves ([`mad`]), in datagrams ([`post`]) that may be lost
//!   ([`correspondence`]). A process that ends says so ([`leave`]); for one that is killed another
//!   of its host says it ([`executor`]), who reads what it has left to be said ([`will`]).
//!
//! **Addresses.** Every address of this host leads to the adapter, as all its processes share one port ([`address`]). An
//! address of another host is reached over RoCE, if the way to it begins at the port ([`way`]); else it leads nowhere.
//!
//! **Not here.** AF_IB addresses (librdmacm asks once, and uses IP addresses only after the refusal); alternate paths.
//!
//! Sources: rdma_cm(7) and the man pages of each function; InfiniBand Architecture Specification, volume 1, chapter 12
//! (communication management) and annex A11 (IP addressing of connection requests).

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
