//! Checks of addresses: private networks, and targets of redirects.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    ops::RangeInclusive,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use ureq::{
    Error,
    config::Config,
    http::Uri,
    unversioned::{
        resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver},
        transport::NextTimeout,
    },
};

/// Names of a local network (RFC 6761, 6762, 8375 and usage), as the end of a host.
const LOCAL_NAMES: [&str; 4] = ["localhost", "local", "internal", "home.arpa"];

/// The prefix of IPv4 addresses in IPv6 (RFC 6052).
const NAT64: [u16; 6] = [0x64, 0xff9b, 0, 0, 0, 0];

/// Whether an address is local, private or reserved.
fn is_private(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_private_v4(ip),
        IpAddr::V6(ip) => {
            let embedded_v4 = match ip.segments() {
                [a, b, c, d, e, f, ..] if [a, b, c, d, e, f] == NAT64 => {
                    let [.., a, b, c, d] = ip.octets();
                    Some(Ipv4Addr::new(a, b, c, d))
                }
                // Also `::1`, as 0.0.0.1.
                _ => ip.to_ipv4(),
            };
            embedded_v4.map_or_else(
                || ip.is_unique_local() || ip.is_unicast_link_local() || ip.is_multicast(),
                is_private_v4,
            )
        }
    }
}

fn is_private_v4(ip: Ipv4Addr) -> bool {
    let [first, second, ..] = ip.octets();
    // 100.64.0.0/10 is carrier-grade NAT (RFC 6598); 224.0.0.0 and above are multicast or reserved.
    let is_shared = first == 100 && (64..128).contains(&second);
    ip.is_loopback() || ip.is_private() || ip.is_link_local() || is_shared || first == 0 || first >= 224
}

/// Whether a host, with or without a port, names this machine or a machine in a private network.
pub(crate) fn is_private_host(host: &str) -> bool {
    let host = host.to_ascii_lowercase();
    if let Some(rest) = host.strip_prefix('[') {
        let ip = rest.split_once(']').and_then(|(ip, _)| ip.parse::<Ipv6Addr>().ok());
        return ip.is_none_or(|ip| is_private(ip.into()));
    }
    let name = host.split(':').next().unwrap_or_default().trim_end_matches('.');
    if let Ok(ip) = name.parse::<Ipv4Addr>() {
        return is_private(ip.into());
    }
    let last = name.rsplit('.').next().unwrap_or_default();
    // `127.1` and `0x7f000001` are addresses too. The last label of a domain name is no number.
    let is_number = last.bytes().all(|byte| byte.is_ascii_digit()) || last.starts_with("0x");
    let is_local = |end: &str| {
        let rest = name.strip_suffix(end);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    is_number || !name.contains('.') || LOCAL_NAMES.into_iter().any(is_local)
}

/// The scheme, host and port that identify the server of an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Server {
    scheme: String,
    host: String,
    port: Option<u16>,
}

impl Server {
    /// Parses the server of an address. `None` means that it is no address of the web.
    pub fn parse(url: &str) -> Option<Self> {
        let uri: Uri = url.parse().ok()?;
        let scheme = uri.scheme_str()?.to_ascii_lowercase();
        let default_port = match scheme.as_str() {
            "https" => Some(443),
            "http" => Some(80),
            _ => None,
        };
        Some(Self {
            host: uri.host()?.to_ascii_lowercase(),
            port: uri.port_u16().or(default_port),
            scheme,
        })
    }
}

/// Returns the target address of a redirect. `None` means that `location` is malformed.
pub(super) fn redirected(from: &str, location: &str) -> Option<String> {
    let location = location.trim().split('#').next().unwrap_or_default();
    let (scheme, rest) = from.split_once("://")?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(end);
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let before_path = location.split(['/', '?']).next().unwrap_or_default();
    Some(match location {
        "" => return None,
        absolute if before_path.ends_with(':') && absolute.contains("://") => absolute.to_owned(),
        relative if relative.starts_with("//") => format!("{scheme}:{relative}"),
        relative if relative.starts_with('/') => format!("{scheme}://{host}{relative}"),
        relative if relative.starts_with('?') => format!("{scheme}://{host}{path}{relative}"),
        relative => {
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            format!("{scheme}://{host}{folder}/{relative}")
        }
    })
}

/// Resolves the hosts of a request and its redirects. After a public address, private addresses are
/// refused: a server on the internet must not direct requests into the user's network.
#[derive(Debug, Clone, Default)]
pub(super) struct Lookup {
    was_public: Arc<AtomicBool>,
}

/// The error of a request that [`Lookup`] refused.
#[derive(Debug, thiserror::Error)]
#[error("the address leads to a private network")]
pub(super) struct PrivateAddress;

impl Lookup {
    /// Refuses a private address after, or beside, a public one.
    fn check(&self, addresses: &[IpAddr]) -> Result<(), PrivateAddress> {
        if !addresses.iter().all(|ip| is_private(*ip)) {
            self.was_public.store(true, Ordering::Relaxed);
        }
        let is_private = addresses.iter().any(|ip| is_private(*ip));
        if is_private && self.was_public.load(Ordering::Relaxed) {
            Err(PrivateAddress)
        } else {
            Ok(())
        }
    }
}

