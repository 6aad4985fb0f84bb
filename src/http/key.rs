//! Whose request it is.

use std::hash::Hash;

use http::HeaderName;

use super::head::Head;

/// Says whose request it is: under which key of its limiter a policy counts it. Any function from a [`Head`] to an `Option` of something
/// [`Hash`] is one.
///
/// ```
/// use tollgate::http::{Head, KeyExtractor};
///
/// fn session(head: &Head<'_>) -> Option<u64> {
///     head.header("cookie")?.strip_prefix("session=")?.parse().ok()
/// }
/// fn is_an_extractor(_: impl KeyExtractor) {}
/// is_an_extractor(session);
/// ```
pub trait KeyExtractor: Send + Sync {
    /// The key. A limiter knows it under the same hash wherever it comes from: `&str` as `str`.
    type Key<'a>: Hash;

    /// The request's key, or none, and then the policy's [`MissingKey`](super::MissingKey) says what becomes of it. Is not to panic,
    /// whatever the request says.
    fn key<'a>(&self, head: &Head<'a>) -> Option<Self::Key<'a>>;
}

impl<F, K> KeyExtractor for F
where
    F: Fn(&Head<'_>) -> Option<K> + Send + Sync,
    K: Hash,
{
    type Key<'a> = K;

    fn key(&self, head: &Head<'_>) -> Option<K> {
        self(head)
    }
}

/// A header field's value is the key, as `str`: an API key, a tenant. None, if there are several such fields, of which a client may have
/// sent one. Only where something in front of the server vouches for it; otherwise whoever sends the request chooses whom to be.
#[derive(Clone, Debug)]
pub struct Header(pub HeaderName);

impl KeyExtractor for Header {
    type Key<'a> = &'a str;

    fn key<'a>(&self, head: &Head<'a>) -> Option<&'a str> {
        let mut values = head.headers.get_all(&self.0).iter();
        let (value, None) = (values.next()?, values.next()) else { return None };
        value.to_str().ok().filter(|value| !value.is_empty())
    }
}

/// All requests together: the key is `()`.
#[derive(Clone, Copy, Debug)]
pub struct Everyone;

impl KeyExtractor for Everyone {
    type Key<'a> = ();

    fn key(&self, _: &Head<'_>) -> Option<()> {
        Some(())
    }
}
