//! The command line.

use std::{env, ffi::OsString, fmt, ops::RangeInclusive, path::PathBuf};

use crate::{
    gate::Kind,
    schedule::{Load, Pattern},
    target::{self, Target},
};

pub(crate) const HELP: &str = "\
The same load on two rate limiters, over real HTTP.

Starts an ingestion API on 127.0.0.1 and sends it requests, once behind a counter
that starts anew each second (legacy) and once behind tollgate, both with a quota of
100 requests a second, burst 100, for each tenant. Prints what either let through.

With --target, the server under load is one that runs already, whatever its limiter:
examples/ingest, say. Figures are then those that a client can see.

Usage: cargo run --release --example loadtest -- [OPTIONS]

Options:
  --tenant NAME        the tenant that sends [default: t-load-1]
  --rps N              requests a second, for each tenant, 1 to 50000 [default: 120]
  --duration SECONDS   how long each limiter is under load, 1 to 600 [default: 10]
  --clients N          tenants at once, 1 to 1000: NAME, NAME-2, NAME-3, ... [default: 1]
  --pattern PATTERN    steady or herd [default: steady]
  --limiter LIMITER    legacy, tollgate or both, one after the other [default: both]
  --target URL         http://HOST:PORT of a server with POST /ingest, the tenant in
                       x-tenant, that answers 202 or 429; in place of our own
  --plot FILE.svg      draw requests offered and admitted per 100 ms
  -h, --help           print this

Patterns:
  steady   N requests a second, evenly spaced.
  herd     N requests within 20 ms just before the edge between two seconds, and N more
           within 20 ms just after it, around every other edge (1 s, 3 s, 5 s, ...): N a
           second on average. With N above 100, either burst alone spends the quota. The
           edges in between are quiet, so that the legacy counter comes to each strike
           with its count unspent.

The load is open-loop: each request has a time of its own and is sent then, however
slow the answers before it are. Latency counts from that time, not from the moment of
sending, so that a server that stalls cannot hide it. There are as many connections as
requests a second, 400 at most; a request that finds none free waits for one, and its
wait is part of its latency.
";

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Help,
    Run(Args),
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Args {
    pub(crate) tenant: String,
    pub(crate) load: Load,
    pub(crate) under_load: UnderLoad,
    pub(crate) plot: Option<PathBuf>,
}

/// What the requests are sent to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum UnderLoad {
    /// A server of our own, behind each of these in turn.
    Own(Vec<Kind>),
    Target(Target),
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum UsageError {
    NotUnicode { given: OsString },
    UnknownOption { given: String },
    MissingValue { option: String, accepted: String },
    BadValue { option: String, given: String, accepted: String },
    TooManyRequests { given: u64 },
    HerdTooShort { seconds: u32 },
    LimiterOfTarget,
}

const RPS: RangeInclusive<u32> = 1..=50_000;
const SECONDS: RangeInclusive<u32> = 1..=600;
const CLIENTS: RangeInclusive<u32> = 1..=1_000;
/// For all tenants together: about what one machine can send and answer, and few enough to keep every answer in memory.
const TOTAL_RPS: u64 = 50_000;
/// A herd's first strike needs the edge at 1 s and a burst after it.
const HERD_SECONDS: u32 = 2;
const TENANT_BYTES: usize = 64;

impl Args {
    pub(crate) fn from_defaults() -> Self {
        Self {
            tenant: "t-load-1".to_owned(),
            load: Load { rps: 120, seconds: 10, clients: 1, pattern: Pattern::Steady },
            under_load: UnderLoad::Own(vec![Kind::Legacy, Kind::Tollgate]),
            plot: None,
        }
    }

    /// What no option can tell by itself.
    fn check(self) -> Result<Self, UsageError> {
        let Load { rps, seconds, clients, pattern } = self.load;
        let total = u64::from(rps) * u64::from(clients);
        if total > TOTAL_RPS {
            return Err(UsageError::TooManyRequests { given: total });
        }
        if pattern == Pattern::Herd && seconds < HERD_SECONDS {
            return Err(UsageError::HerdTooShort { seconds });
        }
        Ok(self)
    }
}

pub(crate) fn from_command_line() -> Result<Command, UsageError> {
    let arguments: Result<Vec<String>, OsString> = env::args_os().skip(1).map(OsString::into_string).collect();
    parse(arguments.map_err(|given| UsageError::NotUnicode { given })?)
}

fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Command, UsageError> {
    let mut arguments = arguments.into_iter();
    let mut args = Args::from_defaults();
    let (mut limiters, mut target) = (None, None);
    while let Some(argument) = arguments.next() {
        if matches!(argument.as_str(), "-h" | "--help") {
            return Ok(Command::Help);
        }
        let (name, value) = match argument.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (argument.as_str(), arguments.next()),
        };
        let option = Given { name, value };
        match name {
            "--tenant" => args.tenant = option.tenant()?,
            "--rps" => args.load.rps = option.number(RPS)?,
            "--duration" => args.load.seconds = option.number(SECONDS)?,
            "--clients" => args.load.clients = option.number(CLIENTS)?,
            "--pattern" => args.load.pattern = option.pattern()?,
            "--limiter" => limiters = Some(option.limiters()?),
            "--target" => target = Some(option.target()?),
            "--plot" => args.plot = Some(option.path()?),
            _ => return Err(UsageError::UnknownOption { given: name.to_owned() }),
        }
    }
    match (limiters, target) {
        (Some(_), Some(_)) => return Err(UsageError::LimiterOfTarget),
        (Some(limiters), None) => args.under_load = UnderLoad::Own(limiters),
        (None, Some(target)) => args.under_load = UnderLoad::Target(target),
        (None, None) => {}
    }
    args.check().map(Command::Run)
}

/// An option as it was given: its name, and the value if one came with it.
struct Given<'a> {
    name: &'a str,
    value: Option<String>,
}

