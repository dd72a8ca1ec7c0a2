"""The server's address, as people give it on the command line."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from jobs.exceptions import BadValue


class WrongAddress(BadValue):
    """What was given is not an address that a worker may use; the message says why."""

    code = "not_a_url"


def parse_server(text: str, *, allow_http: bool = False) -> str:
    """The URL under which the site has mounted the API, without a slash at its end."""
    try:
        parts = urlsplit(text.strip())
        host, _ = parts.hostname, parts.port
    except ValueError as problem:
        raise WrongAddress(f"{text!r} is not a URL: {problem}.") from None
    if parts.scheme not in ("http", "https") or not host:
        raise WrongAddress(
            f"{text!r} is not a URL of a site; it looks like https://example.org/api.", code="not_a_site"
        )
    if parts.username is not None or parts.query or parts.fragment:
        raise WrongAddress(
            "The server's URL has no user name, no ? and no #; the key is given by --key-file.",
            code="more_than_a_place",
        )
    if any(character.isspace() or not character.isprintable() for character in text.strip()):
        raise WrongAddress(f"{text!r} is not a URL: it has blanks in it.")
    if is_plain_http(text.strip()) and not allow_http:
        raise WrongAddress(
            f"{text} is plain http: everybody on the way could read the key. Use https, "
            "or --allow-http in a network that you trust.",
            code="plain_http",
        )
    return text.strip().rstrip("/")


def is_plain_http(url: str) -> bool:
    """Everybody on the way to another machine could read what is sent there."""
    parts = urlsplit(url)
    return parts.scheme == "http" and not _is_loopback(parts.hostname or "")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
