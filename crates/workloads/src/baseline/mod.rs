//! Baselines: lower bound and alternative for comparison. They measure the host and have no meaning
//! on a model.

pub mod cache_line;
pub mod copy;
pub mod tcp;

use crate::agreement::Outcome;
use crate::context::Context;
use verbena_fabric::{Error, Fabric, FabricKind};

/// Returns an error on a model: measurements of the host, its kernel or its driver need a real one.
pub fn real_host<F: Fabric>(context: &Context<'_, F>, what: &str) -> Outcome<()> {
    match context.fabric.capabilities().kind {
        FabricKind::Model => {
            let fabric = format!("the model {}", context.fabric.capabilities().device);
            let what = what.to_owned();
            Err(Error::unsupported(what, fabric).into())
        }
        _ => Ok(()),
    }
}

/// Returns an error unless the fabric's clock is the host's, as real connections require.
fn real_clock<F: Fabric>(context: &Context<'_, F>) -> Outcome<()> {
    match context.fabric.clock().name {
        "virtual" => {
            let fabric = context.fabric.capabilities().device.clone();
            Err(Error::unsupported("TCP in virtual time", fabric).into())
        }
        _ => real_host(context, "a baseline of the host"),
    }
}
