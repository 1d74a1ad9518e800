"""The numbers of the paper, as printed: *Stateful Switch*, its tables, and figures quoted in its text.

What stands only in a plot cannot be read off to a digit; there the statements of the text are compared.
"""

# Table "Total Cost of Larger Privacy Budgets (k = 10)" from epsilon 7 on; up to 6 an earlier table of the same,
# which the paper's source holds but does not print, to one digit after the point.
COSTS: dict[str, dict[int, str]] = {
    name: dict(enumerate(row.split(), start=1))
    for name, row in {
        "Threshold": "13.1 7.6 5.1 4.0 3.0 2.0 2.00 1.00 1.00 1.00 1.00 1.00 1.00 1.00",
        "RanSwitch": "4.7 4.6 4.4 4.1 3.5 2.7 1.96 1.34 0.89 0.56 0.35 0.22 0.13 0.08",
        "StaSwitch": "4.1 4.0 3.8 3.5 3.0 2.4 1.77 1.24 0.83 0.54 0.34 0.21 0.12 0.08",
    }.items()
}

# Expected costs quoted in the text for window 10 and epsilon 2.
QUOTED_COSTS = {"RanSwitch": 4.54, "StaSwitch": 3.89, "ideal": 3.82}

# Table "NMI on Trajectory Clustering", epsilon 1 … 8.
NMI = {
    "Piecewise": (0.003, 0.005, 0.006, 0.007, 0.008, 0.008, 0.007, 0.008),
    "Threshold": (0.572, 0.590, 0.610, 0.616, 0.699, 0.705, 0.706, 0.768),
    "RanSwitch": (0.593, 0.613, 0.609, 0.623, 0.703, 0.713, 0.726, 0.845),
    "StaSwitch": (0.624, 0.650, 0.703, 0.725, 0.756, 0.745, 0.858, 0.928),
}

# Introduction: TM's error of counts over randomised response's at window 10 and epsilon 1; TM's largest epsilon at
# window 4.
TIMES_WORSE = 382
LARGEST_EPSILON = 2.19
