"""Draws a run: an indicator per layer above, the loss below, and what happened when."""

from __future__ import annotations

from typing import Mapping, Sequence


def draw(
    path: str,
    title: str,
    curve_name: str,
    curve: Mapping[int, float],
    indicator: str,
    points: Mapping[int, Mapping[int, float]],
    marks: Sequence[tuple[int, str, str]],
) -> None:
    """Writes `path` (.svg or .png).

    Args:
        curve: the loss or the reward by step.
        points: of `indicator`, by layer and step; empty: without the upper plot.
        marks: (step, label, colour) of vertical lines.

    Raises:
        ImportError: without matplotlib. ValueError: another ending. OSError: not writable.
    """
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    rows = 2 if points else 1
    figure, axes = pyplot.subplots(rows, 1, sharex=True, squeeze=False, figsize=(9, 2 + 2 * rows))
    upper, lower = axes[0][0], axes[-1][0]
    for layer, by_step in points.items():
        upper.plot(list(by_step), list(by_step.values()), label=f"layer {layer}", linewidth=1)
    if points:
        upper.set_ylabel(indicator, fontsize=8)
        upper.legend(fontsize=8, loc="lower left")
    lower.plot(list(curve), list(curve.values()), color="0.4", linewidth=0.8)
    lower.set_ylabel(curve_name, fontsize=8)
    lower.set_xlabel("step", fontsize=8)
    for axis in axes[:, 0]:
        axis.tick_params(labelsize=8)
        for step, _, colour in marks:
            axis.axvline(step, color=colour, linewidth=1, linestyle="--")
    for place, (step, label, colour) in enumerate(marks):
        side = ("left", 3) if step < 0.7 * max(curve) else ("right", -3)
        lower.annotate(
            f"{label} {step}", (step, 0.95 - 0.1 * place), xycoords=("data", "axes fraction"),
            color=colour, fontsize=8, ha=side[0], xytext=(side[1], 0), textcoords="offset points",
        )  # fmt: skip
    upper.set_title(title, fontsize=9)
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)
