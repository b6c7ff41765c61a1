//! Prints how many events per second the kernel processes on one core, with a calendar of many
//! sleeping tasks.
use std::time::Instant;
use verbena_model::kernel::{Sim, Time};

fn main() {
    for tasks in [16u64, 256, 4096] {
        let sim = Sim::new();
        for task in 0..tasks {
            let own = sim.clone();
            sim.start(async move {
                for step in 0..4_000_000 / tasks {
                    own.sleep(Time(100 + (task * 7919 + step * 104_729) % 1000))
                        .await;
                }
            });
        }
        let begun = Instant::now();
        sim.run();
        let seconds = begun.elapsed().as_secs_f64();
        println!(
            "{tasks} tasks: {:.2} million events a second",
            sim.events() as f64 / seconds / 1e6
        );
    }
}
