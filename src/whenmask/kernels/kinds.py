"""The kinds of choice that PureSwitch has at a step (docs/guarantees.md, Lemma 1), shared by table and samplers.

Here, apart from the kernel that uses them, because this module does not import numba. They are numbered in the
order in which their probabilities are stacked up; the last one is possible at every height.
"""

import numpy as np

# A slot is left open and a value outstanding: a new path.
NEW = 0
# The value fills an open slot; its own slot is open instead.
FILL = 1
# The value fills the open slot of one path, its slot takes the outstanding value of another.
MERGE = 2
# The value fills the open slot of a path and its slot takes the outstanding value of the same: a cycle closes.
CLOSE = 3
# The slot takes an outstanding value; its own value is outstanding instead.
TAKE = 4
# The value stays in its slot.
STAY = 5

# How many paths more there are after a choice of each kind.
CHANGES = np.array([1, 0, -1, -1, 0, 0])

# What a slot holds that waits for its value.
OPEN = -1
