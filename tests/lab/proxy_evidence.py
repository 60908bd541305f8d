#!/usr/bin/python3
"""Builds proxies of a small MoE that was trained for real, breaks original and proxies alike, and
writes what `foreshock fidelity` and `foreshock-proxy report` say of it into the docs.

    tests/lab/proxy_evidence.py build/release --work /tmp/evidence --seeds 3   # `make proxy-lab`
    tests/lab/proxy_evidence.py build/release --work /tmp/evidence --write-only

A policy of 16 experts a layer learns the lab's reinforcement-learning task (docs/fault_lab.md). Of it
proxies with 8, 4 and 2 experts are cut by every selector. Then all train on, healthy and with each
fault, over the same prompts; every run leaves its capture in the folder, and what is there is not
trained again. The tables go between marks of docs/proxy.md and docs/failures.md.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import json
import pathlib
import statistics
import subprocess
import sys
import time
import types
from typing import Any, Callable, Iterable

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "client/python/examples"
RULES = [str(path) for path in sorted((ROOT / "rules").glob("*.yaml"))]
PAGES = {"proxy": ROOT / "docs/proxy.md", "failures": ROOT / "docs/failures.md"}

EXPERTS = 16
KEEPS = (8, 4, 2)
SELECTORS = ("cluster", "router-only", "frequency", "gate-mass", "reap", "activation-norm", "random",
             "first-k")
# Where a fault begins, and how many steps are made. Rules on a baseline judge nothing before a run has
# settled, about step 170. The healthy run is as long as the longest.
SCHEDULE = {
    # Of the lab's RL mode; what a step changes is in examples/lab/rl_faults.py.
    "rl": {"rollout-precision": (70, 120), "skipped-update": (70, 120),
           "route-mismatch": (70, 120), "grad-overflow": (180, 240)},
    # Of its pretraining, on the default selector alone: its runs are long.
    "pretrain": {"learning-rate": (380, 520), "router-collapse": (380, 520),
                 "bf16-attention": (380, 520)},
}
FAULTS = tuple(SCHEDULE["rl"])
PRETRAIN_FAULTS = tuple(SCHEDULE["pretrain"])
BASE_STEPS = {"rl": 300, "pretrain": 400}
PROMPTS = 8  # a step once the original is trained: half of the lab's
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
        self.mode, self.seed = mode, seed
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
        self, name: str, policy: Any, fault: str, inject_step: int, steps: int
    ) -> tuple[dict[int, float], float]:
        """(reward or loss by step, CPU seconds a step). Without a name it is the original being made,
        and nobody watches."""
        from lab import faults, rl, rl_faults
        from lab.parallel import Grid
        from lab.train import Plan, train
        from lab.watching import Sink

        capture = str(self.folder / f"{name}.fscap") if name else ""
        sink = Sink(name or "base", "", capture, f"evidence-{name}-{time.time_ns()}")
        table = rl_faults if self.mode == "rl" else faults
        common = dict(fault=fault, strength=table.FAULTS[fault].strength, steps=steps,
                      inject_step=inject_step, seed=self.seed, sink=sink)
        began = time.process_time()
        if self.mode == "rl":
            prompts = PROMPTS if name else rl.PROMPTS
            curve = rl.train_rl(rl.RlPlan(**common, prompts=prompts), policy)
        else:
            curve = train(Plan(**common, text=ROOT, shape=policy.shape), Grid(), policy)
        return curve, (time.process_time() - began) / steps

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
        self.train("", policy, "none", 0, BASE_STEPS[self.mode])
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

    def run(self, cut: Cut, fault: str, policy: Any, steps: int) -> dict[str, float]:
        """Trains a copy of `policy` on with the fault; what its curve was, and what it cost."""
        name = f"{cut.name}-{fault}"
        facts = self.folder / f"{name}.json"
        if not facts.exists() or json.loads(facts.read_text())["steps"] != steps:
            inject_step, _ = SCHEDULE[self.mode].get(fault, (0, steps))
            curve, seconds = self.train(name, copy.deepcopy(policy), fault, inject_step, steps)
            for verdict in self.folder.glob("*.fidelity.json"):
                verdict.unlink()  # it may rest on the run that was there before
            values = [curve[step] for step in sorted(curve)]
            facts.write_text(json.dumps({
                "steps": steps,
                "first": statistics.mean(values[:5]), "last": statistics.mean(values[-20:]),
                "cpu_seconds_a_step": seconds}))
        return json.loads(facts.read_text())

    def fidelity(self, cut: Cut, fault: str) -> dict[str, Any]:
        saved = self.folder / f"{cut.name}-{fault}.fidelity.json"
        if not saved.exists():
            runs = [self.folder / f"{name}.fscap" for name in (
                "full-none", f"full-{fault}", f"{cut.name}-none", f"{cut.name}-{fault}")]
            options = ("--full-healthy", "--full-fault", "--proxy-healthy", "--proxy-fault")
            arguments = [word for pair in zip(options, runs) for word in pair]
            rules = [word for rule in RULES for word in ("--rules", rule)]
            saved.write_text(self._run("foreshock", "fidelity", *arguments, *rules, "--fault-from",
                                       str(SCHEDULE[self.mode][fault][0]), "-o", "json", codes=(0, 1)))
        return json.loads(saved.read_text())

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


def cuts_of(mode: str, given: argparse.Namespace) -> list[Cut]:
    selectors = given.selectors if mode == "rl" else ("cluster",)
    return [Cut(keep, selector) for keep in KEEPS for selector in selectors]


def lengths(mode: str, faults: Iterable[str]) -> dict[str, int]:
    """Steps of each run, the healthy one first."""
    steps = {fault: SCHEDULE[mode][fault][1] for fault in faults}
    return {"none": max(steps.values()), **steps}


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """Everything there is to say, as plain values: mode → rows of (seed, cut) with their facts."""
    import fault_lab

    fault_lab.settle_torch()
    plan = [(mode, seed, faults)
            for mode, seeds, faults in (("rl", given.seeds, given.faults),
                                        ("pretrain", given.pretrain_seeds, PRETRAIN_FAULTS))
            for seed in range(1, seeds + 1)]
    for mode, seed, faults in plan:  # what takes long; judging it takes little
        bench = Bench(given, mode, seed)
        original = bench.original()
        bench.publish(original)
        for cut in [FULL, *cuts_of(mode, given)]:
            print(f"evidence: {mode}, seed {seed}, {cut.name}", file=sys.stderr, flush=True)
            policy = original if cut == FULL else bench.proxy(cut)
            for fault, steps in lengths(mode, faults).items():
                bench.run(cut, fault, policy, steps)
    results: dict[str, Any] = {"rl": [], "pretrain": []}
    for mode, seed, faults in plan:
        bench = Bench(given, mode, seed)
        original = bench.original()
        for cut in [FULL, *cuts_of(mode, given)]:
            policy = original if cut == FULL else bench.proxy(cut)
            results[mode].append({
                "seed": seed, "keep": cut.keep, "selector": cut.selector,
                "parameters": sum(p.numel() for p in policy.parameters()),
                "report": None if cut == FULL else bench.report(original, cut),
                "runs": {fault: bench.run(cut, fault, policy, steps)
                         for fault, steps in lengths(mode, faults).items()},
                "fidelity": {} if cut == FULL else {
                    fault: bench.fidelity(cut, fault) for fault in faults}})
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


def verdict_cell(answers: list[dict[str, Any]]) -> str:
    """How many passed, and which criteria those failed that did not."""
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
        answers = [[row["fidelity"][fault] for row in group] for fault in faults]
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
            answers = [row["fidelity"][fault] for row in rows if row["keep"] == keep]
            line = []
            for name in names:
                of = [c["verdict"] for a in answers for c in a["criteria"] if c["name"] == name]
                defined = [verdict for verdict in of if verdict != "undefined"]
                line.append(f"{defined.count('pass')}/{len(defined)}" if defined else "–")
            lines.append(f"| {keep} | {fault} | " + " | ".join(line) + " |")
    return lines


def ability_table(rows: list[dict[str, Any]], unit: str) -> list[str]:
    full = [row for row in rows if row["keep"] == EXPERTS]
    lines = [f"| experts | selector | cross-entropy gap, nats | KL | {unit} before training on | "
             f"after {full[0]['runs']['none']['steps']} healthy steps |",
             "|---|---|---|---|---|---|"]
    lines.append(f"| {EXPERTS} | original | 0 | 0 | "
                 + cells(row["runs"]["none"]["first"] for row in full) + " | "
                 + cells(row["runs"]["none"]["last"] for row in full) + " |")
    for (keep, selector), group in groups(rows).items():
        outputs = [row["report"]["forward"]["output"] for row in group]
        gap = [o["cross_entropy_after"] - o["cross_entropy_before"] for o in outputs]
        lines.append(f"| {keep} | {selector} | {cells(gap)} | {cells(o['kl'] for o in outputs)} | "
                     + cells(row["runs"]["none"]["first"] for row in group) + " | "
                     + cells(row["runs"]["none"]["last"] for row in group) + " |")
    return lines


def cost_table(rows: list[dict[str, Any]]) -> list[str]:
    lines = ["| experts | parameters | CPU time a step | bytes of weights |",
             "|---|---|---|---|"]
    full = [row for row in rows if row["keep"] == EXPERTS]
    time_of = lambda row: statistics.median(  # noqa: E731
        run["cpu_seconds_a_step"] for run in row["runs"].values())
    whole = statistics.median(map(time_of, full))
    lines.append(f"| {EXPERTS} | {full[0]['parameters']:,} | 1 | 1 |".replace(",", " "))
    for keep in KEEPS:
        group = [row for row in rows if row["keep"] == keep]
        size = group[0]["report"]["size"]
        share = size["after"]["bytes"] / size["before"]["bytes"]
        lines.append(f"| {keep} | {group[0]['parameters']:,} | ".replace(",", " ")
                     + f"{statistics.median(map(time_of, group)) / whole:.2f} | {share:.2f} |")
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
        for fault in rows[0]["fidelity"] if rows else ():
            answers = [row["fidelity"][fault] for row in rows]
            fired = sorted({name for answer in answers for name in answer["full_alerts"]})
            named = sorted({answer["full_fault"] for answer in answers if answer["full_fault"]})

            def share(some: list[dict[str, Any]]) -> str:
                return f"{sum(a['verdict'] == 'pass' for a in some)}/{len(some)}"

            by_keep = [share([row["fidelity"][fault] for row in rows if row["keep"] == keep])
                       for keep in KEEPS]
            lines.append(f"| {fault} | {', '.join(fired) or 'nothing'} | {', '.join(named) or '–'} | "
                         f"{share(answers)} | " + " | ".join(by_keep) + " |")
    return lines


def write(page: pathlib.Path, mark: str, lines: list[str]) -> None:
    begin, end = f"<!-- evidence-{mark}:begin -->", f"<!-- evidence-{mark}:end -->"
    head, _, rest = page.read_text().partition(begin)
    _, found, tail = rest.partition(end)
    if not found:
        raise ValueError(f"{page}: the marks {begin} and {end} are not there, in this order")
    page.write_text(f"{head}{begin}\n" + "\n".join(lines) + f"\n{end}{tail}")


def write_docs(results: dict[str, Any]) -> None:
    rl, pretrain = results["rl"], results["pretrain"]
    faults = tuple(next(iter(row["fidelity"] for row in rl if row["fidelity"])))
    proxy = PAGES["proxy"]
    selectors = list(dict.fromkeys(row["selector"] for row in rl if row["selector"]))
    when = ", ".join(f"{fault} (from step {SCHEDULE['rl'][fault][0]} of {SCHEDULE['rl'][fault][1]})"
                     for fault in faults)
    write(proxy, "setup", [
        f"Measured: seeds {', '.join(str(s) for s in sorted({row['seed'] for row in rl}))}; selectors "
        f"{', '.join(selectors)}; faults {when}; pretraining: "
        + (f"seeds {', '.join(str(s) for s in sorted({r['seed'] for r in pretrain}))}."
           if pretrain else "not measured.")])
    write(proxy, "fidelity", fidelity_table(rl, faults))
    write(proxy, "criteria", criteria_table(rl, faults))
    write(proxy, "ability", ability_table(rl, "reward"))
    write(proxy, "cost", cost_table(rl))
    write(proxy, "pretrain", fidelity_table(pretrain, PRETRAIN_FAULTS) if pretrain
          else ["Not run."])
    write(PAGES["failures"], "reproduced", reproduced_table(results))
    write(PAGES["failures"], "factors", factors_table(rl))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, help="a built preset, build/release")
    parser.add_argument("--work", type=pathlib.Path, required=True, metavar="FOLDER")
    parser.add_argument("--seeds", type=int, default=3, help="seeds 1..N")
    parser.add_argument("--pretrain-seeds", type=int, default=1,
                        help="seeds of the pretraining faults, which take most of the time; 0: none")
    parser.add_argument("--selectors", default=",".join(SELECTORS), help="a,b,...; default: all")
    parser.add_argument("--faults", default=",".join(FAULTS), help="a,b,...; default: all")
    parser.add_argument("--dry-run", action="store_true", help="leave the pages as they are")
    parser.add_argument("--write-only", action="store_true",
                        help="write the pages from the folder's results.json")
    given = parser.parse_args()
    for option, known in (("selectors", SELECTORS), ("faults", FAULTS)):
        chosen = tuple(getattr(given, option).split(","))
        if not set(chosen) <= set(known):
            parser.error(f"--{option}: allowed: {', '.join(known)}")
        setattr(given, option, chosen)
    if given.seeds < 1 or given.pretrain_seeds < 0:
        parser.error("--seeds: allowed: 1 or more, --pretrain-seeds: 0 or more")
    given.build = given.build.resolve()
    given.work.mkdir(parents=True, exist_ok=True)
    sys.path[:0] = [str(given.build / "python"), str(EXAMPLES), str(ROOT / "tests/support/python")]
    if given.write_only:
        results = json.loads((given.work / "results.json").read_text())
    else:
        results = measure(given)
    if not given.dry_run:
        write_docs(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
