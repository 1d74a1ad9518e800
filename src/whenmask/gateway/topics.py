"""MQTT topics: filters with wildcards, what the wildcards stand for, and topics made of that."""

import re
from itertools import zip_longest

PLACE = re.compile(r"\{([^{}]*)\}")
MOST_BYTES = 65_535


def check_topic(topic: str) -> str | None:
    """Return what is wrong with a topic that is published to, if anything."""
    if not topic or len(topic.encode("utf-8", "replace")) > MOST_BYTES:
        return "a topic has 1 to 65535 bytes"
    if re.search(r"[+#\0]", topic):
        return "a topic that is published to has no wildcards"
    return "topics that begin with $ are the broker's own" if topic.startswith("$") else None


def check_filter(pattern: str) -> str | None:
    """Return what is wrong with a topic filter, if anything."""
    levels = pattern.split("/")
    if not pattern or "\0" in pattern:
        return "a topic filter has at least one character, and no null"
    if any("#" in level and (level != "#" or i < len(levels) - 1) for i, level in enumerate(levels)):
        return "# stands alone, as the last level"
    if any("+" in level and level != "+" for level in levels):
        return "+ stands for a whole level"
    return "topics that begin with $ are the broker's own" if pattern.startswith("$") else None


def check_target(target: str, pattern: str) -> str | None:
    """Return what is wrong with a topic made of another's wildcards, if anything."""
    known = sum(level in ("+", "#") for level in pattern.split("/"))
    for place in PLACE.findall(target):
        if not place.isdecimal() or not 1 <= int(place) <= known:
            return f"the filter has {known} wildcards, and {{1}} stands for the first"
    return check_topic(PLACE.sub("x", target))


def matcher(pattern: str) -> re.Pattern[str]:
    """Return an expression that a topic of the filter matches in full, with a group for each wildcard."""
    levels = pattern.split("/")
    parts = ["([^/]*)" if level == "+" else re.escape(level) for level in levels if level != "#"]
    expression = "/".join(parts)
    if levels[-1] == "#":  # also matches the level above it
        expression += "(?:/(.*))?" if parts else "(.*)"
    # Wildcards at the start do not match topics of the broker.
    return re.compile(r"(?!\$)" + expression, re.DOTALL)


def fill(target: str, found: re.Match[str]) -> str:
    """Return the topic that a target stands for, given what the wildcards match."""
    return PLACE.sub(lambda place: found[int(place[1])] or "", target)


def overlap(one: str, other: str) -> bool:
    """Return whether some topic matches both filters."""
    for a, b in zip_longest(one.split("/"), other.split("/")):
        if "#" in (a, b):
            return True
        if a is None or b is None:
            # `a/#` matches `a` as well, so that one more level does not tell them apart if it is #.
            return False
        if a != b and "+" not in (a, b):
            return False
    return True
