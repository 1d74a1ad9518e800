"""`whenmask key`: a key file, for runs that are to be repeated."""

from pathlib import Path

from whenmask.cli.show import console
from whenmask.keystream import Key


def key(path: Path, /) -> None:
    """Make a key file that only its owner may read, for runs that are to be repeated.

    Without one every release has a fresh key that is never kept, which is safest. Whoever has the key can undo
    the releases made with it: keep it as secret as the rows. An existing file is never overwritten.

    Example: `whenmask key secret.key`

    Args:
        path: The file to write.
    """
    Key.fresh().save(path)
    console().print(f"A fresh key is in {path.name}. Keep it as secret as the rows: it undoes their releases.")
