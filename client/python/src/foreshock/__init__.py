"""Tells foreshockd what goes on inside a training run, without getting in its way.

    import foreshock
    monitor = foreshock.watch(model, optimizer, run="exp-42")   # finds attention and MoE routers
    ...
    monitor.step(step, loss=loss, grad_norm=grad_norm)

`watch`, `calibrate` and `proxy_report` need torch; everything else needs numpy, grpcio and protobuf
only. docs/python.md teaches it.
"""

from foreshock import payloads
from foreshock.client import Client
from foreshock.policy import policy_mismatch
from foreshock.recorder import Recorder
from foreshock.reports import Scalar
from foreshock.stats import ClientStats
from foreshock.v1 import VERSION as __version__

__all__ = [
    "Client",
    "ClientStats",
    "Recorder",
    "Scalar",
    "__version__",
    "calibrate",
    "payloads",
    "policy_mismatch",
    "proxy_report",
    "watch",
]


def __getattr__(name):
    # Torch is imported when it is needed, not before.
    if name in ("watch", "Monitor", "Sampling"):
        from foreshock import monitor

        return getattr(monitor, name)
    if name in ("calibrate", "CalibrationReport"):
        from foreshock import calibration

        return getattr(calibration, name)
    if name in ("proxy_report", "ForwardReport"):
        from foreshock import forward_report

        return getattr(forward_report, name)
    raise AttributeError(f"module 'foreshock' has no attribute {name!r}")
