//! The service over real connections.

use std::{
    collections::HashMap,
    env,
    error::Error,
    fs, future, io,
    net::SocketAddr,
    path::PathBuf,
    process,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use metrics::LocalRecorderGuard;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusRecorder};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    task::JoinHandle,
};

use crate::server::{Server, Settings};

type TestResult = Result<(), Box<dyn Error>>;

const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Longer than anything here takes, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A file of quotas, for as long as this lives.
struct Config(PathBuf);

impl Config {
    fn new(text: &str) -> io::Result<Self> {
        static FILES: AtomicU32 = AtomicU32::new(0);
        // A number of its own is all that is wanted.
        let number = FILES.fetch_add(1, Ordering::Relaxed);
        let config = Self(env::temp_dir().join(format!("tollgate-ingest-{}-{number}.toml", process::id())));
        config.write(text).map(|()| config)
    }

    /// Replaces it in one step, as the sample tells.
    fn write(&self, text: &str) -> io::Result<()> {
        let other = self.0.with_extension("new");
        fs::write(&other, text)?;
        fs::rename(other, &self.0)
    }

    fn settings(&self) -> Settings {
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        Settings { listen, config: self.0.clone(), in_flight: 100, queue: 0, proxies: 0, look_every: LOOK_EVERY }
    }
}

impl Drop for Config {
    fn drop(&mut self) {
        // A file left behind in a directory for such files is no failure.
        let _ = fs::remove_file(&self.0);
    }
}

/// Figures of one test alone: of what happens on its thread, where its runtime is.
fn recorder() -> &'static PrometheusRecorder {
    Box::leak(Box::new(PrometheusBuilder::new().build_recorder()))
}

struct Running {
    address: SocketAddr,
    ended: JoinHandle<io::Result<()>>,
    _recorder: LocalRecorderGuard<'static>,
}

impl Running {
    async fn start(settings: Settings, stop: impl Future<Output = ()> + Send + 'static) -> Result<Self, Box<dyn Error>> {
        let recorder = recorder();
        let guard = metrics::set_default_local_recorder(recorder);
        let server = Server::bind(settings, recorder.handle()).await?;
        Ok(Self { address: server.address, ended: tokio::spawn(server.run(stop)), _recorder: guard })
    }

    async fn connect(&self) -> io::Result<Connection> {
        Ok(Connection(BufReader::new(TcpStream::connect(self.address).await?)))
    }

