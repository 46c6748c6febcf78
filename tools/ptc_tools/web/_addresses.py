"""The network boundary: which addresses the host may be made to connect to.

Rule 1: Only public unicast addresses, unless a network was allowed by name; whatever else an
    address can be written as or wrapped in. (test_an_address_that_is_not_public_is_refused)
Rule 2: What was checked is what is connected to: a name is resolved once, and every address it has
    must be allowed. (test_dns_rebinding_cannot_change_the_checked_address,
    test_name_with_any_private_address_is_refused)
Rule 3: A refusal does not tell which address a name has.
    (test_refusal_does_not_reveal_the_resolved_address)
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Sequence
from typing import TypeAlias

import anyio

from ptc import ToolError, UsageError

__all__ = ["Address", "Network", "allowed", "networks", "resolve"]

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

# The IANA special-purpose registries, said here because `is_global` differs between versions of
# Python; and two that are public and yet the cloud's own.
_REFUSED_4 = tuple(
    map(
        ipaddress.IPv4Network,
        (
            *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16"),
            *("172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16"),
            *("198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
            "168.63.129.16/32",  # Azure's host agent
            "192.31.196.0/24",  # AS112
            "192.52.193.0/24",  # AMT
            "192.175.48.0/24",  # AS112
        ),
    )
)
_UNICAST_6 = ipaddress.IPv6Network("2000::/3")
_REFUSED_6 = tuple(
    map(
        ipaddress.IPv6Network,
        (
            "2001::/23",  # protocol assignments; Teredo wraps IPv4
            *("2001:db8::/32", "3fff::/20"),  # documentation
            "2002::/16",  # 6to4 wraps IPv4
            "2620:4f:8000::/48",  # AS112
        ),
    )
)
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")

_MAX_ADDRESSES = 32
_NUMERIC = re.compile(r"(0x[0-9a-f]*|[0-9]+)", re.IGNORECASE)


def networks(texts: Sequence[str]) -> tuple[Network, ...]:
    """Networks of their usual notation. Raises `UsageError` for what is none."""
    found: list[Network] = []
    for text in texts:
        try:
            found.append(ipaddress.ip_network(text))
        except ValueError as error:
            raise UsageError(f"allowed_networks: {error}; write 10.0.0.0/8 or ::1/128") from None
    return tuple(found)


def allowed(address: Address, extra: Sequence[Network] = ()) -> bool:
    """Whether the host may connect to `address`: public, or in one of `extra`."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id is not None:
            return False
        if address.ipv4_mapped is not None:
            return allowed(address.ipv4_mapped, extra)
        if address in _NAT64:
            # What a network without IPv4 makes of every public address; and of every other.
            return allowed(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF), extra)
    if any(address.version == network.version and address in network for network in extra):
        return True
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in _REFUSED_4)
    return address in _UNICAST_6 and not any(address in network for network in _REFUSED_6)


async def resolve(host: str, port: int, extra: Sequence[Network] = ()) -> list[Address]:
    """Every address of `host`, all of them allowed.

    Args:
        host: Name or address, as a URL has it, without brackets.
        port: Asked for along with it.
        extra: Networks allowed beside the public ones.

    Raises:
        ToolError: ``address_refused`` if one may not be connected to; ``not_found`` if there is
            none.
    """
    literal = _literal(host)
    if literal is not None:
        found = [literal]
    else:
        try:
            answers = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            msg = f"there is no host {host!r}, or it cannot be looked up now"
            raise ToolError(msg, code="not_found", retryable=True) from None
        found = [ipaddress.ip_address(answer[4][0]) for answer in answers]
    found = list(dict.fromkeys(found))[:_MAX_ADDRESSES]
    if not found or not all(allowed(address, extra) for address in found):
        msg = (
            f"{host!r} is not on the public network (or is, besides, somewhere else); only public "
            "addresses may be fetched. The application can allow others with allowed_networks=[...]"
        )
        raise ToolError(msg, code="address_refused")
    return found


def _literal(host: str) -> Address | None:
    """`host` as an address; None if it is a name.

    Raises:
        ToolError: If it is one of the other spellings of an IPv4 address that C libraries take:
            ``2130706433``, ``0x7f.1``, ``0177.0.0.1``.
    """
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        pass
    last = host.rstrip(".").rpartition(".")[2]
    if _NUMERIC.fullmatch(last) or ":" in host or "%" in host:
        msg = f"{host!r} is no name and no address in its usual form"
        raise ToolError(msg, code="address_refused")
    return None
