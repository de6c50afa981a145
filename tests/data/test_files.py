"""Domains in files: the same bits are read as were written, and no damaged file is read as another domain."""

import io
import os
import stat
import sys
import tracemalloc
import zipfile
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from strategies import domains, random_domain, some_of

from tutelage.data.files import (
    DOMAIN,
    DOMAIN_FIELDS,
    load,
    load_demonstrations,
    read_archive,
    save,
    saved_weights,
    write_archive,
    write_whole,
)
from tutelage.model.mdp import MDP, Domain
from tutelage.outcomes import InvalidModel, Unavailable

SMALL = Domain(
    MDP.from_choices([[0.1, 0.9], [0.3, 0.7], [1.0, 0.0]], [0, 2, 3], [0.25, 0.75], 0.9),
    [[1.0], [0.2]],
    [[0.0, 1.0], [1.0, 1 / 3], [0.5, 0.5]],
    ["étoile"],
    ["grün", "黄"],
)


def arrays_of(domain: Domain) -> list[np.ndarray]:
    mdp, rows = domain.mdp, domain.mdp.transition
    return [
        rows.data,
        rows.indices,
        rows.indptr,
        mdp.first_choice,
        mdp.initial,
        np.array(mdp.discount),
        domain.reward_features,
        domain.preference_features,
    ]


def identical(one: Domain, other: Domain) -> bool:
    """Whether two domains are equal bit for bit, names included."""
    pairs = zip(arrays_of(one), arrays_of(other), strict=True)
    same = all(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes() for a, b in pairs)
    return same and (one.reward_names, one.preference_names) == (other.reward_names, other.preference_names)


def rewrite(path, **changes) -> None:
    """The same archive with some fields replaced, or left out where None."""
    with np.load(path) as archive:
        fields = {name: archive[name] for name in archive.files} | changes
    np.savez(path, **{name: value for name, value in fields.items() if value is not None})


@given(domain=domains())
def test_a_domain_comes_back_bit_for_bit(tmp_path_factory, domain):
    path = tmp_path_factory.mktemp("files") / "domain.npz"
    save(domain, path)
    assert identical(load(path), domain)


def test_names_in_any_script_and_a_path_given_as_text_survive(tmp_path):
    save(SMALL, str(tmp_path / "small.npz"))
    again = load(str(tmp_path / "small.npz"))
    assert again.names == ("étoile", "grün", "黄")
    assert identical(again, SMALL)


def test_saving_what_was_loaded_writes_the_same_bytes(tmp_path):
    """The bytes of a file depend on the domain only, not on the time, and are stable when saved again."""
    domain = random_domain(np.random.default_rng(1), on_choices=True)
    save(domain, tmp_path / "one.npz")
    save(load(tmp_path / "one.npz"), tmp_path / "two.npz")
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()


def test_no_truncation_goes_unnoticed(tmp_path):
    """A file cut after any number of bytes is refused with its name."""
    path = tmp_path / "small.npz"
    save(SMALL, path)
    content = path.read_bytes()
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(InvalidModel, match=r"small\.npz"):
            load(path)


