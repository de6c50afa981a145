"""Domains and demonstrations in files.

A domain is one `.npz` file. Demonstrations are an `.npz` file or a `.jsonl` file, which people and other programs can
read and write. `.npz` files have a format and a version, and contain no pickled objects. Files are written completely
or not at all. A file that is cut short, damaged, pickled or of another format is refused by name.

Only regular files are read, and only the arrays that are needed. A file that is larger than `max_bytes`, or whose
arrays are, is refused before any array is read; the default is LARGEST_BYTES.

A line of `.jsonl` is one demonstration, `{"states": [3, 4], "choices": [12]}`, with "choices" (numbered in the whole
MDP), with "actions" (numbered within the state) or with neither, the same in every line. A `.jsonl` file that is cut
exactly between two lines cannot be distinguished from a file with fewer demonstrations.
"""

import io
import json
import os
import re
import secrets
import stat
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from tutelage.arrays import integers
from tutelage.mdp.demonstrations import UNKNOWN, Demonstrations
from tutelage.mdp.model import MDP, Domain
from tutelage.outcomes import InvalidModel, Unavailable

# The default of `max_bytes`: a domain of several million states fits.
LARGEST_BYTES = 2**30
DOMAIN_FORMAT, DOMAIN_VERSION = "tutelage domain", 1
DEMONSTRATIONS_FORMAT, DEMONSTRATIONS_VERSION = "tutelage demonstrations", 1
TRANSITION_FIELDS = ("transition_data", "transition_indices", "transition_indptr")
FEATURE_FIELDS = ("reward_features", "preference_features")
NAME_FIELDS = ("reward_names", "preference_names")
OPTIONAL_FIELDS = ("duration", "goals")
DOMAIN_FIELDS = (*TRANSITION_FIELDS, "first_choice", "initial", "discount", *FEATURE_FIELDS, *NAME_FIELDS)

Archive = Mapping[str, NDArray[Any]]
AnyPath = str | os.PathLike[str]


def save(domain: Domain, path: AnyPath) -> None:
    """Write a domain to an `.npz` file, from which `load` reads the same domain, bit for bit."""
    _suffix(path, (".npz",), "a domain")
    mdp, rows = domain.mdp, domain.mdp.transition
    fields: dict[str, ArrayLike] = dict(zip(TRANSITION_FIELDS, (rows.data, rows.indices, rows.indptr), strict=True))
    fields |= {"first_choice": mdp.first_choice, "initial": mdp.initial, "discount": mdp.discount}
    fields |= {} if mdp.duration is None else {"duration": mdp.duration}
    fields |= {"goals": mdp.goals} if len(mdp.goals) else {}
    fields |= {name: getattr(domain, name) for name in FEATURE_FIELDS}
    fields |= {name: np.array(getattr(domain, name), dtype=np.str_) for name in NAME_FIELDS}
    write_archive(path, fields, kind=DOMAIN_FORMAT, version=DOMAIN_VERSION)


def load(path: AnyPath, *, max_bytes: int = LARGEST_BYTES) -> Domain:
    """The domain in a file that `save` wrote. max_bytes: the largest size of the file, and of its arrays."""
    form: dict[str, Any] = {"kind": DOMAIN_FORMAT, "version": DOMAIN_VERSION, "max_bytes": max_bytes}
    archive = read_archive(path, DOMAIN_FIELDS, others="|".join(OPTIONAL_FIELDS), **form)
    try:
        names = (_names(archive, field) for field in NAME_FIELDS)
        return Domain(_mdp(archive), archive["reward_features"], archive["preference_features"], *names)
    except InvalidModel as error:
        raise InvalidModel(f"{path} holds no valid domain: {error}") from error


def save_demonstrations(demonstrations: Demonstrations, path: AnyPath) -> None:
    """Write demonstrations to an `.npz` or `.jsonl` file, as the path ends."""
    if _suffix(path, (".npz", ".jsonl"), "demonstrations") == ".jsonl":
        write_whole(path, "".join(_lines(demonstrations)).encode())
        return
    fields = {"states": demonstrations.states, "offsets": demonstrations.offsets}
    if demonstrations.choices is not None:
        fields["choices"] = demonstrations.choices
    write_archive(path, fields, kind=DEMONSTRATIONS_FORMAT, version=DEMONSTRATIONS_VERSION)


