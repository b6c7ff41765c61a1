//! Parses text of the Intel MPI benchmarks (IMB-MPI1, IMB-NBC, IMB-RMA). PingPong and PingPing
//! measure the same as our benchmarks; the others keep their names, because IMB's collectives
//! follow each other without a barrier.

use super::lines::Line;
use super::points::{parameters, point, rate, time};
use super::section::{Begun, Context, Section, Seen};
use super::table::{Columns, Row};
use verbena_measure::result::{Point, Value};

/// Columns whose names have no unit in brackets.
const SINGLE: [&str; 4] = ["#bytes", "#repetitions", "mbytes/sec", "defects"];
/// Bytes of IMB's Mbyte: 10^6 since 2018, 2^20 before.
const MEGABYTES: [f64; 2] = [1e6, 1_048_576.0];

/// Begins a benchmark at the line with its name.
pub fn begin(line: &Line<'_>, _: &Context<'_>) -> Begun {
    let name = line.text.strip_prefix("# Benchmarking ")?.trim();
    Some(Ok(Box::new(Test {
        name: name.split_whitespace().next()?.to_lowercase(),
        processes: None,
        mode: None,
        columns: None,
        points: Vec::new(),
    })))
}

struct Test {
    name: String,
    processes: Option<f64>,
    mode: Option<String>,
    columns: Option<Columns>,
    points: Vec<Point>,
}

impl Test {
    fn point(&self, row: &Row<'_>) -> Result<Point, String> {
        row.rising(&["t_min", "t_avg", "t_max"])?;
        let (benchmark, metric) = match self.name.as_str() {
            "pingpong" => ("mpi.latency".to_owned(), "one-way-latency"),
            "pingping" => ("mpi.pingping".to_owned(), "one-way-latency"),
            name => (format!("imb.{}", name.replace('_', "-")), "average-time"),
        };
        let mut named = parameters([("transport", Value::from("mpi"))]);
        let size = row.get("#bytes");
        named.extend(size.map(|size| ("size".to_owned(), size.value.into())));
        if metric == "average-time" {
            let processes = self.processes;
            named.extend(processes.map(|all| ("processes".to_owned(), all.into())));
        }
        let mode = self.mode.as_deref();
        named.extend(mode.map(|mode| ("mode".to_owned(), mode.into())));
        // For nonblocking operations, the time without the overlapping computation.
        let own = ["t", "t_pure", "t_avg"]
            .iter()
            .find_map(|name| row.get(name))
            .ok_or("the table has no column with the operation's own time")?;
        let own = own.times(1000.0);
        let mut metrics = vec![time(metric, own.value)];
        let overall = row.get("t_ovrl");
        metrics.extend(overall.map(|all| time("overall-time", all.value * 1000.0)));
        if let (Some(size), Some(told)) = (size, row.get("mbytes/sec")) {
            let follows = own.rate_over(size.value);
            let unit = MEGABYTES
                .iter()
                .find(|unit| told.times(**unit).agrees(follows));
            match (self.name.as_str(), unit) {
                ("pingpong" | "pingping", None) => {
                    return Err("inconsistent: Mbytes/sec is not the size over the time".to_owned());
                }
                (_, unit) => metrics.push(rate(told.value * unit.unwrap_or(&MEGABYTES[0]))),
            }
        }
        Ok(point(&benchmark, named, metrics))
    }
}

impl Section for Test {
    fn line(&mut self, line: &Line<'_>) -> Result<Seen, String> {
        let text = line.text;
        if text.starts_with("#bytes") || text.starts_with("#repetitions") {
            self.columns = Some(Columns::of_head(text, &SINGLE)?);
            return Ok(Seen::Known);
        }
        if let Some(comment) = text.strip_prefix('#') {
            let comment = comment.trim();
            if let Some(count) = comment.strip_prefix("#processes =") {
                self.processes = count.trim().parse().ok();
            } else if let Some(mode) = comment.strip_prefix("MODE:") {
                (self.mode, self.columns) = (Some(mode.trim().to_lowercase()), None);
            }
            return Ok(Seen::Known);
        }
        let Some(columns) = &self.columns else {
            return Ok(Seen::Unknown);
        };
        let Some(row) = columns.row(text, &[]) else {
            return Ok(Seen::Unknown);
        };
        let point = self.point(&row?)?;
        self.points.push(point);
        Ok(Seen::Known)
    }

    fn end(self: Box<Self>) -> Result<Vec<Point>, String> {
        Ok(self.points)
    }
}

#[cfg(test)]
mod tests {
    use crate::import::tests::{points, refused};

    /// Figures posted in openhpc/ohpc issue 207 and intel/mpi-benchmarks issue 37.
    const TEXT: &str = "\
#---------------------------------------------------
# Benchmarking PingPong
# #processes = 2
#---------------------------------------------------
       #bytes #repetitions      t[usec]   Mbytes/sec
            0         1000         1.59         0.00
       262144          160        48.82      5121.09
#-----------------------------------------------------------------------------
# Benchmarking Sendrecv
# #processes = 4
#-----------------------------------------------------------------------------
       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]   Mbytes/sec
       262144          160        30.48        33.48        32.24     15660.37
";

    #[test]
    fn ping_pong_maps_to_our_benchmarks_and_others_keep_process_counts() {
        let found = points(TEXT);
        assert_eq!(found[0].metrics[0].value, 1590.0);
        assert_eq!(found[1].benchmark, "mpi.latency");
        assert_eq!(found[1].metrics[1].value, 5121.09 * 1_048_576.0);
        let key = crate::gather::key(&found[2].benchmark, &found[2].parameters);
        assert_eq!(key, "imb.sendrecv processes=4 size=262144 transport=mpi");
        assert!((found[2].metrics[0].value - 32240.0).abs() < 1e-6);
    }

    #[test]
    fn nonblocking_times_exclude_the_computation() {
        let text = "# Benchmarking Ibcast\n# #processes = 2\n\
            #bytes #repetitions t_ovrl[usec] t_pure[usec]  t_CPU[usec]   overlap[%]\n\
            8 1000 10.00 4.00 9.00 50.00\n";
        let metrics = &points(text)[0].metrics;
        assert_eq!((metrics[0].value, metrics[1].value), (4000.0, 10000.0));
    }

    #[test]
    fn a_rate_inconsistent_with_the_time_is_refused() {
        let wrong = refused(&TEXT.replace("5121.09", "9121.09"));
        assert!(
            wrong.contains("line 7") && wrong.contains("Mbytes/sec"),
            "{wrong}"
        );
        let short = refused(&TEXT.replace("        32.24     15660.37", ""));
        assert!(
            short.contains("line 13") && short.contains("cut short"),
            "{short}"
        );
    }
}
