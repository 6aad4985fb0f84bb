//! The same load on two rate limiters, over real HTTP; `--help` says how. `server` is what is under load, `legacy` and
//! `gate` are the limiters it asks, `schedule`, `client` and `driver` send the load, and `figures` and `report`
//! say what came of it.

#![allow(clippy::cast_precision_loss, reason = "counts of requests are far below 2^52")]

mod args;
mod client;
mod driver;
mod figures;
mod gate;
mod legacy;
mod progress;
mod report;
mod schedule;
mod server;

use std::{
    io::{self, Write},
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    args::{Args, Command},
    client::Client,
    driver::{Sample, drive},
    figures::Figures,
    gate::{Kind, QUOTA},
    progress::Progress,
    report::Report,
    server::{Admission, Server},
};

/// Time to get the server up and the connections open before a run's clock starts.
const HEAD_START: Duration = Duration::from_millis(500);

/// What happened to one limiter.
struct Run {
    limiter: Kind,
    samples: Vec<Sample>,
    admissions: Vec<Admission>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let outcome = match args::from_command_line() {
        Ok(Command::Help) => io::stdout().write_all(args::HELP.as_bytes()),
        Ok(Command::Run(args)) => load_test(&args).await,
        Err(error) => {
            eprintln!("loadtest: {error}\nloadtest: --help tells more");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("loadtest: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn load_test(args: &Args) -> io::Result<()> {
    let mut runs = Vec::new();
    for limiter in &args.limiters {
        runs.push(run(*limiter, args).await?);
    }
    let columns: Vec<_> = runs.iter().map(|run| (run.limiter.name(), run.figures())).collect();
    let mut stdout = io::stdout();
    eprintln!();
    write!(stdout, "{}", Report { args, columns: &columns })?;
    for run in &runs {
        if let Some(failure) = run.samples.iter().find_map(|sample| sample.answer.as_ref().err()) {
            writeln!(stdout, "The first error with {}: {failure}.", run.limiter.name())?;
        }
    }
    Ok(())
}

async fn run(limiter: Kind, args: &Args) -> io::Result<Run> {
    // The legacy counter's windows, the herd's strikes and all recorded times count from this one instant.
    let started = Instant::now() + HEAD_START;
    let server = Server::start(limiter.gate(started), started).await?;
    // One for each request of a second: until an answer takes that long, no request waits for a connection.
    let connections = args.load.rps as usize * args.load.clients as usize;
    let client = Client::connect(server.address, connections).await.map_err(io::Error::other)?;
    let progress = Progress::new(limiter.name(), args.load.duration());
    let samples = drive(client, tenants(args), args.load, started, progress).await;
    Ok(Run { limiter, samples, admissions: server.stop() })
}

impl Run {
    fn figures(&self) -> Figures {
        Figures::of(&self.samples, &self.admissions, QUOTA)
    }
}

/// NAME, NAME-2, NAME-3, ...
fn tenants(args: &Args) -> Vec<Arc<str>> {
    let others = (2..=args.load.clients).map(|number| format!("{}-{number}", args.tenant).into());
    [args.tenant.as_str().into()].into_iter().chain(others).collect()
}