def test_no_flipped_byte_becomes_another_domain(tmp_path):
    """A file with any one byte inverted (in the sample, every seventh) is refused, or is the same domain.

    It is the same for unused bytes, such as dates.
    """
    path = tmp_path / "small.npz"
    save(SMALL, path)
    content = path.read_bytes()
    n_refused, places = 0, some_of(range(len(content)), range(0, len(content), 7))
    for place in places:
        path.write_bytes(content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :])
        try:
            assert identical(load(path), SMALL)
        except InvalidModel as error:
            assert "small.npz" in str(error)
            n_refused += 1
    assert n_refused > len(places) / 2


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_refused(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("files") / "noise.npz"
    path.write_bytes(content)
    with pytest.raises(InvalidModel, match=r"noise\.npz cannot be read"):
        load(path)


class _Trap:
    """Unpickling this object would end the test run."""

    def __reduce__(self):
        return sys.exit, ("a pickle was executed",)


def test_a_pickle_is_refused_and_never_executed(tmp_path):
    path = tmp_path / "trap.npz"
    save(SMALL, path)
    rewrite(path, reward_names=np.array([_Trap()], dtype=object))
    with pytest.raises(InvalidModel, match=r"trap\.npz cannot be read.*pickled"):
        load(path)
    with path.open("wb") as file:
        np.save(file, np.array([_Trap()], dtype=object), allow_pickle=True)
    with pytest.raises(InvalidModel, match=r"trap\.npz cannot be read.*pickled"):
        load(path)


@pytest.mark.parametrize("field", DOMAIN_FIELDS)
def test_a_missing_field_is_named(tmp_path, field):
    path = tmp_path / "small.npz"
    save(SMALL, path)
    rewrite(path, **{field: None})
    with pytest.raises(InvalidModel, match=rf"small\.npz lacks the field '{field}'"):
        load(path)


@pytest.mark.parametrize("version", [DOMAIN[1] + 1, 0, 1.5, "two", [1, 1]])
def test_a_version_that_is_not_known_is_refused(tmp_path, version):
    path = tmp_path / "small.npz"
    save(SMALL, path)
    rewrite(path, version=np.array(version))
    with pytest.raises(InvalidModel, match=r"small\.npz is a tutelage domain of version .*reads versions up to 1"):
        load(path)


def test_a_newer_version_is_told_from_a_damaged_file_even_if_its_fields_differ(tmp_path):
    path = tmp_path / "newer.npz"
    write_archive(path, {"other": np.zeros(1)}, ("tutelage domain", 7))
    with pytest.raises(InvalidModel, match=r"newer\.npz is a tutelage domain of version 7"):
        load(path)


def test_other_archives_are_not_domains(tmp_path):
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    with pytest.raises(InvalidModel, match=r"other\.npz is not a tutelage domain file"):
        load(tmp_path / "other.npz")
    with zipfile.ZipFile(tmp_path / "zip.npz", "w") as archive:
        archive.writestr("format", "tutelage domain")
    with pytest.raises(InvalidModel, match=r"zip\.npz is not a tutelage domain file"):
        load(tmp_path / "zip.npz")
    with (tmp_path / "array.npz").open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(InvalidModel, match=r"array\.npz cannot be read"):
        load(tmp_path / "array.npz")


@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("transition_data", np.array([0.1, 0.9, 0.3, 0.7, 0.5]), "row 2 of transition sums to 0.5"),
        ("transition_data", np.ones(2), r"must have same size|indices"),
        ("transition_data", np.array(["a"] * 5), "transition"),
        ("transition_indices", np.array([0, 1, 0, 99, 0]), "not a well-formed sparse matrix"),
        ("transition_indices", np.array([0, 1, 0, -1, 0]), "not a well-formed sparse matrix"),
        ("transition_indices", np.array([0, 1, 0, 0.5, 0]), r"transition_indices\[3\] is 0.5"),
        ("transition_indptr", np.array([0, 4, 2, 5]), "not a well-formed sparse matrix"),
        ("transition_indptr", np.array([0, 2, 4, 50]), r"holds no valid domain"),
        ("transition_indptr", np.array([], dtype=np.int64), r"holds no valid domain"),
        ("first_choice", np.array([0, 3, 3]), "state 1 has no choice"),
        ("initial", np.array([0.5, 0.6]), "initial sums to 1.1"),
        ("initial", np.array(1.0), "holds no valid domain"),
        ("discount", np.array(1.0), "no end can be reached"),
        ("discount", np.array([0.9, 0.9]), "holds no valid domain"),
        ("reward_features", np.array([[np.nan], [0.0]]), r"reward_features\[0, 0\] is nan"),
        ("reward_names", np.array([1.0]), "reward_names must be a vector of strings"),
        ("preference_names", np.array(["a", "a"]), "need 2 different names"),
        ("final_states", np.array(1), "final_states must be a vector"),
    ],
)
def test_a_file_with_a_wrong_field_is_refused_with_file_and_place(tmp_path, field, value, complaint):
    """A readable file with invalid contents is refused by the checks of the model, with the name of the file."""
    path = tmp_path / "wrong.npz"
    save(SMALL, path)
    rewrite(path, **{field: value})
    with pytest.raises(InvalidModel, match=complaint) as caught:
        load(path)
    assert "wrong.npz holds no valid domain" in str(caught.value)


