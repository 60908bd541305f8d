"""The contract's Python stubs, generated for one test run and never committed.

    v1 = contract.load()
    stub = v1.ingest_grpc.IngestServiceStub(channel)
    hello = v1.ingest.Hello(run="demo")
"""

import importlib
import pathlib
import shutil
import subprocess
import sys
import tempfile
import types

ROOT = pathlib.Path(__file__).resolve().parents[3]


def load():
    """Modules types, ingest, query, admin and ingest_grpc, query_grpc, admin_grpc."""
    out = tempfile.mkdtemp(prefix="foreshock_stubs_")
    try:
        protos = sorted((ROOT / "proto/foreshock/v1").glob("*.proto"))
        plugin = shutil.which("grpc_python_plugin")
        subprocess.run(
            ["protoc", f"--proto_path={ROOT / 'proto'}", f"--python_out={out}",
             f"--plugin=protoc-gen-grpc={plugin}", f"--grpc_out={out}", *map(str, protos)],
            check=True)
        sys.path.insert(0, out)
        loaded = types.SimpleNamespace()
        for name in ("types", "ingest", "query", "admin"):
            setattr(loaded, name, importlib.import_module(f"foreshock.v1.{name}_pb2"))
        for name in ("ingest", "query", "admin"):
            setattr(loaded, f"{name}_grpc", importlib.import_module(f"foreshock.v1.{name}_pb2_grpc"))
        return loaded
    finally:
        if out in sys.path:
            sys.path.remove(out)
        shutil.rmtree(out, ignore_errors=True)
