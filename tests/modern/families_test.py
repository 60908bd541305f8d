#!/usr/bin/env python3
"""The families of transformers: what is watched in each, held against the models' own forwards.

    families_test.py             # the table in docs/python.md must be what is found here
    families_test.py --write     # writes it
"""

import os
import pathlib
import re
import sys
import tempfile
import unittest
import warnings

import numpy as np
import torch
import transformers

import foreshock
from foreshock.discovery import discover
from foreshock.finding import child

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support/python")]
import capture_reader  # noqa: E402
import families  # noqa: E402

DOCS = HERE.parents[1] / "docs/python.md"
BEGIN, END = "<!-- families: tests/modern/families_test.py --write -->\n", "<!-- /families -->\n"
# What the linear parts of attention make of a token is turned (position 0 is not) and normalised
# per head, so directions are compared.
COSINE = 1 - 1e-4

warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()


def inputs_of(model):
    """Arguments of a forward that gives a loss or something to make one of."""
    config, found = model.config, {}
    ids = torch.randint(3, families.VOCABULARY, (2, 9))
    if getattr(config, "image_size", None) or hasattr(config, "vision_config"):
        found["pixel_values"] = torch.randn(2, 3, 16, 16)
    if hasattr(config, "num_mel_bins"):
        length = 2 * config.max_source_positions
        found["input_features"] = torch.randn(2, config.num_mel_bins, length)
        found["decoder_input_ids"] = ids
    elif getattr(config, "vocab_size", 0) or hasattr(config, "text_config"):
        found["input_ids"] = ids
    if config.is_encoder_decoder and "decoder_input_ids" not in found:
        found["decoder_input_ids"] = ids
    return found


def loss_of(output):
    first = output.logits if "logits" in output else output[0]
    return first.float().square().mean()


class Seen:
    """What reached the attention function: by module, Q and K of position 0."""

    def __init__(self):
        self.heads = {}

    def __call__(self, module, query, key, value, *unused, **more):
        self.heads.setdefault(module, (query[0, :, 0].detach(), key[0, :, 0].detach()))
        groups = query.shape[1] // key.shape[1]
        key, value = (part.repeat_interleave(groups, dim=1) for part in (key, value))
        out = torch.nn.functional.scaled_dot_product_attention(query, key, value)
        return out.transpose(1, 2).contiguous(), None


