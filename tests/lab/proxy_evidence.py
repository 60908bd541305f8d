#!/usr/bin/python3
"""Builds proxies of a small MoE that was trained for real, breaks original and proxies alike, and
writes what `foreshock fidelity` and `foreshock-proxy report` say of it into the docs.

    tests/lab/proxy_evidence.py build/release --work /tmp/evidence --seeds 3   # `make proxy-lab`
    tests/lab/proxy_evidence.py build/release --work /tmp/evidence --no-training   # what is there
    tests/lab/proxy_evidence.py build/release --work /tmp/evidence --write-only

A policy of 16 experts a layer learns the lab's reinforcement-learning task (docs/fault_lab.md). Of it
proxies with 8, 4 and 2 experts are cut by every selector. Then all train on, healthy and with each
fault, over the same prompts; every run leaves its capture in the folder, and what is there is not
trained again. What training costs is measured by itself, all models in turns, so that a busy machine
is as busy for each. The tables go between marks of docs/proxy.md and docs/failures.md.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import json
import multiprocessing
import os
import pathlib
import statistics
import subprocess
import sys
import time
import types
from typing import Any, Callable, Iterable

from pages import write_table

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "client/python/examples"
RULES = [str(path) for path in sorted((ROOT / "rules").glob("*.yaml"))]
PAGES = {"proxy": ROOT / "docs/proxy.md", "failures": ROOT / "docs/failures.md"}

EXPERTS = 16
KEEPS = (8, 4, 2)
SELECTORS = ("cluster", "router-only", "frequency", "gate-mass", "reap", "activation-norm", "random",
             "first-k")
# Where a fault begins, and how many steps are made. Rules on a baseline judge nothing before a run has
# settled, about step 170, and a trailing baseline of fewer than its 30 samples follows a fast fall.
SCHEDULE = {
    # Of the lab's RL mode; what a step changes is in examples/lab/rl_faults.py.
    "rl": {"none": (0, 120), "rollout-precision": (70, 120), "skipped-update": (70, 120),
           "route-mismatch": (70, 120), "none-long": (0, 270), "grad-overflow": (210, 270)},
    # Of its pretraining, on the default selector alone. Not there: faults that need several
    # processes or a checkpoint, and dead-experts, which closes more than the smallest proxy has.
    "pretrain": {"none": (0, 640), **{fault: (380, 640) for fault in (
        "learning-rate", "router-collapse", "bf16-attention", "combined", "logit-growth",
        "optimizer")}},
}
FAULTS = ("rollout-precision", "skipped-update", "route-mismatch", "grad-overflow")
PRETRAIN_FAULTS = tuple(fault for fault in SCHEDULE["pretrain"] if fault != "none")
BASE_STEPS = {"rl": 300, "pretrain": 400}
PROMPTS = 8  # a step once the original is trained: half of the lab's
BASE_PROMPTS = 16  # while it is made
COST_ROUNDS, COST_STEPS = 7, 10  # how often each model takes its turn, and of how many steps
CRITERIA = ("type", "direction", "trend", "order", "quiet")


@dataclasses.dataclass(frozen=True)
class Cut:
    """A proxy, or (keep == EXPERTS) the original."""

    keep: int
    selector: str

    @property
    def name(self) -> str:
        return "full" if self.keep == EXPERTS else f"{self.keep}-{self.selector}"


FULL = Cut(EXPERTS, "")


class Bench:
    """One seed of one mode: a trained original, its calibration, and everything cut from it."""

    def __init__(self, given: argparse.Namespace, mode: str, seed: int) -> None:
        self.given, self.mode, self.seed = given, mode, seed
        self.folder = given.work / f"{mode}-{seed}"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.programs = given.build / "bin"
        self.model = self.folder / "model"
        self.calibration = self.folder / "calib.safetensors"

    # What differs between the modes.

    def shape(self, experts: int) -> Any:
        from lab import model, rl

        base = rl.SHAPE if self.mode == "rl" else model.Shape(expert_hidden=56)
        return dataclasses.replace(base, experts=experts)

    def train(
        self, name: str, policy: Any, fault: str, inject_step: int, steps: int,
        prompts: int = PROMPTS,
    ) -> dict[int, float]:
        """Reward or loss by step. Without a name nobody watches."""
        from lab import faults, rl, rl_faults
        from lab.parallel import Grid
        from lab.settings import decoder
        from lab.train import Plan, train
        from lab.watching import Sink

        capture = str(self.folder / f"{name}.fscap") if name else ""
        sink = Sink(name or "base", "", capture, f"evidence-{name}-{time.time_ns()}")
        fault = fault.removesuffix("-long")
        table = rl_faults if self.mode == "rl" else faults
        common = dict(fault=fault, strength=table.FAULTS[fault].strength, steps=steps,
                      inject_step=inject_step, seed=self.seed, sink=sink)
        if self.mode == "rl":
            return rl.train_rl(rl.RlPlan(**common, prompts=prompts), policy)
        return train(Plan(**common, setting=decoder(ROOT, policy.shape)), Grid(), policy)

    def text(self, policy: Any, batches: int, salt: int) -> list[Any]:
        """[(tokens, targets)]: RL: prompts with the policy's own answers; else text."""
        import torch
        from lab import rl
        from lab.attention import Rounding
        from lab.data import Batches, read_text

        if self.mode == "pretrain":
            source = Batches(read_text(ROOT), 1_000 * salt + self.seed, 8, policy.shape.length)
            return [source.at(step, 0) for step in range(batches)]
        torch.manual_seed(1_000 * salt + self.seed)
        engine = rl.RolloutEngine(policy)
        engine.take_over(policy, Rounding())
        made = []
        for _ in range(batches):
            tokens = engine.sample(torch.randint(0, 10, (128, rl.DIGITS)), 0.0).tokens
            targets = tokens[:, 1:].clone()
            targets[:, : rl.DIGITS] = -100  # the prompt is random
            made.append((tokens[:, :-1], targets))
        return made

    # The original, and proxies of it.

    def original(self) -> Any:
        import torch
        from lab.model import Decoder

        policy = Decoder(self.shape(EXPERTS), self.seed)
        state = self.folder / "model.pt"
        if state.exists():
            policy.load_state_dict(torch.load(state))
            return policy
        self.train("", policy, "none", 0, BASE_STEPS[self.mode], BASE_PROMPTS)
        torch.save(policy.state_dict(), state)
        return policy

    def publish(self, policy: Any) -> None:
        """The original as a checkpoint, and its calibration."""
        import foreshock
        import safetensors_file

        if self.calibration.exists():
            return
        # Flat, for a table of as many positions as a proxy has experts would be taken for theirs.
        flat = {name: value.flatten() if name.startswith("embed_positions") else value
                for name, value in policy.state_dict().items()}
        tensors = {f"model.{name}": safetensors_file.encode("F32", value.detach().numpy())
                   for name, value in flat.items()}
        shape = policy.shape
        config = {"model_type": "fault_lab", "num_experts": EXPERTS, "hidden_size": shape.hidden,
                  "num_experts_per_tok": shape.top_k, "num_hidden_layers": shape.layers,
                  "norm_topk_prob": True}
        safetensors_file.write_checkpoint(self.model, config, tensors, 1)
        families(self.folder).write_text(json.dumps({"families": [{
            "name": "fault_lab", "model_types": ["fault_lab"], "experts": "num_experts",
            "router": "mlp.gate.weight", "expert": [],
            "axis_0": ["mlp.gate.e_score_correction_bias", "mlp.experts.w_in", "mlp.experts.w_out"],
            "axis_1": [], "shared": [], "copy": []}]}))
        report = foreshock.calibrate(
            policy, [tokens for tokens, _ in self.text(policy, 24, 1)], self.calibration,
            model_type="fault_lab", norm_topk_prob=True,
            experts=lambda path: one_by_one(policy.get_submodule(path.rpartition(".")[0]).experts))
        print("\n".join(report.lines), file=sys.stderr)

    def proxy(self, cut: Cut) -> Any:
        """Cut by the program, loaded again."""
        import safetensors_file
        import torch
        from lab.model import Decoder

        out = self.folder / cut.name
        if not out.exists():
            self._run("foreshock-proxy", "build", self.model, out, f"--keep={cut.keep}",
                      f"--selector={cut.selector}", "--calibration", self.calibration,
                      "--families", families(self.folder), f"--seed={self.seed}")
        policy = Decoder(self.shape(cut.keep), 0)
        tensors = safetensors_file.read_checkpoint(out)
        shapes = {name: value.shape for name, value in policy.state_dict().items()}
        policy.load_state_dict({
            name.removeprefix("model."): value.decode().float().view(
                shapes[name.removeprefix("model.")]) for name, value in tensors.items()})
        for parameter in policy.parameters():
            if not bool(torch.isfinite(parameter).all()):
                raise ValueError(f"{out}: a weight is not finite")
        return policy

    def report(self, original: Any, cut: Cut) -> dict[str, Any]:
        """What `foreshock-proxy report` says of a proxy, its forward half included."""
        import foreshock

        out = self.folder / cut.name
        forward = self.folder / f"{cut.name}.forward.json"
        answer = self.folder / f"{cut.name}.report.json"
        if not answer.exists():
            held_out = self.text(original, 8, 2)
            foreshock.proxy_report(
                Tokens(original), Tokens(self.proxy(cut)), out / "plan.json", held_out, forward,
                targets=lambda batch: batch[1], norm_topk_prob=True)
            self._run("foreshock-proxy", "report", self.model, out, "--families",
                      families(self.folder), "--forward", forward, "--write", answer,
                      "--markdown", self.folder / f"{cut.name}.report.md")
        return json.loads(answer.read_text())

    def has(self, cut: Cut, fault: str, steps: int) -> bool:
        facts = self.folder / f"{cut.name}-{fault}.json"
        return facts.exists() and json.loads(facts.read_text())["steps"] == steps

    def run(self, cut: Cut, fault: str, policy: Any, steps: int) -> dict[str, float]:
        """Trains a copy of `policy` on with the fault; what its curve was."""
        name = f"{cut.name}-{fault}"
        facts = self.folder / f"{name}.json"
        if not self.has(cut, fault, steps):
            inject_step, _ = SCHEDULE[self.mode][fault]
            curve = self.train(name, copy.deepcopy(policy), fault, inject_step, steps)
            for verdict in self.folder.glob("*.fidelity.json"):
                verdict.unlink()  # it may rest on the run that was there before
            values = [curve[step] for step in sorted(curve)]
            facts.write_text(json.dumps({
                "steps": steps,
                "first": statistics.mean(values[:5]), "last": statistics.mean(values[-20:])}))
        return json.loads(facts.read_text())

    def fidelity(self, cut: Cut, fault: str) -> dict[str, Any]:
        saved = self.folder / f"{cut.name}-{fault}.fidelity.json"
        if not saved.exists():
            runs = [self.folder / f"{name}.fscap" for name in (
                f"full-{healthy_of(fault)}", f"full-{fault}",
                f"{cut.name}-{healthy_of(fault)}", f"{cut.name}-{fault}")]
            options = ("--full-healthy", "--full-fault", "--proxy-healthy", "--proxy-fault")
            arguments = [word for pair in zip(options, runs) for word in pair]
            rules = [word for rule in RULES for word in ("--rules", rule)]
            saved.write_text(self._run("foreshock", "fidelity", *arguments, *rules, "--fault-from",
                                       str(SCHEDULE[self.mode][fault][0]), "-o", "json", codes=(0, 1)))
        return json.loads(saved.read_text())

    def alerts(self, cut: Cut, fault: str) -> dict[str, list[tuple[int, int | None]]]:
        """rule → where it fires and ends (None: not), as `foreshock rules backtest` says."""
        answer = json.loads(self._run("foreshock", "rules", "backtest", *RULES, "--captures",
                                      self.folder / f"{cut.name}-{fault}.fscap", "-o", "json",
                                      codes=(0, 1)))
        found: dict[str, list[tuple[int, int | None]]] = {}
        for alert in answer["runs"][0]["alerts"]:
            if alert["firing_step"] is not None:
                found.setdefault(alert["rule"], []).append(
                    (alert["firing_step"], alert["resolved_step"]))
        return found

    def cost(self, original: Any) -> dict[str, Any]:
        """keep → CPU and wall seconds a step of every round, and what memory training takes."""
        saved = self.folder / "cost.json"
        if saved.exists():
            return json.loads(saved.read_text())
        cuts = [FULL, *(Cut(keep, "cluster") for keep in KEEPS)]
        policies = {cut.keep: original if cut == FULL else self.proxy(cut) for cut in cuts}
        cost: dict[str, Any] = {
            str(keep): {"parameters": sum(p.numel() for p in policy.parameters()), "cpu": [],
                        "wall": []} for keep, policy in policies.items()}
        for _ in range(COST_ROUNDS):
            for keep, policy in policies.items():
                twin = copy.deepcopy(policy)
                cpu, wall = time.process_time(), time.perf_counter()
                self.train("", twin, "none", 0, COST_STEPS)
                cost[str(keep)]["cpu"].append((time.process_time() - cpu) / COST_STEPS)
                cost[str(keep)]["wall"].append((time.perf_counter() - wall) / COST_STEPS)
        for cut in cuts:
            with multiprocessing.get_context("spawn").Pool(1) as fresh:
                cost[str(cut.keep)]["memory_bytes"] = fresh.apply(
                    training_memory, (self.given, self.mode, self.seed, cut))
        saved.write_text(json.dumps(cost))
        return cost

    def _run(self, program: str, *arguments: Any, codes: tuple[int, ...] = (0,)) -> str:
        done = subprocess.run([str(self.programs / program), *map(str, arguments)], check=False,
                              capture_output=True, text=True)
        if done.returncode not in codes or (1 in codes and not done.stdout):
            raise RuntimeError(f"{program} {' '.join(map(str, arguments))}: exit "
                               f"{done.returncode}\n{done.stderr}")
        return done.stdout


