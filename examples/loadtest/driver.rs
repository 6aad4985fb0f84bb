//! Sends a load's requests, each at its own time, and collects what became of them.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use tokio::{
    runtime::Handle,
    select,
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::spawn_blocking,
    time::{interval_at, timeout_at},
};

use crate::{
    client::{Answer, Client, Failure},
    progress::Progress,
    schedule::Load,
};

/// An answer that comes later than this after its request was due counts as none, so that every run ends.
const PATIENCE: Duration = Duration::from_secs(5);

/// What became of one request.
#[derive(Debug)]
pub(crate) struct Sample {
    /// Who sent it, by number.
    pub(crate) tenant: usize,
    /// When it was to be sent, after the start.
    pub(crate) due: Duration,
    /// From that time, not from when it was really sent, to the end of the answer.
    pub(crate) latency: Duration,
    pub(crate) answer: Result<Answer, Failure>,
}

/// Sends `load` through `client`, from `started` on, and waits for the answers.
pub(crate) async fn drive(client: Client, tenants: Vec<Arc<str>>, load: Load, started: Instant, progress: Progress) -> Vec<Sample> {
    let (sender, samples) = unbounded_channel();
    let runtime = Handle::current();
    // A thread of its own, as the runtime's timers are whole milliseconds.
    let pacing = spawn_blocking(move || send_each_when_due(client, &tenants, load, started, &runtime, &sender));
    let samples = collect(samples, started, progress).await;
    pacing.await.expect("pacing neither panics nor is it cancelled");
    samples
}

fn send_each_when_due(
    client: Client,
    tenants: &[Arc<str>],
    load: Load,
    started: Instant,
    runtime: &Handle,
    samples: &UnboundedSender<Sample>,
) {
    let client = Arc::new(client);
    for shot in load.shots() {
        let at = started + shot.due;
        thread::sleep(at.saturating_duration_since(Instant::now()));
        let (client, tenant, samples) = (Arc::clone(&client), Arc::clone(&tenants[shot.tenant]), samples.clone());
        runtime.spawn(async move {
            let answer = timeout_at((at + PATIENCE).into(), client.ingest(&tenant)).await;
            let answer = answer.unwrap_or(Err(Failure::TooLate));
            // The collector stays until the last sender is gone.
            let _ = samples.send(Sample { tenant: shot.tenant, due: shot.due, latency: at.elapsed(), answer });
        });
    }
}

/// Gathers samples until the last request has its own, and shows once a second how many there are.
async fn collect(mut samples: UnboundedReceiver<Sample>, started: Instant, progress: Progress) -> Vec<Sample> {
    const SECOND: Duration = Duration::from_secs(1);
    let mut seconds = interval_at((started + SECOND).into(), SECOND);
    let mut collected = Vec::new();
    loop {
        select! {
            sample = samples.recv() => match sample {
                Some(sample) => collected.push(sample),
                None => break,
            },
            _ = seconds.tick() => progress.show(started.elapsed(), &collected),
        }
    }
    progress.finish(started.elapsed(), &collected);
    collected
}
