//! The same load on two rate limiters, over real HTTP; `--help` says how. `server` is what is under load, `legacy` and
//! `gate` are the limiters it asks, `schedule`, `client` and `driver` send the load, and `figures`, `report` and `plot`
//! say what came of it.

#![allow(clippy::cast_precision_loss, reason = "counts of requests are far below 2^52")]

mod args;
mod client;
mod driver;
mod figures;
mod gate;
mod legacy;
mod plot;
mod progress;
mod report;
mod schedule;
mod server;

use std::{
    fs::File,
    io::{self, Write},
    path::Path,
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
    plot::{Chart, Panel},
    progress::Progress,
    report::{Report, headline},
    server::{Admission, Server},
};

/// Time to get the server up and the connections open before a run's clock starts.
const HEAD_START: Duration = Duration::from_millis(500);

/// What happened to one limiter.
struct Run {
    limiter: Kind,
    samples: Vec<Sample>,
    admissions: Vec<Admission>,
    figures: Figures,
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
    // Before the load, so that a path that cannot be written does not cost the whole run.
    let plot = args.plot.as_deref().map(|path| create(path).map(|file| (path, file))).transpose()?;
    let mut runs = Vec::new();
    for limiter in &args.limiters {
        runs.push(run(*limiter, args).await?);
    }
    let columns: Vec<_> = runs.iter().map(|run| (run.limiter.name(), run.figures)).collect();
    let mut stdout = io::stdout();
    eprintln!();
    write!(stdout, "{}", Report { args, columns: &columns })?;
    for run in &runs {
        if let Some(failure) = run.samples.iter().find_map(|sample| sample.answer.as_ref().err()) {
            writeln!(stdout, "The first error with {}: {failure}.", run.limiter.name())?;
        }
    }
    if let Some((path, mut file)) = plot {
        write!(file, "{}", chart(args, &runs)).map_err(|error| about(path, &error))?;
        writeln!(stdout, "Drawn in {}.", path.display())?;
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
    let admissions = server.stop();
    let figures = Figures::of(&samples, &admissions, QUOTA);
    Ok(Run { limiter, samples, admissions, figures })
}

/// NAME, NAME-2, NAME-3, ...
fn tenants(args: &Args) -> Vec<Arc<str>> {
    let others = (2..=args.load.clients).map(|number| format!("{}-{number}", args.tenant).into());
    [args.tenant.as_str().into()].into_iter().chain(others).collect()
}

fn chart(args: &Args, runs: &[Run]) -> Chart {
    let panels = runs.iter().map(|run| Panel {
        limiter: run.limiter,
        offered: figures::per_slot(run.samples.iter().map(|sample| sample.due)),
        admitted: figures::per_slot(run.admissions.iter().map(|admission| admission.at)),
        figures: run.figures,
    });
    Chart { subtitle: headline(args), load: args.load, panels: panels.collect() }
}

fn create(path: &Path) -> io::Result<File> {
    File::create(path).map_err(|error| about(path, &error))
}

fn about(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot write {}: {error}", path.display()))
}
