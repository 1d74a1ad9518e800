"""Release a data frame: pandas here; Polars and Arrow tables go the same way."""

import pandas as pd

from whenmask import PureSwitch

times = pd.date_range("2024-01-01", periods=96, freq="30min", tz="Europe/London")
readings = pd.DataFrame(
    {
        "meter": ["north"] * 96 + ["south"] * 96,
        "time": [*times, *times],
        "kwh": [(37 * n) % 96 / 100 for n in range(192)],
        "tariff": pd.Categorical(["day" if 14 <= n % 48 < 44 else "night" for n in range(192)]),
    }
)
mechanism = PureSwitch(epsilon=4, window=48)

# Reading and tariff of a row move together, within their meter; meters and times stay.
released = mechanism.release(readings, by="meter", time="time")

assert released[["meter", "time"]].equals(readings[["meter", "time"]])
assert released.dtypes.equals(readings.dtypes)
for meter, before in readings.groupby("meter"):
    after = released[released["meter"] == meter]
    assert sorted(after["kwh"]) == sorted(before["kwh"])
print(mechanism.guarantee)
print(released.head())