def test_a_missing_file_is_a_file_not_found(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nowhere.npz")


def test_a_domain_is_an_npz(tmp_path):
    with pytest.raises(InvalidModel, match=r"domain\.json must end in \.npz"):
        save(SMALL, tmp_path / "domain.json")
    assert list(tmp_path.iterdir()) == []


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "small.npz"
    save(SMALL, path)
    before = path.read_bytes()

    def full_disc(_):
        raise OSError("no space left on device")

    monkeypatch.setattr("os.fsync", full_disc)
    with pytest.raises(OSError, match="no space left"):
        save(random_domain(np.random.default_rng(2)), path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["small.npz"]


def test_a_file_that_cannot_be_written_is_named_as_it_was_given(tmp_path):
    """The name of the unfinished file would mean nothing to its reader."""
    save(SMALL, tmp_path / "new" / "folders" / "small.npz")
    assert load(tmp_path / "new" / "folders" / "small.npz").mdp.n_states == SMALL.mdp.n_states
    (tmp_path / "file").touch()
    for path in (tmp_path / "file" / "small.npz", tmp_path / "file" / "more" / "small.npz"):
        with pytest.raises(Unavailable, match=r"the folder \S+ cannot be made: there is a file in its place"):
            save(SMALL, path)
    (tmp_path / "taken.npz").mkdir()
    with pytest.raises(Unavailable, match=r"taken\.npz cannot be written: Is a directory"):
        save(SMALL, tmp_path / "taken.npz")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "new", "taken.npz"]


def test_a_file_gets_the_permissions_of_any_other_new_file(tmp_path):
    """The permissions are not those of a private temporary file: other users can read it."""
    write_whole(tmp_path / "ours", b"x")
    (tmp_path / "plain").write_bytes(b"x")
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("ours", "plain")]
    assert modes[0] == modes[1]


def test_an_archive_returns_what_was_written(tmp_path):
    write_archive(tmp_path / "a.npz", {"x": np.arange(3)}, ("thing", 2))
    found = read_archive(tmp_path / "a.npz", ["x"], ("thing", 3))
    assert found["x"].tolist() == [0, 1, 2]
    assert np.load(io.BytesIO((tmp_path / "a.npz").read_bytes()))["version"] == 2


