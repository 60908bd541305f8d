#!/usr/bin/env python3
"""Writes Grafana's dashboards, deploy/grafana/dashboards/*.json, from the tables below.

    deploy/grafana/generate.py            # writes them
    deploy/grafana/generate.py --check    # exit 1 if one differs from what would be written

A dashboard is a list of rows; a row is a title and its panels, laid out from left to right. Change
the tables, generate, and commit both; a test runs every expression against a real Prometheus.
"""

import argparse
import json
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent / "dashboards"
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
RUN = 'run=~"$run"'
LAYER = 'run=~"$run", layer=~"$layer"'
DAEMON = 'instance=~"$instance"'
LOSS = f'foreshock_train_loss{{{RUN}, aggregate=""}}'  # with an aggregate: over the ranks
COLUMNS = 24  # of Grafana's grid


# ---- Panels. `queries` is a list of (expression, legend).

def panel(kind, title, queries, *, unit="short", width=8, height=8, about="", instant=False,
          defaults=None, options=None, transformations=()):
    targets = []
    for number, (expression, legend) in enumerate(queries):
        target = {"refId": chr(ord("A") + number), "datasource": DATASOURCE, "expr": expression,
                  "legendFormat": legend, "instant": instant, "range": not instant}
        if kind == "table":
            target["format"] = "table"
        targets.append(target)
    return {"type": kind, "title": title, "description": about, "datasource": DATASOURCE,
            "targets": targets, "gridPos": {"w": width, "h": height},
            "fieldConfig": {"defaults": {"unit": unit, **(defaults or {})}, "overrides": []},
            "options": options or {}, "transformations": list(transformations)}


def graph(title, queries, **options):
    custom = {"lineWidth": 1, "fillOpacity": 0, "showPoints": "auto", "spanNulls": False}
    if options.pop("log", False):
        custom["scaleDistribution"] = {"type": "log", "log": 10}
    return panel("timeseries", title, queries, defaults={"custom": custom},
                 options={"legend": {"displayMode": "list", "placement": "bottom"},
                          "tooltip": {"mode": "multi", "sort": "desc"}}, **options)


def steps(*pairs):
    """Thresholds: a colour, then (value, colour) from which on it holds."""
    first, *rest = pairs
    return {"thresholds": {"mode": "absolute", "steps":
                           [{"color": first, "value": None}] +
                           [{"color": colour, "value": value} for value, colour in rest]}}


def number(title, queries, colours=("text",), **options):
    options.setdefault("width", 4)
    options.setdefault("height", 4)
    return panel("stat", title, queries, instant=True, defaults=steps(*colours),
                 options={"colorMode": "value", "graphMode": "none", "textMode": "auto",
                          "reduceOptions": {"calcs": ["lastNotNull"], "fields": "",
                                            "values": False}},
                 **options)


def table(title, queries, hide=(), **options):
    options.setdefault("width", COLUMNS)
    hidden = {name: True for name in ("Time", "__name__", "job", *hide)}
    merge = [{"id": "merge", "options": {}}] if len(queries) > 1 else []
    return panel("table", title, queries, instant=True, options={"showHeader": True},
                 transformations=merge + [{"id": "organize", "options":
                                           {"excludeByName": hidden,
                                            "renameByName": options.pop("rename", {})}}], **options)


def shades(scheme, low=None, high=None):
    limits = {key: value for key, value in (("min", low), ("max", high)) if value is not None}
    return {"color": {"mode": scheme}, **limits}


def over_time(title, queries, scheme, low=None, high=None, **options):
    """A row per series, time from left to right, colour for the value."""
    return panel("status-history", title, queries,
                 defaults={**shades(scheme, low, high),
                           "custom": {"fillOpacity": 90, "lineWidth": 0}},
                 options={"showValue": "never", "rowHeight": 0.9, "colWidth": 1,
                          "legend": {"showLegend": False}}, **options)


def matrix(title, query, column, scheme, low=None, high=None, **options):
    """Layers down, `column` across, the value of now as a coloured cell."""
    return panel("table", title, [(query, "")], instant=True,
                 defaults={**shades(scheme, low, high),
                           "custom": {"cellOptions": {"type": "color-background",
                                                      "mode": "basic"}}},
                 options={"showHeader": True},
                 transformations=[{"id": "groupingToMatrix",
                                   "options": {"columnField": column, "rowField": "layer",
                                               "valueField": "Value", "emptyValue": "null"}}],
                 **options)


