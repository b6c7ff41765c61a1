//! Measure an adapter, fit a profile to a part of what was measured, predict the rest, and say how well that went.

pub mod rule;
