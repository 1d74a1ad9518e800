"""Writing SQL that no name, path or text can break out of."""

from collections.abc import Iterable


def quoted(name: str) -> str:
    """Return a name as an SQL identifier.

    Example:
        >>> quoted('a"b')
        '"a""b"'
    """
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """Return a text as an SQL literal.

    Example:
        >>> text("it's")
        "'it''s'"
    """
    return "'" + value.replace("'", "''") + "'"


def listed(values: Iterable[str]) -> str:
    """Return SQL expressions or names, separated by commas."""
    return ", ".join(values)


def unused(name: str, names: Iterable[str]) -> str:
    """Return a name that is not among these, in any case, since SQL does not tell cases apart.

    Example:
        >>> unused("row", ["Row", "time"])
        'row_'
    """
    taken = {other.lower() for other in names}
    while name.lower() in taken:
        name += "_"
    return name