# ---- Variables and annotations.

def variable(name, query, *, label=None, several=True):
    return {"type": "query", "name": name, "label": label or name.capitalize(),
            "datasource": DATASOURCE, "definition": query,
            "query": {"query": query, "refId": "variable"}, "refresh": 2, "sort": 7,
            "multi": several, "includeAll": several,
            **({"allValue": ".*", "current": {"text": ["All"], "value": ["$__all"]}}
               if several else {})}


SOURCE = {"type": "datasource", "name": "datasource", "label": "Data source", "query": "prometheus",
          "current": {}, "regex": ""}
RUNS = variable("run", "label_values(foreshock_last_step, run)")
ONE_RUN = variable("run", "label_values(foreshock_last_step, run)", several=False)
INSTANCES = variable("instance", "label_values(foreshock_build_info, instance)", label="Daemon")


def layers(metric):
    return variable("layer", f'label_values({metric}{{{RUN}}}, layer)')


def annotation(name, expression, colour, title, text):
    return {"name": name, "datasource": DATASOURCE, "enable": True, "iconColor": colour,
            "expr": expression, "step": "15s", "titleFormat": title, "textFormat": text,
            "useValueForTime": False}


RUN_ANNOTATIONS = [
    annotation("Alerts", f'foreshock_alert_firing{{{RUN}, severity!="info"}} == 1', "red",
               "{{fault}}", "{{rule}} ({{severity}}) of {{run}}"),
    annotation("Resumes", f"changes(foreshock_run_attempt{{{RUN}}}[1m]) > 0", "blue",
               "Resumed", "{{run}} began a new attempt"),
]
DAEMON_ANNOTATIONS = [
    annotation("Alerts about the daemon",
               'ALERTS{alertname=~"Foreshock.*", alertstate="firing"}', "orange",
               "{{alertname}}", "{{instance}}"),
    annotation("Restarts", f"changes(process_start_time_seconds{{{DAEMON}}}[1m]) > 0", "blue",
               "Restarted", "{{instance}}"),
]


# ---- The dashboards.

FIRING = (("green"), (1, "red"))
LIVE = f'foreshock_run_state{{{RUN}, state="live"}}'
OPEN = f'foreshock_run_state{{{RUN}, state=~"live|silent"}} == 1'  # no goodbye yet

FLEET = ("foreshock-fleet", "Foreshock / Fleet", [SOURCE, RUNS], RUN_ANNOTATIONS, [
    ("Now", [
        number("Live runs", [(f"sum({LIVE})", "")]),
        number("Alerts that ask for something",
               [(f'sum(foreshock_alert_firing{{{RUN}, severity!="info"}}) or vector(0)', "")],
               FIRING),
        number("Ranks connected", [(f"sum(foreshock_run_ranks_connected{{{RUN}}})", "")]),
        number("Runs without any rank",
               [(f"count({OPEN} and on (run) foreshock_run_ranks_connected == 0) or vector(0)",
                 "")], FIRING),
        number("Slowest since a step closed",
               [(f"max(time() - foreshock_last_update_timestamp_seconds{{{RUN}}} "
                 f"and on (run) {OPEN}) or vector(0)", "")], unit="s"),
        number("Tokens a second",
               [(f"sum(rate(foreshock_run_tokens_total{{{RUN}}}[$__rate_interval]))", "")]),
    ]),
    ("Runs", [
        table("Runs", [
            (f"foreshock_last_step{{{RUN}}}", ""),
            (f"foreshock_run_attempt{{{RUN}}}", ""),
            (f"foreshock_run_ranks_connected{{{RUN}}}", ""),
            (f"foreshock_run_world_size{{{RUN}}}", ""),
            (LOSS, ""),
            (f'sum by (run) (foreshock_alert_firing{{{RUN}, severity!="info"}})', ""),
        ], hide=("instance",), rename={
            "Value #A": "step", "Value #B": "attempt", "Value #C": "ranks", "Value #D": "world",
            "Value #E": "loss", "Value #F": "alerts"}),
        table("Alerts", [(f"foreshock_alert_firing{{{RUN}}} == 1", "")], hide=("Value",)),
    ]),
    ("Over time", [
        graph("Loss", [(LOSS, "{{run}}")]),
        graph("Steps a minute", [
            (f"60 * rate(foreshock_run_steps_closed_total{{{RUN}}}[$__rate_interval])",
             "{{run}}")]),
        graph("Ranks in the newest step", [(f"foreshock_run_coverage_ratio{{{RUN}}}", "{{run}}")],
              unit="percentunit"),
    ]),
])

