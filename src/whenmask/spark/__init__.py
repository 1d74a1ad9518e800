"""Releasing on Spark 4: tables of billions of rows, and streams of many series, through the same engine as elsewhere.

`release` and `release_stream` need a classic session (not Spark Connect), Java 17, and whenmask installed where the
executors run.
"""

from importlib.util import find_spec

from whenmask.errors import DependencyError

for name in ("google", "pandas", "pyspark"):
    if find_spec(name) is None:
        raise DependencyError("releasing on Spark needs more packages", f"no {name}", "pip install 'whenmask[spark]'")

from whenmask.spark.batch import release
from whenmask.spark.faults import plain_errors
from whenmask.spark.keys import key_from_environment
from whenmask.spark.streaming import StreamOptions, release_stream

__all__ = ["StreamOptions", "key_from_environment", "plain_errors", "release", "release_stream"]
