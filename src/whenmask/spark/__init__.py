"""Releasing on Spark 4: tables of billions of rows, and streams of many series, by the same engine as elsewhere.

`release` and `release_stream` need a classic session (not Spark Connect), Java 17, and whenmask installed where
the executors run.
"""

from whenmask.errors import DependencyError

try:
    from whenmask.spark.batch import release
    from whenmask.spark.faults import plain_errors
    from whenmask.spark.keys import key_from_environment
    from whenmask.spark.streaming import StreamOptions, release_stream
except ModuleNotFoundError as error:
    hint = "pip install 'whenmask[spark]'"
    raise DependencyError("releasing on Spark needs more packages", f"no {error.name}", hint) from None

__all__ = ["StreamOptions", "key_from_environment", "plain_errors", "release", "release_stream"]
