"""Where in a TOML file a setting stands, so that an error can name its line.

tomllib keeps no line numbers of valid files, so this reads the headers and keys again, line by line: enough to
point at a line, and never used to understand the file.
"""

import re

HEADER = re.compile(r"\s*(\[\[?)\s*([^\]]+?)\s*\]")
ENTRY = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")


def split(key: str) -> tuple[str, ...]:
    """Return the parts of a dotted key."""
    return tuple(part.strip().strip("\"'") for part in key.split("."))


def find_line(text: str, path: tuple[str | int, ...]) -> int | None:
    """Return the number of the line that sets what a path names, or the nearest place around it.

    Args:
        text: The whole file.
        path: Keys, and places in arrays of tables, such as ("stream", 1, "late").
    """
    known: dict[tuple[str | int, ...], int] = {}
    counted: dict[tuple[str, ...], int] = {}
    table: tuple[str | int, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := HEADER.match(line):
            table = split(header[2])
            if header[1] == "[[":
                known.setdefault(table, number)
                place = counted[table] = counted.get(table, -1) + 1
                table = (*table, place)
            else:
                table = _within(table, counted)
            known.setdefault(table, number)
        elif entry := ENTRY.match(line):
            known.setdefault((*table, *split(entry[1])), number)
    while path and path not in known:
        path = path[:-1]
    return known.get(path)


def _within(table: tuple[str, ...], counted: dict[tuple[str, ...], int]) -> tuple[str | int, ...]:
    """Return the path of a table, in the last table of an array that it belongs to, if any."""
    for size in range(len(table) - 1, 0, -1):
        if table[:size] in counted:
            return (*table[:size], counted[table[:size]], *table[size:])
    return table
