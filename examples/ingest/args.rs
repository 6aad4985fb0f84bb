//! The command line.

use std::{env, ffi::OsString, fmt, net::SocketAddr, path::PathBuf, str::FromStr, time::Duration};

use crate::server::Settings;

pub(crate) const HELP: &str = "\
An ingestion service behind rate limits.

POST /ingest takes an event (at most 2 MB) of the tenant that the header x-tenant names:
202, or 429 over a quota, or 503 when more requests are under way than the service wants.
GET /healthz and GET /metrics (for Prometheus) are never limited.

Usage: cargo run --release --example ingest --features axum,metrics,serde -- --config FILE [OPTIONS]

Options:
  --config FILE     the quotas; examples/ingest/tenants.toml is one such file
  --listen ADDR     where to listen; port 0 takes a free one [default: 127.0.0.1:8080]
  --in-flight N     requests under way at a time [default: 512]
  --queue N         requests that wait for that, up to 100 ms [default: 256]
  --proxies N       proxies in front that add to X-Forwarded-For [default: 0]
  -h, --help        print this

The file is read again each second. What has changed holds from then on, and what clients
owe they go on owing. While the file has a mistake, the quotas stay as they were.

SIGINT or SIGTERM: no further connection is taken, requests under way are answered.
";

/// How often the file of quotas is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Help,
    Serve(Settings),
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum UsageError {
    NotUnicode { given: OsString },
    UnknownOption { given: String },
    MissingValue { option: String, accepted: &'static str },
    BadValue { option: String, given: String, accepted: &'static str },
    NoConfig,
}

const ADDRESS: &str = "an address with a port, such as 127.0.0.1:8080 or [::]:0";
const NUMBER: &str = "a whole number";
const AT_LEAST_ONE: &str = "a whole number, at least 1";

pub(crate) fn from_command_line() -> Result<Command, UsageError> {
    let arguments: Result<Vec<String>, OsString> = env::args_os().skip(1).map(OsString::into_string).collect();
    parse(arguments.map_err(|given| UsageError::NotUnicode { given })?)
}

fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Command, UsageError> {
    let mut arguments = arguments.into_iter();
    let mut config = None;
    let mut settings = Settings {
        listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
        config: PathBuf::new(),
        in_flight: 512,
        queue: 256,
        proxies: 0,
        look_every: LOOK_EVERY,
    };
    while let Some(argument) = arguments.next() {
        if matches!(argument.as_str(), "-h" | "--help") {
            return Ok(Command::Help);
        }
        let (name, value) = match argument.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (argument.as_str(), arguments.next()),
        };
        match name {
            "--config" => config = Some(read(name, value, "the name of a file", |path: &PathBuf| !path.as_os_str().is_empty())?),
            "--listen" => settings.listen = read(name, value, ADDRESS, |_| true)?,
            "--in-flight" => settings.in_flight = read(name, value, AT_LEAST_ONE, |&number| number > 0)?,
            "--queue" => settings.queue = read(name, value, NUMBER, |_| true)?,
            "--proxies" => settings.proxies = read(name, value, NUMBER, |_| true)?,
            _ => return Err(UsageError::UnknownOption { given: name.to_owned() }),
        }
    }
    settings.config = config.ok_or(UsageError::NoConfig)?;
    Ok(Command::Serve(settings))
}

/// An option's value.
fn read<T: FromStr>(name: &str, value: Option<String>, accepted: &'static str, fits: impl Fn(&T) -> bool) -> Result<T, UsageError> {
    let option = name.to_owned();
    let Some(given) = value else { return Err(UsageError::MissingValue { option, accepted }) };
    given.parse().ok().filter(fits).ok_or(UsageError::BadValue { option, given, accepted })
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotUnicode { given } => write!(f, "{} is not valid UTF-8; options and values are", given.display()),
            Self::UnknownOption { given } => {
                write!(f, "unknown option '{given}'; accepted are --config, --listen, --in-flight, --queue, --proxies and --help")
            }
            Self::MissingValue { option, accepted } => write!(f, "{option} came without a value; it takes {accepted}"),
            Self::BadValue { option, given, accepted } => write!(f, "{option} was given '{given}'; it takes {accepted}"),
            Self::NoConfig => f.write_str("--config FILE is needed; examples/ingest/tenants.toml is such a file"),
        }
    }
}

impl std::error::Error for UsageError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_line(line: &str) -> Result<Command, UsageError> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    fn settings(line: &str) -> Settings {
        match parse_line(line) {
            Ok(Command::Serve(settings)) => settings,
            other => panic!("{line}: {other:?}"),
        }
    }

    fn message(line: &str) -> String {
        parse_line(line).expect_err(line).to_string()
    }

    #[test]
    fn every_option_is_read() {
        let expected = Settings {
            listen: SocketAddr::from(([0; 8], 0)),
            config: "quotas.toml".into(),
            in_flight: 5,
            queue: 0,
            proxies: 2,
            look_every: LOOK_EVERY,
        };
        assert_eq!(settings("--listen [::]:0 --in-flight=5 --queue 0 --config quotas.toml --proxies 2"), expected);
    }

    #[test]
    fn help_names_the_defaults_that_hold() {
        let Settings { listen, in_flight, queue, proxies, .. } = settings("--config quotas.toml");
        for default in [listen.to_string(), in_flight.to_string(), queue.to_string(), proxies.to_string()] {
            assert!(HELP.contains(&format!("[default: {default}]")), "{default}");
        }
        assert_eq!(parse_line("--nonsense --help"), Err(UsageError::UnknownOption { given: "--nonsense".to_owned() }));
        assert_eq!(parse_line("--queue 1 --help"), Ok(Command::Help));
    }

    #[test]
    fn a_mistake_is_named_with_what_would_be_accepted() {
        assert_eq!(message(""), "--config FILE is needed; examples/ingest/tenants.toml is such a file");
        assert_eq!(message("--config"), "--config came without a value; it takes the name of a file");
        assert_eq!(message("--in-flight 0"), "--in-flight was given '0'; it takes a whole number, at least 1");
        assert_eq!(message("--listen localhost"), format!("--listen was given 'localhost'; it takes {ADDRESS}"));
        assert!(message("--port 80").starts_with("unknown option '--port'; accepted are --config, "));
    }
}
