"""The fault lab: a small mixture-of-experts decoder that is trained for real and broken on purpose.

In the order of the flow: `data` (bytes of text), `attention` (tiled, with the rounding under test),
`parallel` (shards over processes), `model`, `faults` and `rl_faults` (what goes wrong, and when),
`watching` (the monitor), `trainer`, `train` and `rl` (a step, and the two loops), `verdict` (what
the daemon said, when the loss broke) and `plot`. `../fault_lab.py` is the command.
"""
