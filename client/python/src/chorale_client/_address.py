"""The address of a server as users write it."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from chorale_client._errors import InvalidArgumentError

_EXPECTED = "expected HOST:PORT, [IPV6]:PORT, unix:PATH or https://HOST"
# Forms of gRPC, which are passed to it unchanged.
_OTHER_FORMS = (
    "unix:", "unix-abstract:", "vsock:", "xds:", "dns:", "ipv4:", "ipv6:", "xds-experimental:",
    "google-c2p:",
)  # fmt: skip


@dataclass(frozen=True)
class Address:
    """An address for gRPC; `tls` is None if the address does not specify it."""

    target: str
    tls: bool | None = None


def _refuse(text: str, why: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"the server's address {text!r} {why}: {_EXPECTED}")


def parse_address(text: str) -> Address:
    """Parses HOST:PORT, [IPV6]:PORT, unix:PATH, a URL without a path, or another form of gRPC.

    https:// without a port means port 443. A host without a port is rejected; gRPC would use 443.
    """
    rest = _without_form(text.strip())
    if not rest:
        raise InvalidArgumentError(f"the server's address is empty: {_EXPECTED}")
    if rest.startswith(_OTHER_FORMS):
        return Address(rest)
    scheme, found, after = rest.partition("://")
    if not found:
        return Address(_host_and_port(rest, text, default_port=None))
    tls = {"https": True, "grpcs": True, "http": False, "grpc": False, "tcp": False}.get(
        scheme.lower()
    )
    if tls is None:
        raise _refuse(text, f"has the unknown scheme {scheme!r}")
    after = after.removesuffix("/")
    if "/" in after:
        raise _refuse(text, "has a path, which gRPC does not support")
    default_port = "443" if scheme.lower() == "https" else None
    return Address(_host_and_port(after, text, default_port), tls)


def _without_form(text: str) -> str:
    """Removes gRPC's "dns:", "ipv4:" or "ipv6:" if the rest is equivalent to HOST:PORT."""
    if "," in text:
        return text
    for form in ("dns:///", "dns:", "ipv4:", "ipv6:"):
        rest = text.removeprefix(form)
        if rest != text:
            return text if "/" in rest else rest
    return text


def _host_and_port(text: str, whole: str, default_port: str | None) -> str:
    host, colon, port = text.rpartition(":")
    if not colon or "]" in port:
        host, port = text, ""
        if default_port is None and host:
            raise _refuse(whole, f"has no port (example: {host}:50051)")
        port = default_port or ""
    if not host:
        raise _refuse(whole, "has no host")
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        raise _refuse(whole, "is an IPv6 address without brackets")
    if any(mark in host for mark in " /@?#\\\t\r\n"):
        raise _refuse(whole, "has an invalid host")
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise _refuse(whole, f"has the invalid port {port!r}")
    return f"{host.lower()}:{port}"


def is_loopback(target: str) -> bool:
    """Whether the address can only refer to this machine."""
    if target.startswith("unix:"):
        return True
    host = target.rpartition(":")[0]
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
