//! Brings the file's changes into force while requests are served.

use std::{error::Error, path::PathBuf, time::Duration};

use metrics::{counter, describe_counter};
use tokio::{
    task::spawn_blocking,
    time::{MissedTickBehavior, interval},
};

use crate::{
    config::{self, Quotas},
    limits::InForce,
};

const RELOADS: &str = "ingest_config_reloads_total";

/// A file of quotas that was read, and what came of it.
#[derive(Debug)]
pub(crate) struct Watched {
    path: PathBuf,
    in_force: InForce,
    /// What was read last, or the reason why nothing was. The text, and not the time of its change, which copies and coarse clocks
    /// leave as it was: the file is small.
    last: Result<String, String>,
    /// What could not be brought into force at once.
    unfinished: bool,
}

/// What a look at the file has come to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    AsBefore,
    /// So many quotas are others.
    Changed(usize),
    /// The file, or a change, has a problem that it had not before. Everything else is as it was.
    Failed(String),
}

impl Watched {
    pub(crate) fn open(path: PathBuf) -> Result<Self, Box<dyn Error>> {
        let text = config::read(&path)?;
        let in_force = InForce::new(&Quotas::parse(&text, &path)?)?;
        Ok(Self { path, in_force, last: Ok(text), unfinished: false })
    }

    pub(crate) fn in_force(&self) -> &InForce {
        &self.in_force
    }

    /// Reads the file, and brings into force what it says now.
    pub(crate) fn look(&mut self) -> Outcome {
        let read = config::read(&self.path).map_err(|error| error.to_string());
        if read == self.last && !self.unfinished {
            return Outcome::AsBefore;
        }
        let again = read == self.last;
        self.last = read;
        let wanted = match &self.last {
            Ok(text) => Quotas::parse(text, &self.path).map_err(|error| error.to_string()),
            Err(problem) => Err(problem.clone()),
        };
        let done = wanted.and_then(|wanted| {
            let done = self.in_force.bring_to(&wanted);
            self.unfinished = done.is_err();
            done.map_err(|error| error.to_string())
        });
        match done {
            Ok(0) => Outcome::AsBefore,
            Ok(changes) => Outcome::Changed(changes),
            Err(_) if again => Outcome::AsBefore,
            Err(problem) => Outcome::Failed(problem),
        }
    }
}

/// Looks at the file that often, for as long as this is polled.
pub(crate) async fn keep_looking(mut watched: Watched, every: Duration) {
    describe_counter!(RELOADS, "changes of the file of quotas, by whether they are in force");
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        // Files block, and a new default goes through the whole table.
        let look = spawn_blocking(move || {
            let outcome = watched.look();
            (watched, outcome)
        });
        let Ok((back, outcome)) = look.await else {
            eprintln!("ingest: the file of quotas is no longer looked at: a look at it panicked, or the service is ending");
            return;
        };
        watched = back;
        match outcome {
            Outcome::AsBefore => {}
            Outcome::Changed(changes) => {
                counter!(RELOADS, "outcome" => "in_force").increment(1);
                let tenants = watched.in_force.quotas().tenants.len();
                eprintln!("ingest: quotas changed: {changes}; {tenants} tenants have one of their own");
            }
            Outcome::Failed(problem) => {
                counter!(RELOADS, "outcome" => "failed").increment(1);
                eprintln!("ingest: the quotas stay as they were: {problem}");
            }
        }
    }
}
