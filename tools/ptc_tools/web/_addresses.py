"""The network boundary: the addresses to which a fetch may connect.

Rule 1: Only public unicast addresses, unless a network is allowed explicitly, in every notation
    and wrapping of an address. (test_an_address_that_is_not_public_is_refused)
Rule 2: The host connects to the address that was checked: a name is resolved once, and all of its
    addresses must be allowed. (test_dns_rebinding_cannot_change_the_checked_address,
    test_name_with_any_private_address_is_refused)
Rule 3: A refusal does not reveal the address of a name.
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

__all__ = ["Address", "Network", "is_allowed", "networks", "resolve"]

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

# The IANA special-purpose registries, listed here because `is_global` differs between versions of
# Python, and public addresses that belong to a cloud's own services.
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
    """Parse networks in CIDR notation. Raises `UsageError` for an invalid one."""
    found: list[Network] = []
    for text in texts:
        try:
            found.append(ipaddress.ip_network(text))
        except ValueError as error:
            raise UsageError(f"allowed_networks: {error}; write 10.0.0.0/8 or ::1/128") from None
    return tuple(found)


def is_allowed(address: Address, extra: Sequence[Network] = ()) -> bool:
    """True if the host may connect to `address`: it is public, or in one of `extra`."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id is not None:
            return False
        if address.ipv4_mapped is not None:
            return is_allowed(address.ipv4_mapped, extra)
        if address in _NAT64:
            # NAT64 wraps every IPv4 address, public or not.
            return is_allowed(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF), extra)
    if any(address.version == network.version and address in network for network in extra):
        return True
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in _REFUSED_4)
    return address in _UNICAST_6 and not any(address in network for network in _REFUSED_6)


async def resolve(host: str, port: int, extra: Sequence[Network] = ()) -> list[Address]:
    """Resolve `host` to its addresses, all of which are allowed.

    Args:
        host: Name or address as in a URL, without brackets.
        port: Port of the URL.
        extra: Networks allowed in addition to the public ones.

    Raises:
        ToolError: ``address_refused`` if one is not allowed; ``not_found`` if there is none.
    """
    literal = _literal(host)
    if literal is not None:
        found = [literal]
    else:
        try:
            answers = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            msg = f"host {host!r} does not exist, or cannot be resolved now"
            raise ToolError(msg, code="not_found", retryable=True) from None
        found = [ipaddress.ip_address(answer[4][0]) for answer in answers]
    found = list(dict.fromkeys(found))[:_MAX_ADDRESSES]
    if not found or not all(is_allowed(address, extra) for address in found):
        msg = (
            f"{host!r} has an address outside the public network; only public addresses may be "
            "fetched. The application can allow others with allowed_networks=[...]"
        )
        raise ToolError(msg, code="address_refused")
    return found


def _literal(host: str) -> Address | None:
    """Parse `host` as an address; None if it is a name.

    Raises:
        ToolError: If it is another notation of an IPv4 address that C libraries accept:
            ``2130706433``, ``0x7f.1``, ``0177.0.0.1``.
    """
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        pass
    last = host.rstrip(".").rpartition(".")[2]
    if _NUMERIC.fullmatch(last) or ":" in host or "%" in host:
        msg = f"{host!r} is neither a host name nor an address in standard notation"
        raise ToolError(msg, code="address_refused")
    return None
