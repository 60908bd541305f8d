"""The fault lab: small models that are trained for real and broken on purpose.

In the order of the flow: `data`, `language` and `images` (batches), `attention` (tiled, with the
rounding under test), `parallel` (shards over processes), `model`, `dense`, `vision` and
`adapters` (the models), `optimizers` and `schedules`, `settings` (what is trained on what), `faults` and
`rl_faults` (what goes wrong, and when), `watching` and `captures` (the monitor, and what it leaves),
`trainer`, `train`, `processes` and `rl` (a step, and the loops), `zoo` (many runs, and what is true
of each), `verdict` (what the daemon said, when the loss broke) and `plot`. `../fault_lab.py` is the
command.
"""
