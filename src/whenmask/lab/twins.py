"""Stand-ins for data that are not at hand: made up, always the same, and named as such wherever they are used."""

import numpy as np
from numpy.typing import NDArray

from whenmask.lab.chance import normals, uniforms

# What the price walk has in common with the closes of General Electric, 1962 to 2017, adjusted: measured on them.
PRICES = 14_058
FIRST_PRICE, LAST_PRICE, VOLATILITY = 0.6201, 20.49, 0.0162
# A step of the price relatively to it: with it the close is unchanged on about one day of seven, as the real one.
TICK = 0.006

# Trips on a street grid: blocks of 120 metres, which a taxi drives in 15 seconds; how far from the middle trips
# begin, in blocks (one standard deviation); the chance to turn to either side; how long and how often taxis stand.
BLOCK, SPREAD, POINTS, SECONDS, SPEED = 120.0, 25.0, 300, 15, 8.0
TURN, HALT, STANDING = 1 / 16, 20, 0.25

METERS, DAYS, HALF_HOURS = 20, 365, 48


def price_walk(count: int = PRICES) -> NDArray[np.float64]:
    """Return closes that walk from the first price to the last, with the volatility and tick of the real ones."""
    steps = VOLATILITY * normals("price walk", count - 1)
    steps += np.log(LAST_PRICE / FIRST_PRICE) / (count - 1) - steps.mean()
    walked = np.concatenate([[0.0], np.cumsum(steps)])
    return np.round(FIRST_PRICE * np.exp(TICK * np.round(walked / TICK)), 6)


def street_trips(count: int) -> NDArray[np.float64]:
    """Return trips of 300 points in metres, as an array (trips, 300, 2), longitudes first.

    Each begins at a corner, more likely in the middle of the town; drives on, turns at some corners, and halts.
    """
    corners = np.round(SPREAD * normals("corners", 2 * count).reshape(count, 2))
    chances = uniforms("trips", count * (1 + 2 * POINTS)).reshape(count, -1)
    turns, halts = chances[:, 1 : 1 + POINTS], chances[:, 1 + POINTS :: HALT]
    turned = np.where(turns < TURN, 1, np.where(turns > 1 - TURN, 3, 0))
    heading = (np.floor(4 * chances[:, :1]) + np.cumsum(turned, axis=1)) % 4
    driving = np.repeat(halts > STANDING, HALT, axis=1)[:, :POINTS]
    stride = np.where(driving, SPEED * SECONDS, 0.0)
    steps = np.stack([stride * np.cos(heading * np.pi / 2), stride * np.sin(heading * np.pi / 2)], axis=-1)
    return np.asarray(np.round(corners[:, None, :] * BLOCK + np.cumsum(steps, axis=1), 1))


def households(count: int = METERS, days: int = DAYS) -> list[NDArray[np.int64]]:
    """Return half-hourly consumption in Wh: a base load, a morning, an evening and a few appliances."""
    hours = np.arange(HALF_HOURS) / 2
    profile = 60 + 180 * np.exp(-((hours - 7.5) ** 2) / 2) + 420 * np.exp(-((hours - 19) ** 2) / 5)
    made = []
    for number in range(count):
        slots = days * HALF_HOURS
        level, shift = uniforms("household", 2, series=number)
        daily = np.tile(np.roll(profile, round(6 * shift) - 3), days) * (0.5 + level)
        load = daily * np.exp(0.5 * normals("load", slots, series=number))
        appliance = np.where(uniforms("appliance", slots, series=number) < 0.03, 900.0, 0.0)
        made.append(np.round(load + appliance).astype(np.int64))
    return made
