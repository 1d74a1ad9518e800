"""Headless Chromium, for tests of pages."""

import shutil
import subprocess
import zlib
from pathlib import Path

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
CALM = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync --hide-scrollbars"
QUIET = "--disable-background-networking --disable-component-update --window-size=900,2800"


def opened(path: Path, profile: Path, *options: str) -> str:
    """Open a page; return what the browser prints."""
    assert CHROMIUM
    call = [CHROMIUM, *CALM.split(), *QUIET.split(), f"--user-data-dir={profile}", *options, path.as_uri()]
    return subprocess.run(call, capture_output=True, text=True, check=True, timeout=120).stdout


def painted(path: Path, profile: Path, picture: Path, *, dark: bool) -> bytes:
    """Return a picture of a page as PNG."""
    opened(path, profile, f"--blink-settings=preferredColorScheme={0 if dark else 1}", f"--screenshot={picture}")
    return picture.read_bytes()


def first_pixel(picture: bytes) -> tuple[int, ...]:
    """Return the color of the corner of a PNG: every filter leaves the first pixel as it is."""
    assert picture.startswith(b"\x89PNG")
    data, at = b"", 8
    while at < len(picture):
        size, kind = int.from_bytes(picture[at : at + 4], "big"), picture[at + 4 : at + 8]
        data += picture[at + 8 : at + 8 + size] if kind == b"IDAT" else b""
        at += 12 + size
    return tuple(zlib.decompress(data)[1:4])
