//! All pairs, one after the other: write latency between every two processes, as a host-by-host
//! matrix. It shows a slow port, cable or core that averages hide.

use crate::agreement::attempt;
use crate::context::{Context, Mode, Record};
use crate::latency::ping_pong::{Exchange, Inlining, PingPong, run};
use crate::parameters;
use crate::wiring::{LinkKind, Receives};
use std::cell::RefCell;
use verbena_fabric::*;
use verbena_measure::result::Finding;
use verbena_measure::sample::Sample;

/// A pair is reported if it is slower than the median pair by this factor.
const SLOW: f64 = 1.5;

pub async fn all_pairs<F: Fabric>(context: &Context<'_, F>) -> Result<()> {
    let medians = RefCell::new(Vec::new());
    let sink = |record: Record| {
        if let Record::Point(point) = &record {
            let mut pair = point.parameters.clone();
            pair.retain(|name, _| name == "from" || name == "to");
            medians.borrow_mut().push((pair, point.metrics[0].value));
        }
        (context.sink)(record);
    };
    let watched = Context {
        sink: &sink,
        ..*context
    };
    let size = context
        .options
        .sizes
        .as_ref()
        .and_then(|s| s.first().copied())
        .unwrap_or(8)
        .max(1);
    for from in 0..context.size() {
        for to in from + 1..context.size() {
            let parameters = parameters! {
                "from" => from, "to" => to, "size" => size, "transport" => "rc",
            };
            let spec = PingPong {
                exchange: Exchange::Write,
                kind: LinkKind::Rc,
                receives: Receives::Own,
                size,
                wait: Wait::Poll,
                inlining: Inlining::Usual,
            };
            let pairs = [[from, to]];
            let point = run(&watched, &parameters, spec, &pairs, Mode::Free);
            attempt(&watched, &parameters, point).await?;
        }
    }
    let medians = medians.into_inner();
    let Some(all) = Sample::new(medians.iter().map(|(_, value)| *value).collect()) else {
        return Ok(());
    };
    for (pair, value) in medians {
        let ratio = value / all.median();
        if ratio > SLOW {
            context.emit(Record::Finding(Finding {
                benchmark: context.benchmark.to_owned(),
                launch: context.launch,
                name: "slow-pair".to_owned(),
                value: Some(ratio),
                unit: String::new(),
                range: None,
                text: format!(
                    "processes {} and {} are {ratio:.1} times as slow as the median pair",
                    pair["from"], pair["to"]
                ),
                parameters: pair,
            }));
        }
    }
    Ok(())
}
