"""`whenmask data`: which data sets of the evaluation are there."""

from pathlib import Path

from rich.table import Table

from whenmask.cli.show import console


def data(
    *,
    data: Path | None = None,
) -> None:
    """Show which data sets of the evaluation are there, and which would be made up.

    Example: `whenmask data --data data`

    Args:
        data: The folder to look in; without it all but SyntheticTS are generated twins. Looked for by name are:
            `ge.us.csv` or another `*.us.csv`, daily prices with `Date` and `Close`, a row a trading day
            (Stock-N and Stock-B); `train.csv`, `taxi_sf*`, `*traject*` or `taxi*`, CSV (also .gz) or Parquet of
            trips: `POLYLINE` as JSON as in ECML/PKDD 2015, or a long table of `id`, `time`, `lon`, `lat`, or
            lists `lon_e6`, `lat_e6` of millionths of a degree, of which trips of 300 points or more are kept,
            with their first 300 (Trajectory); `smart_meters*`, CSV or Parquet with `meter`, `time`, `kwh`, a
            row each half hour (Meters).
    """
    from whenmask.lab.datasets import LOADERS
    from whenmask.lab.record import Source

    table = Table("data set", "", "what", "SHA-256")
    for load in LOADERS.values():
        source = Source.of(load(data))
        kind = "measured" if source.real else "generated"
        table.add_row(source.name, kind, source.words, source.digest[:16])
    console().print(table)
