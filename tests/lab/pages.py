"""Tables that a measurement writes into the docs, between two marks that stay."""

from __future__ import annotations

import pathlib


def write_table(page: pathlib.Path, name: str, lines: list[str]) -> None:
    """Between `<!-- name:begin -->` and `<!-- name:end -->`. ValueError where they are not there."""
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    head, _, rest = page.read_text().partition(begin)
    _, found, tail = rest.partition(end)
    if not found:
        raise ValueError(f"{page}: the marks {begin} and {end} are not there, in this order")
    page.write_text(f"{head}{begin}\n" + "\n".join(lines) + f"\n{end}{tail}")
