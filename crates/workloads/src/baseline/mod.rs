//! Baselines: the floor and the alternative beside every figure. They measure the host and have no meaning on a model.

pub mod cache_line;
pub mod copy;
pub mod tcp;

use crate::agreement::Outcome;
use crate::context::Context;
use verbena_fabric::{Error, Fabric, FabricKind};

/// What measures a host, its kernel or its driver needs a real one: a model would answer without having any.
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

/// Real connections need the fabric's clock to be the host's.
fn real_clock<F: Fabric>(context: &Context<'_, F>) -> Outcome<()> {
    match context.fabric.clock().name {
        "virtual" => {
            let fabric = context.fabric.capabilities().device.clone();
            Err(Error::unsupported("TCP in virtual time", fabric).into())
        }
        _ => real_host(context, "a baseline of the host"),
    }
}
