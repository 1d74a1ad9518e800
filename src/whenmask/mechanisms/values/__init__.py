"""The mechanisms that change values and keep timestamps, one file each: what the temporal ones are compared with.

All spend their budget at every timestamp and have one signature, `perturb(values, key=…, series=…, run=…)`.
"""

from whenmask.mechanisms.values.noise import Gaussian, Laplace
from whenmask.mechanisms.values.perturbed import Perturbed
from whenmask.mechanisms.values.piecewise import Piecewise
from whenmask.mechanisms.values.randomized_response import RandomizedResponse

__all__ = ["Gaussian", "Laplace", "Perturbed", "Piecewise", "RandomizedResponse"]
