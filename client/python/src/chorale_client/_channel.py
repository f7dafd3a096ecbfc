"""Channels to a server: options, certificates, tokens, and why a connection fails."""

from __future__ import annotations

import os
import re
import socket
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from chorale_client._address import is_loopback, parse_address
from chorale_client._errors import (
    ChoraleError,
    InvalidArgumentError,
    UnauthenticatedError,
    UnavailableError,
    from_rpc,
)
from chorale_client._retry import Retry, check_timeout

Pem = bytes | str | os.PathLike[str]
Metadata = tuple[tuple[str, str | bytes], ...]

HEALTH_METHOD = "/grpc.health.v1.Health/Check"
CLOSED = "this client was closed: call chorale_client.connect() again"
RETRY_CONNECT_SECONDS = 0.05
_MAX_CONTEXT_BYTES = 256
_OPTIONS: list[tuple[str, Any]] = [
    # Channels with the same options would share one connection.
    ("grpc.use_local_subchannel_pool", 1),
    # This detects a dead connection within 80 s, at a ping rate that servers and proxies accept.
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    # By default gRPC waits up to two minutes between attempts.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 5_000),
    # This package retries; gRPC's own retries would multiply the attempts.
    ("grpc.enable_retries", 0),
    ("grpc.max_receive_message_length", 64 << 20),
]


@dataclass(frozen=True)
class Tls:
    """Certificates for an encrypted connection, as PEM bytes or as the path of a PEM file.

    Attributes:
        root_certificates: The authorities that the client trusts; None: those of the system.
        client_certificate: The certificate that identifies the caller; None: no certificate.
        client_key: The private key of `client_certificate`.

    Examples:
        >>> tls = chorale_client.Tls(root_certificates="ca.pem")
        >>> client = chorale_client.connect("chorale.example.com:443", tls=tls)
    """

    root_certificates: Pem | None = None
    client_certificate: Pem | None = None
    client_key: Pem | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Settings:
    """The arguments of `connect`, as the caller gave them."""

    address: str | None
    tls: bool | Tls | None
    token: str | None = field(repr=False)
    timeout: float
    connect_timeout: float
    retry: Retry

    def __post_init__(self) -> None:
        check_timeout(self.timeout)


