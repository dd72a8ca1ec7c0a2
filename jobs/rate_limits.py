"""How often a client may try something: the policy, without a clock or a database.

Clients are told apart by address. An address falls into one of a fixed number of slots, chosen with the site's secret:
so the counters take a bounded number of rows, and nobody can choose whose slot to share. Addresses are never stored.
"""

from __future__ import annotations

import hashlib
import hmac
import math
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address, ip_network

SLOTS = 4096


@dataclass(frozen=True, slots=True)
class Limit:
    name: str
    allowance: int
    """So many tries"""
    period: float = 60.0
    """in so many seconds, from the first of them on."""


def client_of(address: str) -> str:
    """Whom an address stands for: a machine, or with IPv6 the network that a machine chooses its addresses from."""
    try:
        parsed = ip_address(address.strip().partition("%")[0])
    except ValueError:
        return "unknown"
    if isinstance(parsed, IPv6Address):
        if parsed.ipv4_mapped:
            return str(parsed.ipv4_mapped)
        return str(ip_network((parsed, 64), strict=False))
    return str(parsed)


def forwarded_address(remote: str, forwarded_for: str, trusted_proxies: int) -> str:
    """The address that the outermost trusted proxy saw. What stands before it in the header may be an invention."""
    if trusted_proxies < 1:
        return remote
    hops = [hop.strip() for hop in forwarded_for.split(",") if hop.strip()]
    return hops[-trusted_proxies] if len(hops) >= trusted_proxies else remote


def slot_of(client: str, name: str, secret: str) -> int:
    digest = hmac.digest(secret.encode(), f"jobs.rate_limits:{name}:{client}".encode(), hashlib.sha256)
    return int.from_bytes(digest[:8], "big") % SLOTS


def retry_after(limit: Limit, used: int, age: float) -> int | None:
    """Whole seconds to wait when `used` tries were made since `age` seconds ago; None: one more is fine."""
    if age >= limit.period or age < -1 or used < limit.allowance:
        return None
    return max(1, math.ceil(limit.period - age))
