"""Releasing tables: a Polars frame against the sort it needs, and what a short series costs.

Target of the frames: at most 1.5 times what Polars takes to sort the same table by series and time.
"""

import time
from collections.abc import Callable, Iterator

import numpy as np
import polars as pl
import pyarrow as pa

from whenmask import Key, RanSwitch
from whenmask.batches import release_batches
from whenmask.columns import Columns

MECHANISM = RanSwitch(4, window=48)
KEY = Key.for_testing(7)
SERIES, LENGTH = 10_000, 1_000
SHORT_SERIES, SHORT_LENGTH = 200_000, 48
BATCH = 1 << 17


def seconds(work: Callable[[], object], times: int = 3) -> float:
    """Return the shortest of a few runs."""
    best = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def table(series: int, length: int, order: str) -> pl.DataFrame:
    """Return readings of so many meters, by meter, by time, or shuffled."""
    rng = np.random.default_rng(7)
    rows = np.arange(series * length)
    if order == "shuffled":
        rng.shuffle(rows)
    meter, slot = np.divmod(rows, length) if order != "by time" else divmod(rows, series)[::-1]
    moments = np.datetime64("2024-01-01", "us") + slot * np.timedelta64(30, "m")
    return pl.DataFrame({"meter": meter, "time": moments, "kwh": rng.random(rows.size)})


def frame_rows(order: str, ids: str) -> dict[str, object]:
    """Compare the release of a frame with its sort."""
    frame = table(SERIES, LENGTH, order)
    if ids == "text":
        frame = frame.with_columns(pl.format("MAC{}", pl.col("meter").cast(pl.String).str.zfill(6)).alias("meter"))
    sort = seconds(lambda: frame.sort("meter", "time"))
    release = seconds(lambda: MECHANISM.release(frame, by="meter", time="time", key=KEY))
    return {
        "name": f"Polars, 10^7 rows {order}, {ids} ids: release / sort",
        "ratio": release / sort,
        "target": 1.5,
    }


def batch_rows(series: int, length: int, name: str) -> dict[str, object]:
    """Measure what a value costs in batches."""
    whole = table(series, length, "by meter").to_arrow()
    columns = Columns(by=("meter",), time="time")

    def release() -> None:
        batches: Iterator[pa.RecordBatch] = iter(whole.to_batches(max_chunksize=BATCH))
        for _ in release_batches(batches, MECHANISM, columns, key=KEY):
            pass

    return {"name": name, "ns_per_value": seconds(release, 2) / whole.num_rows * 1e9, "target": None}


def measure() -> list[dict[str, object]]:
    """Return a row for each measurement."""
    MECHANISM.plan(1)  # compiles
    rows = [frame_rows(order, ids) for ids in ("number", "text") for order in ("by meter", "by time", "shuffled")]
    rows.append(batch_rows(SERIES, LENGTH, "batches, 10^4 series of 1,000 values"))
    rows.append(batch_rows(SHORT_SERIES, SHORT_LENGTH, "batches, 2·10^5 series of 48 values"))
    return rows


if __name__ == "__main__":
    for row in measure():
        print(row)