class Families(unittest.TestCase):
    def test_every_family(self):
        rows = []
        for name in families.FAMILIES:
            with self.subTest(name):
                model = families.build(name)
                found = discover(model)
                checked = self.check_heads(model, found) if found.attention else False
                if found.routers:
                    self.check_routers(model)
                self.assertTrue(found.lines)
                rows.append(row_of(name, found, checked))
        table = "".join(rows)
        before, _, rest = DOCS.read_text().partition(BEGIN)
        old, _, after = rest.partition(END)
        head = "| family | attention | router | scores | top-k | left alone |\n" + "|---" * 6 + "|\n"
        if WRITE:
            DOCS.write_text(before + BEGIN + head + table + END + after)
        else:
            self.assertEqual(old, head + table, "run tests/modern/families_test.py --write")

    def check_heads(self, model, found):
        """The rows that are read for a head give the Q and K that the forward has for it. False:
        the model does not call transformers' attention functions."""
        seen, tokens, handles = Seen(), {}, []
        transformers.AttentionInterface.register("foreshock_seen", seen)
        modules = {module: module for module in model.modules()}
        for layer in found.attention:
            for projection in (layer.q, layer.k):
                name = getattr(projection, "down", "") or getattr(projection, "name", "")
                part = child(projection.module, name)
                handles.append(part.register_forward_pre_hook(
                    lambda _, given, part=part: tokens.setdefault(part, given[0].detach())))
        try:
            model.set_attn_implementation("foreshock_seen")
            with torch.no_grad():
                model(**inputs_of(model))
        except ValueError as error:
            if "does not support" not in str(error):
                raise
            return False
        finally:
            for handle in handles:
                handle.remove()
        by_module = {m: heads for m, heads in seen.heads.items() if m in modules}
        compared = 0
        for layer in found.attention:
            if layer.q.module not in by_module:
                continue
            for projection, heads, shown in (
                    (layer.q, range(layer.heads), by_module[layer.q.module][0]),
                    (layer.k, range(layer.kv_heads), by_module[layer.q.module][1])):
                name = getattr(projection, "down", "") or getattr(projection, "name", "")
                token = tokens[child(projection.module, name)].reshape(-1, layer.hidden)[0].double()
                for head in heads:
                    expected = projection.read([head], None)[0].double() @ token
                    # Of repeated key heads (Whisper's, Falcon's) the first of each group.
                    got = shown[head * (len(shown) // len(heads))][:layer.head_dim].double()
                    cosine = torch.nn.functional.cosine_similarity(expected, got, dim=0)
                    self.assertGreater(cosine, COSINE, f"{layer.path} head {head}")
                    compared += 1
        return compared > 0

    def check_routers(self, model):
        """A watched step sends the load that the experts got, and scores of all tokens."""
        got, handles = {}, []
        for path, module in model.named_modules():
            if path.endswith("experts"):
                handles.append(module.register_forward_pre_hook(
                    lambda _, given, path=path: got.update({path: chosen_in(given)})))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "run.jsonl")
            monitor = foreshock.watch(model, run="r", strict=True,
                                      recorder=foreshock.Recorder(path),
                                      sampling={"router": {"every": 1}})
            loss_of(model(**inputs_of(model))).backward()
            monitor.step(0)
            monitor.close()
            summaries = capture_reader.summaries(path)
        for handle in handles:
            handle.remove()
        loads = {s.router_load.layer: np.frombuffer(s.router_load.counts.data, "<i8")
                 for s in summaries if s.HasField("router_load")}
        gates = {s.router_gates.layer: s.router_gates
                 for s in summaries if s.HasField("router_gates")}
        for router in monitor.found.routers:
            if router.top_k:
                self.assertGreater(loads[router.layer].sum(), 0)
                chosen = got.get(router.path.rpartition(".")[0] + ".experts")
                if chosen is not None:
                    expected = torch.bincount(chosen.flatten(), minlength=router.experts)
                    self.assertEqual(loads[router.layer].tolist(), expected.tolist(), router.path)
            if router.score:
                self.assertEqual(gates[router.layer].scores.shape[1], router.experts)


def chosen_in(given):
    """The numbers [tokens, k] that the experts were called with; None if they take no such."""
    whole = [value for value in given if isinstance(value, torch.Tensor)
             and value.dtype in (torch.int32, torch.int64) and value.dim() == 2]
    return whole[0].detach() if len(whole) == 1 else None


def row_of(name, found, checked):
    def of(values):
        return "<br>".join(dict.fromkeys(values))

    why = (re.sub(r"^.*?: not watched: ([\w.]+\.(?=\w+: ))?", "", line).replace("|", "\\|")
           for line in found.lines if ": not watched: " in line)
    scores = (f"{router.score} ({router.score_from})" if router.score else router.score_from
              for router in found.routers)
    kinds = of(re.sub(r"^layer \d+: [^:]*: (\w+), .*\((.*)\)$", r"\1, \2", layer.line())
               for layer in found.attention)
    return (f"| {name} | {kinds}{'' if checked or not kinds else ' ¹'} "
            f"| {of(router.pattern for router in found.routers)} "
            f"| {of(scores)} "
            f"| {of(str(router.top_k) for router in found.routers)} | {of(why)} |\n")


if __name__ == "__main__":
    WRITE = "--write" in sys.argv
    sys.argv = [argument for argument in sys.argv if argument != "--write"]
    unittest.main(verbosity=2)