/// Whether the resolver found no address, also for want of a network. Other errors, such as too
/// many open files, do not depend on the name.
fn is_name_error(error: &io::Error) -> bool {
    /// `WSAHOST_NOT_FOUND`, `WSATRY_AGAIN`, `WSANO_RECOVERY` and `WSANO_DATA`.
    const WINSOCK: RangeInclusive<i32> = 11001..=11004;
    // On Unix, the resolver has other errors than the system.
    error
        .raw_os_error()
        .is_none_or(|code| cfg!(windows) && WINSOCK.contains(&code))
}

impl Resolver for Lookup {
    fn resolve(&self, uri: &Uri, config: &Config, timeout: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let resolved = DefaultResolver::default().resolve(uri, config, timeout);
        let resolved = resolved.map_err(|error| match error {
            Error::Io(error) if is_name_error(&error) => Error::HostNotFound,
            other => other,
        })?;
        let addresses: Vec<IpAddr> = resolved.iter().map(|address| address.ip()).collect();
        self.check(&addresses).map_err(|error| Error::Other(Box::new(error)))?;
        Ok(resolved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_hosts_are_told_from_public_ones() {
        for host in [
            "127.0.0.1",
            "127.0.0.1:8080",
            "127.1",
            "2130706433",
            "0x7f000001",
            "0.0.0.0",
            "10.0.0.1",
            "172.16.0.1",
            "192.168.1.1:443",
            "169.254.169.254",
            "100.64.0.1",
            "[::1]",
            "[::1]:80",
            "[::ffff:10.0.0.1]",
            "[64:ff9b::10.0.0.1]",
            "[fe80::1]",
            "[fd00::1]",
            "[",
            "localhost",
            "LOCALHOST.",
            "a.localhost",
            "printer.local",
            "metadata.google.internal",
            "router",
            "",
        ] {
            assert!(is_private_host(host), "{host}");
        }
        for host in [
            "huggingface.co",
            "example.com:8443",
            "8.8.8.8",
            "172.32.0.1",
            "[2606:4700::1111]",
            "[64:ff9b::8.8.8.8]",
            "mylocal.example",
            "notlocalhost.example",
            "1.example",
        ] {
            assert!(!is_private_host(host), "{host}");
        }
    }

    #[test]
    fn a_private_address_is_refused_only_after_a_public_one() {
        let ips = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<IpAddr>>();
        let lookup = Lookup::default();
        // An endpoint in the user's own network, and its redirects.
        assert!(lookup.check(&ips(&["10.0.0.1"])).is_ok());
        assert!(lookup.check(&ips(&["127.0.0.1"])).is_ok());
        assert!(lookup.check(&ips(&["8.8.8.8"])).is_ok());
        for private in ["10.0.0.1", "127.0.0.1", "::1", "fe80::1"] {
            assert!(lookup.check(&ips(&[private])).is_err(), "{private}");
            assert!(lookup.check(&ips(&["8.8.8.8", private])).is_err(), "{private}");
        }
        assert!(lookup.check(&ips(&["1.1.1.1"])).is_ok());
        // A response with public and private addresses counts as public.
        let lookup = Lookup::default();
        assert!(lookup.check(&ips(&["8.8.8.8", "10.0.0.1"])).is_err());
        assert!(lookup.check(&ips(&["10.0.0.1"])).is_err());
    }

    #[test]
    fn an_error_of_the_system_is_no_missing_name() {
        assert!(is_name_error(&io::Error::other("Name or service not known")));
        assert_eq!(is_name_error(&io::Error::from_raw_os_error(11001)), cfg!(windows));
        // `EMFILE`
        assert!(!is_name_error(&io::Error::from_raw_os_error(24)));
    }

    #[test]
    fn a_redirect_is_relative_to_its_address() {
        for (location, expected) in [
            ("https://b.example/x?y=1", Some("https://b.example/x?y=1")),
            ("//b.example/x", Some("https://b.example/x")),
            ("/x/y#part", Some("https://a.example:1/x/y")),
            ("x?u=http://c", Some("https://a.example:1/p/x?u=http://c")),
            ("?z", Some("https://a.example:1/p/q?z")),
            ("file:///etc/passwd", Some("file:///etc/passwd")),
            ("", None),
        ] {
            let actual = redirected("https://a.example:1/p/q?r=1", location);
            assert_eq!(actual.as_deref(), expected, "{location}");
        }
        assert_eq!(
            redirected("https://a.example", "x").as_deref(),
            Some("https://a.example/x")
        );
    }

    #[test]
    fn a_server_is_known_by_scheme_host_and_port() {
        let is_same_server = |left: &str, right: &str| Server::parse(left) == Server::parse(right);
        assert!(is_same_server("https://Hub.example/a", "https://hub.example:443/b?c"));
        for other in [
            "https://hub.example:8443/a",
            "http://hub.example/a",
            "https://hub.example.org/a",
        ] {
            assert!(!is_same_server("https://hub.example/a", other), "{other}");
        }
        assert_eq!(Server::parse("nothing"), None);
    }
}
