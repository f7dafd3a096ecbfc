"""The address of a server as users write it."""

from __future__ import annotations

import chorale_client
import pytest
from chorale_client._address import Address, is_loopback, parse_address


@pytest.mark.parametrize(
    ("text", "target", "tls"),
    [
        ("localhost:50051", "localhost:50051", None),
        (" Example.ORG:1 ", "example.org:1", None),
        ("[::1]:50051", "[::1]:50051", None),
        ("unix:/run/chorale", "unix:/run/chorale", None),
        ("dns:///a:1", "a:1", None),
        ("ipv4:127.0.0.1:1", "127.0.0.1:1", None),
        ("dns://8.8.8.8/a:1", "dns://8.8.8.8/a:1", None),
        ("ipv4:1.1.1.1:1,1.1.1.2:1", "ipv4:1.1.1.1:1,1.1.1.2:1", None),
        ("https://a", "a:443", True),
        ("https://[::1]", "[::1]:443", True),
        ("HTTPS://a:8443/", "a:8443", True),
        ("grpcs://a:1", "a:1", True),
        ("http://a:1", "a:1", False),
    ],
)
def test_addresses(text: str, target: str, tls: bool | None) -> None:
    assert parse_address(text) == Address(target, tls)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("localhost", "has no port .example: localhost:50051"),
        ("http://a", "has no port"),
        ("a:0", "has the invalid port '0'"),
        ("a:65536", "has the invalid port"),
        ("a:x", "has the invalid port 'x'"),
        (":1", "has no host"),
        ("::1:50051", "without brackets"),
        ("a b:1", "has an invalid host"),
        ("ftp://a:1", "scheme 'ftp'"),
        ("https://a/path", "has a path"),
    ],
)
def test_what_is_no_address(text: str, message: str) -> None:
    with pytest.raises(chorale_client.InvalidArgumentError, match=message) as caught:
        parse_address(text)
    assert "expected HOST:PORT" in str(caught.value)


def test_loopback() -> None:
    for target in ("127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "localhost:1", "unix:/a"):
        assert is_loopback(target)
    for target in (
        "10.0.0.1:1",
        "example.org:1",
        "localhost.example.org:1",
        "[::2]:1",
        "a",
    ):
        assert not is_loopback(target)
