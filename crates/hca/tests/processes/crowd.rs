//! 64 processes on one host, one of them stopped: only processes that communicate with it may be
//! affected.

use crate::rig::{Adapter, Running, connect, heard, message, say, scratch};
use std::sync::Arc;
use std::time::Instant;
use verbena_hca::qp::Qp;

const CROWD: usize = 64;
const STOPPED: usize = 13;
/// Number of short-lived processes meanwhile.
const SHORT: usize = 200;
#[test]
fn stopped_process_does_not_delay_others() {
    let directory = scratch("crowd");
    let mut crowd: Vec<Running> = (0..CROWD)
        .map(|_| Running::start(&directory, "crowd::member"))
        .collect();
    let numbers: Vec<String> = crowd.iter_mut().map(|one| one.hear("numbers")).collect();

    crowd[STOPPED].signal(libc::SIGSTOP);
    let began = Instant::now();
    for _ in 0..SHORT {
        Running::start(&directory, "crowd::short").wait();
    }
    eprintln!("{SHORT} short processes: {:?}", began.elapsed());

    let matrix = numbers.join(" ");
    let others = || (0..CROWD).filter(|index| *index != STOPPED);
    let began = Instant::now();
    for index in others() {
        crowd[index].write_line(&format!("{index} {matrix}"));
    }
    for index in others() {
        crowd[index].hear("met all but one");
    }
    eprintln!("{} processes, all to all: {:?}", CROWD - 1, began.elapsed());

    crowd[STOPPED].signal(libc::SIGCONT);
    crowd[STOPPED].write_line(&format!("{STOPPED} {matrix}"));
    for one in &mut crowd {
        one.hear("met all");
    }
    for one in &mut crowd {
        one.write_line("leave");
    }
    for one in crowd {
        one.wait();
    }
    assert!(!directory.exists(), "the last one out removes the registry");
}

/// A process that makes a queue pair and exits.
#[test]
#[ignore = "a child of the test above"]
fn short() {
    Adapter::open().queue_pair();
}

/// A process with a queue pair for each other process, by its number; one message each way.
#[test]
#[ignore = "a child of the test above"]
fn member() {
    let adapter = Adapter::open();
    let own: Vec<Arc<Qp>> = (0..CROWD).map(|_| adapter.queue_pair()).collect();
    let numbers: Vec<String> = own.iter().map(|qp| qp.number().to_string()).collect();
    say(&format!("numbers {}", numbers.join(",")));

    let line = heard();
    let mut words = line.split_whitespace();
    let me: usize = words.next().unwrap().parse().unwrap();
    let matrix: Vec<Vec<u32>> = words
        .map(|row| {
            row.split(',')
                .map(|number| number.parse().unwrap())
                .collect()
        })
        .collect();
    let began = Instant::now();
    for other in (0..CROWD).filter(|other| *other != me) {
        connect(&own[other], matrix[other][me]);
        own[other].post_receive(1, &[]).unwrap();
        own[other].poster().post(&message()).unwrap();
    }
    let took = began.elapsed();
    if me != STOPPED {
        // To all but the stopped one: a send and a receive.
        adapter.complete((CROWD - 2) * 2);
        say(&format!("met all but one; calls took {took:?}"));
        adapter.complete(2);
    } else {
        adapter.complete((CROWD - 1) * 2);
    }
    say("met all");
    heard();
    for qp in own {
        qp.destroy().unwrap();
    }
}
