//! The effort of the points of patterns of many processes, from their parameters.

use crate::effort::{Effort, parts};
use verbena_measure::result::{Parameters, Value};
use verbena_model::adapter::Fidelity;
use verbena_model::profile::System;
use verbena_workloads::Budget;

/// Memory of a process of a pattern, in bytes: 80 to 330 KiB, measured with 16 to 1024 processes.
pub const PROCESS: u64 = 384 << 10;
/// Messages and operations of a point beside those that count, relative to them: warm-up and
/// agreement.
const BESIDE: f64 = 1.2;
/// Operations of a latency: warm-up and samples.
const OPERATIONS: u64 = 60;

/// Estimates the effort of a point of a pattern; its memory is not included. `None` if the
/// benchmark is not one of these patterns.
pub fn effort(
    benchmark: &str,
    (system, fidelity): (&System, Fidelity),
    point: &Parameters,
) -> Option<Effort> {
    let number = |name: &str| match point.get(name) {
        Some(Value::Number(number)) => Some(*number as u64),
        _ => None,
    };
    let size = number("size")?;
    let (senders, each) = match benchmark {
        "patterns.fan-in" | "patterns.fan-out" => {
            let all = number("processes")?.saturating_sub(1);
            // All share one link.
            (all, of_stream(system, size.saturating_mul(all)))
        }
        "patterns.ring" | "patterns.bisection" => (number("processes")?, of_stream(system, size)),
        "patterns.halo" => (number("processes")?, 4 * OPERATIONS),
        "patterns.all-pairs" => (2, OPERATIONS),
        _ => return None,
    };
    let messages = (senders as f64 * each as f64 * BESIDE) as u64;
    Some(Effort {
        nodes: number("processes").unwrap_or(2),
        messages,
        parts: messages.saturating_mul(parts(size, system.link.mtu.0, fidelity)),
        memory: 0,
    })
}

/// Returns the messages of a sender in a stream of messages of `bytes` bytes on a link.
fn of_stream(system: &System, bytes: u64) -> u64 {
    let rates = Budget::virtual_time().rates;
    let messages = rates.block.as_secs_f64() * system.link.rate.0 / bytes.max(1) as f64;
    (messages as u64).clamp(rates.least, rates.most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbena_model::profile::{Library, Overrides};

    #[test]
    fn a_stream_has_fewer_messages_the_longer_they_are() {
        let library = Library::shipped(&Overrides::none()).unwrap();
        let system = library.system("connectx6-hdr").unwrap();
        let of = |benchmark: &str, size: u64, fidelity| {
            let number = |number: u64| Value::Number(number as f64);
            let point = Parameters::from([
                ("size".to_owned(), number(size)),
                ("processes".to_owned(), number(256)),
            ]);
            effort(benchmark, (&system, fidelity), &point)
        };
        let of_size = |size| of("patterns.bisection", size, Fidelity::Packet).unwrap();
        let (small, large) = (of_size(64), of_size(1 << 20));
        assert!(small.messages > 256 * 1000 && large.messages < small.messages / 5);
        assert!(large.parts > large.messages * 200, "{large:?}");
        let trains = of("patterns.bisection", 1 << 20, Fidelity::Message).unwrap();
        assert!(trains.parts < large.parts && trains.messages == large.messages);
        assert_eq!(of("latency.write", 8, Fidelity::Packet), None);
    }
}