RUN_OVERVIEW = ("foreshock-run", "Foreshock / Run", [SOURCE, ONE_RUN], RUN_ANNOTATIONS, [
    ("Now", [
        number("Step", [(f"foreshock_last_step{{{RUN}}}", "")], unit="none"),
        number("Attempt", [(f"foreshock_run_attempt{{{RUN}}}", "")], unit="none"),
        number("Ranks", [(f"foreshock_run_ranks_connected{{{RUN}}}", "connected"),
                         (f"foreshock_run_world_size{{{RUN}}}", "declared")]),
        number("Last step closed", [(f"time() - foreshock_last_update_timestamp_seconds{{{RUN}}}",
                                     "")], unit="s"),
        number("Firing", [(f'sum(foreshock_alert_firing{{{RUN}, severity!="info"}}) or vector(0)',
                           "")], FIRING),
        number("Evidence", [(f'sum(foreshock_alert_firing{{{RUN}, severity="info"}}) or vector(0)',
                             "")], about="Rules of severity info that fire: signs, no faults."),
    ]),
    ("Alerts", [
        panel("state-timeline", "Rules that fire",
              [(f"foreshock_alert_firing{{{RUN}}} == 1", "{{rule}} ({{severity}})")], width=COLUMNS,
              defaults=steps("transparent", (1, "red")),
              options={"showValue": "never", "mergeValues": True, "rowHeight": 0.9,
                       "legend": {"showLegend": False}}),
    ]),
    ("Training", [
        graph("Loss", [(LOSS, "loss")]),
        graph("Gradient norm", [(f"foreshock_train_grad_norm{{{RUN}}}", "all"),
                                (f"foreshock_train_grad_norm_q{{{RUN}}}", "W_Q"),
                                (f"foreshock_train_grad_norm_k{{{RUN}}}", "W_K"),
                                (f"foreshock_train_grad_norm_router{{{RUN}}}", "router")],
              log=True),
        graph("Learning rate", [(f"foreshock_train_lr{{{RUN}}}", "lr")], unit="sci"),
        graph("Spikes of the loss", [
            (f"foreshock_train_spike_rate_per_1000_steps{{{RUN}}}", "per 1 000 steps")]),
        graph("Time per step", [(f"foreshock_train_step_seconds{{{RUN}}}", "step")], unit="s"),
        graph("Tokens a step", [
            (f"foreshock_train_tokens_total_per_step{{{RUN}}}", "all data shards")]),
    ]),
    ("Mechanisms, the worst layer", [
        graph("Entropy of QK updates", [
            (f'min(foreshock_attn_delta2_entropy_ratio_l1{{{RUN}, aggregate="mean"}})', "lowest"),
            (f'avg(foreshock_attn_delta2_entropy_ratio_l1{{{RUN}, aggregate="mean"}})', "mean")],
              unit="percentunit"),
        graph("Largest attention logit", [
            (f'max(foreshock_attn_logits_max{{{RUN}, aggregate="max"}})', "largest")], log=True),
        graph("Entropy of routing, per token", [
            (f"min(foreshock_router_token_entropy_ratio{{{RUN}}})", "lowest"),
            (f"avg(foreshock_router_token_entropy_ratio{{{RUN}}})", "mean")], unit="percentunit"),
    ]),
    ("Completeness", [
        graph("Ranks in the newest step", [
            (f"foreshock_run_coverage_ratio{{{RUN}}}", "of the declared")], unit="percentunit"),
        graph("Steps that were not whole", [
            (f"increase(foreshock_run_steps_partial_total{{{RUN}}}[$__rate_interval])", "partial"),
            (f"increase(foreshock_run_steps_late_total{{{RUN}}}[$__rate_interval])", "late shards"),
            (f"increase(foreshock_run_steps_skipped_total{{{RUN}}}[$__rate_interval])",
             "skipped updates")]),
        graph("Non-finite elements", [
            (f"foreshock_nonfinite_total{{{RUN}}}", "{{name}}, rank {{rank}}")]),
    ]),
])