@dataclass(frozen=True)
class Endpoint:
    """The server to connect to.

    Attributes:
        target: The address for gRPC.
        tls: The certificates; None without encryption.
        metadata: The metadata of every call: the token.
    """

    target: str
    tls: Tls | None
    metadata: Metadata = field(repr=False)

    @classmethod
    def of(cls, settings: Settings) -> Endpoint:
        """Finds the server: the given address, $CHORALE_SERVER, or the user's own server."""
        text = find_address(settings.address)
        address = parse_address(text)
        tls: Tls | None = settings.tls if isinstance(settings.tls, Tls) else None
        if settings.tls is True or (settings.tls is None and address.tls):
            tls = Tls()
        if tls is not None and address.tls is False:
            raise InvalidArgumentError(
                f"the server's address {text!r} has a scheme without encryption, but TLS is "
                "requested"
            )
        if settings.tls is False and address.tls:
            raise InvalidArgumentError(
                f"the server's address {text!r} requires encryption, but tls=False"
            )
        metadata: Metadata = ()
        if settings.token:
            _check_token(settings.token, address.target, encrypted=tls is not None)
            metadata = (("authorization", f"Bearer {settings.token}"),)
        return cls(address.target, tls, metadata)

    def options(self) -> list[tuple[str, Any]]:
        """Returns the options of a channel."""
        if is_loopback(self.target):
            # Otherwise, gRPC sends even these calls, and the token, through an HTTP proxy.
            return [*_OPTIONS, ("grpc.enable_http_proxy", 0)]
        return list(_OPTIONS)

    def credentials(self) -> grpc.ChannelCredentials | None:
        """Returns the credentials of a channel; None without encryption."""
        if self.tls is None:
            return None
        return grpc.ssl_channel_credentials(
            root_certificates=_pem(self.tls.root_certificates),
            private_key=_pem(self.tls.client_key),
            certificate_chain=_pem(self.tls.client_certificate),
        )

    def metadata_about(self, context: str) -> Metadata:
        """Returns the metadata of a call about a context; proxies route by the context's name."""
        fits = context.isascii() and context.isprintable() and len(context) <= _MAX_CONTEXT_BYTES
        if context and fits and context.strip() == context:
            return (*self.metadata, ("chorale-context", context))
        return self.metadata

    def _has_proxy(self) -> bool:
        """Whether gRPC connects through a proxy of the environment, by gRPC's rules."""
        if is_loopback(self.target) or not _first_set("grpc_proxy", "https_proxy", "http_proxy"):
            return False
        host = self.target.rpartition(":")[0].lower()
        entries = _first_set("no_grpc_proxy", "no_proxy").lower().split(",")
        return not any(entry.strip() and host.endswith(entry.strip()) for entry in entries)

    def _why_not_trusted(self) -> str:
        """What a TLS connection of its own says of the certificate: gRPC keeps that to itself."""
        unknown = (
            "is not trusted: it has expired, is not valid yet, or is not signed by an authority "
            "that this client trusts: give the authority by tls=Tls(root_certificates=...)"
        )
        if self._has_proxy():
            return unknown  # without the proxy it would be another server that answers
        host, _, port = self.target.rpartition(":")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.set_alpn_protocols(["h2"])
        reason = ""
        try:
            roots = _pem(self.tls.root_certificates) if self.tls is not None else None
            if roots is None:
                context.load_default_certs()
            else:
                context.load_verify_locations(cadata=roots.decode())
            with (
                socket.create_connection((host.strip("[]"), int(port)), timeout=2) as connection,
                context.wrap_socket(connection),
            ):
                pass
        except ssl.SSLCertVerificationError as error:
            reason = error.verify_message
        except (OSError, ValueError):
            pass  # the certificates or the address are for gRPC alone to understand
        if "expired" in reason:
            return (
                "has expired, or one that leads to its root has, or this machine's clock is wrong"
            )
        if "not yet valid" in reason:
            return "is not valid yet, or this machine's clock is wrong"
        if not reason:
            return unknown
        known = "issuer" in reason or "self-signed" in reason.replace(" ", "-")
        return (
            "is not signed by an authority that this client trusts, or the server does not send "
            "those in between: give the authority by tls=Tls(root_certificates=...)"
            if known
            else f"is not trusted: {reason}"
        )

    def failure(self, error: grpc.RpcError) -> ChoraleError | None:
        """Why a call that asked whether the server is there failed; None if it is there."""
        code, message = error.code(), error.details() or ""
        if code is grpc.StatusCode.DEADLINE_EXCEEDED:
            return UnavailableError(f"no server at {self.target}: no answer")
        if code is not grpc.StatusCode.UNAVAILABLE:
            return None
        if "certificate verify failed" in message or "CERTIFICATE_VERIFY_FAILED" in message:
            return UnauthenticatedError(
                f"the certificate of the server at {self.target} {self._why_not_trusted()}"
            )
        if "is not in peer certificate" in message or "Hostname Verification" in message:
            return UnauthenticatedError(
                f"the certificate of the server at {self.target} is for another name: use the "
                "name in the certificate"
            )
        if "wrong version number" in message.lower() or "WRONG_VERSION_NUMBER" in message:
            return UnauthenticatedError(f"the server at {self.target} does not speak TLS")
        if self.tls is not None and "create security handshaker" in message:
            return InvalidArgumentError("the certificates or the key for TLS are not valid PEM")
        ssl_error = re.search(r"SSL_ERROR_SSL: (.*?)(: |$)", message)
        if ssl_error is not None:
            return UnauthenticatedError(
                f"the server at {self.target} and this client do not agree on TLS: "
                f"{ssl_error.group(1)}"
            )
        hint = ""
        if "Socket closed" in message:
            if self.tls is None:
                hint = "; it may require TLS: connect with tls=True"
            elif self.tls.client_certificate is None:
                hint = "; it may require a client certificate"
            else:
                hint = "; it may not accept this client's certificate, which may have expired"
        return UnavailableError(
            f"no server at {self.target}: {message.rpartition(': ')[2] or message}{hint}"
        )


def find_address(given: str | None) -> str:
    """Returns the given address, $CHORALE_SERVER, or the address of the user's own server."""
    address = given or os.environ.get("CHORALE_SERVER")
    if address:
        return address
    from chorale_client._server_process import shared_address  # some systems do not support it

    return shared_address()


def _first_set(*names: str) -> str:
    """The value of the first of these variables that is set and not empty."""
    return next((value for name in names if (value := os.environ.get(name))), "")


def read_error(error: grpc.RpcError, timeout: float) -> ChoraleError:
    """Returns the exception for a failed call."""
    details = None
    metadata: Any = error.trailing_metadata()
    for key, value in metadata or ():
        if key == "grpc-status-details-bin":
            details = value
    return from_rpc(error.code(), error.details(), details, timeout)


def _check_token(token: str, target: str, *, encrypted: bool) -> None:
    if token.lower().startswith("bearer "):
        raise InvalidArgumentError('token: omit the word "Bearer", which is not part of the token')
    if not (token.isascii() and token.isprintable() and " " not in token):
        raise InvalidArgumentError("token: must be printable ASCII without spaces")
    if not encrypted and not is_loopback(target):
        raise InvalidArgumentError(
            f"token: not sent to {target} without encryption; connect with tls=True"
        )


def _pem(value: Pem | None) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return Path(value).read_bytes()
