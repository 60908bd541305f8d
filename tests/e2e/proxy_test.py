#!/usr/bin/env python3
"""foreshock-proxy through its command line, on checkpoints that a plain loader then runs.

    tests/e2e/proxy_test.py FORESHOCK_PROXY
"""

import json
import os
import pathlib
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support/python"))

import moe_checkpoints  # noqa: E402
import safetensors_file  # noqa: E402

PROXY = None
EXPERTS = 16
# Two of each of deepseek_v3's groups of four.
IDLE = {1, 3, 4, 7, 8, 10, 13, 14}
TOKENS = torch.arange(moe_checkpoints.VOCAB).repeat(2)


def run(*arguments, **options):
    return subprocess.run([PROXY, *map(str, arguments)], capture_output=True, text=True,
                          check=False, **options)


def contents(directory):
    return {path.name: path.read_bytes() for path in pathlib.Path(directory).iterdir()
            if path.is_file()}


def load(directory, **options):
    config = json.loads((pathlib.Path(directory) / "config.json").read_text())
    return moe_checkpoints.Model(config, safetensors_file.read_checkpoint(directory), **options)


class ProxyTest(unittest.TestCase):
    def setUp(self):
        # Every file of a proxy is synced: in memory where that is possible.
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="foreshock_proxy_", dir=memory))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.source = self.directory / "model"
        self.out = self.directory / "proxy"
        self.calibration = self.directory / "calib.safetensors"

    def make(self, kind, shards=2, **options):
        """Writes a checkpoint, runs it over TOKENS, and writes the calibration of that."""
        config, tensors = moe_checkpoints.make(kind, experts=EXPERTS, **options)
        safetensors_file.write_checkpoint(self.source, config, tensors, shards)
        model = load(self.source)
        logits = model.forward(TOKENS)
        safetensors_file.write(self.calibration, *moe_checkpoints.calibration(model))
        return model, logits

    def build(self, *arguments, keep=EXPERTS // 2):
        answer = run("build", self.source, self.out, f"--keep={keep}", "--calibration",
                     self.calibration, "--output=json", *arguments)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return json.loads(answer.stdout)

    def slice_to(self, kept):
        """With a plan written by hand."""
        plan = self.directory / "plan.json"
        answer = run("select", self.source, f"--keep={len(kept)}", "--selector=first-k", "-w", plan)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        edited = json.loads(plan.read_text())
        for layer in edited["layers"]:
            layer["kept"] = sorted(kept)
        plan.write_text(json.dumps(edited))
        answer = run("slice", self.source, self.out, "--plan", plan, "--output=json")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return json.loads(answer.stdout)

    def plan(self):
        return {layer["layer"]: layer
                for layer in json.loads((self.out / "plan.json").read_text())["layers"]}

    def assert_refused(self, answer, *words, code=1):
        self.assertEqual(answer.returncode, code, answer.stdout + answer.stderr)
        for word in words:
            self.assertIn(word, answer.stderr)
        self.assertFalse(self.out.exists())


class LogitsTest(ProxyTest):
    def test_same_logits_where_no_token_used_a_pruned_expert(self):
        for kind in moe_checkpoints.FAMILIES:
            for renormalised in (True, False):
                if not renormalised and kind not in ("qwen2_moe", "olmoe", "deepseek_v2"):
                    continue
                with self.subTest(kind=kind, norm_topk_prob=renormalised):
                    self.setUp()
                    original, logits = self.make(kind, idle=IDLE, norm_topk_prob=renormalised)
                    for routing in original.routing.values():
                        self.assertFalse(IDLE & set(routing.chosen.flatten().tolist()))
                    before = contents(self.source)
                    answer = self.slice_to(set(range(EXPERTS)) - IDLE)
                    self.assertEqual(answer["dropped"]["tensors"] > 0,
                                     kind not in ("gpt_oss", "qwen3_fused"))
                    proxy = load(self.out)
                    self.assertEqual(proxy.experts, EXPERTS // 2)
                    self.assertTrue(torch.equal(proxy.forward(TOKENS), logits))
                    self.assertEqual(contents(self.source), before)

    def test_other_tokens_take_the_best_kept_experts(self):
        for kind in moe_checkpoints.FAMILIES:
            with self.subTest(kind=kind):
                self.setUp()
                original, _ = self.make(kind, seed=1)
                self.build("--selector=frequency", "--seen-least=0", keep=12)
                proxy = load(self.out)
                same = 0
                # One token at a time, so that no other can reach it through the attention.
                for token in range(moe_checkpoints.VOCAB):
                    logits = original.forward(torch.tensor([token]))
                    cut = proxy.forward(torch.tensor([token]))
                    untouched = True
                    for layer, plan in self.plan().items():
                        kept = torch.tensor(plan["kept"])
                        before, after = original.routing[layer], proxy.routing[layer]
                        if untouched and "n_group" not in original.config:
                            # The same input reaches this layer: the choice is the best of the kept.
                            best = before.scores[:, kept].topk(original.top_k).indices
                            self.assertTrue(torch.equal(best, after.chosen))
                        chosen = set(before.chosen[0].tolist())
                        untouched &= chosen == set(kept[after.chosen[0]].tolist())
                    if untouched:
                        self.assertTrue(torch.equal(cut, logits))
                        same += 1
                    else:
                        self.assertFalse(torch.equal(cut, logits))
                self.assertTrue(0 < same < moe_checkpoints.VOCAB, same)

    def test_gates_that_are_not_renormalised_grow_by_the_kept_probability(self):
        for kind in ("olmoe", "qwen2_moe", "deepseek_v2"):
            with self.subTest(kind=kind):
                self.setUp()
                original, _ = self.make(kind, norm_topk_prob=False)
                answer = self.build("--selector=frequency", "--seen-least=0", "--gate-rescale",
                                    keep=12)
                self.assertIn("the gates are not renormalised", " ".join(answer["warnings"]))
                scales = json.loads((self.out / "config.json").read_text())["foreshock_gate_scale"]
                plain, patched = load(self.out), load(self.out, scale_gates=True)
                plain.forward(TOKENS)
                patched.forward(TOKENS)
                layer, plan = next(iter(self.plan().items()))
                kept = torch.tensor(plan["kept"])
                before, after = original.routing[layer], plain.routing[layer]
                mass = before.probabilities[:, kept].sum(-1)
                # T * K terms, each rounded by less than 2^-52.
                self.assertAlmostEqual(scales[str(layer)], mass.mean().item(), delta=1e-12)
                self.assertLess(scales[str(layer)], 1)
                both = (before.gates[:, kept] > 0) & (after.gates > 0)
                self.assertTrue(both.any())
                grown = (after.gates * mass.unsqueeze(-1) - before.gates[:, kept])[both]
                self.assertLess(grown.abs().max().item(), 1e-12)
                self.assertTrue(torch.equal(patched.routing[layer].gates,
                                            after.gates * scales[str(layer)]))


class ClusterTest(ProxyTest):
    def test_planted_twins_are_found(self):
        for kind in ("mixtral", "deepseek_v3", "qwen3_moe"):
            with self.subTest(kind=kind):
                self.setUp()
                self.make(kind, twins=True, top_k=4)
                self.build("--seen-least=1")
                groups = 4 if kind == "deepseek_v3" else 1
                each = EXPERTS // groups
                for plan in self.plan().values():
                    for expert in range(EXPERTS):
                        twin = expert + each // 2 if expert % each < each // 2 else expert - each // 2
                        self.assertEqual(plan["cluster"][expert], plan["cluster"][twin])
                    self.assertEqual(sorted(set(plan["cluster"])), list(range(EXPERTS // 2)))

    def test_select_then_slice_is_build(self):
        self.make("olmoe", shards=3)
        self.build("--selector=reap", "--seen-least=1")
        plan = self.directory / "plan.json"
        answer = run("select", self.source, "--keep=8", "--selector=reap", "--seen-least=1",
                     "--calibration", self.calibration, "-w", plan)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        other = self.directory / "other"
        answer = run("slice", self.source, other, "--plan", plan)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("of kept experts", answer.stdout)
        self.assertIn("A fix proven on it is verified once at full size", answer.stdout)
        self.assertEqual(contents(other), contents(self.out))
        # A proxy is a checkpoint like any other.
        answer = run("inspect", other, "--output=json")
        self.assertEqual(json.loads(answer.stdout)["experts"], 8)

    def test_a_report_compares_every_byte(self):
        self.make("olmoe", idle=IDLE)
        self.build("--selector=frequency", "--seen-least=0")
        file = self.directory / "report.json"
        answer = run("report", self.source, self.out, "--calibration", self.calibration,
                     "-w", file)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("survival over all layers: 1.000", answer.stdout)
        self.assertIn("A fix proven on it is verified once at full size", answer.stdout)
        report = json.loads(file.read_text())
        self.assertEqual(report["integrity"]["bytes_compared"],
                         sum(path.stat().st_size for path in self.out.glob("*.safetensors")))
        self.assertEqual(report["size"]["after"]["experts"], 8)
        shard = next(self.out.glob("*.safetensors"))
        content = shard.read_bytes()
        shard.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        answer = run("report", self.source, self.out)
        self.assertEqual(answer.returncode, 1)
        self.assertIn(f"byte {len(content) - 1}: is not what the source and the plan give",
                      answer.stderr)

    def test_a_dry_run_writes_nothing(self):
        self.make("mixtral")
        before = contents(self.directory)
        answer = self.build("--dry-run")
        self.assertTrue(answer["dry_run"])
        self.assertFalse(self.out.exists())
        self.assertEqual(contents(self.directory), before)
        real = self.build()
        written = sum(path.stat().st_size for path in self.out.glob("*.safetensors"))
        self.assertEqual((answer["bytes"], real["bytes"]), (written, written))


class BadInputTest(ProxyTest):
    def refused(self, *words, keep=8, selector="frequency"):
        self.assert_refused(
            run("build", self.source, self.out, f"--keep={keep}", f"--selector={selector}",
                "--calibration", self.calibration), *words)
        self.assertFalse(pathlib.Path(f"{self.out}.partial").exists())

    def shard(self, number=1):
        return self.source / f"model-{number:05d}-of-00002.safetensors"

    def edit_header(self, change):
        content = self.shard().read_bytes()
        length, = struct.unpack("<Q", content[:8])
        text = change(content[8:8 + length].decode()).encode()
        self.shard().write_bytes(struct.pack("<Q", len(text)) + text + content[8 + length:])

    def edit_json(self, name, change):
        path = self.source / name
        value = json.loads(path.read_text())
        change(value)
        path.write_text(json.dumps(value))

    def test_files_that_are_wrong(self):
        first = '"model.embed_tokens.weight": {"dtype": "BF16", "shape": [40, 32], '
        cases = {
            "truncated": (lambda: self.shard().write_bytes(self.shard().read_bytes()[:-9]),
                          ["do not lie in the"]),
            "header larger than the file": (
                lambda: self.shard().write_bytes(struct.pack("<Q", 10**6) + b"{}"),
                ["the header's length is 1000000, the file has 10 bytes"]),
            "overlap": (lambda: self.edit_header(lambda text: text.replace(
                first + '"data_offsets": [0, 2560]',
                first.replace("40, 32", "41, 32") + '"data_offsets": [0, 2624]')),
                ["tensor '", "byte ", "overlaps the tensor before it"]),
            "unknown dtype": (lambda: self.edit_header(lambda text: text.replace(
                first, first.replace("BF16", "B16"))), ["embed_tokens", "unknown dtype 'B16'"]),
            "duplicate name": (lambda: self.edit_header(lambda text: text.replace(
                "{", "{" + first + '"data_offsets": [0, 2560]}, ', 1)), ["the name comes twice"]),
            "missing shard": (lambda: self.shard(2).unlink(), ["cannot open", "00002-of-00002"]),
            "wrong index": (lambda: self.edit_json(safetensors_file.INDEX, lambda index: index[
                "weight_map"].update({"model.embed_tokens.weight": self.shard(2).name})),
                ["the index says that it is in model-00002-of-00002.safetensors"]),
            "path that leaves": (lambda: self.edit_json(safetensors_file.INDEX, lambda index: index[
                "weight_map"].update({"model.norm.weight": "../model/x.safetensors"})),
                ["is not the name of a .safetensors file in the same directory"]),
            "not MoE": (lambda: self.edit_json("config.json", lambda config: config.update(
                model_type="llama")), ["model_type 'llama' is not known"]),
            "no config": (lambda: (self.source / "config.json").unlink(), ["config.json"]),
        }
        for name, (spoil, words) in cases.items():
            with self.subTest(name):
                self.setUp()
                self.make("mixtral")
                spoil()
                self.refused(*words)

    def test_numbers_and_statistics_that_do_not_fit(self):
        self.make("deepseek_v3", idle=IDLE)
        self.refused("1 experts are fewer than top-k, 2", keep=1)
        self.refused("n_group 4 does not divide 6", keep=6)
        self.refused("17 experts cannot be kept of 16", keep=17)
        tensors, metadata = safetensors_file.read(self.calibration), {
            "format": "foreshock.calibration.v1", "model_type": "olmoe", "experts": "16",
            "top_k": "2"}
        safetensors_file.write(self.calibration, tensors, metadata)
        self.refused("the metadata's model_type is 'olmoe', the checkpoint needs 'deepseek_v3'")
        answer = run("build", self.source, self.out, "--keep=8")
        self.assert_refused(answer, "selector cluster needs a calibration: give --calibration FILE")

    def test_wrong_usage_is_explained(self):
        self.assert_refused(run("slize", "x"), "slize", "build", code=2)
        self.assert_refused(run("build", self.source), "OUT", code=2)
        self.assert_refused(run("slice", self.source, self.out, "--plan", self.directory / "none"),
                            "cannot open")
        self.assert_refused(run("calibrate", self.source), "--from-captures,--from-store", code=2)
        self.assert_refused(run("calibrate", self.source, "--from-store", "r"),
                            "--from-store requires --data", code=2)
        self.assert_refused(run("calibrate", self.source, "--from-store", "r", "--data", "d",
                                "--first-step=3"), "--first-step requires --from-captures", code=2)

    def test_a_full_disk_leaves_no_output_and_the_next_attempt_goes_on(self):
        self.make("mixtral", shards=4)
        self.build()
        whole = contents(self.out)
        shutil.rmtree(self.out)
        arguments = ("build", self.source, self.out, "--keep=8", "--calibration", self.calibration)
        limit = max(len(content) for content in whole.values()) - 1
        answer = run(*arguments, preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_FSIZE, (limit, limit)))
        self.assert_refused(answer, "cannot write", "File too large", "the same command goes on")
        answer = run(*arguments)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual(contents(self.out), whole)

    def test_a_small_disk(self):
        self.make("mixtral", shards=4)
        disk = self.directory / "disk"
        disk.mkdir()
        mounted = os.geteuid() == 0 and subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=40k", "tmpfs", disk], capture_output=True,
            check=False).returncode == 0
        if not mounted:
            self.skipTest("no file system can be mounted here; RLIMIT_FSIZE stands in for it")
        self.addCleanup(subprocess.run, ["umount", disk], check=True)
        self.out = disk / "proxy"
        answer = run("build", self.source, self.out, "--keep=8", "--calibration", self.calibration)
        self.assert_refused(answer, "No space left on device", "are free")


class KilledTest(ProxyTest):
    """kill -9 at random moments: OUT is whole or absent, and the same command goes on."""

    ROUNDS, KILLS = 3, 4  # for each verb; kills in a row before the command is left in peace

    def setUp(self):
        super().setUp()
        # On a disk, where every file is waited for: most of the time is spent between two files.
        self.disk = pathlib.Path(tempfile.mkdtemp(prefix="foreshock_proxy_killed_"))
        self.addCleanup(shutil.rmtree, self.disk, ignore_errors=True)
        self.out = self.disk / "proxy"
        self.partial = self.disk / "proxy.partial"
        self.seed = int.from_bytes(os.urandom(4), "little")
        self.random = random.Random(self.seed)

    def start(self, arguments):
        return subprocess.Popen([PROXY, *map(str, arguments)], stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE)

    def kill(self, arguments, whole, seconds):
        """One attempt that is killed, with luck before its end; whether it was, with files left."""
        process = self.start(arguments)
        if seconds == 0 or self.random.random() < 0.6:  # not before the first file
            while process.poll() is None and not self.partial.exists() and not self.out.exists():
                time.sleep(0.0002)
        try:
            process.wait(self.random.uniform(0, seconds))
        except subprocess.TimeoutExpired:
            process.kill()
        stderr = process.communicate()[1]
        self.assertIn(process.returncode, (0, -signal.SIGKILL), stderr)
        if self.out.exists():
            found = contents(self.out)
            found.pop("slice.identity", None)  # the last that goes
            self.assertEqual(found, whole)
        elif self.partial.exists():
            for name, content in contents(self.partial).items():
                if not name.endswith(".tmp") and name != "slice.identity":
                    self.assertEqual(content, whole[name], name)
        return process.returncode != 0 and self.partial.exists()

    def test_the_same_command_goes_on_to_the_same_bytes(self):
        self.make("mixtral", shards=4)
        plan = self.directory / "plan.json"
        chosen = ("--keep=8", "--selector=frequency", "--calibration", self.calibration)
        answer = run("select", self.source, *chosen, "-w", plan)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        source = {path: (path.read_bytes(), path.stat().st_mtime_ns)
                  for path in self.source.iterdir()}
        half_done = 0
        for arguments in (("build", self.source, self.out, *chosen),
                          ("slice", self.source, self.out, "--plan", plan)):
            began = time.monotonic()
            self.assertEqual(run(*arguments).returncode, 0)
            seconds = time.monotonic() - began
            whole = contents(self.out)
            for number in range(self.ROUNDS):
                with self.subTest(verb=arguments[0], round=number, seed=self.seed):
                    shutil.rmtree(self.out)
                    for _ in range(self.KILLS):
                        # The first at once, so that one comes half-way on any machine.
                        half_done += self.kill(arguments, whole, seconds if half_done else 0)
                        if self.out.exists():
                            break
                    if not self.out.exists() or (self.out / "slice.identity").exists():
                        answer = run(*arguments)
                        self.assertEqual(answer.returncode, 0, answer.stderr)
                    self.assertEqual(contents(self.out), whole)
                    self.assertFalse(self.partial.exists())
                    self.assertEqual(source, {path: (path.read_bytes(), path.stat().st_mtime_ns)
                                              for path in self.source.iterdir()})
            shutil.rmtree(self.out)
        self.assertGreater(half_done, 0, "no kill came half-way")


if __name__ == "__main__":
    PROXY = sys.argv.pop(1)
    unittest.main()
