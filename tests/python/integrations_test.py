#!/usr/bin/env python3
"""The adapters, driven by stand-ins that make the frameworks' documented calls in their order."""

import json
import os
import pathlib
import sys
import tempfile
import types
import unittest

import torch

import foreshock
from foreshock.v1 import capture_pb2 as capture
from google.protobuf import json_format

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import standins  # noqa: E402

EVENTS = ("on_init_end", "on_train_begin", "on_train_end", "on_epoch_begin", "on_epoch_end",
          "on_step_begin", "on_pre_optimizer_step", "on_substep_end", "on_step_end", "on_evaluate",
          "on_save", "on_log")  # fmt: skip


class TrainerCallback:
    """transformers.TrainerCallback: every event is there and does nothing."""


for event in EVENTS:
    setattr(TrainerCallback, event, lambda self, args, state, control, **given: None)
sys.modules["transformers"] = types.SimpleNamespace(TrainerCallback=TrainerCallback)

from foreshock.integrations import huggingface, lightning, megatron  # noqa: E402


class Case(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)
        temporary = tempfile.TemporaryDirectory(prefix="foreshock_python_")
        self.addCleanup(temporary.cleanup)
        self.path = os.path.join(temporary.name, "run.jsonl")
        self.options = dict(run="r", recorder=foreshock.Recorder(self.path), strict=True,
                            sampling={"gradients": {"every": 1}, "router": {"every": 1}})

    def messages(self):
        with open(self.path) as file:
            return [json_format.ParseDict(json.loads(line), capture.CaptureRecord()).message
                    for line in file]

    def reports(self):
        names, found = {}, []
        for message in self.messages():
            report = message.report
            if not message.HasField("report"):
                continue
            values, kinds, events = {}, set(), []
            for summary in report.summaries:
                names.update({d.id: d.name for d in summary.scalars.declare})
                values.update({names[i]: v
                               for i, v in zip(summary.scalars.ids, summary.scalars.values)})
                kinds.add(summary.WhichOneof("payload"))
                if summary.HasField("event"):
                    events.append((summary.event.step, summary.event.name))
            found.append(types.SimpleNamespace(report=report, values=values, kinds=kinds,
                                               events=events))
        return found


class HuggingFace(Case):
    def train(self, callback, first, last):
        """The calls of Trainer.train with gradient accumulation of 2, logging and saving."""
        model = standins.Decoder()
        optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
        state = types.SimpleNamespace(global_step=first)
        args = control = object()

        def call(event, **given):
            getattr(callback, event)(args, state, control, model=model, optimizer=optimizer,
                                     **given)

        call("on_train_begin")
        call("on_epoch_begin")
        while state.global_step < last:
            call("on_step_begin")
            for micro in range(2):
                inputs, _ = standins.batch(2 * state.global_step + micro)
                model(inputs).square().mean().backward()
                if micro == 0:
                    call("on_substep_end")
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            call("on_pre_optimizer_step")
            optimizer.step()
            model.zero_grad()
            state.global_step += 1
            call("on_step_end")
            call("on_log", logs={"loss": 1.0 * state.global_step, "grad_norm": float(norm),
                                 "learning_rate": 1e-3, "epoch": 0.1})
            if state.global_step == first + 2:
                call("on_evaluate", metrics={"eval_loss": 7.0})
                call("on_save")
        call("on_epoch_end")
        call("on_train_end")

    def test_every_step_has_its_own_numbers(self):
        self.train(huggingface.ForeshockCallback(**self.options), 5, 9)
        reports = [r for r in self.reports() if r.report.phase == 1]
        self.assertEqual([r.report.step for r in reports], [6, 7, 8, 9])
        self.assertEqual([r.values["loss"] for r in reports], [6.0, 7.0, 8.0, 9.0])
        for r in reports:
            self.assertEqual(r.values["lr"], 1e-3)
            self.assertIn("grad_norm_q", r.values)
            self.assertIn("router_load", r.kinds)
        self.assertEqual(reports[1].events, [(7, "checkpoint-7")])
        evaluation = [r for r in self.reports() if r.report.phase == 2]
        self.assertEqual([(r.report.step, r.values["loss"]) for r in evaluation], [(7, 7.0)])
        messages = self.messages()
        self.assertEqual(messages[0].hello.resume_step, 6)
        self.assertEqual(messages[-1].goodbye.outcome, 1)