    /// Asks for the figures until one of them is that.
    async fn wait_for_figure(&self, figure: &str) -> Result<(), Box<dyn Error>> {
        let asking = async {
            loop {
                let figures = self.connect().await?.get("/metrics").await?.body;
                if figures.lines().any(|line| line == figure) {
                    return Ok(());
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        tokio::time::timeout(PATIENCE, asking).await.map_err(|_| format!("never seen: {figure}"))?
    }
}

struct Connection(BufReader<TcpStream>);

#[derive(Debug)]
struct Answer {
    status: u16,
    fields: HashMap<String, String>,
    body: String,
}

impl Connection {
    async fn ingest(&mut self, tenant: &str) -> io::Result<Answer> {
        self.send(&format!("POST /ingest HTTP/1.1\r\nhost: test\r\nx-tenant: {tenant}\r\ncontent-length: 5\r\n\r\nevent")).await?;
        self.answer().await
    }

    async fn get(&mut self, path: &str) -> io::Result<Answer> {
        self.send(&format!("GET {path} HTTP/1.1\r\nhost: test\r\n\r\n")).await?;
        self.answer().await
    }

    async fn send(&mut self, text: &str) -> io::Result<()> {
        self.0.get_mut().write_all(text.as_bytes()).await
    }

    async fn answer(&mut self) -> io::Result<Answer> {
        let bad = || io::Error::from(io::ErrorKind::InvalidData);
        let status = self.line().await?.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(bad)?;
        let mut fields = HashMap::new();
        loop {
            let line = self.line().await?;
            let Some((name, value)) = line.split_once(": ") else { break };
            fields.insert(name.to_owned(), value.to_owned());
        }
        let length = fields.get("content-length").map_or(Ok(0), |length| length.parse().map_err(|_| bad()))?;
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).await?;
        Ok(Answer { status, fields, body: String::from_utf8(body).map_err(|_| bad())? })
    }

    async fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.0.read_line(&mut line).await?;
        Ok(line.trim_end().to_owned())
    }
}

#[tokio::test]
async fn a_changed_file_takes_effect_and_what_is_owed_stays_owed() -> TestResult {
    let file = |burst: u32| format!("address = '1000/s'\ndefault = '1/h burst 7'\n[tenants]\ntenant-42 = '1/h burst {burst}'");
    let config = Config::new(&file(10))?;
    let server = Running::start(config.settings(), future::pending()).await?;
    let mut connection = server.connect().await?;
    for left in (6..10).rev() {
        let answer = connection.ingest("tenant-42").await?;
        assert_eq!((answer.status, answer.fields["ratelimit"].as_str()), (202, format!(r#""tenant";r={left};t=3600"#).as_str()));
    }

    config.write(&file(5))?;
    server.wait_for_figure(r#"ingest_config_reloads_total{outcome="in_force"} 1"#).await?;
    let answer = connection.ingest("tenant-42").await?;
    assert_eq!(answer.fields["ratelimit-policy"], r#""tenant";q=5;w=18000"#);
    assert_eq!((answer.status, answer.fields["ratelimit"].as_str()), (202, r#""tenant";r=0;t=3600"#), "four were owed");
    let denied = connection.ingest("tenant-42").await?;
    assert_eq!((denied.status, denied.fields["retry-after"].as_str()), (429, "3600"));
    assert_eq!(connection.ingest("tenant-43").await?.fields["ratelimit-policy"], r#""tenant";q=7;w=25200"#);

    // With a mistake in it, nothing changes, and the service goes on.
    config.write(&file(0))?;
    server.wait_for_figure(r#"ingest_config_reloads_total{outcome="failed"} 1"#).await?;
    assert_eq!(connection.ingest("tenant-42").await?.fields["ratelimit-policy"], r#""tenant";q=5;w=18000"#);
    config.write(&file(6))?;
    server.wait_for_figure(r#"ingest_config_reloads_total{outcome="in_force"} 2"#).await?;
    assert_eq!(connection.ingest("tenant-42").await?.status, 202);
    Ok(())
}

#[tokio::test]
async fn an_address_is_limited_whomever_it_sends_for_and_is_charged_for_denials_too() -> TestResult {
    let config = Config::new("address = '1/h burst 4'\ndefault = '1/h burst 2'")?;
    let server = Running::start(config.settings(), future::pending()).await?;
    let mut connection = server.connect().await?;
    let mut outcomes = Vec::new();
    for tenant in ["a", "a", "a", "b", "c"] {
        outcomes.push(connection.ingest(tenant).await?);
    }
    assert_eq!(outcomes.iter().map(|answer| answer.status).collect::<Vec<_>>(), [202, 202, 429, 202, 429]);
    assert!(outcomes[2].body.contains(r#""violated-policies":["tenant"]"#), "{:?}", outcomes[2]);
    assert!(outcomes[4].body.contains(r#""violated-policies":["address"]"#), "{:?}", outcomes[4]);
    Ok(())
}

#[tokio::test]
async fn health_and_figures_are_told_whatever_else_is_denied() -> TestResult {
    let config = Config::new("address = '1/h burst 2'\ndefault = '1/h burst 1'")?;
    let server = Running::start(config.settings(), future::pending()).await?;
    let mut connection = server.connect().await?;
    for status in [202, 429, 429] {
        assert_eq!(connection.ingest("a").await?.status, status);
    }
    let health = connection.get("/healthz").await?;
    assert_eq!((health.status, health.body.as_str()), (200, "ok\n"));
    let figures = connection.get("/metrics").await?;
    assert!(figures.fields["content-type"].starts_with("text/plain; version=0.0.4"));
    for line in [
        "# TYPE tollgate_decisions_total counter",
        r#"tollgate_decisions_total{policy="address",outcome="allowed"} 2"#,
        r#"tollgate_decisions_total{policy="address",outcome="rejected"} 1"#,
        r#"tollgate_decisions_total{policy="tenant",outcome="allowed"} 1"#,
        r#"tollgate_decisions_total{policy="tenant",outcome="rejected"} 1"#,
        "tollgate_in_flight 0",
        "tollgate_queued 0",
        "tollgate_shed_total 0",
        r#"tollgate_keys{policy="tenant"} 1"#,
        r#"tollgate_keys_in_debt{policy="address"} 1"#,
        r#"tollgate_evicted_total{policy="tenant",state="in_debt"} 0"#,
        "ingest_events_total 1",
        "ingest_event_bytes_total 5",
    ] {
        assert!(figures.body.lines().any(|there| there == line), "{line} is not in\n{}", figures.body);
    }
    assert!(figures.body.contains(r#"tollgate_memory_bytes{policy="tenant"} "#));
    Ok(())
}

#[tokio::test]
async fn too_much_at_once_is_shed_and_health_is_not() -> TestResult {
    let config = Config::new("address = '100/s'\ndefault = '100/s'")?;
    let server = Running::start(Settings { in_flight: 1, ..config.settings() }, future::pending()).await?;
    let mut slow = server.connect().await?;
    slow.send("POST /ingest HTTP/1.1\r\nhost: test\r\nx-tenant: a\r\ncontent-length: 5\r\n\r\nev").await?;
    server.wait_for_figure("tollgate_in_flight 1").await?;
    let mut other = server.connect().await?;
    let shed = other.ingest("b").await?;
    assert_eq!((shed.status, shed.fields["retry-after"].as_str()), (503, "1"));
    assert_eq!(other.get("/healthz").await?.status, 200);
    slow.send("ent").await?;
    assert_eq!(slow.answer().await?.status, 202);
    assert_eq!(other.ingest("b").await?.status, 202);
    server.wait_for_figure("tollgate_shed_total 1").await
}

#[tokio::test]
async fn a_request_without_a_tenant_is_refused() -> TestResult {
    let config = Config::new("address = '100/s'\ndefault = '100/s'")?;
    let server = Running::start(config.settings(), future::pending()).await?;
    let mut connection = server.connect().await?;
    connection.send("POST /ingest HTTP/1.1\r\nhost: test\r\ncontent-length: 0\r\n\r\n").await?;
    assert_eq!(connection.answer().await?.status, 400);
    assert_eq!(connection.get("/other").await?.status, 404);
    Ok(())
}

#[tokio::test]
async fn a_service_that_cannot_start_says_why() -> TestResult {
    let config = Config::new("address = '1/s'\ndefault = '1/x'")?;
    let figures = recorder().handle();
    let error = Server::bind(config.settings(), figures.clone()).await.expect_err("the file has a mistake").to_string();
    assert!(error.contains("line 2") && error.contains("a unit: day, h, m, s, ms, us or ns"), "{error}");
    let missing = Settings { config: "no/such/file".into(), ..config.settings() };
    let error = Server::bind(missing, figures).await.expect_err("there is no file").to_string();
    assert!(error.starts_with("no/such/file: cannot be read: "), "{error}");
    Ok(())
}

/// The one test that is sent a signal: every server that listens for it would stop.
#[cfg(unix)]
#[tokio::test]
async fn a_signal_lets_requests_under_way_finish() -> TestResult {
    let config = Config::new("address = '100/s'\ndefault = '100/s'")?;
    let server = Running::start(config.settings(), crate::stop_signal()?).await?;
    let mut idle = server.connect().await?;
    assert_eq!(idle.ingest("a").await?.status, 202);
    let mut slow = server.connect().await?;
    slow.send("POST /ingest HTTP/1.1\r\nhost: test\r\nx-tenant: a\r\ncontent-length: 5\r\n\r\nev").await?;
    server.wait_for_figure("tollgate_in_flight 1").await?;

    let killed = process::Command::new("kill").args(["-TERM", &process::id().to_string()]).status()?;
    assert!(killed.success());
    let refused = async {
        while server.connect().await.is_ok() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    tokio::time::timeout(PATIENCE, refused).await.map_err(|_| "connections are still taken")?;
    assert!(!server.ended.is_finished(), "a request is under way");
    assert_eq!(idle.line().await?, "", "an idle connection is closed");

    slow.send("ent").await?;
    assert_eq!(slow.answer().await?.status, 202);
    tokio::time::timeout(PATIENCE, server.ended).await???;
    Ok(())
}
