//! Baselines: the floor and the alternative beside every figure. They measure the host and have no meaning on a model.

pub mod cache_line;
pub mod copy;
pub mod tcp;

use crate::agreement::Outcome;
use crate::context::Context;
use verbena_fabric::{Error, Fabric, FabricKind};

/// Baselines need a real host.
fn real_host<F: Fabric>(context: &Context<'_, F>) -> Outcome<()> {
    match context.fabric.capabilities().kind {
        FabricKind::Model => {
            let fabric = context.fabric.capabilities().device.clone();
            Err(Error::Unsupported {
                what: "a baseline of the host".to_owned(),
                fabric,
            }
            .into())
        }
        _ => Ok(()),
    }
}

/// Real connections need the fabric's clock to be the host's.
fn real_clock<F: Fabric>(context: &Context<'_, F>) -> Outcome<()> {
    match context.fabric.clock().name {
        "virtual" => {
            let fabric = context.fabric.capabilities().device.clone();
            Err(Error::Unsupported {
                what: "TCP in virtual time".to_owned(),
                fabric,
            }
            .into())
        }
        _ => real_host(context),
    }
}