def families(folder: pathlib.Path) -> pathlib.Path:
    return folder / "families.json"


def one_by_one(experts: Any) -> list[Callable[[Any], Any]]:
    """The lab's experts are fused; each as a function of [n, d]."""
    return [lambda x, e=e: (x @ experts.w_in[e]).relu() @ experts.w_out[e]
            for e in range(len(experts.w_in))]


def Tokens(policy: Any) -> Any:  # noqa: N802
    """A batch is (tokens, targets); the model takes the tokens alone."""
    import torch

    class OnlyTokens(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.policy = policy
            self.config = types.SimpleNamespace(model_type="fault_lab")

        def forward(self, tokens: Any, targets: Any) -> Any:
            return self.policy(tokens)

    return OnlyTokens()


def training_memory(given: argparse.Namespace, mode: str, seed: int, cut: Cut) -> int:
    """In a process of its own: by how much its resident memory grows at most from before the model is
    there, bytes."""
    use_package(given)
    import fault_lab

    fault_lab.settle_torch()
    bench = Bench(given, mode, seed)
    # The libraries are in memory then, and what they keep.
    bench.train("", bench.original(), "none", 0, 1, 1)
    before = status_bytes("VmRSS")
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
    policy = bench.original() if cut == FULL else bench.proxy(cut)
    bench.train("", policy, "none", 0, COST_STEPS)
    return status_bytes("VmHWM") - before


def status_bytes(key: str) -> int:
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return 1024 * int(line.split()[1])
    raise ValueError(f"/proc/self/status has no {key}")


def cuts_of(mode: str, given: argparse.Namespace) -> list[Cut]:
    selectors = given.selectors if mode == "rl" else ("cluster",)
    return [Cut(keep, selector) for keep in KEEPS for selector in selectors]


def healthy_of(fault: str) -> str:
    """The run without the fault that is as long."""
    return "none-long" if fault == "grad-overflow" else "none"


def runs_of(mode: str, faults: Iterable[str]) -> dict[str, int]:
    """Steps of each run of a model, a healthy one first."""
    names = [name for fault in faults for name in (healthy_of(fault), fault)]
    return {name: SCHEDULE[mode][name][1] for name in names}


def train_one(given: argparse.Namespace, mode: str, seed: int, faults: tuple[str, ...]) -> None:
    """Trains what the folder of a mode and a seed lacks; this is what takes long."""
    use_package(given)
    import fault_lab

    fault_lab.settle_torch()
    bench = Bench(given, mode, seed)
    original = bench.original()
    bench.publish(original)
    for cut in [FULL, *cuts_of(mode, given)]:
        print(f"evidence: {mode}, seed {seed}, {cut.name}", file=sys.stderr, flush=True)
        policy = original if cut == FULL else bench.proxy(cut)
        for fault, steps in runs_of(mode, faults).items():
            bench.run(cut, fault, policy, steps)


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """Everything there is to say, as plain values: mode → rows of (seed, cut) with their facts."""
    import fault_lab

    fault_lab.settle_torch()
    plan = [(mode, seed, faults)
            for mode, seeds, faults in (("rl", given.seeds, given.faults),
                                        ("pretrain", given.pretrain_seeds, PRETRAIN_FAULTS))
            for seed in range(1, seeds + 1)]
    if given.training:
        # A fresh process each, for torch with one thread is what repeats bit by bit.
        with multiprocessing.get_context("spawn").Pool(given.jobs, maxtasksperchild=1) as pool:
            pool.starmap(train_one, [(given, *part) for part in plan], chunksize=1)
    results: dict[str, Any] = {"rl": [], "pretrain": [], "cost": None}
    for mode, seed, faults in plan:
        bench = Bench(given, mode, seed)
        steps = runs_of(mode, faults)
        if not bench.calibration.exists():
            continue  # without training: not there yet
        original = bench.original()
        if mode == "rl" and results["cost"] is None:
            results["cost"] = bench.cost(original)
        for cut in [FULL, *cuts_of(mode, given)]:
            there = [name for name, count in runs_of(mode, faults).items()
                     if bench.has(cut, name, count)]
            policy = original if cut == FULL else bench.proxy(cut)
            broken = [fault for fault in faults
                      if fault in there and healthy_of(fault) in there
                      and all(bench.has(FULL, name, steps[name])
                              for name in (fault, healthy_of(fault)))]
            results[mode].append({
                "seed": seed, "keep": cut.keep, "selector": cut.selector,
                "report": None if cut == FULL else bench.report(original, cut),
                "runs": {name: bench.run(cut, name, policy, SCHEDULE[mode][name][1])
                         for name in there},
                "alerts": {name: bench.alerts(cut, name) for name in there},
                "fidelity": {} if cut == FULL else {
                    fault: bench.fidelity(cut, fault) for fault in broken}})
    (given.work / "results.json").write_text(json.dumps(results))
    return results


# The tables.


def cells(values: Iterable[float | None], form: str = "{:.2f}") -> str:
    known = [value for value in values if value is not None]
    if not known:
        return "–"
    low, high, middle = min(known), max(known), statistics.median(known)
    if len(known) == 1 or form.format(low) == form.format(high):
        return form.format(middle)
    return f"{form.format(middle)} ({form.format(low)}…{form.format(high)})"


def groups(rows: list[dict[str, Any]]) -> dict[tuple[int, str], list[dict[str, Any]]]:
    found: dict[tuple[int, str], list[dict[str, Any]]] = {}
    for row in rows:
        if row["keep"] != EXPERTS:
            found.setdefault((row["keep"], row["selector"]), []).append(row)
    return found


def answers_of(rows: list[dict[str, Any]], fault: str) -> list[dict[str, Any]]:
    return [row["fidelity"][fault] for row in rows if fault in row["fidelity"]]


def verdict_cell(answers: list[dict[str, Any]]) -> str:
    """How many passed, and which criteria those failed that did not."""
    if not answers:
        return "–"
    passed = sum(answer["verdict"] == "pass" for answer in answers)
    failed: dict[str, int] = {}
    for answer in answers:
        for criterion in answer["criteria"]:
            if criterion["required"] and criterion["verdict"] == "fail":
                failed[criterion["name"]] = failed.get(criterion["name"], 0) + 1
    unknown = sum(answer["verdict"] == "undefined" for answer in answers)
    parts = [f"{name} {failed[name]}" for name in CRITERIA if name in failed]
    if unknown:
        parts.append(f"undecided {unknown}")
    return f"{passed}/{len(answers)}" + (f" ({', '.join(parts)})" if parts else "")


def fidelity_table(rows: list[dict[str, Any]], faults: Iterable[str]) -> list[str]:
    lines = ["| experts | selector | " + " | ".join(faults) + " | in all |",
             "|---|---|" + "---|" * (len(tuple(faults)) + 1)]
    for (keep, selector), group in groups(rows).items():
        answers = [answers_of(group, fault) for fault in faults]
        if not any(answers):
            continue
        total = sum(a["verdict"] == "pass" for fault in answers for a in fault)
        lines.append(f"| {keep} | {selector} | " + " | ".join(map(verdict_cell, answers))
                     + f" | {total}/{sum(map(len, answers))} |")
    return lines


def criteria_table(rows: list[dict[str, Any]], faults: Iterable[str]) -> list[str]:
    """Over all proxies: how often each criterion held where it was defined."""
    names = ("type", "direction", "trend", "order", "onset", "quiet")
    lines = ["| experts | fault | " + " | ".join(names) + " |", "|---|---|" + "---|" * len(names)]
    for keep in sorted({row["keep"] for row in rows if row["keep"] != EXPERTS}, reverse=True):
        for fault in faults:
            answers = answers_of([row for row in rows if row["keep"] == keep], fault)
            line = []
            for name in names:
                of = [c["verdict"] for a in answers for c in a["criteria"] if c["name"] == name]
                defined = [verdict for verdict in of if verdict != "undefined"]
                line.append(f"{defined.count('pass')}/{len(defined)}" if defined else "–")
            lines.append(f"| {keep} | {fault} | " + " | ".join(line) + " |")
    return lines


def ability_table(rows: list[dict[str, Any]], unit: str) -> list[str]:
    full = [row["runs"]["none"] for row in rows
            if row["keep"] == EXPERTS and "none" in row["runs"]]
    lines = [f"| experts | selector | cross-entropy gap, nats | KL | {unit} before training on | "
             f"after {SCHEDULE['rl']['none'][1]} healthy steps |",
             "|---|---|---|---|---|---|"]
    lines.append(f"| {EXPERTS} | original | 0 | 0 | "
                 + cells(run["first"] for run in full) + " | "
                 + cells(run["last"] for run in full) + " |")
    for (keep, selector), group in groups(rows).items():
        outputs = [row["report"]["forward"]["output"] for row in group]
        gap = [o["cross_entropy_after"] - o["cross_entropy_before"] for o in outputs]
        healthy = [row["runs"]["none"] for row in group if "none" in row["runs"]]
        lines.append(f"| {keep} | {selector} | {cells(gap)} | {cells(o['kl'] for o in outputs)} | "
                     + cells(run["first"] for run in healthy) + " | "
                     + cells(run["last"] for run in healthy) + " |")
    return lines


def cost_table(results: dict[str, Any]) -> list[str]:
    """Ratios of the original's, round by round."""
    cost, reports = results["cost"], {
        row["keep"]: row["report"]["size"] for row in results["rl"] if row["report"]}
    lines = ["| experts | parameters | weights | CPU time a step | time a step | memory of training |",
             "|---|---|---|---|---|---|"]
    full = cost[str(EXPERTS)]
    lines.append(f"| {EXPERTS} | {full['parameters']:,} | 1 | 1 | 1 | 1 |".replace(",", " "))
    for keep in KEEPS:
        one, size = cost[str(keep)], reports[keep]
        columns = [cells(mine / theirs for mine, theirs in zip(one[key], full[key]))
                   for key in ("cpu", "wall")]
        lines.append(f"| {keep} | {one['parameters']:,} | ".replace(",", " ")
                     + f"{size['after']['bytes'] / size['before']['bytes']:.2f} | "
                     + " | ".join(columns)
                     + f" | {one['memory_bytes'] / full['memory_bytes']:.2f} |")
    return lines


def omitted_table(rows: list[dict[str, Any]]) -> list[str]:
    """When the omitted update is seen, when it is named, and what held the name back, by seed."""
    lines = ["| experts | selector | `rl_update_zero` | `actor_update_omitted` | the reward rises or falls "
             "when `rl_update_zero` fires, until |",
             "|---|---|---|---|---|"]

    def first(alerts: dict[str, Any], rule: str) -> str:
        return str(alerts[rule][0][0]) if rule in alerts else "–"

    def held_until(alerts: dict[str, Any]) -> str:
        seen = alerts["rl_update_zero"][0][0] if "rl_update_zero" in alerts else None
        for rule in ("rl_reward_rises", "rl_reward_falls"):
            for begin, end in alerts.get(rule, ()):
                if seen is not None and begin <= seen and (end is None or end > seen):
                    return "the end" if end is None else str(end)
        return "–"

    cuts: dict[tuple[int, str], list[dict[str, Any]]] = {}
    for row in rows:
        if "skipped-update" in row["alerts"]:
            cuts.setdefault((row["keep"], row["selector"]), []).append(row["alerts"]["skipped-update"])
    for (keep, selector), runs in cuts.items():
        lines.append(f"| {keep} | {selector or 'original'} | "
                     + " | ".join(", ".join(cell(run) for run in runs) for cell in (
                         lambda run: first(run, "rl_update_zero"),
                         lambda run: first(run, "actor_update_omitted"), held_until)) + " |")
    return lines


def factors_table(rows: list[dict[str, Any]]) -> list[str]:
    """Routing decisions, expert utilisation, hidden states, means over the layers."""
    lines = ["| experts | selector | survival | cluster agreement | load entropy, original → proxy | "
             "load rank correlation | MoE output: error | cosine | residual stream: error | cosine |",
             "|---|---|---|---|---|---|---|---|---|---|"]

    def mean(layers: list[dict[str, Any]], *path: str) -> float | None:
        values = []
        for layer in layers:
            value: Any = layer
            for key in path:
                value = None if value is None else value[key]
            if value is not None:
                values.append(value)
        return statistics.mean(values) if values else None

    for (keep, selector), group in groups(rows).items():
        layers = [row["report"]["forward"]["layers"] for row in group]
        columns = [
            cells(mean(one, "survival") for one in layers),
            cells(mean(one, "cluster_agreement") for one in layers),
            cells(mean(one, "load", "before", "entropy_ratio") for one in layers) + " → "
            + cells(mean(one, "load", "after", "entropy_ratio") for one in layers),
            cells(mean(one, "load", "rank_correlation") for one in layers),
            cells(mean(one, "output", "error_mean") for one in layers),
            cells(mean(one, "output", "cosine_mean") for one in layers),
            cells(mean(one, "stream", "error_mean") for one in layers),
            cells(mean(one, "stream", "cosine_mean") for one in layers)]
        lines.append(f"| {keep} | {selector} | " + " | ".join(columns) + " |")
    return lines


def reproduced_table(results: dict[str, Any]) -> list[str]:
    """Of each fault: what the original fires, and how many proxies answer it alike."""
    lines = ["| fault | the original fires | named | proxies that pass | 1/2 | 1/4 | 1/8 |",
             "|---|---|---|---|---|---|---|"]
    for mode in ("rl", "pretrain"):
        rows = [row for row in results[mode] if row["keep"] != EXPERTS]
        for fault in list(dict.fromkeys(fault for row in rows for fault in row["fidelity"])):
            answers = answers_of(rows, fault)
            fired = sorted({name for answer in answers for name in answer["full_alerts"]})
            named = sorted({answer["full_fault"] for answer in answers if answer["full_fault"]})

            def share(some: list[dict[str, Any]]) -> str:
                return f"{sum(a['verdict'] == 'pass' for a in some)}/{len(some)}"

            by_keep = [share(answers_of([row for row in rows if row["keep"] == keep], fault))
                       for keep in KEEPS]
            lines.append(f"| {fault} | {', '.join(fired) or 'nothing'} | {', '.join(named) or '–'} | "
                         f"{share(answers)} | " + " | ".join(by_keep) + " |")
    return lines


def setup_lines(rl: list[dict[str, Any]], pretrain: list[dict[str, Any]],
                faults: Iterable[str]) -> list[str]:
    """Which cells rest on how many seeds."""
    seeds: dict[str, dict[str, set[int]]] = {}
    for row in rl:
        for fault in row["fidelity"]:
            seeds.setdefault(fault, {}).setdefault(row["selector"], set()).add(row["seed"])
    lines = ["| fault | steps | seeds, by selector |", "|---|---|---|"]

    def by_seeds(found: dict[str, set[int]]) -> str:
        names: dict[str, list[str]] = {}
        for selector, some in found.items():
            names.setdefault(", ".join(map(str, sorted(some))), []).append(selector)
        return "; ".join(f"{which}: {', '.join(of)}" for which, of in names.items())

    reports: dict[str, set[int]] = {}
    for row in rl:
        if row["report"]:
            reports.setdefault(row["selector"], set()).add(row["seed"])
    lines.append(f"| none: the report on held-out text | – | {by_seeds(reports)} |")
    for fault in faults:
        begin, steps = SCHEDULE["rl"][fault]
        lines.append(f"| {fault} | from {begin} of {steps} | "
                     + (by_seeds(seeds.get(fault, {})) or "not measured") + " |")
    for fault in PRETRAIN_FAULTS:
        begin, steps = SCHEDULE["pretrain"][fault]
        found = sorted({row["seed"] for row in pretrain if fault in row["fidelity"]})
        lines.append(f"| {fault}, in pretraining | from {begin} of {steps} | "
                     + (f"{', '.join(map(str, found))}: cluster" if found else "not measured") + " |")
    return lines


def write_docs(results: dict[str, Any]) -> None:
    rl, pretrain = results["rl"], results["pretrain"]
    faults = tuple(fault for fault in FAULTS if any(fault in row["fidelity"] for row in rl))
    proxy = PAGES["proxy"]
    write_table(proxy, "evidence-setup", setup_lines(rl, pretrain, FAULTS))
    write_table(proxy, "evidence-fidelity", fidelity_table(rl, faults))
    write_table(proxy, "evidence-criteria", criteria_table(rl, faults))
    write_table(proxy, "evidence-omitted", omitted_table(rl))
    write_table(proxy, "evidence-ability", ability_table(rl, "reward"))
    write_table(proxy, "evidence-cost", cost_table(results))
    write_table(proxy, "evidence-pretrain", fidelity_table(pretrain, PRETRAIN_FAULTS) if pretrain
          else ["Not run."])
    write_table(PAGES["failures"], "evidence-reproduced", reproduced_table(results))
    write_table(PAGES["failures"], "evidence-factors", factors_table(rl))


def use_package(given: argparse.Namespace) -> None:
    sys.path[:0] = [str(given.build / "python"), str(EXAMPLES), str(ROOT / "tests/support/python")]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, help="a built preset, build/release")
    parser.add_argument("--work", type=pathlib.Path, required=True, metavar="FOLDER")
    parser.add_argument("--seeds", type=int, default=3, help="seeds 1..N")
    parser.add_argument("--pretrain-seeds", type=int, default=3,
                        help="seeds 1..N of the pretraining faults; 0: none")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(),
                        help="seeds that train side by side; default: as many as processors")
    parser.add_argument("--selectors", default=",".join(SELECTORS), help="a,b,...; default: all")
    parser.add_argument("--faults", default=",".join(FAULTS), help="a,b,...; default: all")
    parser.add_argument("--no-training", dest="training", action="store_false",
                        help="judge the runs that the folder has, whichever they are; proxies are cut "
                             "and reported on without any")
    parser.add_argument("--dry-run", action="store_true", help="leave the pages as they are")
    parser.add_argument("--write-only", action="store_true",
                        help="write the pages from the folder's results.json")
    given = parser.parse_args()
    for option, known in (("selectors", SELECTORS), ("faults", FAULTS)):
        chosen = tuple(getattr(given, option).split(","))
        if not set(chosen) <= set(known):
            parser.error(f"--{option}: allowed: {', '.join(known)}")
        setattr(given, option, chosen)
    if given.seeds < 1 or given.pretrain_seeds < 0 or given.jobs < 1:
        parser.error("--seeds, --jobs: allowed: 1 or more, --pretrain-seeds: 0 or more")
    given.build = given.build.resolve()
    given.work.mkdir(parents=True, exist_ok=True)
    use_package(given)
    if given.write_only:
        results = json.loads((given.work / "results.json").read_text())
    else:
        results = measure(given)
    if not given.dry_run:
        write_docs(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
