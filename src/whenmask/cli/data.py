"""`whenmask data`: which data sets of the evaluation are there."""

from pathlib import Path

from rich.table import Table

from whenmask.cli.show import console


def data(
    *,
    data: Path | None = None,
) -> None:
    """Show which data sets of the evaluation are there, and which would be made up.

    Looked for in the folder, by name:

    - `ge.us.csv`, or another `*.us.csv`: daily prices, a row a trading day with `Date` and `Close`
      (Stock-N, and Stock-B: whether the price rose).

    - `train.csv`, `taxi_sf*.parquet`, `*traject*` or `taxi*`: trips. A CSV (also .gz) with `POLYLINE` as JSON, as
      in ECML/PKDD 2015; or a long table of `id`, `time`, `lon`, `lat`; or a row a trip with lists `lon_e6`,
      `lat_e6` in millionths of a degree. Trips of 300 points or more are kept, and their first 300 points.

    - `smart_meters*`: Parquet or CSV with `meter`, `time`, `kwh`, a row for each half hour.

    Example: `whenmask data --data data`

    Args:
        data: The folder to look in; without it all but SyntheticTS are generated twins.
    """
    from whenmask.lab.datasets import LOADERS
    from whenmask.lab.record import Source

    table = Table("data set", "", "what", "SHA-256")
    for load in LOADERS.values():
        source = Source.of(load(data))
        kind = "measured" if source.real else "generated"
        table.add_row(source.name, kind, source.words, source.digest[:16])
    console().print(table)
