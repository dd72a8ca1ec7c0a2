"""Where an alert may not be posted to: addresses of this machine, this network and other special ones."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

_SPECIAL_4 = [
    IPv4Network(text)
    for text in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15"),
        *("198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
    )
]
_UNICAST_6 = IPv6Network("2000::/3")
"""Everything that is routed on the internet, and a few special ones within."""
_SPECIAL_6 = [
    IPv6Network(text) for text in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "3ffe::/16")
]
_NAT64 = IPv6Network("64:ff9b::/96")


def refusal(text: str) -> str | None:
    """Why nothing is posted to this address; None: it is an ordinary one."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return "no IP address"
    if isinstance(address, IPv6Address):
        inner = _inner(address)
        if inner is None:
            return None if _is_ordinary_6(address) else "not a public address"
        address = inner
    if address.is_loopback:
        return "this machine itself"
    if address.is_link_local:
        return "link-local, where clouds keep their credentials"
    return "not a public address" if any(address in network for network in _SPECIAL_4) else None


def _inner(address: IPv6Address) -> IPv4Address | None:
    """The IPv4 address that a translator, or the kernel itself, would connect to."""
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return IPv4Address(int(address) & 0xFFFFFFFF) if address in _NAT64 else None


def _is_ordinary_6(address: IPv6Address) -> bool:
    return address in _UNICAST_6 and not any(address in network for network in _SPECIAL_6)
