//! Keep-alive HTTP/1.1 connections to the server under load.

use std::{
    fmt, io,
    net::SocketAddr,
    sync::{Mutex, MutexGuard, PoisonError},
};

use axum::http::{
    self, HeaderMap, Request, StatusCode,
    header::{HOST, RETRY_AFTER},
};
use http_body_util::{BodyExt, Full};
use hyper::{
    body::Bytes,
    client::conn::http1::{SendRequest, handshake},
};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpStream, sync::Semaphore};

use crate::server::TENANT;

/// At two file descriptors each, both ends being this process, within the 1024 that many systems grant.
const MAX_CONNECTIONS: usize = 400;
const EVENT: &[u8] = br#"{"event":"load"}"#;

type Connection = SendRequest<Full<Bytes>>;

/// A pool of connections, so that no request waits for the answer to another; only with as many answers outstanding as
/// there are connections does the next request wait its turn.
pub(crate) struct Client {
    address: SocketAddr,
    /// What requests say in `Host`.
    host: String,
    idle: Mutex<Vec<Connection>>,
    turns: Semaphore,
}

/// What the server said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Admitted,
    Limited,
}

/// Why there is no answer, or none that counts.
#[derive(Debug)]
pub(crate) enum Failure {
    Request(http::Error),
    Connect(io::Error),
    Http(hyper::Error),
    Status(StatusCode),
    RetryAfter,
    TooLate,
}

impl Client {
    /// Opens `connections`, or the most that this process should have. Beforehand and one by one, so that a burst
    /// measures answers, not handshakes: those can take TCP a second when many come at once.
    pub(crate) async fn connect(address: SocketAddr, host: String, connections: usize) -> Result<Self, Failure> {
        let connections = connections.clamp(1, MAX_CONNECTIONS);
        let client = Self { address, host, idle: Mutex::default(), turns: Semaphore::new(connections) };
        for _ in 0..connections {
            let connection = client.open().await?;
            client.idle().push(connection);
        }
        Ok(client)
    }

    /// Sends one event of `tenant` and reads the whole answer.
    pub(crate) async fn ingest(&self, tenant: &str) -> Result<Answer, Failure> {
        let request = Request::post("/ingest")
            .header(HOST, &self.host)
            .header(TENANT, tenant)
            .body(Full::new(Bytes::from_static(EVENT)))
            .map_err(Failure::Request)?;
        // Never closed; were it, this request would go ahead without its turn.
        let _turn = self.turns.acquire().await;
        let mut connection = self.connection().await?;
        let (head, body) = connection.send_request(request).await.map_err(Failure::Http)?.into_parts();
        body.collect().await.map_err(Failure::Http)?;
        self.idle().push(connection);
        read_answer(head.status, &head.headers)
    }

    /// An idle connection, or a new one in place of one that broke.
    async fn connection(&self) -> Result<Connection, Failure> {
        while let Some(mut connection) = self.take_idle() {
            if connection.ready().await.is_ok() {
                return Ok(connection);
            }
        }
        self.open().await
    }

    fn take_idle(&self) -> Option<Connection> {
        self.idle().pop()
    }

    async fn open(&self) -> Result<Connection, Failure> {
        let stream = TcpStream::connect(self.address).await.map_err(Failure::Connect)?;
        stream.set_nodelay(true).map_err(Failure::Connect)?;
        let (connection, io) = handshake(TokioIo::new(stream)).await.map_err(Failure::Http)?;
        // What fails in there fails the request under way as well, which reports it.
        tokio::spawn(io);
        Ok(connection)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read_answer(status: StatusCode, headers: &HeaderMap) -> Result<Answer, Failure> {
    match status {
        StatusCode::ACCEPTED => Ok(Answer::Admitted),
        StatusCode::TOO_MANY_REQUESTS => {
            let seconds: Option<u64> = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
            if seconds >= Some(1) { Ok(Answer::Limited) } else { Err(Failure::RetryAfter) }
        }
        other => Err(Failure::Status(other)),
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request(error) => write!(f, "the request could not be written: {error}"),
            Self::Connect(error) => write!(f, "no connection: {error}"),
            Self::Http(error) => write!(f, "no answer: {error}"),
            Self::Status(status) => write!(f, "answered {status}; 202 and 429 are understood"),
            Self::RetryAfter => write!(f, "answered 429 without a Retry-After of 1 or more whole seconds"),
            Self::TooLate => write!(f, "no answer in time"),
        }
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::{
        gate::Gate,
        server::{Admission, Server},
    };

    /// Admits "open" and lets everybody else wait for 1.5 s.
    struct OnlyOpen;

    impl Gate for OnlyOpen {
        fn admit(&self, tenant: &str) -> Result<(), Duration> {
            if tenant == "open" { Ok(()) } else { Err(Duration::from_millis(1_500)) }
        }
    }

    #[tokio::test]
    async fn client_and_server_understand_each_other() -> Result<(), Box<dyn std::error::Error>> {
        let server = Server::start(Box::new(OnlyOpen), Instant::now()).await?;
        let client = Client::connect(server.address, server.address.to_string(), 2).await?;
        for _ in 0..3 {
            assert_eq!(client.ingest("open").await?, Answer::Admitted);
            assert_eq!(client.ingest("shut").await?, Answer::Limited);
        }
        assert_eq!(client.idle().len(), 2, "connections are kept, and none is added");
        let tenants: Vec<String> = server.stop().into_iter().map(|Admission { tenant, .. }| tenant).collect();
        assert_eq!(tenants, ["open"; 3]);
        Ok(())
    }

    #[test]
    fn a_denial_without_a_usable_retry_after_is_a_failure() {
        let with = |value: &'static str| HeaderMap::from_iter([(RETRY_AFTER, http::HeaderValue::from_static(value))]);
        let read = |headers| read_answer(StatusCode::TOO_MANY_REQUESTS, &headers);
        assert!(matches!(read(with("2")), Ok(Answer::Limited)));
        for headers in [HeaderMap::new(), with("0"), with("0.5"), with("soon")] {
            assert!(matches!(read(headers), Err(Failure::RetryAfter)));
        }
    }
}
