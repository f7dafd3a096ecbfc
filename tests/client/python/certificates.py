"""Certificates for tests, made by the program openssl."""

from __future__ import annotations

import pathlib
import subprocess

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc")


class Authority:
    """An authority that signs certificates; its own is the file `certificate`."""

    def __init__(self, folder: pathlib.Path, name: str) -> None:
        self._folder = folder
        self._name = name
        self.certificate = folder / f"{name}.crt"
        self._key = folder / f"{name}.key"
        _openssl(
            *("req", "-x509", *_KEY, "-days", "2", "-subj", f"/CN={name}"),
            *("-keyout", self._key, "-out", self.certificate),
            *("-addext", "keyUsage=critical,keyCertSign"),
        )

    def issue(self, subject: str, names: str) -> tuple[pathlib.Path, pathlib.Path]:
        """A certificate and its key, in PEM.

        Args:
            subject: Its common name.
            names: What else it is for, as openssl writes it: "DNS:localhost,IP:127.0.0.1".
        """
        start = self._folder / f"{self._name}-{subject}"
        request, extensions = start.with_suffix(".csr"), start.with_suffix(".ext")
        certificate, key = start.with_suffix(".crt"), start.with_suffix(".key")
        extensions.write_text(f"subjectAltName={names}\nbasicConstraints=CA:FALSE\n")
        _openssl("req", *_KEY, "-subj", f"/CN={subject}", "-keyout", key, "-out", request)
        _openssl(
            *("x509", "-req", "-in", request, "-out", certificate, "-days", "2"),
            *("-CA", self.certificate, "-CAkey", self._key, "-CAcreateserial"),
            *("-extfile", extensions),
        )
        return certificate, key


def dated(folder: pathlib.Path, start: str, end: str) -> tuple[pathlib.Path, pathlib.Path]:
    """A self-signed certificate for "localhost" and its key, in PEM.

    Args:
        folder: Where to put it; empty.
        start: From when on it is valid, as "20200101000000Z".
        end: Until when.
    """
    (folder / "index.txt").touch()
    (folder / "openssl.cnf").write_text(
        f"[ca]\ndefault_ca=here\n[here]\ndatabase={folder}/index.txt\nnew_certs_dir={folder}\n"
        "default_md=sha256\nrand_serial=yes\npolicy=any\n[any]\ncommonName=supplied\n"
        "[names]\nsubjectAltName=DNS:localhost\n"
    )
    certificate, key, request = (folder / f"dated.{ending}" for ending in ("crt", "key", "csr"))
    _openssl("req", *_KEY, "-subj", "/CN=localhost", "-keyout", key, "-out", request)
    _openssl(
        *("ca", "-batch", "-selfsign", "-config", folder / "openssl.cnf", "-keyfile", key),
        *("-in", request, "-out", certificate, "-notext", "-extensions", "names"),
        *("-startdate", start, "-enddate", end),
    )
    return certificate, key


def _openssl(*arguments: str | pathlib.Path) -> None:
    done = subprocess.run(["openssl", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