ATTENTION = ("foreshock-attention", "Foreshock / Attention",
             [SOURCE, ONE_RUN, layers("foreshock_attn_logits_max")], RUN_ANNOTATIONS, [
    ("Layers and heads now", [
        matrix("Entropy of QK updates: lowest heads",
               f'max by (layer, head) (foreshock_attn_delta2_entropy_ratio_l1{{{LAYER}, '
               'aggregate="bottom"})', "head", "continuous-RdYlGr", 0, 1, unit="percentunit",
               about="/metrics names the metrics.top_k lowest heads of a layer; the others are in "
                     "the API. Empty cells are heads that are higher."),
        matrix("Largest logit: highest heads",
               f'max by (layer, head) (foreshock_attn_logits_max{{{LAYER}, aggregate="top"}})',
               "head", "continuous-GrYlRd", 0, 100,
               about="The metrics.top_k highest heads of a layer."),
        matrix("Attention entropy: lowest heads",
               f'max by (layer, head) (foreshock_attn_logits_entropy_nats{{{LAYER}, '
               'aggregate="bottom"})', "head", "continuous-RdYlGr", 0, 8,
               about="In nats; the metrics.top_k lowest heads of a layer."),
    ]),
    ("Layers over time", [
        over_time("Entropy of QK updates, lowest head",
                  [(f'foreshock_attn_delta2_entropy_ratio_l1{{{LAYER}, aggregate="min"}}',
                    "layer {{layer}}")], "continuous-RdYlGr", 0, 1, unit="percentunit", width=12),
        over_time("Largest logit, highest head",
                  [(f'foreshock_attn_logits_max{{{LAYER}, aggregate="max"}}', "layer {{layer}}")],
                  "continuous-GrYlRd", 0, 100, width=12),
    ]),
    ("Updates of the QK operator", [
        graph("First order, mean of the heads", [
            (f'foreshock_attn_delta2_entropy_ratio_l1{{{LAYER}, aggregate="mean"}}',
             "layer {{layer}}")], unit="percentunit"),
        graph("W_Q and W_K, mean of the heads", [
            (f'foreshock_attn_delta_q_entropy_ratio_l1{{{LAYER}, aggregate="mean"}}',
             "W_Q, layer {{layer}}"),
            (f'foreshock_attn_delta_k_entropy_ratio_l1{{{LAYER}, aggregate="mean"}}',
             "W_K, layer {{layer}}")], unit="percentunit"),
        graph("Size against the operator", [
            (f'foreshock_attn_delta2_relative_norm_ratio{{{LAYER}, aggregate="mean"}}',
             "layer {{layer}}")], unit="percentunit", log=True),
        graph("Effective rank of the update", [
            (f'foreshock_attn_delta2_effective_rank{{{LAYER}, aggregate="mean"}}',
             "layer {{layer}}")]),
        graph("Stable rank of the operator", [
            (f'foreshock_attn_qk_stable_rank{{{LAYER}, aggregate="mean"}}', "layer {{layer}}")]),
        graph("Norm of the operator", [
            (f'foreshock_attn_qk_norm_weight_units_squared{{{LAYER}, aggregate="mean"}}',
             "layer {{layer}}")], log=True),
    ]),
    ("Logits", [
        graph("Largest logit", [
            (f'foreshock_attn_logits_max{{{LAYER}, aggregate="max"}}', "layer {{layer}}")],
              log=True),
        graph("Entropy, mean of the heads", [
            (f'foreshock_attn_logits_entropy_ratio{{{LAYER}, aggregate="mean"}}',
             "layer {{layer}}")], unit="percentunit"),
        graph("Heads that are sinks", [
            (f"foreshock_attn_logits_sink_fraction_ratio{{{LAYER}}}", "layer {{layer}}")],
              unit="percentunit"),
    ]),
    ("Are the values good?", [
        table("Newest step and validity of the attention indicators", [
            (f'foreshock_indicator_last_step{{{RUN}, indicator=~"attn.*"}}', ""),
            (f'foreshock_indicator_valid{{{RUN}, indicator=~"attn.*"}}', "")],
              hide=("instance", "run"), rename={"Value #A": "step", "Value #B": "valid"}),
    ]),
])

