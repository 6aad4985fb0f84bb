//! A server that runs already, to be put under load in place of one of our own.

use std::{fmt, io, net::SocketAddr, time::Duration};

use axum::http::{Request, Uri, header::HOST};
use http_body_util::Empty;
use hyper::{body::Bytes, client::conn::http1::handshake};
use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpStream, lookup_host},
    time::timeout,
};

/// What `--target` takes.
pub(crate) const ACCEPTED: &str = "http://HOST or http://HOST:PORT, plain HTTP and no path";

/// Time to connect, and to answer a first question.
const PATIENCE: Duration = Duration::from_secs(5);
const HTTP_PORT: u16 = 80;

/// Where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// Host and port, as they were given.
    pub(crate) authority: String,
    /// Without the brackets that a URL puts around an IPv6 address.
    host: String,
    port: u16,
}

/// Why it cannot be put under load.
#[derive(Debug)]
pub(crate) struct TargetError {
    target: Target,
    problem: Problem,
}

#[derive(Debug)]
enum Problem {
    Unknown(io::Error),
    Unreachable(io::Error),
    Silent,
    NotHttp(hyper::Error),
}

impl Target {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let uri: Uri = text.parse().ok()?;
        let authority = uri.authority()?;
        let nothing_else = matches!(uri.path(), "" | "/") && uri.query().is_none() && !authority.as_str().contains('@');
        // A port that is none would be left out.
        let all_read = authority.port().is_some() == authority.as_str().trim_start_matches(authority.host()).starts_with(':');
        let fits = uri.scheme_str() == Some("http") && nothing_else && all_read && !authority.host().is_empty();
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        fits.then(|| Self { authority: authority.to_string(), host, port: authority.port_u16().unwrap_or(HTTP_PORT) })
    }

    /// The address at which it answers HTTP. Asks it for nothing that a limit is likely to count.
    pub(crate) async fn find(&self) -> Result<SocketAddr, TargetError> {
        let found = timeout(PATIENCE, self.ask()).await.unwrap_or(Err(Problem::Silent));
        found.map_err(|problem| TargetError { target: self.clone(), problem })
    }

    async fn ask(&self) -> Result<SocketAddr, Problem> {
        let addresses: Vec<_> = lookup_host((self.host.as_str(), self.port)).await.map_err(Problem::Unknown)?.collect();
        // Of several addresses, the first that can be reached.
        let stream = TcpStream::connect(&*addresses).await.map_err(Problem::Unreachable)?;
        let address = stream.peer_addr().map_err(Problem::Unreachable)?;
        let (mut connection, io) = handshake(TokioIo::new(stream)).await.map_err(Problem::NotHttp)?;
        // What fails in there fails the question as well.
        let io = tokio::spawn(io);
        let question = Request::head("/").header(HOST, &self.authority).body(Empty::<Bytes>::new()).expect("an authority is a valid field");
        let answer = connection.send_request(question).await.map_err(Problem::NotHttp);
        io.abort();
        answer.map(|_| address)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}", self.authority)
    }
}

impl fmt::Display for TargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { target, problem } = self;
        match problem {
            Problem::Unknown(error) => write!(f, "{target} has no address: {error}"),
            Problem::Unreachable(error) => write!(f, "cannot connect to {target}: {error}; does the server run?"),
            Problem::Silent => write!(f, "{target} has not answered within {} s", PATIENCE.as_secs()),
            Problem::NotHttp(error) => write!(f, "{target} does not speak HTTP/1.1: {error}"),
        }
    }
}

impl std::error::Error for TargetError {}

#[cfg(test)]
mod tests {
    use tokio::{
        io::AsyncWriteExt,
        net::{TcpListener, TcpSocket},
    };

    use super::*;

    #[test]
    fn only_plain_http_without_a_path_is_a_target() {
        for (text, authority, host, port) in [
            ("http://127.0.0.1:8080", "127.0.0.1:8080", "127.0.0.1", 8080),
            ("http://localhost/", "localhost", "localhost", 80),
            ("http://[::1]:9", "[::1]:9", "::1", 9),
        ] {
            let target = Target { authority: authority.to_owned(), host: host.to_owned(), port };
            assert_eq!(Target::parse(text), Some(target), "{text}");
        }
        for text in [
            "",
            "127.0.0.1:8080",
            "https://h",
            "http://",
            "http://:80",
            "http://h/ingest",
            "http://h/?q",
            "http://u@h",
            "http://h:99999",
            "/",
        ] {
            assert_eq!(Target::parse(text), None, "{text}");
        }
    }

    fn at(address: SocketAddr) -> Target {
        Target::parse(&format!("http://{address}")).expect("an address is a target")
    }

    #[tokio::test]
    async fn what_is_no_server_of_http_is_said_so() -> io::Result<()> {
        // Bound and not listening: nobody else has the port, and nobody answers.
        let closed = TcpSocket::new_v4()?;
        closed.bind(([127, 0, 0, 1], 0).into())?;
        let error = at(closed.local_addr()?).find().await.expect_err("nobody listens").to_string();
        assert!(error.starts_with("cannot connect to http://127.0.0.1:"), "{error}");

        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await?;
            stream.write_all(b"220 mail.example ESMTP\r\n").await
        });
        let error = at(address).find().await.expect_err("it speaks something else").to_string();
        assert!(error.contains("does not speak HTTP/1.1: "), "{error}");
        Ok(())
    }
}
