"""Rules for tests of the page: with reference bands, and as somebody might write them in its editor.

    Daemon(binary, folder, rules=[*RULES, write_band_rules(folder)])
"""

ENTROPY = "attn.delta2.entropy_ratio_l1"

# By eye from h_const_101: its loss, and the mean over the heads of layer 1.
BAND = f"""version: 1
align: step
series:
  - indicator: train.loss
    points: [[64, 3.5, 0.5], [192, 2.5, 0.25], [448, 2.3, 0.25], [1472, 1.9, 0.25]]
  - indicator: {ENTROPY}
    aggregate: mean
    layer: 1
    points: [[64, 0.83, 0.012], [320, 0.85, 0.008], [576, 0.83, 0.008], [1472, 0.82, 0.006]]
"""

BAND_RULES = f"""groups:
- name: bands
  defaults:
    baseline: {{kind: reference, file: band.yaml}}
    labels: {{severity: info}}
  rules:
  - alert: loss_off_band
    indicator: train.loss
    robust_z: {{outside: 8}}
  - alert: entropy_off_band
    indicator: {ENTROPY}
    aggregate: mean
    robust_z: {{outside: 8}}
"""

OWN_RULES = f"""groups:
- name: own
  rules:
  - alert: entropy_moved
    indicator: {ENTROPY}
    threshold: {{below: 0.5}}
    labels: {{severity: warning}}
  - alert: never_so_high
    indicator: train.loss
    threshold: {{above: 1000000}}
    labels: {{severity: critical}}
"""


def write_band_rules(folder):
    """The path of a rule file in `folder`, beside its band."""
    (folder / "band.yaml").write_text(BAND)
    rules = folder / "bands.yaml"
    rules.write_text(BAND_RULES)
    return rules
