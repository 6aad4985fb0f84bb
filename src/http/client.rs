//! Which client a request comes from.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use ipnet::IpNet;

use super::forwarded::ForwardedHeader;
use super::head::Head;
use super::key::KeyExtractor;

/// The address at the other end of the connection, for servers to attach to each request's extensions.
///
/// ```
/// use tollgate::http::{ClientIp, Head, PeerAddr};
///
/// let address = std::net::SocketAddr::from(([192, 0, 2, 1], 4711));   // what `accept` returned
/// let mut request = http::Request::new(());
/// request.extensions_mut().insert(PeerAddr(address));
/// assert_eq!(ClientIp::peer().address(&Head::of(&request)), Some(address.ip()));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeerAddr(pub SocketAddr);

/// The client's address, which is the key: an IPv4 address, or an IPv6 network of 64 bits, because a client owns at least that.
///
/// By default that is the peer of the connection, the only thing that a client cannot choose: [`PeerAddr`], or with the feature `axum`
/// axum's `ConnectInfo<SocketAddr>`, from the request's extensions. Behind proxies, say how many there are, or which; each of them adds
/// what it saw at the right end of a header field, and what stands further left is the client's own text. Where there is no address at the
/// place, the peer's is taken.
///
/// An IPv4 address mapped into IPv6 is the IPv4 address.
///
/// A server that attaches the peer's address otherwise says where, or every request is one [without a key](super::MissingKey): for tonic,
/// that is `.peer_from(|head| head.extensions.get::<TcpConnectInfo>()?.remote_addr())`.
#[derive(Clone, Debug)]
pub struct ClientIp {
    trusted: Trusted,
    header: ForwardedHeader,
    v6_prefix: u8,
    peer: fn(&Head<'_>) -> Option<SocketAddr>,
}

#[derive(Clone, Debug)]
enum Trusted {
    Hops(usize),
    Networks(Vec<IpNet>),
}

impl ClientIp {
    /// The peer of the connection.
    pub const fn peer() -> Self {
        Self::behind(0)
    }

    /// The client behind so many proxies, each of which adds an entry: the entry that far from the right. With fewer entries, the peer.
    pub const fn behind(proxies: usize) -> Self {
        Self { trusted: Trusted::Hops(proxies), header: ForwardedHeader::XForwardedFor, v6_prefix: 64, peer }
    }

    /// The client behind proxies in these networks: if the peer is in one, the first entry from the right that is in none.
    pub fn behind_networks(networks: impl IntoIterator<Item = IpNet>) -> Self {
        Self { trusted: Trusted::Networks(networks.into_iter().map(canonical).collect()), ..Self::peer() }
    }

    /// The header field to read; `X-Forwarded-For` if not called.
    #[must_use]
    pub fn header(self, header: ForwardedHeader) -> Self {
        Self { header, ..self }
    }

    /// Counts IPv6 clients by networks of so many bits, at most 128; 64 if not called.
    #[must_use]
    pub fn v6_prefix(self, bits: u8) -> Self {
        Self { v6_prefix: bits.min(128), ..self }
    }

    /// Where to find the peer's address, for servers that attach it in a way of their own.
    #[must_use]
    pub fn peer_from(self, peer: fn(&Head<'_>) -> Option<SocketAddr>) -> Self {
        Self { peer, ..self }
    }

    /// The client's address, in full. `None`: the peer's is not known, nor is there another one to be trusted.
    pub fn address(&self, head: &Head<'_>) -> Option<IpAddr> {
        let peer = (self.peer)(head).map(|peer| peer.ip().to_canonical());
        if matches!(self.trusted, Trusted::Hops(0)) { peer } else { self.forwarded(head, peer).or(peer) }
    }

    /// The address that trusted proxies tell. Out of line, so that it costs nothing where there are none.
    #[inline(never)]
    fn forwarded(&self, head: &Head<'_>, peer: Option<IpAddr>) -> Option<IpAddr> {
        // Not before it is wanted: it looks the field up.
        let entries = || self.header.entries(head.headers).map(|entry| entry.map(|ip| ip.to_canonical()));
        match &self.trusted {
            Trusted::Hops(hops) => entries().nth(hops.checked_sub(1)?)?,
            Trusted::Networks(networks) => {
                let trusted = |ip: &IpAddr| networks.iter().any(|network| network.contains(ip));
                peer.as_ref().filter(|peer| trusted(peer))?;
                entries().find(|entry| !entry.as_ref().is_some_and(trusted))?
            }
        }
    }

    /// The key that a client of this address is counted under: for [`Limiter::set_quota`](crate::Limiter::set_quota), say.
    pub fn key_of(&self, address: IpAddr) -> IpAddr {
        match address.to_canonical() {
            IpAddr::V4(address) => IpAddr::V4(address),
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.v6_prefix)).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
            }
        }
    }
}

impl KeyExtractor for ClientIp {
    type Key<'a> = IpAddr;

    fn key(&self, head: &Head<'_>) -> Option<IpAddr> {
        self.address(head).map(|address| self.key_of(address))
    }
}

/// An IPv4 network mapped into IPv6 is the IPv4 network, as with addresses.
fn canonical(network: IpNet) -> IpNet {
    match (network.addr().to_canonical(), network.prefix_len().checked_sub(96)) {
        (IpAddr::V4(address), Some(prefix)) if network.addr().is_ipv6() => IpNet::new(IpAddr::V4(address), prefix).unwrap_or(network),
        _ => network,
    }
}

fn peer(head: &Head<'_>) -> Option<SocketAddr> {
    // Axum's first: where the feature is on, it is mostly there.
    #[cfg(feature = "axum")]
    if let Some(peer) = head.extensions.get::<axum::extract::ConnectInfo<SocketAddr>>() {
        return Some(peer.0);
    }
    head.extensions.get::<PeerAddr>().map(|peer| peer.0)
}
