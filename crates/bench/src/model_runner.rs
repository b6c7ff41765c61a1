//! Runs benchmarks on a timing model, several at once on threads, and passes their results on in
//! the requested order.

use super::options::MeasureOptions;
use crate::Failure;
use crate::forecast::{self, Computation};
use crate::interrupt;
use crate::model_target::ModelTarget;
use crate::scale;
use crate::service;
use crate::service::catalogue::{self, Subject};
use crate::time_budget;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use verbena_fabric::{Error, Result};
use verbena_measure::result::{Parameters, Value};
use verbena_measure::unit;
use verbena_model::profile::{Profile, ProfileKind};
use verbena_model::threads::{limit_threads, register};
use verbena_reproduce::effort::Effort;
use verbena_reproduce::{ip_benchmarks, mpi_benchmarks, mpi_effort, pattern_effort};
use verbena_workloads::modelled::Modelled;
use verbena_workloads::{Benchmark, Budget, Group, Processes, Record, Sweep, find, ip};

/// Interval at which results and the stop flag are checked.
const LOOK: Duration = Duration::from_millis(20);
/// Time for threads to end after the user's interrupt or the time limit.
const STOP_GRACE: Duration = Duration::from_millis(300);

/// The profile of the kernel's stack for `ip.*`.
const STACK: &str = "ipoib";

/// Largest message of a pattern by default, in bytes.
const LARGEST: usize = 1 << 20;
/// Processes up to which a benchmark lists its points itself; more take seconds.
const LISTED: usize = 1 << 10;
/// Processes that list the points of more.
const FEW: usize = 16;

/// News of a benchmark, by its position.
pub enum News {
    /// Nothing new in this interval.
    None,
    /// A record of a benchmark.
    Record(usize, Record),
    /// A benchmark has ended; its virtual time.
    Ended(usize, Result<Duration>),
}

/// Passes on the news of a benchmark.
struct Teller {
    number: usize,
    sender: Sender<News>,
}

impl Teller {
    /// Passes on a record; once the run has been abandoned, it is lost.
    fn record(&self, record: Record) {
        let _ = self.sender.send(News::Record(self.number, record));
    }
}

/// Runs benchmarks on a model.
#[derive(Clone)]
pub struct Runner {
    /// The model.
    pub target: ModelTarget,
    /// The options.
    pub options: MeasureOptions,
    /// Time at which the run ends with the points that are complete.
    pub until: Option<Instant>,
    /// Makes the threads stop.
    stop: Arc<AtomicBool>,
}

impl Runner {
    /// Creates a runner whose time limit begins now.
    pub fn new(target: &ModelTarget, options: &MeasureOptions) -> Runner {
        Runner {
            target: target.clone(),
            options: options.clone(),
            until: options.minutes.map(|limit| Instant::now() + limit),
            stop: Arc::default(),
        }
    }

