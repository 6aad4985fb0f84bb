//! What proxies say about whom they forward for, read from the right: there stands what the nearest proxy wrote.

use std::net::{IpAddr, SocketAddr};

use http::HeaderMap;
use http::header::{FORWARDED, HeaderName};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Which header field the trusted proxies add their entries to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum ForwardedHeader {
    /// `X-Forwarded-For`: a list of addresses.
    #[default]
    XForwardedFor,
    /// `Forwarded` (RFC 7239): a list of elements such as `for="[2001:db8::1]:4711";proto=https`.
    Forwarded,
}

impl ForwardedHeader {
    /// The entries from the right, those of several lines as one list: the address that each names, if it names one.
    pub(super) fn entries(self, headers: &HeaderMap) -> impl Iterator<Item = Option<IpAddr>> {
        let (name, quotes) = match self {
            Self::XForwardedFor => (X_FORWARDED_FOR, false),
            Self::Forwarded => (FORWARDED, true),
        };
        let lines = headers.get_all(name).iter().rev();
        lines.flat_map(move |line| FromTheRight { rest: Some(line.as_bytes()), quotes }).map(move |entry| self.address(entry))
    }

    fn address(self, entry: &[u8]) -> Option<IpAddr> {
        match self {
            Self::XForwardedFor => node(str::from_utf8(entry).ok()?.trim()),
            Self::Forwarded => FromTheRight { rest: Some(entry), quotes: true }.of(b';').find_map(forwarded_for),
        }
    }
}

/// The elements of a list, the last one first. A separator between quotes separates nothing.
///
/// Scanned from the right, so that nothing further left can change what stands here: an open quote, say.
struct FromTheRight<'a> {
    rest: Option<&'a [u8]>,
    quotes: bool,
}

impl<'a> FromTheRight<'a> {
    fn of(mut self, separator: u8) -> impl Iterator<Item = &'a [u8]> {
        core::iter::from_fn(move || self.split(separator))
    }

    fn split(&mut self, separator: u8) -> Option<&'a [u8]> {
        let rest = self.rest?;
        let mut quoted = false;
        for (at, &byte) in rest.iter().enumerate().rev() {
            if self.quotes && byte == b'"' {
                let escapes = rest[..at].iter().rev().take_while(|&&byte| byte == b'\\').count();
                quoted ^= escapes.is_multiple_of(2) || !quoted;
            } else if byte == separator && !quoted {
                self.rest = Some(&rest[..at]);
                return Some(&rest[at + 1..]);
            }
        }
        self.rest = None;
        Some(rest)
    }
}

impl<'a> Iterator for FromTheRight<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        self.split(b',')
    }
}

/// The address in a pair such as `for=192.0.2.1`.
fn forwarded_for(pair: &[u8]) -> Option<IpAddr> {
    let (name, value) = str::from_utf8(pair).ok()?.split_once('=')?;
    if !name.trim().eq_ignore_ascii_case("for") {
        return None;
    }
    let value = value.trim();
    node(value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value))
}

/// An address, with or without a port (which may be hidden behind a name with an underscore), an IPv6 one with or without brackets.
fn node(text: &str) -> Option<IpAddr> {
    let text = text.rsplit_once(":_").map_or(text, |(address, _)| address);
    let bare = || text.strip_prefix('[')?.strip_suffix(']')?.parse().ok().map(IpAddr::V6);
    text.parse().ok().or_else(|| text.parse().ok().map(|node: SocketAddr| node.ip())).or_else(bare)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `-` for none.
    fn entries(header: ForwardedHeader, lines: &[&str]) -> Vec<String> {
        let name = if header == ForwardedHeader::Forwarded { "forwarded" } else { "x-forwarded-for" };
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(name, http::HeaderValue::from_bytes(line.as_bytes()).expect("visible"));
        }
        header.entries(&headers).map(|entry| entry.map_or("-".to_owned(), |ip| ip.to_string())).collect()
    }

    #[test]
    fn addresses_with_ports_and_brackets_are_read_and_the_rest_is_none() {
        let line = "1.2.3.4, 1.2.3.4:4711,[2001:db8::1], [2001:db8::1]:443 ,2001:db8::2,unknown,_hidden, ,1.2.3,1.2.3.4:99999,[1.2.3.4]";
        let mut expected = vec!["1.2.3.4", "1.2.3.4", "2001:db8::1", "2001:db8::1", "2001:db8::2"];
        expected.extend(["-"; 6]);
        expected.reverse();
        assert_eq!(entries(ForwardedHeader::XForwardedFor, &[line]), expected);
    }

    #[test]
    fn several_lines_are_one_list() {
        let read = entries(ForwardedHeader::XForwardedFor, &["10.0.0.1, 10.0.0.2", "10.0.0.3"]);
        assert_eq!(read, ["10.0.0.3", "10.0.0.2", "10.0.0.1"]);
    }

    #[test]
    fn forwarded_elements_have_pairs_and_quotes() {
        assert_eq!(entries(ForwardedHeader::Forwarded, &[r#"for="192.0.2.43:_http";host="caf\xe9""#]), ["192.0.2.43"]);
        let line = r#"for=192.0.2.60;proto=http;by=203.0.113.43, For="[2001:db8:cafe::17]:4711", proto=https;for="192.0.2.1:80";ext="a,b;for=6.6.6.6""#;
        assert_eq!(entries(ForwardedHeader::Forwarded, &[line]), ["192.0.2.1", "2001:db8:cafe::17", "192.0.2.60"]);
        assert_eq!(entries(ForwardedHeader::Forwarded, &["for=unknown", "for=_x", "by=1.2.3.4", ""]), ["-"; 4]);
    }

    #[test]
    fn an_open_quote_further_left_changes_nothing() {
        let read = entries(ForwardedHeader::Forwarded, &[r#"for="6.6.6.6, ext="\", for=192.0.2.7"#]);
        assert_eq!(read[0], "192.0.2.7");
    }
}
