"""Who speaks: run, launch, rank, place in the parallel grid. From arguments, else the environment.

Each is the argument if given, else, in this order, from:

    server            FORESHOCK_SERVER, 127.0.0.1:7317
    rank, world_size  torch.distributed if initialised, RANK and WORLD_SIZE, SLURM_PROCID and
                      SLURM_NTASKS, 0 and 1
    coordinates       FORESHOCK_COORDINATES ("data=3,tensor=1"), all ranks data-parallel
    launch_id         FORESHOCK_LAUNCH_ID, torchrun's run id, Slurm's job id,
                      MASTER_ADDR:MASTER_PORT, random for a single rank
"""

from __future__ import annotations

import os
import sys
import uuid
from typing import Any, Mapping, Sequence

from foreshock.v1 import VERSION
from foreshock.v1 import ingest_pb2 as ingest
from foreshock.v1 import types_pb2 as types

DEFAULT_SERVER = "127.0.0.1:7317"
COORDINATES = ("data", "tensor", "pipeline", "expert", "context")
ATTENTION_KINDS = {
    "": types.ATTENTION_KIND_UNSPECIFIED,
    "mha": types.ATTENTION_KIND_MHA,
    "gqa": types.ATTENTION_KIND_GQA,
    "mqa": types.ATTENTION_KIND_MQA,
    "mla": types.ATTENTION_KIND_MLA,
}
ROUTER_KINDS = {
    "": types.ROUTER_KIND_UNSPECIFIED,
    "softmax": types.ROUTER_KIND_SOFTMAX,
    "sigmoid": types.ROUTER_KIND_SIGMOID,
}


def server_address(server: str | None) -> str:
    """host:port. Raises ValueError if it cannot be one."""
    address = server or os.environ.get("FORESHOCK_SERVER") or DEFAULT_SERVER
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f"server is {address!r}; allowed: host:port, for example {DEFAULT_SERVER}")
    return address


def rank_and_world(rank: int | None, world_size: int | None) -> tuple[int, int]:
    if rank is None and world_size is None:
        found = _from_torch() or _from_environment("RANK", "WORLD_SIZE")
        rank, world_size = found or _from_environment("SLURM_PROCID", "SLURM_NTASKS") or (0, 1)
    rank = 0 if rank is None else rank
    world_size = rank + 1 if world_size is None else world_size
    if not 0 <= rank < world_size:
        raise ValueError(f"rank is {rank}; allowed: 0..{world_size - 1} (below world_size)")
    return rank, world_size


def _from_torch() -> tuple[int, int] | None:
    torch = sys.modules.get("torch")  # no import of its own: numpy-only users have none
    if torch is None or not torch.distributed.is_available():
        return None
    if not torch.distributed.is_initialized():
        return None
    return torch.distributed.get_rank(), torch.distributed.get_world_size()


def _from_environment(rank: str, world: str) -> tuple[int, int] | None:
    try:
        return int(os.environ[rank]), int(os.environ[world])
    except (KeyError, ValueError):
        return None


def coordinates_of(
    given: Mapping[str, int] | None, rank: int, world_size: int
) -> types.Coordinates:
    """Position in the parallel grid; without any word of it every rank is a data-parallel one."""
    if given is None and os.environ.get("FORESHOCK_COORDINATES"):
        given = _parse_coordinates(os.environ["FORESHOCK_COORDINATES"])
    if given is None:
        return types.Coordinates(data=rank)
    unknown = sorted(set(given) - set(COORDINATES))
    if unknown:
        raise ValueError(f"coordinates has {unknown}; allowed: {', '.join(COORDINATES)}")
    for name, value in given.items():
        if not 0 <= value < world_size:
            raise ValueError(f"coordinates: {name} is {value}; allowed: 0..{world_size - 1}")
    return types.Coordinates(**given)


def _parse_coordinates(text: str) -> dict[str, int]:
    try:
        return {k.strip(): int(v) for k, v in (part.split("=") for part in text.split(","))}
    except ValueError:
        raise ValueError(
            f"FORESHOCK_COORDINATES is {text!r}; allowed: for example data=3,tensor=1"
        ) from None


def launch_id_of(given: str | None, world_size: int) -> str:
    """The same on all ranks of a launch, another after a restart."""
    env = os.environ
    if given or env.get("FORESHOCK_LAUNCH_ID"):
        return given or env["FORESHOCK_LAUNCH_ID"]
    restart = env.get("TORCHELASTIC_RESTART_COUNT", "0")
    if env.get("TORCHELASTIC_RUN_ID", "none") != "none":
        return f"torchrun-{env['TORCHELASTIC_RUN_ID']}-{restart}"
    if env.get("SLURM_JOB_ID"):
        return f"slurm-{env['SLURM_JOB_ID']}-{env.get('SLURM_RESTART_COUNT', '0')}-{restart}"
    if world_size > 1 and env.get("MASTER_ADDR") and env.get("MASTER_PORT"):
        # All ranks on one machine have one parent, which a restart of the job replaces.
        here = env.get("LOCAL_WORLD_SIZE") == str(world_size)
        parent = f"-{os.getppid()}" if here else ""
        return f"{env['MASTER_ADDR']}:{env['MASTER_PORT']}-{restart}{parent}"
    if world_size > 1:
        raise ValueError(
            f"launch_id is not given, world_size is {world_size} and the environment names no "
            "launch; allowed: launch_id= or FORESHOCK_LAUNCH_ID, the same on all ranks"
        )
    return uuid.uuid4().hex


def model_shape(model: Mapping[str, Any] | types.ModelShape | None) -> types.ModelShape:
    """From {"layers": 24, "heads": 16, ..., "attention": "gqa", "router": "softmax"}."""
    if model is None or isinstance(model, types.ModelShape):
        return model or types.ModelShape()
    fields = dict(model)
    for name, kinds in (("attention", ATTENTION_KINDS), ("router", ROUTER_KINDS)):
        if fields.get(name, "") not in kinds:
            raise ValueError(f"model.{name} is {fields[name]!r}; allowed: {', '.join(kinds)}")
        fields[name] = kinds[fields.get(name, "")]
    try:
        return types.ModelShape(**fields)
    except (TypeError, ValueError) as error:
        allowed = ", ".join(types.ModelShape.DESCRIPTOR.fields_by_name)
        raise ValueError(f"model: {error}; allowed: {allowed}") from None


def make_hello(
    run: str,
    *,
    launch_id: str | None = None,
    client_instance: str | None = None,
    rank: int | None = None,
    world_size: int | None = None,
    coordinates: Mapping[str, int] | None = None,
    model: Mapping[str, Any] | types.ModelShape | None = None,
    plan: Sequence[ingest.PlanEntry] = (),
    labels: Mapping[str, str] | None = None,
    resume_step: int | None = None,
    parent_attempt: int | None = None,
) -> ingest.Hello:
    """The stream's first message. Raises ValueError naming the argument that is wrong."""
    if not run or len(run.encode()) > 256:
        raise ValueError(f"run is {run!r}; allowed: 1 to 256 bytes of text")
    rank, world_size = rank_and_world(rank, world_size)
    return ingest.Hello(
        run=run,
        launch_id=launch_id_of(launch_id, world_size),
        client_instance=client_instance or uuid.uuid4().hex,
        rank=rank,
        world_size=world_size,
        coordinates=coordinates_of(coordinates, rank, world_size),
        model=model_shape(model),
        plan=plan,
        parent_attempt=parent_attempt,
        resume_step=resume_step,
        client_version=f"foreshock-python/{VERSION}",
        labels={str(key): str(value) for key, value in (labels or {}).items()},
    )
