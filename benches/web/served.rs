//! The layer in a server of axum, over sockets.

use std::convert::Infallible;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use axum::extract::Request;
use axum::response::Response;
use axum::routing::get;
use axum::serve::ListenerExt;
use axum::{Router, ServiceExt};
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tollgate::http::{ClientIp, RateLimitLayer};
use tower_layer::{Identity, Layer};
use tower_service::Service;

use crate::connections::Connections;
use crate::quotas::{Amount, governor, policy};
use crate::statistics::{median, ratio};

const CONNECTIONS: usize = 16;
const ROUNDS: usize = 201;
const SLICE: Duration = Duration::from_millis(20);

/// What is measured, and what it is to answer.
const SUBJECTS: [(&str, &str); 9] = [
    ("without", "200"),
    ("without, again", "200"),
    ("a layer that does nothing", "200"),
    ("tollgate", "200"),
    ("tower_governor", "200"),
    ("tollgate, outermost", "200"),
    ("tower_governor, outermost", "200"),
    ("tollgate, denied", "429"),
    ("tower_governor, denied", "429"),
];

/// Listens for each of them, in this order.
async fn listen() -> io::Result<Vec<SocketAddr>> {
    let plain = || Router::new().route("/", get(|| async { "ok" })).with_state(());
    let tollgate = |amount| RateLimitLayer::new(policy("address", amount, ClientIp::peer()));
    Ok(vec![
        serve(plain()).await?,
        serve(plain()).await?,
        serve(plain().layer(Identity::new())).await?,
        serve(plain().layer(tollgate(Amount::Ample))).await?,
        serve(plain().layer(governor(Amount::Ample))).await?,
        serve(tollgate(Amount::Ample).layer(plain())).await?,
        serve(governor(Amount::Ample).layer(plain())).await?,
        serve(plain().layer(tollgate(Amount::Spent))).await?,
        serve(plain().layer(governor(Amount::Spent))).await?,
    ])
}

async fn serve<S>(service: S) -> io::Result<SocketAddr>
where
    S: Service<Request, Response = Response, Error = Infallible, Future: Send> + Clone + Send + 'static,
{
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    let listener = listener.tap_io(|connection| drop(connection.set_nodelay(true)));
    // The peer's address also without a layer, so that this is no difference.
    let service = service.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await });
    Ok(address)
}

/// What came of one subject's slices.
#[derive(Default)]
struct Series {
    per_second: Vec<f64>,
    /// Microseconds of the server's thread for each request, where that can be known.
    processor: Vec<f64>,
}

pub(crate) fn compare() -> io::Result<()> {
    let (addresses, thread) = start()?;
    let mut clients = Vec::new();
    for (address, (_, status)) in addresses.into_iter().zip(SUBJECTS) {
        let mut connections = Connections::open(address, CONNECTIONS)?;
        // Spends the one token of those that are to deny.
        if status != "200" {
            Connections::open(address, 1)?.send(Duration::ZERO, "200")?;
        }
        connections.send(SLICE, status)?;
        clients.push(connections);
    }
    let mut series = [const { Series { per_second: Vec::new(), processor: Vec::new() } }; SUBJECTS.len()];
    for round in 0..ROUNDS {
        for turn in 0..SUBJECTS.len() {
            let subject = (round + turn) % SUBJECTS.len();
            let before = thread.processor_time();
            let (answers, elapsed) = clients[subject].send(SLICE, SUBJECTS[subject].1)?;
            let series = &mut series[subject];
            series.per_second.push(f64::from(answers) / elapsed.as_secs_f64());
            if let (Some(before), Some(after)) = (before, thread.processor_time()) {
                series.processor.push(after.saturating_sub(before).as_secs_f64() * 1e6 / f64::from(answers));
            }
        }
    }
    print(&series);
    Ok(())
}

fn print(series: &[Series]) {
    println!("{:25} {:>10} {:>17} {:>22} {:>17}", "served", "requests/s", "ratio to without", "server's time/request", "ratio to without");
    for ((name, _), Series { per_second, processor }) in SUBJECTS.iter().zip(series) {
        let share = ratio(per_second, &series[0].per_second);
        print!("{name:25} {:>10.0} {share:>17.3}", median(per_second.clone()));
        if processor.is_empty() {
            println!();
        } else {
            println!(" {:>19.2} us {:>17.3}", median(processor.clone()), ratio(processor, &series[0].processor));
        }
    }
    println!();
}

/// The thread of all servers.
struct ServerThread(Option<PathBuf>);

impl ServerThread {
    /// The one that calls this, if the system tells of threads as Linux does.
    fn this() -> Self {
        Self(fs::read_link("/proc/thread-self").ok().map(|thread| PathBuf::from("/proc").join(thread).join("schedstat")))
    }

    /// The processor time it has had.
    fn processor_time(&self) -> Option<Duration> {
        let figures = fs::read_to_string(self.0.as_ref()?).ok()?;
        figures.split(' ').next()?.parse().ok().map(Duration::from_nanos)
    }
}

/// Serves all of them, on one thread, until the process ends.
fn start() -> io::Result<(Vec<SocketAddr>, ServerThread)> {
    let (sender, started) = mpsc::channel();
    thread::spawn(move || {
        let runtime = match Builder::new_current_thread().enable_io().build() {
            Ok(runtime) => runtime,
            Err(error) => return sender.send(Err(error)),
        };
        runtime.block_on(async {
            let addresses = listen().await;
            sender.send(addresses.map(|addresses| (addresses, ServerThread::this())))?;
            std::future::pending().await
        })
    });
    started.recv().map_err(io::Error::other)?
}