def load_demonstrations(path: AnyPath, mdp: MDP, *, max_bytes: int = LARGEST_BYTES) -> Demonstrations:
    """The demonstrations in an `.npz` or `.jsonl` file, refused unless every step is possible in the MDP.

    max_bytes: the largest size of the file, and of its arrays.
    """
    form: dict[str, Any] = {"kind": DEMONSTRATIONS_FORMAT, "version": DEMONSTRATIONS_VERSION, "max_bytes": max_bytes}
    suffix = _suffix(path, (".npz", ".jsonl"), "demonstrations")
    try:
        if suffix == ".jsonl":
            return _read_lines(path, mdp, max_bytes)
        archive = read_archive(path, ("states", "offsets"), others="choices", **form)
        return Demonstrations(archive["states"], archive["offsets"], archive.get("choices")).checked_against(mdp)
    except InvalidModel as error:
        if str(path) in str(error):
            raise
        raise InvalidModel(f"{path} holds no valid demonstrations: {error}") from error


def _mdp(archive: Archive) -> MDP:
    initial, data = archive["initial"], archive["transition_data"]
    indices, indptr = (integers(archive[field], field) for field in TRANSITION_FIELDS[1:])
    try:
        rows = sparse.csr_array((data, indices, indptr), shape=(len(indptr) - 1, len(initial)))
    except (TypeError, ValueError) as error:
        raise InvalidModel(str(error)) from error
    # Not `from_choices`: these discounts are those of the choices, also where there are durations.
    discount: Any = archive["discount"]
    optional = {name: archive[name] for name in OPTIONAL_FIELDS if name in archive}
    return MDP(rows, archive["first_choice"], initial, discount, **optional)


def _names(archive: Archive, name: str) -> tuple[str, ...]:
    names = archive[name]
    if names.dtype.kind != "U" or names.ndim != 1:
        raise InvalidModel(f"{name} must be a vector of strings, got {names.dtype} of shape {names.shape}")
    return tuple(names.tolist())


def _suffix(path: AnyPath, known: Sequence[str], what: str) -> str:
    if Path(path).suffix not in known:
        raise InvalidModel(f"{path} must end in {' or '.join(known)}, the file format of {what}")
    return Path(path).suffix


def _lines(demonstrations: Demonstrations) -> Iterator[str]:
    for trajectory in demonstrations:
        line = {"states": trajectory.states.tolist()}
        if trajectory.choices is not None:
            line["choices"] = trajectory.choices[trajectory.choices != UNKNOWN].tolist()
        yield json.dumps(line) + "\n"


