"""The keystream: known answers, random access, contexts that never collide, keys that never show."""

import copy
import hashlib
import multiprocessing
import os
import pickle
import re
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given
from hypothesis import strategies as st

from whenmask import Key, RanSwitch
from whenmask.errors import ParameterError, SecretError
from whenmask.keystream import CHUNK_BYTES, SPARE, Context, Keystream, Keystreams, Series, fresh_run

SECRET = bytes(range(32))
MECHANISM = RanSwitch.from_probabilities(q=0.05, window=10)


def test_words_are_aes_256_ctr_under_an_hkdf_key() -> None:
    """The words are what `cryptography` and `hashlib` give when called directly, with all encoded by hand."""
    context = Context("M(window=2)", ("meter", 7, None), "run")
    series = b"s\x05\0\0\0\0\0\0\0meter" + b"i\x01\0\0\0\0\0\0\0007" + b"n" + bytes(8)
    assert len(series) == 0x21
    info = b"s\x0b\0\0\0\0\0\0\0M(window=2)" + b"s\x03\0\0\0\0\0\0\0run"
    draw, hashing = (
        HKDF(SHA256(), 32, b"whenmask keystream 2", purpose + info).derive(SECRET)
        for purpose in (b"draw ", b"place ")
    )
    place = hashlib.blake2b(b"t\x21\0\0\0\0\0\0\0" + series, key=hashing, digest_size=16).digest()
    stream = Cipher(algorithms.AES(draw), modes.CTR(place)).encryptor().update(bytes(80))
    expected = [int.from_bytes(stream[i : i + 8], "little") for i in range(0, 80, 8)]
    words = Keystream(Key(SECRET), context)
    assert words.words(0, 10).tolist() == expected
    halves = [half for word in expected for half in (word % 2**32, word >> 32)]
    assert words.halves(3, 15).tolist() == halves[3:18]


@pytest.mark.parametrize("upper", [0, 2**64 - 1])
def test_many_series_are_read_at_once_as_one_by_one(upper: int) -> None:
    """The first blocks of many series are those of each; counters carry and begin again at zero."""
    run = Keystreams(Key(SECRET), "M", "run")
    series: list[Series] = ["a", 7, None, ("b", True)]
    blocks = np.array([3, 0, 1, 700])
    expected = [word for one, n in zip(series, blocks, strict=True) for word in run.of(one).words(0, 2 * n)]
    assert run.first_blocks(run.places(series), blocks).tolist() == expected
    places = np.array([[upper, 2**64 - 2], [5, 2**64 - 1]], dtype=np.uint64)
    streams = [Keystream._at(run._cipher_key, place.astype(">u8").tobytes()) for place in places]
    expected = [word for stream in streams for word in stream.words(0, 8)]
    assert run.first_blocks(places, np.array([4, 4])).tolist() == expected


def test_words_have_not_changed_since_the_first_release() -> None:
    """A release made once can be repeated for ever: these words are frozen."""
    words = Keystream(Key.for_testing(7), Context("example", None, "run")).words(0, 3)
    assert [f"{word:016x}" for word in words.tolist()] == FROZEN


FROZEN = ["25843ab9bd745864", "1a0f4c18db95c9d3", "7584eaffe3ad1c65"]


@given(first=st.integers(0, 10_000), count=st.integers(0, 300))
def test_any_range_can_be_read_on_its_own(first: int, count: int) -> None:
    """Word t is the same whatever range it is read in."""
    stream = Keystream(Key.for_testing(1), Context("example", 1, "run"))
    assert np.array_equal(stream.words(first, count), stream.words(0, first + count)[first:])


def test_long_ranges_cross_chunks_and_counters() -> None:
    """A range longer than one encryption call, far into the stream, continues without a seam."""
    stream = Keystream(Key.for_testing(1), Context("example", 1, "run"))
    start, length = 2**40 + 1, CHUNK_BYTES // 8 + 5
    whole = stream.words(start, length)
    assert np.array_equal(whole[-7:], stream.words(start + length - 7, 7))
    assert not np.intersect1d(stream.words(SPARE, 100), stream.words(0, 100)).size


SERIES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.binary(), lambda leaf: st.tuples(leaf, leaf)
)


@given(one=st.tuples(st.text(), SERIES, st.text()), other=st.tuples(st.text(), SERIES, st.text()))
def test_different_contexts_are_encoded_differently(one, other) -> None:
    """No two contexts share an encoding, unless they are the same, types included."""
    assert (Context(*one).encode() == Context(*other).encode()) == (repr(one) == repr(other))


def test_lookalike_series_do_not_share_words() -> None:
    """1, True, "1", b"1", ("1",) and None name six different series."""
    lookalikes: list[Series] = [1, True, "1", b"1", ("1",), None]
    words = {Keystream(Key.for_testing(1), Context("m", series, "r")).words(0, 1)[0] for series in lookalikes}
    assert len(words) == len(lookalikes)


def test_a_series_of_another_type_is_refused() -> None:
    """A float does not name a series exactly, so it is refused."""
    with pytest.raises(ParameterError, match="`series` is of a type that cannot name a series; got float"):
        MECHANISM.plan(3, series=1.5)  # type: ignore[arg-type]


def test_keys_never_show() -> None:
    """Neither repr, str, pickle, copy nor an error gives a key away."""
    key = Key(SECRET)
    assert repr(key) == str(key) == "<Key: secure>"
    assert "testing" in repr(Key.for_testing(7))
    assert not hasattr(key, "__dict__")
    for leak in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(SecretError, match="cannot be pickled or copied") as caught:
            leak(key)
        assert SECRET.hex() not in repr(caught.value)
    with pytest.raises(SecretError, match="cannot be pickled"):
        pickle.dumps(Keystream(key, Context("m", None, "r")))
    with pytest.raises(SecretError, match="cannot be pickled"):
        pickle.dumps(Keystreams(key, "m", "r"))
    assert repr(Keystreams(key, "m", "r")) == "<Keystreams>"


