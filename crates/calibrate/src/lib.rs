//! Fits profiles to measurements, and evaluates models: the stages of an operation, parameter
//! studies, and errors on published curves to which nothing was fitted.
#![forbid(unsafe_code)]

pub mod anchor;
pub mod distinguished;
pub mod emulation;
pub mod explain;
pub mod interval;
pub mod methods;
pub mod predictions;
pub mod residual;
pub mod software;
pub mod study;
pub mod system;
