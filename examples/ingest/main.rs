//! An ingestion service: `POST /ingest` with a quota for each tenant and each client address, from a file that can change while it
//! runs; `--help` says how. `config` is that file, `reload` brings its changes into force, `limits` holds what is in force,
//! `server` is the service, and `figures` what it tells Prometheus.

#![allow(clippy::cast_precision_loss, reason = "figures for people, far below 2^52")]

mod args;
mod config;
mod figures;
mod limits;
mod reload;
mod server;
#[cfg(test)]
mod tests;

use std::{
    error::Error,
    future::Future,
    io::{self, Write},
    process::ExitCode,
};

use crate::{args::Command, server::Server};

#[tokio::main]
async fn main() -> ExitCode {
    let outcome = match args::from_command_line() {
        Ok(Command::Help) => io::stdout().write_all(args::HELP.as_bytes()).map_err(Box::from),
        Ok(Command::Serve(settings)) => serve(settings).await,
        Err(error) => {
            eprintln!("ingest: {error}\ningest: --help tells more");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ingest: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(settings: server::Settings) -> Result<(), Box<dyn Error>> {
    let figures = figures::install()?;
    // Before anyone can know that the server is there: a signal from now on is not missed.
    let stop = stop_signal()?;
    let server = Server::bind(settings, figures).await?;
    writeln!(io::stdout(), "listening on http://{}", server.address)?;
    server.run(stop).await?;
    eprintln!("ingest: stopped, every request answered");
    Ok(())
}

/// Comes true when the process is asked to end: by SIGTERM, or from the keyboard.
#[cfg(unix)]
fn stop_signal() -> io::Result<impl Future<Output = ()> + Send> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Comes true when the process is asked to end from the keyboard.
#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "elsewhere it can fail")]
fn stop_signal() -> io::Result<impl Future<Output = ()> + Send> {
    Ok(async {
        if tokio::signal::ctrl_c().await.is_err() {
            // There is no such signal here: the process is ended from outside.
            std::future::pending::<()>().await;
        }
    })
}
