"""Release one series: a list, an array, or a series of pandas, Polars or Arrow."""

import numpy as np

from whenmask import PureSwitch

heart_rates = np.array([62, 61, 64, 90, 121, 135, 128, 110, 84, 70, 66, 63], dtype=np.int16)
mechanism = PureSwitch(epsilon=6, window=6)

plan = mechanism.plan(len(heart_rates))  # drawn without looking at the values
released = plan.apply(heart_rates)

assert released.dtype == heart_rates.dtype
assert sorted(released) == sorted(heart_rates)
print("recorded", heart_rates)
print("released", released)
print(f"A value moved {plan.costs().per_slot():.1f} slots on average; {mechanism.guarantee}")