def _read_lines(path: AnyPath, mdp: MDP, max_bytes: int) -> Demonstrations:
    with open_regular(path, max_bytes) as lines:
        objects = [_object(path, number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    states = [line["states"] for line in objects]
    kinds = {tuple(sorted(line.keys() - {"states"})) for line in objects}
    if kinds <= {()}:
        return Demonstrations.from_sequences(mdp, states)
    if kinds == {("actions",)}:
        return Demonstrations.from_sequences(mdp, states, [line["actions"] for line in objects])
    if kinds == {("choices",)}:
        return Demonstrations.from_choice_sequences(mdp, states, [line["choices"] for line in objects])
    raise InvalidModel(f"{path} mixes kinds of lines; give actions in every line, choices in every line, or neither")


def _object(path: AnyPath, number: int, line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidModel(f"line {number} of {path} is not JSON; it is damaged or cut short ({error})") from error
    if not isinstance(value, dict) or "states" not in value or value.keys() - {"states", "actions", "choices"}:
        message = f'line {number} of {path} must be an object with "states" and optionally "actions" or "choices"'
        raise InvalidModel(message)
    return value


def write_archive(path: AnyPath, fields: Mapping[str, ArrayLike], *, kind: str, version: int) -> None:
    """Write arrays to an `.npz` file, with its format and version."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, format=np.array(kind), version=np.array(version), **fields)  # type: ignore[arg-type]
    write_whole(path, buffer.getbuffer())


def write_whole(path: AnyPath, content: bytes | memoryview) -> None:
    """Write a file completely or not at all: under another name in the same folder, then renamed to `path`."""
    target = Path(path)
    unfinished = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        with unfinished.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(target)
    except OSError as error:
        if error.filename is not None:
            raise
        # A full disk names no file.
        raise Unavailable(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        unfinished.unlink(missing_ok=True)


def open_regular(path: AnyPath, max_bytes: int = LARGEST_BYTES) -> BinaryIO:
    """The file, open for reading; a device, a pipe, a folder or a file of more than `max_bytes` is refused."""
    # Without O_NONBLOCK, opening a pipe waits for a writer.
    opened = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    found = os.fstat(opened)
    is_regular = stat.S_ISREG(found.st_mode)
    if is_regular and found.st_size <= max_bytes:
        return os.fdopen(opened, "rb")
    os.close(opened)
    if is_regular:
        raise _too_large(path, found.st_size, max_bytes)
    raise Unavailable(f"{path} is not a regular file, so it is not read")


def read_archive(
    path: AnyPath, fields: Sequence[str], *, others: str = "", kind: str, version: int, max_bytes: int = LARGEST_BYTES
) -> Archive:
    """The arrays of an `.npz` file of this format, of this version or an older one, with at least these fields.

    others: a pattern of the names of further arrays to read. max_bytes: the largest size of the file and of its arrays.
    """
    wanted = re.compile(rf"({'|'.join(['format', 'version', *fields, others])})\.npy")
    with open_regular(path, max_bytes) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                members = {m.filename[:-4]: m for m in archive.infolist() if wanted.fullmatch(m.filename)}
                total = sum(member.file_size for member in members.values())
                if total > max_bytes:
                    raise _too_large(path, total, max_bytes)
                for member in members.values():
                    _check_header(archive, member)
                arrays = {name: _array(archive, member) for name, member in members.items()}
        except InvalidModel:
            raise
        # Damaged bytes raise many kinds of exceptions in zip, zlib and NumPy; all have the same meaning here.
        except Exception as error:
            cause = "it is damaged, cut short, pickled or not an .npz file"
            raise InvalidModel(f"{path} cannot be read as a {kind} file: {cause}") from error
    _check_format(path, arrays, kind, version)
    missing = [field for field in fields if field not in arrays]
    if missing:
        raise InvalidModel(f"{path} lacks the field {missing[0]!r} of a {kind}; it is incomplete")
    return arrays


def _check_header(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
    """Refuse an array whose header does not have the form and the size that the archive declares for it."""
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError("NumPy does not compress in this way")
    with archive.open(member) as content:
        # Headers of later versions of the format may be gigabytes long.
        if np.lib.format.read_magic(content) != (1, 0):
            raise ValueError("the version of the array format is not 1.0")
        shape, _, dtype = np.lib.format.read_array_header_1_0(content)
        if dtype.kind not in "biufU" or content.tell() + prod(shape) * dtype.itemsize != member.file_size:
            raise ValueError("the array is pickled, or not as large as declared")


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    with archive.open(member) as content:
        return np.asarray(np.lib.format.read_array(content, allow_pickle=False))


def _check_format(path: AnyPath, arrays: Archive, kind: str, version: int) -> None:
    found = str(arrays.get("format", "no format"))
    if found != kind:
        raise InvalidModel(f"{path} is not a {kind} file, but of format {found!r}")
    written = arrays.get("version", np.array("unknown"))
    if written.ndim or written.dtype.kind not in "iu" or not 1 <= written <= version:
        raise InvalidModel(f"{path} is a {kind} of version {written}; this Tutelage reads versions up to {version}")


def _too_large(path: AnyPath, size: int, max_bytes: int) -> InvalidModel:
    return InvalidModel(f"{path} holds {size} bytes, but the limit is {max_bytes}; raise it by max_bytes")
