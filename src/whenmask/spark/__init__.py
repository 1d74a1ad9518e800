"""Releasing on Spark 4: tables of billions of rows, and streams of many series, through the same engine as elsewhere.

`release` and `release_stream` need a classic session (not Spark Connect), Java 17, and whenmask installed where the
executors run.
"""

try:
    import google.protobuf
    import pandas  # noqa: ICN001
    import pyspark  # noqa: F401
except ImportError as error:
    from whenmask.errors import DependencyError

    raise DependencyError(
        "releasing on Spark needs more packages", f"no {error.name}", "pip install 'whenmask[spark]'"
    ) from None

from whenmask.spark.batch import release
from whenmask.spark.faults import plain_errors
from whenmask.spark.keys import key_from_environment

__all__ = ["key_from_environment", "plain_errors", "release"]