ROUTER = ("foreshock-router", "Foreshock / Router",
          [SOURCE, ONE_RUN, layers("foreshock_router_token_entropy_ratio")], RUN_ANNOTATIONS, [
    ("Layers and experts now", [
        matrix("Load: busiest experts",
               f'max by (layer, expert) (foreshock_load_share_ratio{{{LAYER}, aggregate="top"}})',
               "expert", "continuous-GrYlRd", unit="percentunit", width=12,
               about="Share of the tokens; the metrics.top_k highest experts of a layer."),
        matrix("Load: idlest experts",
               f'max by (layer, expert) (foreshock_load_share_ratio{{{LAYER}, '
               'aggregate="bottom"})', "expert", "continuous-RdYlGr", unit="percentunit", width=12,
               about="The metrics.top_k lowest experts of a layer."),
    ]),
    ("Layers over time", [
        over_time("Balance of the load (entropy)",
                  [(f"foreshock_load_entropy_ratio{{{LAYER}}}", "layer {{layer}}")],
                  "continuous-RdYlGr", 0, 1, unit="percentunit", width=12),
        over_time("Entropy of routing, per token",
                  [(f"foreshock_router_token_entropy_ratio{{{LAYER}}}", "layer {{layer}}")],
                  "continuous-RdYlGr", 0, 1, unit="percentunit", width=12),
    ]),
    ("Load", [
        graph("Experts that count", [
            (f"foreshock_load_effective_experts{{{LAYER}}}", "layer {{layer}}")]),
        graph("Busiest expert over the fair share", [
            (f"foreshock_load_max_violation_ratio{{{LAYER}}}", "layer {{layer}}")],
              unit="percentunit"),
        graph("Dead experts", [
            (f"foreshock_load_dead_fraction_ratio{{{LAYER}}}", "layer {{layer}}")],
              unit="percentunit"),
    ]),
    ("Routing", [
        graph("Entropy per token", [
            (f"foreshock_router_token_entropy_ratio{{{LAYER}}}", "layer {{layer}}")],
              unit="percentunit"),
        graph("Margin between the last chosen and the first refused", [
            (f"foreshock_router_margin_mean{{{LAYER}}}", "layer {{layer}}")]),
        graph("Probability of the chosen", [
            (f"foreshock_router_top_k_mass_ratio{{{LAYER}}}", "layer {{layer}}")],
              unit="percentunit"),
        graph("Information that tokens carry", [
            (f"foreshock_router_mutual_information_ratio{{{LAYER}}}", "layer {{layer}}")],
              unit="percentunit"),
        graph("Likeness of the experts' rows", [
            (f"foreshock_router_weight_similarity_ratio{{{LAYER}}}", "layer {{layer}}")],
              unit="percentunit"),
        graph("Update of the router", [
            (f"foreshock_router_weight_relative_norm_ratio{{{LAYER}}}", "layer {{layer}}")],
              unit="percentunit", log=True),
    ]),
])


def counted(metric, by=""):
    """Per second over the panel's interval, summed over the daemons that are chosen."""
    inner = f"rate({metric}{{{DAEMON}}}[$__rate_interval])"
    return f"sum by (instance{', ' + by if by else ''}) ({inner})"


