//! Explores every interleaving of small cases on the very files that ship, and then shows that each rule is needed: a mutant, with that rule
//! taken out, fails the model named for it.
//!
//! `cargo test -p tollgate-loom-tests` runs all of it; with `-- NAME ...`, the models and mutants whose names contain a NAME.

use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

mod bucket_models;
mod models;
mod mutants;
mod sync;
mod waiting_models;

/// The shipped floors. Only these: an import from a higher floor does not compile here.
#[allow(unused, reason = "higher floors use the rest, and unit tests are not run here")]
#[allow(clippy::absurd_extreme_comparisons, clippy::modulo_one, reason = "a line has one slot here")]
#[path = "../../src"]
mod shipped {
    pub(crate) mod account;
    pub(crate) mod clock {
        pub(crate) mod instant;
        pub(crate) use instant::Instant;
    }
    pub(crate) mod decision;
    pub(crate) mod lease;
    pub(crate) mod plans;
    pub(crate) mod several;
    pub(crate) mod table;
    pub(crate) mod ticks;
    pub(crate) mod token_bucket;
    pub(crate) mod word;
}
use shipped::{account, clock, decision, lease, plans, several, table, ticks, token_bucket, word};

#[allow(dead_code, unused, clippy::all, clippy::pedantic, reason = "copies of the shipped files, with one rule taken out")]
mod mutated {
    include!(concat!(env!("OUT_DIR"), "/mutated.rs"));
}

/// A small case that must hold in every interleaving.
#[derive(Clone, Copy)]
pub struct Model {
    name: &'static str,
    /// The most times a thread is suspended where it could have gone on; `None`: any number, so that the exploration is exhaustive.
    preemptions: Option<usize>,
    case: fn(),
}

struct Explored {
    executions: u64,
    failure: Option<String>,
}

/// Explores a model in a thread of its own: a failed one leaves loom's state behind.
fn explore(model: Model) -> Explored {
    let executions = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&executions);
    let run = thread::spawn(move || {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = model.preemptions;
        // Steps in one execution: an endless loop would take them all. Counting shared accesses, the longest take some thousands.
        builder.max_branches = 20_000;
        panic::catch_unwind(AssertUnwindSafe(|| {
            builder.check(move || {
                counted.fetch_add(1, Ordering::Relaxed);
                (model.case)();
            });
        }))
    });
    let failure = match run.join() {
        Ok(Ok(())) => None,
        Ok(Err(panic)) | Err(panic) => Some(message(panic.as_ref())),
    };
    Explored { executions: executions.load(Ordering::Relaxed), failure }
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without a message").lines().next().unwrap_or_default().to_owned()
}

/// A model to explore, and what must come of it.
struct Job {
    model: Model,
    /// The mutant whose copy of the model it is: it must fail.
    mutant: Option<&'static str>,
}

impl Job {
    fn title(&self) -> &'static str {
        self.mutant.unwrap_or(self.model.name)
    }

    /// Explores, prints a line, and says whether all was as it must be.
    fn run(&self) -> bool {
        let start = Instant::now();
        let Explored { executions, failure } = explore(self.model);
        let (good, outcome) = match (self.mutant, failure) {
            (None, None) => (true, "holds".to_owned()),
            (None, Some(why)) => (false, format!("FAILS: {why}")),
            (Some(_), None) => (false, format!("NOT CAUGHT by \"{}\"", self.model.name)),
            (Some(_), Some(why)) => (true, format!("caught by \"{}\": {why}", self.model.name)),
        };
        let bound = self.model.preemptions.map_or("exhaustive".to_owned(), |most| format!("{most} preemptions"));
        let kind = if self.mutant.is_some() { "mutant" } else { "model " };
        println!("{kind} {:48} {executions:>9} executions, {bound:13} {:>6.1} s  {outcome}", self.title(), start.elapsed().as_secs_f64());
        good
    }
}

/// The models, and each mutant's copy of the model named for it.
fn jobs() -> Vec<Job> {
    let models =
        models::MODELS.iter().chain(&bucket_models::MODELS).chain(&waiting_models::MODELS).map(|&model| Job { model, mutant: None });
    let mutants = mutants::MUTANTS.iter().zip(mutated::ALL).map(|(mutant, (name, models))| {
        assert_eq!(mutant.name, name, "the generated list is in order");
        let model = models.iter().find(|model| model.name == mutant.caught_by);
        Job { model: *model.unwrap_or_else(|| panic!("{name} names no model: {}", mutant.caught_by)), mutant: Some(mutant.name) }
    });
    models.chain(mutants).collect()
}

fn main() -> ExitCode {
    let names: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let mut jobs = jobs();
    jobs.retain(|job| names.is_empty() || names.iter().any(|part| job.title().contains(part.as_str())));
    println!("every interleaving of a model must hold, and each mutant must fail the model named for it");
    panic::set_hook(Box::new(|_| {}));

    let next = AtomicUsize::new(0);
    let passed = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    passed.fetch_add(usize::from(job.run()), Ordering::Relaxed);
                }
            });
        }
    });
    let (passed, all) = (passed.into_inner(), jobs.len());
    println!("{passed} passed, {} failed", all - passed);
    if passed == all { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
