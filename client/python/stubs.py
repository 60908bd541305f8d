"""Generates the Python stubs of the contract: foreshock/v1/*_pb2.py and *_pb2_grpc.py.

    stubs.py OUT_DIR        # writes OUT_DIR/foreshock/v1/

Used by setup.py and by the tests' build; the stubs are never committed. Takes protoc and
grpc_python_plugin from PATH (Debian: protobuf-compiler, protobuf-compiler-grpc) where grpcio-tools
is not installed.
"""

from __future__ import annotations

import importlib.util
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PROTO_DIR = HERE.parent.parent / "proto"
NAMES = ("types", "errors", "ingest", "capture", "query")
WITH_SERVICES = ("ingest", "query")


def version() -> str:
    return (HERE.parent.parent / "VERSION").read_text().strip()


def compiler() -> list[str]:
    if importlib.util.find_spec("grpc_tools") is not None:
        return [sys.executable, "-m", "grpc_tools.protoc"]
    protoc, plugin = shutil.which("protoc"), shutil.which("grpc_python_plugin")
    if protoc is None or plugin is None:
        raise FileNotFoundError(
            "making the stubs needs grpcio-tools, or protoc and grpc_python_plugin on PATH "
            "(Debian: apt-get install protobuf-compiler protobuf-compiler-grpc)"
        )
    return [protoc, f"--plugin=protoc-gen-grpc_python={plugin}"]


def generate(out: pathlib.Path) -> None:
    """Writes the stubs into `out`/foreshock/v1, and an __init__.py beside them."""
    out.mkdir(parents=True, exist_ok=True)
    paths = {name: str(PROTO_DIR / f"foreshock/v1/{name}.proto") for name in NAMES}
    command = [*compiler(), f"--proto_path={PROTO_DIR}"]
    subprocess.run([*command, f"--python_out={out}", *paths.values()], check=True)
    services = [paths[name] for name in WITH_SERVICES]
    subprocess.run([*command, f"--grpc_python_out={out}", *services], check=True)
    (out / "foreshock/v1/__init__.py").write_text(
        f'"""Generated from proto/foreshock/v1."""\n\nVERSION = "{version()}"\n'
    )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    generate(pathlib.Path(sys.argv[1]))
