//! Host memory per connection (memfree, section 4.4): the slope of this process's memory over the
//! number of connections, for RC, RC with a shared receive queue, XRC, and UD.

use crate::agreement::{Outcome, attempt};
use crate::context::{Context, Record, Sweep};
use crate::parameters;
use crate::wiring::{LinkKind, Receives, Setup, wire};
use verbena_fabric::*;
use verbena_measure::compare::Better;
use verbena_measure::result::{Conduct, Finding, Metric, Parameters};

pub async fn memory<F: Fabric>(context: &Context<'_, F>) -> Result<()> {
    let pair = context.pairing()[0];
    let kinds = [
        ("rc", LinkKind::Rc, Receives::Own),
        ("rc-srq", LinkKind::Rc, Receives::Shared),
        ("xrc", LinkKind::Xrc, Receives::Shared),
        ("ud", LinkKind::Ud, Receives::Own),
    ];
    let numbers: Vec<usize> = match context.budget.sweep {
        Sweep::Coarse => vec![1, 64, 128],
        Sweep::Fine => vec![1, 125, 250, 500, 1000],
    };
    for (word, kind, receives) in kinds {
        let mut curve = Vec::new();
        for &number in &numbers {
            let parameters = parameters! { "connections" => number, "transport" => word };
            let point = point(context, &parameters, kind, receives, number, pair);
            if let Some(bytes) = attempt(context, &parameters, point).await? {
                curve.push((number as f64, bytes));
            }
        }
        if let Some(slope) = slope(&curve) {
            context.emit(Record::Finding(Finding {
                benchmark: context.benchmark.to_owned(),
                launch: context.launch,
                name: "memory-per-connection".to_owned(),
                parameters: parameters! { "transport" => word },
                value: Some(slope),
                unit: "bytes".to_owned(),
                range: None,
                text: format!("a connection costs {}", verbena_measure::unit::size(slope)),
            }));
        }
    }
    Ok(())
}

async fn point<F: Fabric>(
    context: &Context<'_, F>,
    parameters: &Parameters,
    kind: LinkKind,
    receives: Receives,
    number: usize,
    pair: [usize; 2],
) -> Outcome<f64> {
    let rank = context.rank();
    let peers = match pair.iter().position(|&member| member == rank) {
        Some(side) => vec![pair[1 - side]; number],
        None => Vec::new(),
    };
    let unknown = || {
        Error::unsupported(
            "telling host memory",
            context.fabric.capabilities().device.clone(),
        )
    };
    let before = context.fabric.host_memory().ok_or_else(unknown)?;
    let mut setup = Setup::new(kind, 4096);
    setup.receives = receives;
    setup.depth = 16;
    let wired = wire(context, &peers, setup).await?;
    let after = context.fabric.host_memory().ok_or_else(unknown)?;
    let bytes = after.saturating_sub(before) as f64;
    let figure = |value| Metric::figure("host-memory", "bytes", Better::Lower, value);
    let conduct = Conduct {
        batch: 1,
        ..Conduct::default()
    };
    context.point(
        parameters,
        vec![figure(bytes)],
        Vec::new(),
        conduct,
        Vec::new(),
        1,
    );
    drop(wired);
    Ok(bytes)
}

/// Returns the least-squares slope; `None` for fewer than two different numbers.
fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let n = points.len() as f64;
    let (mx, my) = points
        .iter()
        .fold((0.0, 0.0), |(x, y), p| (x + p.0 / n, y + p.1 / n));
    let (xy, xx) = points.iter().fold((0.0, 0.0), |(a, b), p| {
        (a + (p.0 - mx) * (p.1 - my), b + (p.0 - mx).powi(2))
    });
    (xx > 0.0).then(|| xy / xx)
}

#[cfg(test)]
mod tests {
    use super::slope;

    #[test]
    fn the_slope_of_a_line_is_fitted() {
        let found = slope(&[(1.0, 5.0), (2.0, 7.0), (5.0, 13.0)]).unwrap();
        assert!((found - 2.0).abs() < 1e-9, "{found}");
        assert_eq!(slope(&[(1.0, 5.0)]), None);
        assert_eq!(slope(&[]), None);
    }
}
