//! The results of a validation as text.

use super::Validation;
use std::fmt;
use verbena_measure::unit;

/// The transports, each prediction beside its measurement, and the errors.
impl fmt::Display for Validation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} on {} processors; recorded over {}",
            self.library, self.processors, self.recorded_on
        )?;
        for transport in &self.transports {
            let small = transport.one_way.first().map_or(0.0, |point| point.1);
            let large = transport.one_way.last().map_or(0.0, |point| point.1);
            writeln!(
                f,
                "  {:<9} a message of 1 B takes {}, of 1 MiB {}; eager up to {}",
                transport.transport,
                unit::time(small),
                unit::time(large),
                unit::size(transport.eager as f64)
            )?;
            for (processes, (machine, _)) in &transport.hosts {
                if *processes > self.processors {
                    let give_way = unit::time(machine.give_way.nanos());
                    writeln!(
                        f,
                        "  {:<9} {processes} processes yield to each other in {give_way}",
                        ""
                    )?;
                }
            }
        }
        if let Some([turn, look, give_way]) = self.turns {
            writeln!(
                f,
                "  processes that share a processor: time slices of {}, a poll takes {}, \
                 a yield {}",
                unit::time(turn),
                unit::time(look),
                unit::time(give_way)
            )?;
        }
        let wide = self.rows.iter().map(|row| row.program.len()).max();
        let wide = wide.unwrap_or(0).max("program".len());
        writeln!(
            f,
            "{:<wide$} processes {:>9} {:>11} {:>11} {:>11} {:>9} {:>8}",
            "program", "on", "computing", "predicted", "measured", "messages", "error"
        )?;
        for row in &self.rows {
            writeln!(
                f,
                "{:<wide$} {:>9} {:>9} {:>11} {:>11} {:>11} {:>9} {:>+6.1} %",
                row.program,
                row.processes,
                row.on,
                unit::time(row.computing),
                unit::time(row.predicted),
                unit::time(row.measured),
                row.messages,
                row.error
            )?;
        }
        for failure in &self.failures {
            writeln!(f, "failed {failure}")?;
        }
        writeln!(
            f,
            "error: {:.1} % on average, {:.1} % at most",
            self.mean_error, self.worst_error
        )?;
        Ok(())
    }
}
