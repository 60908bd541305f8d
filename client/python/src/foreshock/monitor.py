"""Watches a model from inside the training process, without getting in its way.

    monitor = foreshock.watch(model, optimizer, run="exp-42")
    for step in range(first_step, steps):
        ...                                  # forward, backward, optimizer.step()
        monitor.step(step, loss=loss, grad_norm=grad_norm)
    monitor.close()

`step` does the sampling that is due and hands it over; a thread of its own turns it into reports
and another one sends them. Nothing here waits for the daemon, runs a collective or reads a value
from an accelerator. A failure inside is counted, said once in the log and never raised, unless
strict.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import numbers
import os
from typing import Any, Callable, Iterator, Mapping, Sequence, Union

import torch

from foreshock import device, lifetime, listening, payloads
from foreshock.client import OUTCOMES, Client
from foreshock.discovery import Found, discover
from foreshock.gradients import GradientNorms, Norms
from foreshock.identity import make_hello
from foreshock.log import Once, logger
from foreshock.logits import LogitSamples
from foreshock.pace import Pace
from foreshock.packer import Job, Packer, Part
from foreshock.recorder import Recorder
from foreshock.reports import STEP_MAX, Scalar, check_name
from foreshock.router_parts import router_parts
from foreshock.sampling import Sampling
from foreshock.sampling import load as load_sampling
from foreshock.sharding import coordinates_of, is_sharded
from foreshock.share import Share
from foreshock.sources import Sources
from foreshock.stats import ClientStats
from foreshock.taps import RouterTap
from foreshock.updates import Updates, before_step, describe
from foreshock.v1 import ingest_pb2 as ingest
from foreshock.weights import SpectrumSampler

__all__ = ["Monitor", "MonitorStats", "Sampling", "watch"]

LABELS_MAX = 32  # the contract's
SILENT_STEPS = 3  # after so many sampled steps without a router's forward something is said
# What a scalar is, besides its value.
_LAST = Scalar(0.0)
_SUM = Scalar(0.0, reduction="sum")
_MEAN = Scalar(0.0, reduction="mean")
_EACH_RANK = Scalar(0.0, reduction="mean", scope="rank")


@dataclasses.dataclass
class MonitorStats:
    steps: int = 0  # taken by Monitor.step
    steps_ignored: int = 0  # repeated, backwards or no step at all
    errors: int = 0  # inside the monitor; the first of each kind is in the log
    recomputed: int = 0  # router forwards of activation checkpointing that were not counted
    jobs_dropped: int = 0  # sampled steps that found the packing queue full
    jobs_waiting: int = 0
    last_error: str = ""
    watched: tuple[str, ...] = ()  # one line per layer: what is watched, or why not
    client: ClientStats = dataclasses.field(default_factory=ClientStats)

    @property
    def dropped(self) -> int:
        return self.jobs_dropped + self.client.dropped


def watch(
    model: Union[torch.nn.Module, Sequence[torch.nn.Module]],
    optimizer: Any = None,
    *,
    run: str,
    server: str | None = None,
    sampling: Union[None, Sampling, Mapping[str, Any], str, os.PathLike[str]] = None,
    patterns: Sequence[Any] | None = None,
    coordinates: Mapping[str, int] | None = None,
    labels: Mapping[str, str] | None = None,
    launch_id: str | None = None,
    resume_step: int | None = None,
    strict: bool = False,
    recorder: Recorder | None = None,
    rank: int | None = None,
    world_size: int | None = None,
    token_shard: int | None = None,
    gather: bool = False,
    **client_options: Any,
) -> Monitor:
    """Finds attention and MoE routers in `model` and starts to watch them.

    Args:
        model: the module of this rank, with or without a wrapper (DDP), or its pipeline chunks;
            weights must be there.
        optimizer: its learning rate is sent as `lr`; fp32 masters it keeps are read.
        run: the job's name.
        server: host:port; absent: FORESHOCK_SERVER, else 127.0.0.1:7317.
        sampling: see foreshock.sampling; a Sampling, a mapping or the path of a YAML file.
        patterns: foreshock.patterns entries that are tried before the built-in ones.
        coordinates: of this rank, {"data": 3, "tensor": 1}; absent: see foreshock.identity.
        launch_id: the same on all ranks of a launch; absent: see foreshock.identity.
        resume_step: the first step this launch will run, after a checkpoint was loaded.
        strict: raise what goes wrong inside instead of counting it; for tests.
        recorder: writes a capture instead of sending; with `server` given, does both.
        token_shard: which tokens this rank's routers see, where tensor-parallel ranks see others of
            their own (sequence parallelism): any number that is another for other tokens. Absent:
            tensor-parallel ranks route the same tokens, and tensor rank 0 sends them.
        gather: in the steps that sample weights the ranks that share a sharded weight (FSDP2,
            tensor parallelism) read it together, where a rank alone holds no whole heads; all of
            them must then call `step` for the same steps. The one thing here that is collective.
        client_options: further options of foreshock.Client.

    Raises:
        ValueError: an argument that is wrong, also when not strict: nothing has begun yet.
    """
    chosen = load_sampling(sampling)
    chunks = _chunks(model)
    whole = chunks[0] if len(chunks) == 1 else torch.nn.ModuleList(chunks)
    found = discover(whole, tuple(patterns or ()), gather)
    _warn_of_gaps(found, chosen, type(chunks[0]).__name__)
    own_steps = coordinates is None and not os.environ.get("FORESHOCK_COORDINATES")
    if own_steps:
        coordinates = _coordinates_of_meshes(chunks)
        own_steps = coordinates is None
    options: dict[str, Any] = dict(
        launch_id=launch_id,
        rank=rank,
        world_size=world_size,
        coordinates=coordinates,
        labels=_with_optimizer(labels or {}, optimizer),
        resume_step=resume_step,
        model=found.shape,
    )
    at = make_hello(run, **options).coordinates
    share = Share.of(at, token_shard)
    for line in found.lines:  # replicas have the same to say
        logger.log(logging.INFO if share.weights_first else logging.DEBUG, "%s", line)
    if not share.weights_first:
        logger.info("data rank %d, context rank %d: weights that other ranks hold as well are sent "
                    "by rank 0 of both", at.data, at.context)  # fmt: skip
    sources = Sources.of(found, chosen, optimizer, at.tensor, share, gather)
    options["plan"] = sources.plan(chosen)
    sinks: list[Union[Client, Recorder]] = []
    if recorder is not None:
        recorder.introduce(make_hello(run, **options))
        sinks.append(recorder)
    if recorder is None or server is not None:
        sinks.insert(0, Client(run, server, **options, **client_options))
    return Monitor(chunks, optimizer, found, chosen, sources, sinks, resume_step, strict, own_steps)


def _warn_of_gaps(found: Found, chosen: Sampling, model: str) -> None:
    """What one may expect to be sent of `model`, the name of its class, and is not."""
    if not found.attention and not found.routers:
        logger.warning(
            "found neither attention nor routers in %s: only what step() is given will be sent; "
            "name them with patterns= (foreshock.patterns)", model,
        )  # fmt: skip
    if chosen.router.coactivation_every > 0 and not any(r.top_k > 1 for r in found.routers):
        logger.warning(
            "router.coactivation_every is %d, but no router is known to choose two experts: no "
            "pairs will be sent; top_k= of foreshock.patterns says it",
            chosen.router.coactivation_every,
        )  # fmt: skip


def _chunks(model: Any) -> list[torch.nn.Module]:
    chunks = list(model) if isinstance(model, (list, tuple)) else [model]
    strange = [type(chunk).__name__ for chunk in chunks if not isinstance(chunk, torch.nn.Module)]
    if strange or not chunks:
        found = strange[0] if strange else "an empty list"
        raise ValueError(f"model is {found}; allowed: a torch.nn.Module, or a list of them")
    return chunks


def _with_optimizer(labels: Mapping[str, str], optimizer: Any) -> dict[str, str]:
    """The optimizer as a label of its own, unless one is given or the contract's 32 are used up."""
    described = describe(optimizer)
    room = len(labels) < LABELS_MAX and described
    return {**({"optimizer": described} if room else {}), **labels}