@pytest.mark.parametrize("secret", [b"", b"short", bytes(31), bytes(33), "0" * 32, bytearray(32)])
def test_wrong_key_sizes_are_refused(secret) -> None:
    """A key is 32 bytes, and the error names the size, not the bytes."""
    with pytest.raises(SecretError, match="a key must be 32 bytes; got .*Hint: make one with Key.fresh"):
        Key(secret)


def test_a_key_survives_its_file(tmp_path) -> None:
    """A saved key is read back the same, from hexadecimal digits or from 32 bytes."""
    key, file = Key.fresh(), tmp_path / "key"
    key.save(file)
    assert file.stat().st_mode & 0o777 == 0o600
    assert Key.from_file(file).expose() == key.expose()
    file.write_bytes(key.expose()[1:])
    assert Key.from_file(str(file)).expose() == key.expose()
    with pytest.raises(SecretError, match="cannot be written.*never overwritten"):
        key.save(file)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644])
def test_a_key_file_open_to_others_is_refused(tmp_path, mode: int) -> None:
    """A key that others may have read is no secret."""
    file = tmp_path / "key"
    Key.fresh().save(file)
    file.chmod(mode)
    with pytest.raises(SecretError, match=f"owner only; got mode {mode:04o}. Hint: run chmod 600"):
        Key.from_file(file)


@pytest.mark.parametrize("content", [b"", b"12", b"z" * 64, b"0" * 63, b"0" * 66, b"\xff" * 64, b"0" * 4096])
def test_a_file_without_a_key_is_refused(tmp_path, content: bytes) -> None:
    """Neither too little, too much nor something else passes for a key."""
    file = tmp_path / "key"
    file.write_bytes(content)
    file.chmod(0o600)
    with pytest.raises(SecretError, match="must hold 32 bytes or 64 hexadecimal digits"):
        Key.from_file(file)
    with pytest.raises(SecretError, match="cannot be read; got No such file"):
        Key.from_file(tmp_path / "absent")


def test_a_testing_key_stays_one() -> None:
    """A testing key is visible on plans and streams, also after it was handed to another process."""
    key = Key.from_exposed(Key.for_testing(7).expose())
    assert key.kind == "testing"
    assert np.array_equal(
        MECHANISM.plan(50, key=key, run="r").source, MECHANISM.plan(50, key=Key.for_testing(7), run="r").source
    )
    assert MECHANISM.plan(5, key=key).key_kind == MECHANISM.stream(key=key).key_kind == "testing"
    assert "testing key" in repr(MECHANISM.plan(5, key=key))
    assert MECHANISM.plan(5).key_kind == Key.from_exposed(Key.fresh().expose()).kind == "secure"
    with pytest.raises(ParameterError, match="`number` must be at least 0; got number=-1"):
        Key.for_testing(-1)


def test_sealed_data_are_opened_by_the_same_key_only() -> None:
    """Sealing hides, and any change to data, header, purpose or key is noticed."""
    key = Key.for_testing(1)
    sealed = key.seal(b"a", b"clear text", b"header")
    assert b"clear" not in sealed
    assert key.unseal(b"a", sealed, b"header") == b"clear text"
    assert sealed != key.seal(b"a", b"clear text", b"header")
    spoilt = [(Key.for_testing(2), b"a", sealed, b"header"), (key, b"b", sealed, b"header"), (key, b"a", b"", b"")]
    spoilt += [
        (key, b"a", sealed[:-1], b"header"),
        (key, b"a", sealed, b"heade"),
        (key, b"a", sealed[:5], b"header"),
    ]
    for other, purpose, data, header in spoilt:
        with pytest.raises(SecretError, match="truncated, altered or under another key"):
            other.unseal(purpose, data, header)


def drawn_elsewhere(exposed: bytes, results) -> None:
    """Draw a plan in another process and report its run id and sources."""
    plan = MECHANISM.plan(200, key=Key.from_exposed(exposed))
    results.put((plan.run, plan.source.tobytes()))


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_workers_that_share_a_key_never_share_a_plan(method) -> None:
    """Forked and spawned workers, and repeated calls, draw different plans from the same key."""
    context: Any = multiprocessing.get_context(method)
    results, key = context.Queue(), Key.for_testing(7)
    MECHANISM.plan(200, key=key)
    workers = [context.Process(target=drawn_elsewhere, args=(key.expose(), results)) for _ in range(3)]
    for worker in workers:
        worker.start()
    drawn = [results.get(timeout=120) for _ in workers]
    for worker in workers:
        worker.join()
    here = [MECHANISM.plan(200, key=key) for _ in range(3)]
    drawn += [(plan.run, plan.source.tobytes()) for plan in here]
    assert len({run for run, _ in drawn}) == len({source for _, source in drawn}) == 6


def test_run_ids_are_fresh_or_checked() -> None:
    """A run id is 32 random hexadecimal digits unless given, and a given one is a non-empty text."""
    assert re.fullmatch("[0-9a-f]{32}", fresh_run())
    assert fresh_run() != fresh_run()
    assert MECHANISM.stream(run="mine").run == "mine"
    for run in ("", 7, b"run"):
        with pytest.raises(ParameterError, match="`run` must be a non-empty text"):
            MECHANISM.plan(3, run=run)  # type: ignore[arg-type]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_does_not_repeat_a_run_id() -> None:
    """The child of a fork gets run ids of its own."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.write(writer, fresh_run().encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 100).decode() != fresh_run()
