"""What a client shows the daemon, and what it wants to see: files, never secrets themselves.

    ca_file      FORESHOCK_CA_FILE      PEM, who may sign the daemon's certificate; "system": the
                                        machine's authorities. Turns TLS on
    cert_file    FORESHOCK_CERT_FILE    PEM, this client's certificate, where the daemon wants one
    key_file     FORESHOCK_KEY_FILE     PEM, its key
    server_name  FORESHOCK_SERVER_NAME  the certificate's name, if it is not the server's host
    token_file   FORESHOCK_TOKEN_FILE   one line, of `foreshock token new`

Nothing given: no TLS and no token, which is enough for a daemon on loopback. The files are read
again for every new stream, so that what is rotated needs no restart of the training.
"""

from __future__ import annotations

import dataclasses
import os

import grpc

SYSTEM_AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"
FILE_BYTES_MAX = 1 << 20


class Unreadable(Exception):
    """A file of the credentials; the message names it and never what is in it."""


@dataclasses.dataclass(frozen=True)
class Secrets:
    """The content of the files."""

    ca: bytes | None = dataclasses.field(default=None, repr=False)
    cert: bytes | None = dataclasses.field(default=None, repr=False)
    key: bytes | None = dataclasses.field(default=None, repr=False)
    server_name: str = ""
    token: str = dataclasses.field(default="", repr=False)

    def channel(self, target: str, options: list[tuple[str, int | str]]) -> grpc.Channel:
        if self.ca is None:
            return grpc.insecure_channel(target, options=options)
        if self.server_name:
            options = [*options, ("grpc.ssl_target_name_override", self.server_name)]
        credentials = grpc.ssl_channel_credentials(self.ca, self.key, self.cert)
        return grpc.secure_channel(target, credentials, options=options)

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Of a call."""
        return (("authorization", f"Bearer {self.token}"),) if self.token else ()


@dataclasses.dataclass(frozen=True)
class Credentials:
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    server_name: str = ""
    token_file: str = ""

    @staticmethod
    def of(
        ca_file: str | None = None,
        cert_file: str | None = None,
        key_file: str | None = None,
        server_name: str | None = None,
        token_file: str | None = None,
    ) -> Credentials:
        """What is absent comes from the environment.

        Raises:
            ValueError: for what can never work: a certificate without its key or without TLS.
        """
        env = os.environ
        found = Credentials(
            ca_file or env.get("FORESHOCK_CA_FILE", ""),
            cert_file or env.get("FORESHOCK_CERT_FILE", ""),
            key_file or env.get("FORESHOCK_KEY_FILE", ""),
            server_name or env.get("FORESHOCK_SERVER_NAME", ""),
            token_file or env.get("FORESHOCK_TOKEN_FILE", ""),
        )
        if bool(found.cert_file) != bool(found.key_file):
            raise ValueError("cert_file and key_file are given both or not")
        if found.cert_file and not found.ca_file:
            raise ValueError(
                "cert_file is given without ca_file, which turns TLS on; allowed: a file, or "
                "'system' for the machine's authorities"
            )
        return found

    def read(self) -> Secrets:
        """Raises Unreadable."""
        ca_file = SYSTEM_AUTHORITIES if self.ca_file == "system" else self.ca_file
        return Secrets(
            _read("CA file", ca_file),
            _read("certificate file", self.cert_file),
            _read("key file", self.key_file),
            self.server_name,
            _token(_read("token file", self.token_file), self.token_file),
        )


def _read(what: str, path: str) -> bytes | None:
    if not path:
        return None
    try:
        with open(path, "rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise Unreadable(f"{what} {path}: {error.strerror}") from None
    if not content or len(content) > FILE_BYTES_MAX:
        raise Unreadable(f"{what} {path}: empty, or more than 1 MiB")
    return content


def _token(content: bytes | None, path: str) -> str:
    if content is None:
        return ""
    token = content.strip()
    if not token or not all(0x20 < byte < 0x7F for byte in token):
        raise Unreadable(f"token file {path}: allowed is one token on one line")
    return token.decode("ascii")