def _coordinates_of_meshes(chunks: Sequence[torch.nn.Module]) -> dict[str, int] | None:
    sharded = (p for chunk in chunks for p in chunk.parameters() if is_sharded(p))
    first = next(sharded, None)
    return None if first is None else coordinates_of(first.device_mesh)


class Monitor:
    """Made by `watch`. To be used from the training thread; `stats` and `close` from any."""

    def __init__(
        self,
        chunks: Sequence[torch.nn.Module],
        optimizer: Any,
        found: Found,
        sampling: Sampling,
        sources: Sources,
        sinks: Sequence[Union[Client, Recorder]],
        resume_step: int | None,
        strict: bool,
        own_steps: bool,
    ) -> None:
        """`own_steps`: no other rank holds a part of the same layers, so this one may choose when
        it samples them."""
        self.found = found
        self._optimizer = optimizer
        self._sampling = sampling
        self._sinks = sinks
        self._strict = strict
        self._stats = MonitorStats(watched=tuple(found.lines))
        self._once = Once(logging.WARNING)
        self._last_step = -1
        self._evaluating = False
        self._closed = False
        self._events: list[ingest.Summary] = []
        self._names: set[str] = set()  # of scalars, checked
        self._norms: Norms | None = None
        first = next((p for chunk in chunks for p in chunk.parameters()), torch.empty(0))
        self._device = device.of(first.device)
        self._several_ranks = sinks[0].hello.world_size > 1
        tensor = sinks[0].hello.coordinates.tensor
        self._share = share = sources.share
        self._first_heads = {a.layer: a.first_head(tensor) for a in found.attention}
        self._spectra = SpectrumSampler(sources.spectra, sampling.spectra)
        paced = own_steps or not self._several_ranks
        self._pace = Pace(sampling.spectra.every, sampling.weights_budget if paced else 0.0)
        self._matrices = [matrix for matrix in sources.matrices if matrix.reads]
        self._gradients = GradientNorms(chunks, found, sources.gather)
        self._updates = Updates(chunks, optimizer)
        self._pre_step = before_step(optimizer, self._before_optimizer_step)
        self._logits = LogitSamples(sampling.logits.rows)
        self._taps = [
            RouterTap(layer, sampling.router.tokens, self._failed, self._untold)
            for layer in found.routers
            if share.routers
            and (sampling.router.every > 0 or sampling.router.coactivation_every > 0)
        ]
        self._armed = self._paired = False  # the taps, now
        self._listened = False  # since they were emptied
        self._silent = 0  # sampled steps in a row in which no gate was heard
        self._number = listening.register(self)
        self._packer = Packer(sinks, strict)
        self._alive = lifetime.Owner(self)
        self._arm(resume_step)

    def step(
        self,
        step: int,
        *,
        loss: Any = None,
        grad_norm: Any = None,
        tokens: int | None = None,
        skipped: bool = False,
        policy_mismatch: ingest.Summary | None = None,
        **scalars: Any,
    ) -> None:
        """Says that optimizer step `step` is done; to be called after optimizer.step().

        Args:
            step: the global step, >= 0, growing. A step that does not grow is ignored and counted.
            loss, grad_norm: numbers or 0-d tensors; grad_norm before clipping.
            tokens: of this rank in this step.
            skipped: the optimizer step was skipped (loss scaling).
            policy_mismatch: of foreshock.policy_mismatch.
            scalars: more numbers, 0-d tensors or foreshock.Scalar, by name ([a-z][a-z0-9_]*); None
                is left out.
        """
        if self._closed or not self._alive.here():
            return
        try:
            self._step(step, loss, grad_norm, tokens, skipped, policy_mismatch, scalars)
        except Exception as error:
            self._failed("step", error)

    def gradients(self) -> None:
        """Measures the gradients of the step in progress; optional. Where the optimizer is known
        and has hooks (torch 2) that is done before its step. Else call it after backward and before
        zero_grad, if the loop clears gradients before `step` is called."""
        if self._closed or not self._alive.here():
            return
        try:
            if self._sampling.due(self._sampling.gradients.every, self._last_step + 1):
                with torch.no_grad():
                    self._norms = self._gradients.measure()
        except Exception as error:
            self._failed("gradients", error)

    def attention(
        self,
        layer: Union[int, torch.Tensor],
        query: torch.Tensor,
        key: torch.Tensor,
        *,
        causal: bool = True,
    ) -> None:
        """Samples pre-softmax logits; optional, to be called where rotated Q and K are at hand.

        `query` [batch, heads, tokens, r], `key` [batch, key heads, tokens, r]: of this rank. Takes
        the first sequence of the step; other steps than those due, recomputed and evaluation
        forwards are passed over. Where layers are compiled one by one, `layer` as a 0-d host tensor
        lets them share a graph; a number makes one for each.
        """
        if isinstance(layer, torch.Tensor):
            listening.tell(self._number, [query, key, layer], [-1, causal])
        else:
            listening.tell(self._number, [query, key], [layer, causal])

    def hear(self, shown: list[torch.Tensor], numbers: list[int]) -> None:
        """What `attention` was told; not for others."""
        if self._closed or self._evaluating or not self._alive.here():
            return
        try:
            if not self._sampling.due(self._sampling.logits.every, self._last_step + 1):
                return
            if not listening.in_backward():
                layer = int(shown[2]) if len(shown) > 2 else numbers[0]
                self._logits.add(layer, shown[0], shown[1], bool(numbers[1]))
        except Exception as error:
            self._failed("attention", error)

    def event(self, kind: str, step: int | None = None, name: str = "", detail: str = "") -> None:
        """Declares a change: warmup_end, lr_phase, batch_size, data_change, evaluation,
        checkpoint_saved (`name` is the checkpoint) or note. Travels with the next `step`."""
        if self._closed or not self._alive.here():
            return
        try:
            at = max(0, self._last_step) if step is None else step
            self._events.append(payloads.event(kind, at, name[:256], detail[:4096]))
        except Exception as error:
            self._failed("event", error)

    @contextlib.contextmanager
    def eval(self) -> Iterator[None]:
        """Inside, routers are not sampled and `step` sends its scalars as evaluation."""
        before, self._evaluating = self._evaluating, True
        self._set_armed(False, False)
        try:
            yield
        finally:
            self._evaluating = before
            if not before:
                self._arm(self._last_step + 1)

    def stats(self) -> MonitorStats:
        stats = dataclasses.replace(self._stats)
        stats.recomputed = sum(tap.recomputed for tap in self._taps)
        stats.jobs_dropped, stats.jobs_waiting = self._packer.dropped, self._packer.waiting
        if self._packer.errors:
            stats.errors += self._packer.errors
            stats.last_error = self._packer.last_error
        if isinstance(self._sinks[0], Client):
            stats.client = self._sinks[0].stats()
        return stats

    def close(self, outcome: str = "finished", timeout: float = 10.0) -> bool:
        """Removes the hooks, delivers what is queued and says goodbye. False if something was lost.

        `outcome`: finished, failed or preempted. Later calls do nothing.
        """
        if outcome not in OUTCOMES:
            raise ValueError(f"outcome is {outcome!r}; allowed: {', '.join(OUTCOMES)}")
        if self._closed or not self._alive.here():
            return False
        self._closed = True
        self._alive.release()
        for handle in (*self._taps, self._pre_step):
            if handle is not None:
                handle.remove()
        left = self._packer.close(timeout)
        return all([sink.close(outcome, left) for sink in self._sinks])

    def __enter__(self) -> Monitor:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self.close("finished" if kind is None else "failed")

    def __reduce__(self) -> Any:
        raise TypeError("a foreshock.Monitor belongs to its process; call watch() in each")

    # Inside.

    def _before_optimizer_step(self) -> None:
        if self._norms is None:
            self.gradients()

    def _step(
        self,
        step: int,
        loss: Any,
        grad_norm: Any,
        tokens: int | None,
        skipped: bool,
        policy_mismatch: ingest.Summary | None,
        scalars: dict[str, Any],
    ) -> None:
        if type(step) is not int and not _is_whole(step):
            self._ignore(f"step is {step!r}", "a whole number")
            return
        step = int(step)
        if self._evaluating:
            if not 0 <= step <= STEP_MAX:
                self._ignore(f"step is {step}", "0..2^53")
                return
            job = Job(step, phase="eval")
            self._add_scalars(job, loss, grad_norm, scalars)
            self._hand_over(job)
            return
        if not self._last_step < step <= STEP_MAX:
            self._ignore(
                f"step is {step}, the last one was {self._last_step}",
                "growing steps; after going back to a checkpoint call watch() again",
            )
            return
        job = Job(step, tokens=int(tokens or 0), skipped=bool(skipped))
        if self._sampling.due(self._sampling.scalars.every, step):
            self._add_scalars(job, loss, grad_norm, scalars)
        if self._events:
            job.summaries, self._events = self._events, []
        if policy_mismatch is not None:
            job.summaries.append(policy_mismatch)
        self._stats.steps += 1
        self._last_step = step
        self._sample(job, grad_norm)
        self._arm(step + 1)
        self._hand_over(job)

    def _sample(self, job: Job, grad_norm: Any) -> None:
        """In most steps nothing is due, and this must cost next to nothing."""
        sampling, step = self._sampling, job.step
        norms, self._norms = self._norms, None
        if sampling.due(sampling.gradients.every, step):
            self._tier("gradients", self._sample_gradients, job, norms, grad_norm)
            self._tier("updates", self._take, job, self._updates.take, step, job.skipped)
        if sampling.due(sampling.gradients.every, step + 1):
            self._tier("updates", self._updates.keep, step)
        if self._listened:
            self._listened = False
            self._notice_silence()
            for tap in self._taps:
                self._tier(tap.layer.path, self._sample_router, job, tap)
        self._sample_weights(job)
        if not self._logits.empty():
            self._tier("logits", self._sample_logits, job)

    def _sample_weights(self, job: Job) -> None:
        sampling, step, pace = self._sampling, job.step, self._pace
        router_every = sampling.router.weights_every
        if router_every == sampling.spectra.every:
            router_every = pace.every
        if sampling.due(router_every, step):
            with pace.cost():
                for matrix in self._matrices:
                    what = f"weights of {matrix.layer.path}"
                    self._tier(what, self._take, job, matrix.sample)
        for layer in self._spectra.due(step, sampling, pace.every):
            with pace.cost():
                self._tier(layer.layer.path, self._take, job, layer.sample, step)
        if pace.tick():
            logger.info("weights are sampled every %d steps from now on: they took more than the "
                        "budget of %g %% of the step time", pace.every, sampling.budget)  # fmt: skip

    def _notice_silence(self) -> None:
        heard = [tap.heard for tap in self._taps]
        for tap in self._taps:
            tap.heard = 0
        self._silent = 0 if any(heard) or not heard else self._silent + 1
        if self._silent == SILENT_STEPS:
            self._once.say(
                "silent gates",
                f"no router was heard in {SILENT_STEPS} sampled steps: call watch() before the "
                "first forward of a compiled model; CUDA graphs and eval mode tell nothing",
            )

    def _tier(self, what: str, sample: Callable[..., None], *arguments: Any) -> None:
        """What fails costs itself only."""
        try:
            with torch.no_grad():
                sample(*arguments)
        except Exception as error:
            self._failed(what, error)

    def _sample_gradients(self, job: Job, norms: Norms | None, grad_norm: Any) -> None:
        norms = self._gradients.measure() if norms is None else norms
        if norms is not None:
            job.parts.append(norms.part(grad_norm))

    def _sample_router(self, job: Job, tap: RouterTap) -> None:
        # Taken in any case: it may have listened too early.
        taken, router = tap.take(), self._sampling.router
        gates = self._sampling.due(router.every, job.step)
        paired = self._sampling.due(router.coactivation_every, job.step)
        job.parts.extend(router_parts(tap.layer, taken, gates, paired, self._share.token_shard))

    def _take(self, job: Job, sample: Callable[..., Part | None], *given: Any) -> None:
        part = sample(*given)
        if part is not None:
            job.parts.append(part)

    def _sample_logits(self, job: Job) -> None:
        job.parts.extend(self._logits.take(self._first_heads))

    def _add_scalars(
        self, job: Job, loss: Any, grad_norm: Any, scalars: Mapping[str, Any]
    ) -> None:
        if loss is not None:
            self._add(job, "loss", loss, _MEAN)
            if self._several_ranks:  # which rank's loss is not finite
                self._add(job, "loss", loss, _EACH_RANK)
        if grad_norm is not None:
            self._add(job, "grad_norm", grad_norm)
        if job.tokens and self._share.tokens:
            self._add(job, "tokens", job.tokens, _SUM)
        groups = getattr(self._optimizer, "param_groups", None)
        if groups and "lr" not in scalars and job.phase == "train":
            self._add(job, "lr", groups[0]["lr"])
        for name, value in scalars.items():
            if isinstance(value, Scalar):
                self._add(job, name, value.value, value)
            elif value is not None:
                self._add(job, name, value)

    def _add(self, job: Job, name: str, value: Any, kind: Scalar = _LAST) -> None:
        """One bad value costs itself only. `kind`: all but the value."""
        try:
            if name not in self._names:
                check_name(name)
                self._names.add(name)
            job.add_scalar(name, value, kind)
        except ValueError as error:
            self._failed("step", error)

    def _hand_over(self, job: Job) -> None:
        job.start_transfer(self._device)
        self._packer.put(job)

    def _arm(self, next_step: int | None) -> None:
        """Hooks listen in the forwards of a sampled step, and if the next step is not known."""
        sampling = self._sampling

        def listens(every: int) -> bool:
            return every > 0 and (next_step is None or sampling.due(every, next_step))

        router = sampling.router
        self._set_armed(listens(router.every), listens(router.coactivation_every))

    def _set_armed(self, armed: bool, paired: bool) -> None:
        self._listened = self._listened or armed or paired
        if (armed, paired) != (self._armed, self._paired):
            self._armed, self._paired = armed, paired
            for tap in self._taps:
                tap.armed = armed
                tap.paired = paired and tap.layer.top_k > 1

    def _ignore(self, found: str, allowed: str) -> None:
        self._stats.steps_ignored += 1
        message = f"Monitor.step: {found}; allowed: {allowed}; ignored"
        if self._strict:
            raise ValueError(message)
        self._once.say("ignored step", message)

    def _failed(self, where: str, error: Exception) -> None:
        if self._strict:
            raise error
        self._stats.errors += 1
        self._stats.last_error = f"{where}: {type(error).__name__}: {error}"
        self._once.say(f"{where} {type(error).__name__}", self._stats.last_error)

    def _untold(self, reason: Exception) -> None:
        self._once.say("choice", f"{reason}: expert load and co-activation are not sent")


def _is_whole(step: Any) -> bool:
    return isinstance(step, numbers.Integral) and not isinstance(step, bool)
