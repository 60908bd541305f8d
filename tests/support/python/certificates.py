"""A certificate authority of a test's own, made by the openssl program.

    ca = Authority(directory, "ca")
    pair = ca.issue("daemon")            # pair.cert, pair.key
    gone = ca.issue("old", days=-1)      # expired
"""

import os
import pathlib
import subprocess
import typing

CURVE = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]


class Pair(typing.NamedTuple):
    cert: pathlib.Path
    key: pathlib.Path


class Authority:
    def __init__(self, directory, name):
        self.directory = pathlib.Path(directory)
        self.name = name
        self.cert = self.directory / f"{name}.pem"
        self.key = self.directory / f"{name}.key"
        _openssl("req", "-x509", *CURVE, "-days", "2", "-subj", f"/CN={name}",
                 "-keyout", self.key, "-out", self.cert)

    def issue(self, name, days=2, names="IP:127.0.0.1,DNS:localhost"):
        """A certificate for this machine's loopback, good for servers and clients."""
        pair = Pair(self.directory / f"{name}.pem", self.directory / f"{name}.key")
        request = self.directory / f"{name}.csr"
        extensions = self.directory / f"{name}.ext"
        extensions.write_text(f"subjectAltName={names}\n")
        _openssl("req", *CURVE, "-subj", f"/CN={name}", "-keyout", pair.key, "-out", request)
        _openssl("x509", "-req", "-in", request, "-CA", self.cert, "-CAkey", self.key,
                 "-CAcreateserial", "-days", str(days), "-extfile", extensions, "-out", pair.cert)
        return pair


def replace(pair, by):
    """Puts the files of `by` in the place of `pair`'s, the key a moment after the certificate."""
    for old, new in zip(pair, by):
        fresh = old.with_suffix(old.suffix + ".new")
        fresh.write_bytes(new.read_bytes())
        os.replace(fresh, old)


def _openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)