class Lightning(Case):
    def train(self, callback, steps, fails=False):
        """The calls of Trainer.fit with gradient accumulation of 2 and a validation."""
        module = standins.Decoder()
        optimizer = torch.optim.AdamW(module.parameters(), 1e-3)
        trainer = types.SimpleNamespace(global_step=0, optimizers=[optimizer],
                                        callback_metrics={"train/accuracy": torch.tensor(0.5)})
        callback.on_train_start(trainer, module)
        for index in range(2 * steps):
            loss = module(standins.batch(index)[0]).square().mean()
            loss.backward()
            if index % 2 == 1:
                callback.on_before_optimizer_step(trainer, module, optimizer)
                optimizer.step()
                optimizer.zero_grad()
                trainer.global_step += 1
            callback.on_train_batch_end(trainer, module, {"loss": loss.detach()}, None, index)
            if index == 3:
                callback.on_validation_start(trainer, module)
                module(standins.batch(99)[0])
                callback.on_validation_end(trainer, module)
                callback.on_save_checkpoint(trainer, module, {})
            if index == 4 and fails:
                callback.on_exception(trainer, module, RuntimeError("boom"))
                return
        callback.on_train_end(trainer, module)

    def test_optimizer_steps_are_told_batches_are_not(self):
        self.train(lightning.ForeshockCallback(**self.options), 4)
        reports = self.reports()
        self.assertEqual([r.report.step for r in reports], [1, 2, 3, 4])
        for r in reports:
            self.assertIn("loss", r.values)
            self.assertIn("grad_norm_k", r.values)
            self.assertEqual(r.values["accuracy"], 0.5)
            loads = [s.router_load for s in r.report.summaries if s.HasField("router_load")]
            self.assertEqual([sum(memoryview(x.counts.data).cast("q")) for x in loads],
                             [2 * 4 * 12 * 2] * 2)
        self.assertEqual(reports[2].events, [(2, "step=2")])

    def test_an_exception_is_a_failed_run(self):
        self.train(lightning.ForeshockCallback(**self.options), 4, fails=True)
        self.assertEqual(self.messages()[-1].goodbye.outcome, 2)


class Megatron(Case):
    def test_chunks_masters_and_skipped_iterations(self):
        chunks = [standins.megatron(shards=2), standins.megatron(shards=2)]
        for number, chunk in enumerate(chunks):
            for layer in chunk.decoder.layers:
                layer.self_attention.layer_number += 4 * number
                layer.mlp.layer_number += 4 * number
        watcher = megatron.MegatronWatcher(
            chunks, None, **{**self.options, "coordinates": {"tensor": 1}, "rank": 1,
                             "world_size": 2, "launch_id": "l"})
        self.assertEqual([a.layer for a in watcher.monitor.found.attention], [2, 3, 6, 7])
        watcher.after_train_step(1, {"lm loss": torch.tensor(2.5)}, 0, 1.5, 1e-4, 65536.0, 128)
        watcher.after_train_step(2, {}, 1, float("inf"), 1e-4, 32768.0, 128)
        watcher.monitor.close()
        first, second = self.reports()
        self.assertEqual((first.values["loss"], first.values["grad_norm"], first.values["lr"],
                          first.values["loss_scale"]), (2.5, 1.5, 1e-4, 65536.0))
        self.assertTrue(second.report.skipped)
        self.assertNotIn("grad_norm", second.values)
        self.assertNotIn("loss", second.values)

    def test_coordinates_of_parallel_state(self):
        state = types.SimpleNamespace(
            model_parallel_is_initialized=lambda: True,
            get_data_parallel_rank=lambda: 3, get_tensor_model_parallel_rank=lambda: 1,
            get_pipeline_model_parallel_rank=lambda: 2)
        self.assertEqual(megatron.coordinates(state), {"data": 3, "tensor": 1, "pipeline": 2})
        state.model_parallel_is_initialized = lambda: False
        self.assertIsNone(megatron.coordinates(state))


if __name__ == "__main__":
    unittest.main(verbosity=2)
