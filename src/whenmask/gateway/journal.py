"""The log: a JSON object a line on standard error, for systemd, containers and people.

It says what the gateway does and how much of it, and never a value, a time of a reading, a name of a series or a
key. Whoever collects the lines stamps them.
"""

import json
import sys


def note(event: str, /, *, level: str = "info", **facts: str | int | float | dict[str, int] | None) -> None:
    """Write one line."""
    line = json.dumps({"level": level, "event": event, **facts}, ensure_ascii=False)
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
