//! The tracer: tells the verbs calls of a program, with their arguments, results and times.
//!
//! It is preloaded (`verbena trace`) and stands in front of whichever `libibverbs.so.1` the program uses, the adapter's or
//! the system's. So it works on hardware too, as long as the program goes through the library: what posts to an adapter's
//! registers by itself (UCX' `rc_mlx5`) is not seen.
//!
//! **How.** Exported functions are those of the library, by name ([`objects`], [`memory`], [`queues`], [`events`]): each
//! calls the real one and tells ([`call`]). What programs reach through tables of function pointers is put in their place
//! when the object is made ([`replaced`]): the slots of an open device ([`slots`]), the building of work requests
//! ([`building`]), and the reading of completions ([`reading`]).
//!
//! **Contract.** A call returns what the real one returned, with its `errno`. Nothing is changed, delayed or lost, but for the
//! time that the telling takes; where nobody listens ([`listener`]), nothing is told. The format is in [`record`].

mod building;
mod call;
mod events;
mod listener;
mod lock;
mod memory;
mod names;
mod objects;
mod queues;
mod reading;
mod real;
mod record;
mod replaced;
mod slots;
mod state;
mod text;
mod words;
