//! What curl makes of the answers, where there is one.

use std::process::Command;

use tollgate::Quota;
use tollgate::http::{ClientIp, Policy};

use crate::app::{CALL, SERVED, message};
use crate::client::Version;
use crate::servers::{Kind, Server, path};
use crate::{limiter, on_every_server};

/// The head and body it prints, in lower case but for the body.
///
/// The body that gRPC needs is only sent to be served: some versions of curl lose an answer over HTTP/2 that comes before they have sent all of theirs.
async fn curl(server: &Server, is_served: bool, arguments: &[&str]) -> Option<(Vec<String>, String)> {
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--include", "--noproxy", "*", "--max-time", "30"]).args(arguments);
    if server.setup.version == Version::Http2 {
        command.arg("--http2-prior-knowledge");
    }
    let file = std::env::temp_dir().join(format!("tollgate-web-{}", std::process::id()));
    if server.setup.server == Kind::Tonic {
        std::fs::write(&file, message("")).expect("room");
        command.args(["--request", "POST", "--header", "content-type: application/grpc", "--header", "te: trailers"]);
        if is_served {
            command.arg("--data-binary").arg(format!("@{}", file.display()));
        }
    }
    command.arg(format!("http://{}{}", server.address, path(CALL)));
    let (output, command) = tokio::task::spawn_blocking(move || (command.output(), command)).await.expect("no panic");
    let output = output.ok()?;
    let _ = std::fs::remove_file(file);
    assert!(output.status.success(), "{command:?}: {output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    // One that waits to be told to go on is told so first, or answered at once.
    let text = text.strip_prefix("HTTP/1.1 100 Continue\r\n\r\n").unwrap_or(&text);
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    Some((head.lines().map(str::to_lowercase).collect(), body.to_owned()))
}

#[tokio::test]
async fn curl_reads_it_too() {
    on_every_server(async |setup| {
        let (_, limiter) = limiter(Quota::per_minute(1));
        let client = setup.finds_peer(ClientIp::behind(1));
        let server = setup.start(Policy::new("client", limiter, client)).await;
        let Some((head, body)) = curl(&server, true, &[]).await else {
            println!("not tested: there is no curl");
            return;
        };
        assert!(head[0].contains(" 200"), "{head:?}");
        let is_grpc = setup.server == Kind::Tonic;
        let text = if is_grpc { String::from_utf8(message(SERVED).to_vec()).expect("ASCII") } else { SERVED.to_owned() };
        assert!(body.starts_with(&text), "{body:?}");

        let (head, body) = curl(&server, false, &[]).await.expect("there is one");
        for line in
            ["retry-after: 60", "cache-control: no-store", r#"ratelimit: "client";r=0;t=60"#, r#"ratelimit-policy: "client";q=1;w=60"#]
        {
            assert!(head.iter().any(|there| there == line), "{line} in {head:?}");
        }
        let status = if is_grpc { "grpc-status: 8" } else { " 429" };
        assert!(head.iter().any(|line| line.contains(status)), "{head:?}");
        assert_eq!(body.contains("quota-exceeded"), !is_grpc);

        let (head, _) = curl(&server, true, &["--header", "x-forwarded-for: 6.6.6.6, [2001:db8::1]:443"]).await.expect("there is one");
        assert!(head[0].contains(" 200"), "{head:?}");
        assert!(!head.iter().any(|line| line.starts_with("retry-after")));

        if setup.version == Version::Http1 {
            // A body that is held back until it is asked for, and never is.
            let arguments = ["--header", "expect: 100-continue", "--data-binary", "held back", "--expect100-timeout", "20"];
            let (head, _) = curl(&server, false, &arguments).await.expect("there is one");
            assert!(head[0].contains(" 429"), "{head:?}");
        }
    })
    .await;
}