impl Given<'_> {
    fn number(self, range: RangeInclusive<u32>) -> Result<u32, UsageError> {
        let accepted = format!("a whole number from {} to {}", range.start(), range.end());
        self.read(&accepted, |text| text.parse().ok().filter(|number| range.contains(number)))
    }

    fn tenant(self) -> Result<String, UsageError> {
        let accepted = format!("1 to {TENANT_BYTES} printable ASCII characters without spaces");
        self.read(&accepted, |text| {
            let fits = (1..=TENANT_BYTES).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
            fits.then(|| text.to_owned())
        })
    }

    fn pattern(self) -> Result<Pattern, UsageError> {
        self.read("steady or herd", |text| match text {
            "steady" => Some(Pattern::Steady),
            "herd" => Some(Pattern::Herd),
            _ => None,
        })
    }

    fn limiters(self) -> Result<Vec<Kind>, UsageError> {
        self.read("legacy, tollgate or both", |text| match text {
            "legacy" => Some(vec![Kind::Legacy]),
            "tollgate" => Some(vec![Kind::Tollgate]),
            "both" => Some(vec![Kind::Legacy, Kind::Tollgate]),
            _ => None,
        })
    }

    fn target(self) -> Result<Target, UsageError> {
        self.read(target::ACCEPTED, Target::parse)
    }

    fn path(self) -> Result<PathBuf, UsageError> {
        self.read("the name of a file to write", |text| (!text.is_empty()).then(|| text.into()))
    }

    fn read<T>(self, accepted: &str, value_of: impl FnOnce(&str) -> Option<T>) -> Result<T, UsageError> {
        let (option, accepted) = (self.name.to_owned(), accepted.to_owned());
        match self.value {
            None => Err(UsageError::MissingValue { option, accepted }),
            Some(given) => value_of(&given).ok_or(UsageError::BadValue { option, given, accepted }),
        }
    }
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotUnicode { given } => write!(f, "{} is not valid UTF-8; options and values are", given.display()),
            Self::UnknownOption { given } => write!(
                f,
                "unknown option '{given}'; accepted are --tenant, --rps, --duration, --clients, --pattern, --limiter, \
                 --target, --plot and --help"
            ),
            Self::MissingValue { option, accepted } => write!(f, "{option} came without a value; it takes {accepted}"),
            Self::BadValue { option, given, accepted } => write!(f, "{option} was given '{given}'; it takes {accepted}"),
            Self::TooManyRequests { given } => {
                write!(f, "--rps times --clients is {given} requests a second; together they may be {TOTAL_RPS} at most")
            }
            Self::HerdTooShort { seconds } => write!(
                f,
                "--pattern herd was given a --duration of {seconds} s; it takes {HERD_SECONDS} s or more, as its first \
                 strike is around the edge at 1 s"
            ),
            Self::LimiterOfTarget => f.write_str("--limiter and --target do not go together: a server that runs has its limiter already"),
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

    fn message(line: &str) -> String {
        parse_line(line).expect_err(line).to_string()
    }

    #[test]
    fn nothing_given_is_the_default_run() {
        assert_eq!(parse_line(""), Ok(Command::Run(Args::from_defaults())));
    }

    #[test]
    fn every_option_is_read() {
        let line = "--tenant acme --rps 150 --duration=4 --clients 3 --pattern herd --limiter=tollgate --plot out.svg";
        let expected = Args {
            tenant: "acme".to_owned(),
            load: Load { rps: 150, seconds: 4, clients: 3, pattern: Pattern::Herd },
            under_load: UnderLoad::Own(vec![Kind::Tollgate]),
            plot: Some("out.svg".into()),
        };
        assert_eq!(parse_line(line), Ok(Command::Run(expected)));
    }

    #[test]
    fn help_wins_wherever_it_stands() {
        assert_eq!(parse_line("--rps 5 -h"), Ok(Command::Help));
        assert_eq!(parse_line("--help --nonsense"), Ok(Command::Help));
    }

    #[test]
    fn help_names_the_defaults_that_hold() {
        let Args { tenant, load, .. } = Args::from_defaults();
        let Load { rps, seconds, clients, .. } = load;
        for default in [tenant, rps.to_string(), seconds.to_string(), clients.to_string()] {
            assert!(HELP.contains(&format!("[default: {default}]")), "{default}");
        }
    }

    #[test]
    fn a_bad_value_is_named_with_what_would_be_accepted() {
        for given in ["0", "-1", "1.5", "many", "50001", "4294967297"] {
            let expected = format!("--rps was given '{given}'; it takes a whole number from 1 to 50000");
            assert_eq!(message(&format!("--rps {given}")), expected);
        }
        assert_eq!(message("--pattern=wave"), "--pattern was given 'wave'; it takes steady or herd");
        assert_eq!(message("--limiter none"), "--limiter was given 'none'; it takes legacy, tollgate or both");
    }

    #[test]
    fn a_target_takes_the_place_of_our_own_server() {
        let target = Target::parse("http://127.0.0.1:8080").expect("it is one");
        let expected = Args { under_load: UnderLoad::Target(target), ..Args::from_defaults() };
        assert_eq!(parse_line("--target http://127.0.0.1:8080"), Ok(Command::Run(expected)));
        for line in ["--target http://h --limiter both", "--limiter legacy --target http://h"] {
            assert_eq!(parse_line(line), Err(UsageError::LimiterOfTarget), "{line}");
        }
        let expected = "--target was given 'https://h'; it takes http://HOST or http://HOST:PORT, plain HTTP and no path";
        assert_eq!(message("--target https://h"), expected);
        assert!(message("--target").starts_with("--target came without a value; it takes http://HOST "));
    }

    #[test]
    fn a_missing_value_is_asked_for() {
        assert_eq!(message("--rps 5 --plot"), "--plot came without a value; it takes the name of a file to write");
    }

    #[test]
    fn an_unknown_option_is_named() {
        assert!(message("--speed 5").starts_with("unknown option '--speed'; accepted are --tenant, "));
        assert!(message("5").starts_with("unknown option '5'"));
    }

    #[test]
    fn a_tenant_has_to_fit_a_header() {
        let long = format!("--tenant={}", "a".repeat(TENANT_BYTES + 1));
        for argument in ["--tenant=", "--tenant=a b", "--tenant=caf\u{e9}", "--tenant=a\nb", &long] {
            let refused = parse([argument.to_owned()]);
            assert!(matches!(refused, Err(UsageError::BadValue { .. })), "{argument:?}");
        }
    }

    #[test]
    fn what_options_ask_for_together_is_bounded() {
        assert_eq!(parse_line("--rps 1001 --clients 50"), Err(UsageError::TooManyRequests { given: 50_050 }));
        assert_eq!(parse_line("--pattern herd --duration 1"), Err(UsageError::HerdTooShort { seconds: 1 }));
    }
}
