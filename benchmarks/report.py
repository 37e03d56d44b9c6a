"""Figures as a table on the screen and as JSON in a file."""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table


def arguments(description: str | None) -> argparse.ArgumentParser:
    """Make a parser with the option that every benchmark has."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file")
    return parser


def percentile(values: Sequence[float], share: float) -> float:
    """
    Give the value that a share of the values does not exceed (nearest rank).

    :param values: At least one.
    :param share: 0 to 1.
    """
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, round(share * len(ordered) + 0.5) - 1))]


def show(title: str, rows: Mapping[str, Mapping[str, Any]]) -> None:
    """Print a table: a row for each key, a column for each key of the rows."""
    table = Table(title=title)
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    for column in ["", *columns]:
        table.add_column(column, justify="right" if column else "left")
    for name, row in rows.items():
        table.add_row(name, *(str(row.get(column, "")) for column in columns))
    Console().print(table)


def write(path: Path | None, figures: Mapping[str, Any]) -> None:
    """Write the figures where `--json` says."""
    if path is not None:
        path.write_text(json.dumps(figures, indent=2) + "\n")