def add_bomb(path, name: str, n_bytes: int) -> None:
    """Add an array of zeros to an archive, compressed a thousandfold without compressing all of it."""
    header, block = io.BytesIO(), bytes(2**20)
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": (n_bytes,)})
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    first = packer.compress(header.getvalue()) + packer.flush(zlib.Z_FULL_FLUSH)
    packed = packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(name, first + packed * (n_bytes // len(block)) + packer.flush())
        # Only the directory at the end of an archive counts.
        member = archive.getinfo(name)
        member.compress_type, member.file_size = zipfile.ZIP_DEFLATED, len(header.getvalue()) + n_bytes


def peak_of(read, *arguments) -> int:
    """The most bytes that Python and NumPy held while a file was read or refused."""
    tracemalloc.start()
    try:
        read(*arguments)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path):
    """3 GB in a file of 3 MB: refused for the size that it declares, in less than 10 MB."""
    path = tmp_path / "bomb.npz"
    save(SMALL, path)
    rewrite(path, reward_features=None)
    add_bomb(path, "reward_features.npy", 3 * 2**30)
    assert path.stat().st_size < 2**22

    def refused():
        with pytest.raises(InvalidModel, match=r"bomb\.npz holds 3221.* bytes, but the limit is 1073741824; raise it"):
            load(path)

    assert peak_of(refused) < 1e7


def test_members_that_no_field_names_are_not_unpacked(tmp_path):
    path = tmp_path / "small.npz"
    save(SMALL, path)
    add_bomb(path, "extra.npy", 2**29)
    assert peak_of(load, path) < 1e7
    assert identical(load(path), SMALL)


def test_an_array_that_is_not_as_large_as_its_header_says_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "lying.npz"
    save(SMALL, path)
    rewrite(path, initial=None)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (2**28,)})
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("initial.npy", header.getvalue() + bytes(16))

    def refused():
        with pytest.raises(InvalidModel, match=r"lying\.npz cannot be read"):
            load(path)

    assert peak_of(refused) < 1e7


def test_the_largest_size_can_be_raised_and_lowered(tmp_path):
    path, n = tmp_path / "plain.npz", 200
    plain = Domain(MDP.from_choices(np.eye(n), np.arange(n + 1), np.full(n, 1 / n), 0.9), np.ones((n, 1)))
    save(plain, path)
    with np.load(path) as archive:
        n_bytes = sum(member.file_size for member in archive.zip.infolist())
    assert n_bytes > path.stat().st_size
    assert identical(load(path, max_bytes=n_bytes), plain)
    with pytest.raises(InvalidModel, match=rf"holds {n_bytes} bytes, but the limit is {n_bytes - 1}"):
        load(path, max_bytes=n_bytes - 1)
    lines = tmp_path / "shown.jsonl"
    lines.write_text('{"states": [0, 1]}\n')
    assert len(load_demonstrations(lines, SMALL.mdp, max_bytes=320)) == 1  # five Python objects
    with pytest.raises(InvalidModel, match="holds 19 bytes, but the limit is 18"):
        load_demonstrations(lines, SMALL.mdp, max_bytes=18)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("suffix", [".npz", ".jsonl"])
def test_a_pipe_a_device_and_a_folder_are_refused_at_once(tmp_path, suffix):
    os.mkfifo(tmp_path / f"pipe{suffix}")
    (tmp_path / f"endless{suffix}").symlink_to("/dev/zero")
    (tmp_path / f"folder{suffix}").mkdir()
    for name in ("pipe", "endless", "folder"):
        with pytest.raises(Unavailable, match=rf"{name}\{suffix} is not a regular file"):
            load_demonstrations(tmp_path / f"{name}{suffix}", SMALL.mdp)
    if suffix == ".npz":
        with pytest.raises(Unavailable, match="not a regular file"):
            load(tmp_path / "pipe.npz")


@pytest.fixture
def hostile(tmp_path):
    """A function that writes a valid domain file with some fields replaced, and returns its path."""
    path = tmp_path / "domain.npz"

    def write(**changes):
        save(random_domain(np.random.default_rng(3)), path)
        rewrite(path, **changes)
        return path

    return write


@pytest.mark.parametrize("pointers", [[0, 50, 0, 0], [0, 0, 50, 0], [0, -5, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1]])
def test_starts_of_rows_outside_the_entries_are_refused_before_anything_is_sorted(hostile, pointers):
    """SciPy checks the starts of rows only where there are entries; sorting then writes outside the arrays."""
    empty = {"transition_data": np.zeros(0), "transition_indices": np.zeros(0, dtype=np.int32)}
    path = hostile(**empty, transition_indptr=np.array(pointers, dtype=np.int32), first_choice=np.arange(4))
    with pytest.raises(InvalidModel, match=r"domain\.npz holds no valid domain: .*(starts of its rows|indptr)"):
        load(path)
    with pytest.raises(InvalidModel, match="well-formed"):
        rows = sparse.csr_array((3, 3))
        rows.indptr = np.array(pointers, dtype=np.int32)
        MDP.from_choices(rows, [0, 1, 2, 3], [1, 0, 0], 0.9)