    /// Returns whether the time limit or the command's budget has passed.
    pub fn is_late(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until) || time_budget::is_over()
    }

    /// Runs all benchmarks, each on one thread, and passes their news to `take`, benchmark by
    /// benchmark in order. After an interrupt or the time limit, complete points are still passed
    /// on, and threads that do not end soon are abandoned.
    pub fn in_order(&self, benchmarks: &[&'static Benchmark], mut take: impl FnMut(News)) {
        let (receiver, threads) = self.started(benchmarks);
        let mut early: BTreeMap<usize, Vec<News>> = BTreeMap::new();
        let mut due = 0;
        let mut stopped = None;
        loop {
            let news = match receiver.recv_timeout(LOOK) {
                Ok(news) => news,
                Err(RecvTimeoutError::Timeout) => News::None,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            match news {
                News::None => take(News::None),
                News::Record(number, _) | News::Ended(number, _) => {
                    early.entry(number).or_default().push(news);
                }
            }
            while let Some(news) = early.remove(&due) {
                due += usize::from(matches!(news.last(), Some(News::Ended(..))));
                news.into_iter().for_each(&mut take);
            }
            if interrupt::is_wanted() || self.is_late() {
                self.stop.store(true, Ordering::Relaxed);
                let since = *stopped.get_or_insert_with(Instant::now);
                if since.elapsed() > STOP_GRACE {
                    break;
                }
            }
        }
        early.into_values().flatten().for_each(take);
        let left_behind = |thread: &JoinHandle<()>| self.is_stopped() && !thread.is_finished();
        for thread in threads.into_iter().filter(|thread| !left_behind(thread)) {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    }

    /// Returns whether nothing more may begin.
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.is_late()
    }

    /// Starts the threads; each takes benchmarks until none is left or the run has to stop.
    fn started(&self, benchmarks: &[&'static Benchmark]) -> (Receiver<News>, Vec<JoinHandle<()>>) {
        let next = Arc::new(AtomicUsize::new(0));
        let (sender, receiver) = channel();
        limit_threads(self.options.threads);
        let threads = self.options.threads.clamp(1, benchmarks.len().max(1));
        let busy: Vec<_> = (0..threads).map(|_| register()).collect();
        let threads = busy.into_iter().map(|busy| {
            let (sender, next) = (sender.clone(), Arc::clone(&next));
            let (runner, benchmarks) = (self.clone(), benchmarks.to_vec());
            std::thread::spawn(move || {
                let _busy = busy;
                while !runner.is_stopped() {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(benchmark) = benchmarks.get(number) else {
                        return;
                    };
                    let sender = sender.clone();
                    let teller = Teller { number, sender };
                    let ended = runner.one(benchmark, &teller);
                    if teller.sender.send(News::Ended(number, ended)).is_err() {
                        return;
                    }
                }
            })
        });
        (receiver, threads.collect())
    }

    /// Runs a benchmark that models support; others need real processes and files.
    fn one(&self, benchmark: &'static Benchmark, teller: &Teller) -> Result<Duration> {
        if let Some(entry) = mpi_benchmarks::find(benchmark.name) {
            return self.message_passing(entry, teller);
        }
        let system = self.target.machine.system();
        if system.is_some_and(|system| !system.has_verbs()) {
            return Err(Error::unsupported(
                format!("{} (needs verbs)", benchmark.name),
                format!("the model {}", self.target.machine.name()),
            ));
        }
        if benchmark.group == Group::Ip {
            return self.over_ip(benchmark, teller);
        }
        match (find(benchmark.name), catalogue::subject(benchmark)) {
            (Some(_), _) => {
                let modelled = self.modelled(benchmark);
                let memory = self.memory(benchmark, modelled.job().nodes.len());
                scale::check(memory)?;
                let announced = Announced::new(self, benchmark, memory);
                let (number, sender) = (teller.number, teller.sender.clone());
                let own = Teller { number, sender };
                let emit = Rc::new(move |record| {
                    announced.next();
                    own.record(record);
                });
                modelled.passed_on(emit).map(|(span, _)| span)
            }
            (None, Some(Subject::Readers)) => self.file_service(teller),
            _ => Err(Error::unsupported(
                benchmark.name,
                format!("the model {}", self.target.machine.name()),
            )),
        }
    }

    /// MPI benchmarks need the model of a library, if the system names one.
    fn message_passing(&self, entry: &mpi_benchmarks::Entry, teller: &Teller) -> Result<Duration> {
        let system = self.target.machine.system();
        let Some(system) = system.filter(|system| system.mpi.is_some()) else {
            return Err(Error::unsupported(
                format!("{} (needs a message-passing library)", entry.benchmark.name),
                format!("the model {}", self.target.machine.name()),
            ));
        };
        for (ranks, _) in self.points_of(entry) {
            entry.benchmark.check(ranks)?;
        }
        for point in self.points_of(entry) {
            if self.is_stopped() {
                return Err(Error::Interrupted);
            }
            let at = (system, self.target.fidelity);
            let effort = mpi_effort::effort(entry, at, point);
            scale::check(effort.memory)?;
            let what = what(
                entry.benchmark.name,
                &mpi_benchmarks::parameters(entry, point),
            );
            let computation = forecast::begin(&what, effort);
            let point = mpi_benchmarks::point(entry, at, point);
            computation.end();
            teller.record(Record::Point(Box::new(point)));
        }
        Ok(Duration::ZERO)
    }

    /// Estimates the memory of a benchmark of the suite: its processes, and in patterns a buffer of
    /// each.
    fn memory(&self, benchmark: &Benchmark, processes: usize) -> u64 {
        let largest = self.options.sizes.iter().flatten().max().copied();
        let buffer = match benchmark.processes {
            Processes::AtLeast(_) => largest.unwrap_or(LARGEST) as u64,
            _ => 0,
        };
        processes as u64 * (pattern_effort::PROCESS + buffer)
    }

    /// Returns the points of an MPI benchmark, (ranks, bytes).
    fn points_of(&self, entry: &mpi_benchmarks::Entry) -> Vec<(usize, u64)> {
        let asked = self.options.sizes.as_ref();
        let sizes = asked.map(|sizes| sizes.iter().map(|&size| size as u64).collect());
        let sizes: Vec<u64> =
            sizes.unwrap_or_else(|| mpi_benchmarks::sizes(entry, self.options.quick));
        let crews =
            mpi_benchmarks::crews(entry, self.options.processes, self.options.pairs.as_deref());
        mpi_benchmarks::points(entry, &sizes, &crews)
    }

    /// Returns the parameters of the points of a benchmark, as far as they are known before it
    /// runs; none if they are not.
    pub fn points(&self, benchmark: &'static Benchmark) -> Vec<Parameters> {
        if let Some(entry) = mpi_benchmarks::find(benchmark.name) {
            let points = self.points_of(entry).into_iter();
            return points
                .map(|point| mpi_benchmarks::parameters(entry, point))
                .collect();
        }
        if benchmark.group == Group::Ip {
            let asked = self.options.sizes.as_deref();
            let sizes = ip::sizes(benchmark.name, asked, self.options.quick).into_iter();
            return sizes
                .map(|size| Parameters::from([("size".to_owned(), Value::from(size))]))
                .collect();
        }
        let modelled = self.modelled(benchmark);
        let processes = modelled.job().nodes.len();
        match find(benchmark.name) {
            Some(_) if processes <= LISTED => modelled.points().unwrap_or_default(),
            // Its points depend on the processes.
            Some(_) if benchmark.name == "patterns.all-pairs" => Vec::new(),
            Some(_) => {
                let few = Modelled {
                    processes: Some(FEW),
                    ..modelled
                };
                let points = few.points().unwrap_or_default().into_iter();
                points.map(|point| of_more(point, processes)).collect()
            }
            None => Vec::new(),
        }
    }

    /// IP over InfiniBand has a model of the kernel's stack.
    fn over_ip(&self, benchmark: &'static Benchmark, teller: &Teller) -> Result<Duration> {
        let invalid = |failure: Failure| Error::invalid("bench", failure.to_string());
        let unsupported = || {
            Error::unsupported(
                benchmark.name,
                format!("the model {}", self.target.machine.name()),
            )
        };
        let system = self.target.machine.system().ok_or_else(unsupported)?;
        let library = self.options.profiles.library().map_err(invalid)?;
        let Some(Profile::Stack(stack)) = library.profile(ProfileKind::Stack, STACK) else {
            let reason = format!("the profiles have no stack named {STACK}");
            return Err(Error::invalid("bench", reason));
        };
        let asked = self.options.sizes.as_deref();
        for size in ip::sizes(benchmark.name, asked, self.options.quick) {
            if self.is_stopped() {
                return Err(Error::Interrupted);
            }
            let point = ip_benchmarks::point(benchmark, system, stack, size as u64);
            let point = point.ok_or_else(|| {
                let model = format!("the model {}", self.target.machine.name());
                Error::unsupported("UDP on the kernel's stack", model)
            });
            teller.record(Record::Point(Box::new(point?)));
        }
        Ok(Duration::ZERO)
    }

    /// The readers of the file service have a separate model.
    fn file_service(&self, teller: &Teller) -> Result<Duration> {
        let invalid = |failure: Failure| Error::invalid("bench", failure.to_string());
        let library = self.options.profiles.library().map_err(invalid)?;
        let system = self.target.system().map_err(invalid)?;
        let readers = catalogue::readers(self.options.quick);
        let readers = self.options.pairs.as_deref().unwrap_or(readers);
        let points = service::points(&library, system, readers).map_err(invalid)?;
        for point in points {
            teller.record(Record::Point(Box::new(point)));
        }
        Ok(Duration::ZERO)
    }

    fn modelled(&self, benchmark: &'static Benchmark) -> Modelled {
        let sweep = match self.options.quick {
            true => Sweep::Coarse,
            false => Sweep::Fine,
        };
        Modelled {
            fidelity: self.target.fidelity,
            options: self.options.for_benchmarks(),
            budget: Budget {
                sweep,
                ..Budget::virtual_time()
            },
            processes: self.options.processes,
            stop: self.stop.clone(),
            ..Modelled::new(self.target.machine.clone(), benchmark)
        }
    }
}

/// Returns a benchmark's point in words.
fn what(benchmark: &str, parameters: &Parameters) -> String {
    let words = parameters.iter().map(|(name, value)| match name.as_str() {
        "size" => match value {
            Value::Number(bytes) => unit::size(*bytes),
            Value::Word(word) => word.clone(),
        },
        _ => format!("{name} {value}"),
    });
    let words: Vec<String> = words.collect();
    format!("{benchmark}, {}", words.join(", "))
}

/// Returns the parameters of a point with more processes, without those that depend on them.
fn of_more(mut point: Parameters, processes: usize) -> Parameters {
    for shape in ["rows", "columns"] {
        point.remove(shape);
    }
    if let Some(number) = point.get_mut("processes") {
        *number = Value::from(processes);
    }
    point
}

/// Estimates of the points of a pattern of many processes, each shown before the point begins.
struct Announced {
    benchmark: &'static str,
    /// The points to come, the next one last.
    points: RefCell<Vec<(Parameters, Effort)>>,
    running: RefCell<Option<Computation>>,
}

impl Announced {
    /// Begins the first point; without any if the benchmark is none of these patterns.
    fn new(runner: &Runner, benchmark: &'static Benchmark, memory: u64) -> Announced {
        let system = runner.target.machine.system();
        let points = match (system, benchmark.processes) {
            (Some(system), Processes::AtLeast(_)) => {
                let at = (system, runner.target.fidelity);
                let points = runner.points(benchmark).into_iter().rev();
                let efforts = points.filter_map(|point| {
                    let effort = pattern_effort::effort(benchmark.name, at, &point)?;
                    Some((point, Effort { memory, ..effort }))
                });
                efforts.collect()
            }
            _ => Vec::new(),
        };
        let announced = Announced {
            benchmark: benchmark.name,
            points: RefCell::new(points),
            running: RefCell::new(None),
        };
        announced.next();
        announced
    }

    /// Ends the running point and begins the next one.
    fn next(&self) {
        if let Some(computation) = self.running.take() {
            computation.end();
        }
        if let Some((point, effort)) = self.points.borrow_mut().pop() {
            let computation = forecast::begin(&what(self.benchmark, &point), effort);
            *self.running.borrow_mut() = Some(computation);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Target;
    use verbena_fabric::model::{Fidelity, Machine};
    use verbena_model::profile::{Library, Overrides};

    /// Returns the points of a pattern of so many processes.
    fn points(name: &str, processes: usize) -> Vec<Parameters> {
        let library = Library::shipped(&Overrides::none()).unwrap();
        let machine = Machine::from(&library.system("connectx6-hdr").unwrap());
        let target = ModelTarget::new(machine, Fidelity::Message);
        let options = MeasureOptions {
            processes: Some(processes),
            ..MeasureOptions::quick_on(Target::Software)
        };
        Runner::new(&target, &options).points(find(name).unwrap())
    }

    #[test]
    fn points_of_many_processes_are_known_before_they_run() {
        let count = |point: &Parameters| point.get("processes").cloned();
        let few = points("patterns.ring", 8);
        let many = points("patterns.ring", 8000);
        assert!(!few.is_empty() && few.len() == many.len());
        assert!(
            many.iter()
                .all(|point| count(point) == Some(Value::from(8000usize)))
        );
        let halo = points("patterns.halo", 8000);
        assert!(halo.iter().all(|point| !point.contains_key("rows")));
        assert_eq!(points("patterns.all-pairs", 4).len(), 6);
    }

    #[test]
    fn a_point_is_named_by_its_size_and_other_parameters() {
        let point = Parameters::from([
            ("processes".to_owned(), Value::from(64usize)),
            ("size".to_owned(), Value::from(4096usize)),
        ]);
        assert_eq!(
            what("patterns.ring", &point),
            "patterns.ring, processes 64, 4 KiB"
        );
    }
}
