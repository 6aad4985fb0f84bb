//! The file of quotas: what it says, and what is wrong with it.

use std::{
    collections::{BTreeMap, HashSet},
    fmt, fs, io,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use tollgate::{MOST_OWN_QUOTAS, Quota};

/// The most different quotas that tenants can have. One is left over, so that there is always a place for the next one while all of
/// them change, one after the other.
const MOST_QUOTAS: usize = MOST_OWN_QUOTAS - 1;

/// What the file says.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
// A misspelt name would be a quota that silently does not hold.
#[serde(deny_unknown_fields)]
pub(crate) struct Quotas {
    /// Of each client address.
    pub(crate) address: Quota,
    /// Of each tenant that has none of its own.
    pub(crate) default: Quota,
    #[serde(default)]
    pub(crate) tenants: BTreeMap<String, Quota>,
}

/// Why a file is of no use.
#[derive(Debug)]
pub(crate) struct ConfigError {
    path: PathBuf,
    problem: Problem,
}

#[derive(Debug)]
enum Problem {
    Unreadable(io::Error),
    Malformed(toml::de::Error),
    TooManyQuotas(usize),
    NoHeader(String),
}

/// The file's text.
pub(crate) fn read(path: &Path) -> Result<String, ConfigError> {
    fs::read_to_string(path).map_err(|error| ConfigError { path: path.to_owned(), problem: Problem::Unreadable(error) })
}

impl Quotas {
    /// What a text says that was read from there.
    pub(crate) fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let quotas: Result<Self, _> = toml::from_str(text).map_err(Problem::Malformed);
        quotas.and_then(Self::check).map_err(|problem| ConfigError { path: path.to_owned(), problem })
    }

    /// What no line can tell by itself.
    fn check(self) -> Result<Self, Problem> {
        let different = self.tenants.values().collect::<HashSet<_>>().len();
        if different > MOST_QUOTAS {
            return Err(Problem::TooManyQuotas(different));
        }
        let fits_header =
            |tenant: &String| !tenant.is_empty() && tenant.trim() == tenant && tenant.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        match self.tenants.keys().find(|tenant| !fits_header(tenant)) {
            Some(tenant) => Err(Problem::NoHeader(tenant.clone())),
            None => Ok(self),
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.path.display())?;
        match &self.problem {
            Problem::Unreadable(error) => write!(f, "cannot be read: {error}"),
            // Names the line, shows it, and ends it.
            Problem::Malformed(error) => f.write_str(error.to_string().trim_end()),
            Problem::TooManyQuotas(given) => {
                write!(f, "tenants have {given} different quotas; {MOST_QUOTAS} at most are held, each by any number of tenants")
            }
            Problem::NoHeader(tenant) => {
                write!(f, "no header can name the tenant {tenant:?}; names are printable ASCII, with no space at either end")
            }
        }
    }
}

impl std::error::Error for ConfigError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Quotas, String> {
        Quotas::parse(text, Path::new("quotas.toml")).map_err(|error| error.to_string())
    }

    fn message(text: &str) -> String {
        parse(text).expect_err(text)
    }

    #[test]
    fn the_file_that_comes_with_this_is_right() {
        let quotas = parse(include_str!("tenants.toml")).expect("it is read");
        assert_eq!(quotas.default, Quota::per_second(100));
        assert_eq!(quotas.tenants["tenant-42"], Quota::per_second(100).burst(200));
        assert_eq!(quotas.tenants.len(), 3);
    }

    #[test]
    fn tenants_are_optional_and_the_two_others_are_not() {
        assert!(parse("default = '1/s'\naddress = '1/s'").is_ok_and(|quotas| quotas.tenants.is_empty()));
        assert!(message("default = '1/s'").contains("missing field `address`"));
        assert!(message("").contains("missing field"));
    }

    #[test]
    fn a_mistake_is_shown_with_its_line() {
        let error = message("address = '1/s'\ndefault = '1/s'\n[tenants]\na = '0/s'\n");
        for part in ["quotas.toml: ", "line 4", "a = '0/s'", "0 tokens per period: a quota needs at least 1"] {
            assert!(error.contains(part), "{part}: {error}");
        }
        assert!(message("address = '1/s'\ndefault = 100").contains("expected a quota such as \"100/s burst 200\""));
        assert!(message("address = '1/s'\ndefault = '1/s'\ndefualt = '2/s'").contains("unknown field `defualt`"));
        assert!(message("address = '1/s'\ndefault = '1/s'\n[tenants]\na = '1/s'\na = '2/s'").contains("duplicate key"));
        assert!(message("address = ").contains("line 1"));
    }

    #[test]
    fn a_tenant_has_to_fit_a_header() {
        for name in ["", " a", "caf\u{e9}", "a\\tb"] {
            let error = message(&format!("address = '1/s'\ndefault = '1/s'\n[tenants]\n\"{name}\" = '1/s'"));
            assert!(error.contains("no header can name the tenant"), "{error}");
        }
    }

    #[test]
    fn so_many_different_quotas_and_no_more() {
        let file = |quotas: usize| {
            let lines = (1..=quotas).map(|n| format!("t{n} = '{n}/s'")).collect::<Vec<_>>().join("\n");
            parse(&format!("address = '1/s'\ndefault = '1/s'\n[tenants]\n{lines}\nother = '1/s'"))
        };
        assert!(file(MOST_QUOTAS).is_ok());
        assert!(file(MOST_QUOTAS + 1).is_err_and(|error| error.contains("different quotas; 4091 at most")));
    }
}
