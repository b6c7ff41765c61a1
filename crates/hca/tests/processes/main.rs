//! The adapter as processes of a host see each other: who is stopped, who talks nonsense, and who has nothing left.

mod callers;
mod crowd;
mod rig;
