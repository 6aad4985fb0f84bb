//! The same load on two rate limiters, over real HTTP; `--help` says how. `server` is what is under load, `legacy` and
//! `gate` are the limiters it asks, `target` is a server of somebody else in its place, `schedule`, `client` and `driver` send the load, and `figures`, `report` and `plot`
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
mod target;

use std::{
    fs::File,
    io::{self, Write},
    net::SocketAddr,
    path::Path,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    args::{Args, Command, UnderLoad},
    client::{Answer, Client},
    driver::{Sample, drive},
    figures::Figures,
    gate::{Kind, QUOTA},
    plot::{Chart, Panel},
    progress::Progress,
    report::{Report, headline},
    server::{Admission, Server},
    target::Target,
};

/// Time to get the server up and the connections open before a run's clock starts.
const HEAD_START: Duration = Duration::from_millis(500);

/// What happened to one limiter.
struct Run {
    /// `None`: the target's own.
    limiter: Option<Kind>,
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
    match &args.under_load {
        UnderLoad::Own(limiters) => {
            for limiter in limiters {
                runs.push(run(*limiter, args).await?);
            }
        }
        UnderLoad::Target(target) => runs.push(run_at(target, args).await?),
    }
    let columns: Vec<_> = runs.iter().map(|run| (gate::name(run.limiter), run.figures)).collect();
    let mut stdout = io::stdout();
    eprintln!();
    write!(stdout, "{}", Report { args, columns: &columns })?;
    for run in &runs {
        if let Some(failure) = run.samples.iter().find_map(|sample| sample.answer.as_ref().err()) {
            writeln!(stdout, "The first error with {}: {failure}.", gate::name(run.limiter))?;
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
    let samples = send(Some(limiter), args, server.address, server.address.to_string(), started).await?;
    Ok(Run::new(Some(limiter), samples, server.stop()))
}

async fn run_at(target: &Target, args: &Args) -> io::Result<Run> {
    let address = target.find().await.map_err(io::Error::other)?;
    let started = Instant::now() + HEAD_START;
    let samples = send(None, args, address, target.authority.clone(), started).await?;
    let tenants = tenants(args);
    let admitted = samples.iter().filter(|sample| matches!(sample.answer, Ok(Answer::Admitted)));
    let admissions = admitted.map(|sample| Admission { tenant: tenants[sample.tenant].to_string(), at: sample.due + sample.latency });
    let admissions = admissions.collect();
    Ok(Run::new(None, samples, admissions))
}

async fn send(limiter: Option<Kind>, args: &Args, address: SocketAddr, host: String, started: Instant) -> io::Result<Vec<Sample>> {
    // One for each request of a second: until an answer takes that long, no request waits for a connection.
    let connections = args.load.rps as usize * args.load.clients as usize;
    let client = Client::connect(address, host, connections).await.map_err(io::Error::other)?;
    let progress = Progress::new(gate::name(limiter), args.load.duration());
    Ok(drive(client, tenants(args), args.load, started, progress).await)
}

impl Run {
    fn new(limiter: Option<Kind>, samples: Vec<Sample>, admissions: Vec<Admission>) -> Self {
        let figures = Figures::of(&samples, &admissions, QUOTA);
        Self { limiter, samples, admissions, figures }
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        figures::Tally,
        schedule::{Load, Pattern},
    };

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_target_is_sent_the_load_and_its_admissions_are_read_from_its_answers() -> Result<(), Box<dyn std::error::Error>> {
        let started = Instant::now();
        let server = Server::start(Kind::Tollgate.gate(started), started).await?;
        let target = Target::parse(&format!("http://{}", server.address)).ok_or("an address is a target")?;
        // Far more than the quota, in one second: so much that it has to deny some on any machine.
        let load = Load { rps: 1_000, seconds: 1, clients: 1, pattern: Pattern::Steady };
        let args = Args { load, under_load: UnderLoad::Target(target.clone()), ..Args::from_defaults() };
        let run = run_at(&target, &args).await?;
        let admitted = server.stop();
        let Tally { success, rate_limited, errors } = run.figures.tally;
        assert_eq!((success + rate_limited, errors), (1_000, 0));
        assert_eq!((run.admissions.len(), success), (admitted.len(), admitted.len()));
        assert!(rate_limited > 0 && run.admissions.iter().all(|admission| admission.tenant == "t-load-1"));
        Ok(())
    }
}