def as_bytes(text: str) -> np.ndarray:
    return np.frombuffer(text.encode(), dtype=np.uint8)


BOMBS = {
    "texts of length zero": {"reward_names": np.zeros(200_000_000, dtype="<U0")},
    "one-letter names": {"state_names": lambda: as_bytes("[" + '"a",' * 3_000_000 + '"a"]')},
    "nested empty lists": {"state_names": lambda: as_bytes("[[" + "[]," * 3_000_000 + "[]]]")},
    "more feature names than features": {"reward_names": lambda: np.array(["a"] * 3_000_000)},
    "an endless grid": {"state_names": lambda: as_bytes('{"rows": 1e400, "columns": 1, "end": true}')},
    "a huge grid": {"state_names": lambda: as_bytes('{"rows": 9999999999, "columns": 9999999999, "end": true}')},
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_names_are_counted_before_any_of_them_is_made(hostile, bomb):
    """The arrays of each file are small, or none at all; their Python objects would be gigabytes."""
    path = hostile(**{field: value() if callable(value) else value for field, value in BOMBS[bomb].items()})

    def refused():
        with pytest.raises(InvalidModel, match=r"domain\.npz"):
            load(path)

    assert peak_of(refused) < 100 * 2**20


WRONG_NAMES = {
    "above Unicode": {"reward_names": lambda n: np.full(n, 0x110000, dtype="<u4").view("<U1")},
    # NumPy makes a text of this one, on which Python fails later.
    "above Unicode in a word": {
        "reward_names": lambda n: np.arange(0x110000, 0x110000 + 2 * n, dtype="<u4").view("<U2")
    },
    "half a surrogate pair": {"reward_names": lambda n: np.array([f"\ud800{i}" for i in range(n)])},
    "a terminal escape": {"reward_names": lambda n: np.array([f"\x1b]0;title\x07{i}" for i in range(n)])},
    "an escaped escape in JSON": {"state_names": lambda n: as_bytes('["\\u001b[2J"]')},
    "half a pair in JSON": {"state_names": lambda n: as_bytes('["\\ud800"]')},
    "an infinite number": {"state_names": lambda n: as_bytes("[1e400]")},
}


@pytest.mark.parametrize("kind", WRONG_NAMES)
def test_names_that_cannot_be_written_or_printed_are_refused(tmp_path, kind):
    path = tmp_path / "domain.npz"
    save(Domain(MDP.from_choices([[1.0]], [0, 1], [1.0], 0.9), np.ones((1, 2))), path)
    ((field, value),) = WRONG_NAMES[kind].items()
    rewrite(path, **{field: value(2)})
    with pytest.raises(InvalidModel, match=r"domain\.npz"):
        load(path)


def test_a_domain_s_file_may_say_what_its_features_are_worth(tmp_path):
    """`load` reads the same domain; the weights come back; a wrong number of them is refused."""
    domain = random_domain(np.random.default_rng(0))
    weights = np.linspace(-1, 1, domain.n_reward)
    save(domain, tmp_path / "plain.npz")
    save(domain, tmp_path / "weighed.npz", true_weights=weights)
    assert saved_weights(tmp_path / "plain.npz", domain) is None
    assert np.array_equal(saved_weights(tmp_path / "weighed.npz", domain), weights)
    assert np.array_equal(load(tmp_path / "weighed.npz").reward_features, domain.reward_features)
    for wrong in ([*weights, 1.0], weights * np.nan):
        with pytest.raises(InvalidModel, match="true_weights"):
            save(domain, tmp_path / "wrong.npz", true_weights=wrong)
