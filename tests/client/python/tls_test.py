"""Encryption, tokens and certificates of clients, with a real server."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import pathlib
import pickle
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import chorale_client
import chorale_client.aio
import numpy as np
import pytest
from certificates import Authority, dated
from chorale_client import serve
from own_server import make_bundle

TABLE = {"x": np.arange(20.0), "y": np.arange(20.0) * 2 + 1}
ROWS = {"x": [3.5, 4.5]}
TENANTS = """
tenants:
  acme:
    certificates:
      - {subject: "CN=trainer", role: register}
"""


@dataclass(frozen=True)
class Secured:
    """A server with TLS, which knows tokens and certificates.

    Attributes:
        port: On this machine. The certificate is for the name "localhost", not for 127.0.0.1.
        authority: Has signed its certificate, and the caller's.
        stranger: Another one.
        certificate: Of a caller that the server knows.
        key: Its key.
    """

    port: str
    authority: Authority
    stranger: Authority
    certificate: pathlib.Path
    key: pathlib.Path

    @property
    def address(self) -> str:
        return f"localhost:{self.port}"


def token_line(token: str, role: str) -> str:
    return f"{token} {hashlib.sha256(token.encode()).hexdigest()} acme {role}\n"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("tls")
    authority, stranger = Authority(folder, "authority"), Authority(folder, "stranger")
    certificate, key = authority.issue("server", "DNS:localhost")
    trainer, trainer_key = authority.issue("trainer", "DNS:trainer.example")
    (folder / "tokens").write_text(token_line("writer", "register") + token_line("reader", "read"))
    (folder / "tenants").write_text(TENANTS)
    flags = [
        "--backend=cpu",
        f"--tls_certificate={certificate}",
        f"--tls_key={key}",
        f"--tls_client_ca={authority.certificate}",
        f"--token_file={folder / 'tokens'}",
        f"--tenant_file={folder / 'tenants'}",
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CHORALE_SERVER_BUNDLE", str(make_bundle(folder / "bundle")))
        with serve(folder / "data", address="127.0.0.1:0", flags=flags) as server:
            port = server.address.rpartition(":")[2]
            yield Secured(port, authority, stranger, trainer, trainer_key)


def connect(
    secured: Secured, tls: chorale_client.Tls | None = None, token: str | None = "writer"
) -> chorale_client.Client:
    tls = tls or chorale_client.Tls(root_certificates=secured.authority.certificate)
    return chorale_client.connect(secured.address, tls=tls, token=token, connect_timeout=300)


def test_calls_with_a_token(secured: Secured) -> None:
    with connect(secured) as client:
        context = client.register(TABLE, target="y", name="by-token")
        samples = context.sample(ROWS, paths=10, seed=1)
        assert samples.values.shape == (10, 2)
        again = pickle.loads(pickle.dumps(context)).sample(ROWS, paths=10, seed=1)
        np.testing.assert_array_equal(samples.values, again.values)
    with connect(secured, token="reader") as reader:
        same = reader.context("by-token").sample(ROWS, paths=10, seed=1)
        np.testing.assert_array_equal(samples.values, same.values)
        with pytest.raises(chorale_client.PermissionDeniedError, match="role"):
            reader.delete("by-token")


def test_asyncio_and_certificates_as_bytes(secured: Secured) -> None:
    tls = chorale_client.Tls(root_certificates=secured.authority.certificate.read_bytes())

    async def ask() -> chorale_client.Samples:
        address = f"https://{secured.address}"
        async with chorale_client.aio.connect(
            address, tls=tls, token="writer", connect_timeout=300
        ) as client:
            context = await client.register(TABLE, target="y", name="by-asyncio")
            return await context.sample(ROWS, paths=10, seed=1)

    assert asyncio.run(ask()).values.shape == (10, 2)


def test_the_certificate_of_a_client_says_who_calls(secured: Secured) -> None:
    tls = chorale_client.Tls(secured.authority.certificate, secured.certificate, secured.key)
    with connect(secured, tls, token=None) as client:
        assert client.register(TABLE, target="y", name="by-certificate").row_count == 20
    with connect(secured) as client:  # of the same tenant
        assert client.context("by-certificate").row_count == 20


@pytest.mark.parametrize(
    ("start", "end", "reason"),
    [
        ("20200101000000Z", "20200201000000Z", "has expired"),
        ("20900101000000Z", "20900201000000Z", "is not valid yet, or this machine's clock"),
    ],
)
def test_a_certificate_whose_dates_are_wrong(
    tmp_path: pathlib.Path, start: str, end: str, reason: str
) -> None:
    certificate, key = dated(tmp_path, start, end)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.set_alpn_protocols(["h2"])

    def refuse() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with contextlib.suppress(OSError), context.wrap_socket(connection, True):
                    pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=refuse)
        thread.start()
        tls = chorale_client.Tls(root_certificates=certificate)
        with pytest.raises(chorale_client.UnauthenticatedError, match=reason):
            chorale_client.connect(f"localhost:{listener.getsockname()[1]}", tls=tls)
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_callers_that_are_not_known(secured: Secured) -> None:
    for token in (None, "guessed"):
        with (
            connect(secured, token=token) as client,
            pytest.raises(chorale_client.UnauthenticatedError, match="token"),
        ):
            client.contexts()


def test_an_authority_that_has_not_signed(secured: Secured) -> None:
    with pytest.raises(
        chorale_client.UnauthenticatedError, match="not signed by an authority"
    ) as caught:
        connect(secured, chorale_client.Tls(root_certificates=secured.stranger.certificate))
    assert f"localhost:{secured.port}" in str(caught.value)
    assert "root_certificates=" in str(caught.value)
    with pytest.raises(chorale_client.UnauthenticatedError, match="not signed by an authority"):
        # Those of the system have not either.
        chorale_client.connect(f"https://{secured.address}", connect_timeout=300)

    async def ask() -> None:
        tls = chorale_client.Tls(root_certificates=secured.stranger.certificate)
        async with chorale_client.aio.connect(secured.address, tls=tls, connect_timeout=300):
            pass

    with pytest.raises(chorale_client.UnauthenticatedError, match="not signed by an authority"):
        asyncio.run(ask())


def test_a_certificate_for_another_name(secured: Secured) -> None:
    tls = chorale_client.Tls(root_certificates=secured.authority.certificate)
    with pytest.raises(chorale_client.UnauthenticatedError, match="for another name"):
        chorale_client.connect(f"127.0.0.1:{secured.port}", tls=tls, connect_timeout=300)


def test_without_encryption(secured: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    # So that it says it at once.
    monkeypatch.setattr("chorale_client._connection.RETRY_CONNECT_SECONDS", 300.0)
    with pytest.raises(chorale_client.UnavailableError, match="may require TLS"):
        chorale_client.connect(secured.address, tls=False, connect_timeout=300)