HEALTH = ("foreshock-daemon", "Foreshock / Daemon", [SOURCE, INSTANCES], DAEMON_ANNOTATIONS, [
    ("Now", [
        number("Ready", [(f"min(foreshock_ready{{{DAEMON}}})", "")], ("red", (1, "green"))),
        number("Store takes writes", [(f"min(foreshock_store_writable{{{DAEMON}}})", "")],
               ("red", (1, "green"))),
        number("Last reload good",
               [(f"min(foreshock_config_last_reload_successful{{{DAEMON}}})", "")],
               ("red", (1, "green"))),
        number("Rules", [(f"min(foreshock_rules_loaded{{{DAEMON}}})", "")], ("red", (1, "text"))),
        number("Up since", [(f"1000 * max(process_start_time_seconds{{{DAEMON}}})", "")],
               unit="dateTimeFromNow"),
        table("Versions", [(f"foreshock_build_info{{{DAEMON}}}", "")], hide=("Value",), width=4,
              height=4),
    ]),
    ("Flow", [
        graph("Reports a second", [
            (counted("foreshock_reports_received_total"), "received {{instance}}"),
            (counted("foreshock_reports_committed_total"), "committed {{instance}}")], unit="cps"),
        graph("Refused a second", [
            (counted("foreshock_reports_refused_total", "reason"), "{{reason}} {{instance}}"),
            (counted("foreshock_summaries_rejected_total"), "summaries {{instance}}")], unit="cps"),
        graph("From queued to committed", [
            (f"histogram_quantile({quantile}, sum by (le) (rate("
             f"foreshock_commit_duration_seconds_bucket{{{DAEMON}}}[$__rate_interval])))", name)
            for quantile, name in ((0.5, "p50"), (0.9, "p90"), (0.99, "p99"))], unit="s",
              about="Empty while nothing is committed."),
        graph("Waiting for commit", [
            (f"foreshock_queue_bytes{{{DAEMON}}}", "{{instance}}")], unit="bytes"),
        graph("Limits hit a second", [
            (counted("foreshock_limit_hits_total", "limit"), "{{limit}} {{instance}}")],
              unit="cps"),
        graph("Streams and silent ranks", [
            (f"foreshock_streams{{{DAEMON}}}", "streams {{instance}}"),
            (f"foreshock_silent_ranks{{{DAEMON}}}", "silent ranks {{instance}}")]),
    ]),
    ("Store", [
        graph("Size", [(f"foreshock_store_bytes{{{DAEMON}}}", "{{instance}}")], unit="bytes"),
        graph("Points a second", [(counted("foreshock_points_written_total"), "{{instance}}")],
              unit="cps"),
        graph("Failed commits", [(counted("foreshock_commit_failures_total"), "{{instance}}")],
              unit="cps"),
    ]),
    ("Judging and telling", [
        graph("Rules judged a second", [(counted("foreshock_rules_evaluated_total"),
                                         "{{instance}}")], unit="cps"),
        graph("Notifications a second", [
            (counted("foreshock_notifications_total", "notifier, result"),
             "{{notifier}} {{result}} {{instance}}")], unit="cps"),
        graph("Series on /metrics", [
            (f"foreshock_export_series{{{DAEMON}}}", "shown {{instance}}"),
            (f"foreshock_export_series_left_out{{{DAEMON}}}", "left out {{instance}}")]),
    ]),
    ("Process", [
        graph("CPU", [(counted("process_cpu_seconds_total"), "{{instance}}")], unit="percentunit"),
        graph("Memory", [
            (f"process_resident_memory_bytes{{{DAEMON}}}", "resident {{instance}}"),
            (f"foreshock_open_step_bytes{{{DAEMON}}}", "open steps {{instance}}"),
            (f"foreshock_weight_snapshot_bytes{{{DAEMON}}}", "weight snapshots {{instance}}")],
              unit="bytes"),
        graph("Open files", [(f"process_open_fds{{{DAEMON}}}", "{{instance}}")]),
    ]),
])

DASHBOARDS = [FLEET, RUN_OVERVIEW, ATTENTION, ROUTER, HEALTH]


# ---- Layout.

def lay_out(rows):
    """Panels with places: a row's panels from left to right, a new line where one does not fit."""
    placed, y = [], 0

    def place(item, x, y, height):
        item["gridPos"].update(x=x, y=y)
        placed.append({"id": len(placed) + 1, **item})
        return height

    for title, panels in rows:
        y += place({"type": "row", "title": title, "collapsed": False, "panels": [],
                    "gridPos": {"w": COLUMNS, "h": 1}}, 0, y, 1)
        x = line = 0
        for item in panels:
            if x + item["gridPos"]["w"] > COLUMNS:
                y, x, line = y + line, 0, 0
            line = max(line, place(item, x, y, item["gridPos"]["h"]))
            x += item["gridPos"]["w"]
        y += line
    return placed


def dashboard(uid, title, variables, annotations, rows):
    return {"uid": uid, "title": title, "tags": ["foreshock"], "schemaVersion": 39, "version": 1,
            "editable": True, "graphTooltip": 1, "refresh": "30s", "timezone": "browser",
            "time": {"from": "now-6h", "to": "now"},
            "links": [{"type": "dashboards", "tags": ["foreshock"], "title": "Foreshock",
                       "asDropdown": True, "includeVars": True, "keepTime": True}],
            "templating": {"list": variables}, "annotations": {"list": annotations},
            "panels": lay_out(rows)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    check = parser.parse_args().check
    wrong = []
    for content in DASHBOARDS:
        path = FOLDER / f"{content[0]}.json"
        text = json.dumps(dashboard(*content), indent=1) + "\n"
        if not check:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            wrong.append(path.name)
    extra = {path.name for path in FOLDER.glob("*.json")} - {f"{c[0]}.json" for c in DASHBOARDS}
    for name in sorted(wrong):
        print(f"{name} is not what deploy/grafana/generate.py writes; run it", file=sys.stderr)
    for name in sorted(extra):
        print(f"{name} is no dashboard of deploy/grafana/generate.py", file=sys.stderr)
    return 1 if wrong or extra else 0


if __name__ == "__main__":
    sys.exit(main())
