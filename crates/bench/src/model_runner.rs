//! Runs benchmarks on a timing model, several at once on threads, and passes their results on in
//! the requested order.

use super::options::MeasureOptions;
use crate::Failure;
use crate::interrupt;
use crate::model_target::ModelTarget;
use crate::scale;
use crate::service;
use crate::service::catalogue::{self, Subject};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use verbena_fabric::{Error, Result};
use verbena_model::profile::{Profile, ProfileKind};
use verbena_reproduce::{ip_benchmarks, mpi_benchmarks};
use verbena_workloads::modelled::Modelled;
use verbena_workloads::{Benchmark, Budget, Group, Record, Sweep, find, ip};

/// Interval at which results and the stop flag are checked.
const LOOK: Duration = Duration::from_millis(20);
/// Time for threads to end after the user's interrupt or the time limit.
const STOP_GRACE: Duration = Duration::from_millis(300);

/// The profile of the kernel's stack for `ip.*`.
const STACK: &str = "ipoib";

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

    /// Returns whether the time limit has passed.
    pub fn is_late(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
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

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Starts the threads; each takes benchmarks until none is left or the run has to stop.
    fn started(&self, benchmarks: &[&'static Benchmark]) -> (Receiver<News>, Vec<JoinHandle<()>>) {
        let next = Arc::new(AtomicUsize::new(0));
        let (sender, receiver) = channel();
        let threads = (0..self.options.threads.max(1)).map(|_| {
            let (sender, next) = (sender.clone(), Arc::clone(&next));
            let (runner, benchmarks) = (self.clone(), benchmarks.to_vec());
            std::thread::spawn(move || {
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
                scale::check(scale::PROCESS * modelled.job().nodes.len() as u64)?;
                let (number, sender) = (teller.number, teller.sender.clone());
                let own = Teller { number, sender };
                let emit = Rc::new(move |record| own.record(record));
                self.modelled(benchmark)
                    .passed_on(emit)
                    .map(|(span, _)| span)
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
        let asked = self.options.sizes.as_ref();
        let sizes = asked.map(|sizes| sizes.iter().map(|&size| size as u64).collect());
        let sizes = sizes.unwrap_or_else(|| mpi_benchmarks::sizes(entry, self.options.quick));
        let crews =
            mpi_benchmarks::crews(entry, self.options.processes, self.options.pairs.as_deref());
        for ranks in &crews {
            entry.benchmark.check(*ranks)?;
        }
        for point in mpi_benchmarks::points(entry, &sizes, &crews) {
            if self.is_stopped() {
                return Err(Error::Interrupted);
            }
            let nodes = mpi_benchmarks::nodes(entry, system);
            scale::check(entry.memory(nodes, point.0))?;
            let point = mpi_benchmarks::point(entry, (system, self.target.fidelity), point);
            teller.record(Record::Point(Box::new(point)));
        }
        Ok(Duration::ZERO)
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
            teller.record(Record::Point(Box::new(point.ok_or_else(unsupported)?)));
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
