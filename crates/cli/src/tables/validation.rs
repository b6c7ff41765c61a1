//! Prints the results of a validation as text.

use crate::output::outln;
use verbena_bench_mpi::validation::Validation;
use verbena_measure::unit;

/// Prints the transports, each prediction beside its measurement, and the errors.
pub fn print(told: &Validation) {
    outln!(
        "{} on {} processors; recorded over {}",
        told.library,
        told.processors,
        told.recorded_on
    );
    for transport in &told.transports {
        let small = transport.one_way.first().map_or(0.0, |point| point.1);
        let large = transport.one_way.last().map_or(0.0, |point| point.1);
        outln!(
            "  {:<9} a message of 1 B takes {}, of 1 MiB {}; eager up to {}",
            transport.transport,
            unit::time(small),
            unit::time(large),
            unit::size(transport.eager as f64)
        );
        for (processes, (machine, _)) in &transport.hosts {
            if *processes > told.processors {
                let give_way = unit::time(machine.give_way.nanos());
                outln!(
                    "  {:<9} {processes} processes yield to each other in {give_way}",
                    ""
                );
            }
        }
    }
    if let Some([turn, look, give_way]) = told.turns {
        outln!(
            "  processes that share a processor: time slices of {}, a poll takes {}, a yield {}",
            unit::time(turn),
            unit::time(look),
            unit::time(give_way)
        );
    }
    let wide = told.rows.iter().map(|row| row.program.len()).max();
    let wide = wide.unwrap_or(0).max("program".len());
    outln!(
        "{:<wide$} processes {:>9} {:>11} {:>11} {:>11} {:>9} {:>8}",
        "program",
        "on",
        "computing",
        "predicted",
        "measured",
        "messages",
        "error"
    );
    for row in &told.rows {
        outln!(
            "{:<wide$} {:>9} {:>9} {:>11} {:>11} {:>11} {:>9} {:>+6.1} %",
            row.program,
            row.processes,
            row.on,
            unit::time(row.computing),
            unit::time(row.predicted),
            unit::time(row.measured),
            row.messages,
            row.error
        );
    }
    for failure in &told.failures {
        outln!("failed {failure}");
    }
    outln!(
        "error: {:.1} % on average, {:.1} % at most",
        told.mean_error,
        told.worst_error
    );
}
