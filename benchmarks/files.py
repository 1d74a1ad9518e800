"""Releasing files: against what DuckDB takes to read, order and write the same file, in the same run.

Targets: at most 3 times that, in at most 2 GB. Every measurement is a process of its own, as people run it. The
number of series is the first argument of the measurement in full: 10,000 of 10,000 values are 10^8 rows.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb

from benchmarks.timing import Row

LENGTH = 10_000
SERIES = int(os.environ.get("WHENMASK_BENCH_SERIES", "1000"))
ROUNDS = 3 if SERIES <= 1000 else 1
MEMORY = "1400MiB"


def make(path: Path, order: str) -> None:
    """Write readings of so many meters, sorted or shuffled."""
    rows = SERIES * LENGTH
    # Multiplying by a number without a common divisor visits every row once.
    row = "i" if order == "sorted" else f"(i * 7919) % {rows}"
    query = f"""
        SELECT row // {LENGTH} AS meter, TIMESTAMP '2024-01-01' + INTERVAL 30 MINUTE * (row % {LENGTH}) AS time,
            (hash(row) % 21475) / 1000 AS kwh
        FROM (SELECT {row} AS row FROM range({rows}) AS numbers(i))
    """  # noqa: S608 - numbers only
    with duckdb.connect(config={"memory_limit": MEMORY}) as connection:
        connection.execute(f"COPY ({query}) TO '{path}' (FORMAT parquet)")


def order(source: str, output: str, spill: str) -> None:
    """Read, order and write with DuckDB alone."""
    with duckdb.connect(config={"memory_limit": MEMORY, "temp_directory": spill}) as connection:
        connection.execute(f"COPY (FROM '{source}' ORDER BY meter, time) TO '{output}' (FORMAT parquet)")


def measured(*command: str) -> tuple[float, float]:
    """Return the seconds and peak megabytes of a process, started by a small one so that the peak is its own."""
    code = (
        "import resource, subprocess, sys, time; start = time.perf_counter();"
        "subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL);"
        "print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e6)"
    )
    ran = subprocess.run([sys.executable, "-c", code, *command], check=True, capture_output=True, text=True)
    seconds, peak = map(float, ran.stdout.split())
    return seconds, peak


def release(source: Path, output: Path, *more: str) -> tuple[str, ...]:
    """Return the command of a release."""
    options = ("--by", "meter", "--time", "time", "--epsilon", "4", "--memory", "2GB", "--quiet", "--force", *more)
    return (sys.executable, "-m", "whenmask", "release", str(source), "-o", str(output), *options)


def measure() -> list[Row]:
    """Compare releases with DuckDB's own ordering."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = {order: folder / f"{order}.parquet" for order in ("sorted", "shuffled")}
        for kind, path in files.items():
            make(path, kind)
        alone = (
            sys.executable,
            "-m",
            "benchmarks.files",
            str(files["sorted"]),
            str(folder / "o"),
            str(folder / "s"),
        )
        window = ("--window", "48")
        jobs = {
            "DuckDB alone: read, order, write": alone,
            "release, sorted, RanSwitch": release(
                files["sorted"], folder / "a.parquet", *window, "--mechanism", "RanSwitch"
            ),
            "release, sorted, PureSwitch": release(files["sorted"], folder / "a.parquet", *window),
            "release, shuffled": release(files["shuffled"], folder / "a.parquet", *window),
            "release, window of 24h": release(files["sorted"], folder / "a.parquet", "--window", "24h"),
            "release, Parquet to CSV": release(files["sorted"], folder / "a.csv", *window),
            "release, CSV to CSV": release(folder / "a.csv", folder / "b.csv", *window),
        }
        found = {name: [measured(*command) for _ in range(ROUNDS)] for name, command in jobs.items()}
    base = min(seconds for seconds, _ in found["DuckDB alone: read, order, write"])
    rows = [Row(f"DuckDB alone, {SERIES * LENGTH:,} rows", base, "s")]
    for name, rounds in list(found.items())[1:]:
        target = 3.0 if "sorted" in name or "24h" in name else None
        rows.append(Row(f"{name}: time / DuckDB's", min(rounds)[0] / base, "ratio", target))
        rows.append(Row(f"{name}: peak memory", max(peak for _, peak in rounds) / 1000, "GB", 2.0))
    return rows


if __name__ == "__main__":
    order(*sys.argv[1:])
