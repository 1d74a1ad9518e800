"""Release files from Python: the same engine, receipt and ledger as `whenmask release`."""

import tempfile
from pathlib import Path

from whenmask import PureSwitch, WhenmaskError
from whenmask.columns import Columns
from whenmask.files import Job, open_inputs, release_files, window_of
from whenmask.receipt import Receipt

folder = Path(tempfile.mkdtemp())
for day in (1, 2):
    lines = ["meter,time,kwh"]
    for meter, habit in (("a", 29), ("b", 31)):
        lines += [f"{meter},2024-01-0{day}T{n // 2:02d}:{n % 2 * 30:02d},{n * habit % 47 / 10}" for n in range(48)]
    (folder / f"day{day}.csv").write_text("\n".join(lines))

output = folder / "released.parquet"
with open_inputs([f"{folder}/day*.csv"], Columns(by=("meter",), time="time"), output=output) as inputs:
    mechanism = PureSwitch(epsilon=4, window=window_of(inputs, "12h"))
    receipt = release_files(inputs, mechanism, Job(output))

Receipt.read(output).check(output)
print(f"{receipt.rows} rows of {receipt.series} series, window {mechanism.window}, {mechanism.guarantee}")

try:
    with open_inputs([folder / "day1.csv"], Columns(by=("meter",), time="time"), output=output) as inputs:
        release_files(inputs, mechanism, Job(output))
except WhenmaskError as error:  # what is wrong, what was got, a hint; never data
    print(error)
