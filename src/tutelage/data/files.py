"""Domains and demonstrations in files.

`.npz` files have a format and a version; `recordings` describes the lines of `.jsonl` and `.csv` files. A file that is
cut short, damaged, pickled or of another format is refused by name. A file that is larger than `max_bytes`, or whose
arrays or Python objects are, is refused before any array is read or object made. A path may also be an `io.BytesIO`
that has `__fspath__`: then the file is in memory.
"""

import io
import json
import os
import re
import secrets
import stat
import sys
import zipfile
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tutelage.arrays import check_compressed, integers
from tutelage.data.demonstrations import Demonstrations
from tutelage.data.recordings import from_csv, from_lines, to_csv, to_lines
from tutelage.model.inputs import by_name
from tutelage.model.mdp import MDP, Domain, Weights, reward_vector
from tutelage.model.names import OBJECT_BYTES, Labels, from_json, n_objects, to_json
from tutelage.outcomes import InvalidModel, TutelageError, Unavailable, within

# The default of `max_bytes`: a domain of several million states fits.
LARGEST_BYTES = 2**30
DOMAIN, DEMONSTRATIONS = ("tutelage domain", 1), ("tutelage demonstrations", 1)
DOMAIN_FIELDS = (
    *("transition_data", "transition_indices", "transition_indptr", "first_choice", "initial", "discount"),
    *("reward_features", "preference_features", "reward_names", "preference_names"),
)
OPTIONAL_FIELDS = (
    *("state_names", "choice_names", "reward_arrivals", "preference_arrivals", "duration", "goals", "final_states"),
    *("positions", "true_weights"),
)
DEMONSTRATION_SUFFIXES = (".npz", ".jsonl", ".csv")
Archive = Mapping[str, NDArray[Any]]
AnyPath = str | os.PathLike[str]


def save(domain: Domain, path: AnyPath, *, true_weights: Weights | None = None) -> None:
    """Write a domain to an `.npz` file, from which `load` reads the same domain, bit for bit.

    true_weights: (d_r,), what each reward feature is worth; the playground reads them from the file.
    """
    known_suffix(path, (".npz",), "a domain")
    mdp, rows = domain.mdp, domain.mdp.transition
    fields = {name: getattr(mdp, name) for name in ("first_choice", "initial", "discount", "duration", "goals")}
    fields |= {name: getattr(domain, name) for name in ("reward_features", "preference_features", "positions")}
    fields |= {"transition_data": rows.data, "transition_indices": rows.indices, "transition_indptr": rows.indptr}
    fields |= {"final_states": mdp.names.finals}
    if true_weights is not None:
        fields["true_weights"] = reward_vector(domain, true_weights, "true_weights")
    for name in OPTIONAL_FIELDS:
        if name in fields and (fields[name] is None or not len(fields[name])):
            del fields[name]
    for kind in ("reward", "preference"):
        names, arrivals = getattr(domain, f"{kind}_names"), getattr(domain, f"{kind}_arrivals")
        fields[f"{kind}_names"] = np.array(names, dtype=np.str_)
        if arrivals:
            # A row for each feature; of the features that are not on arrival, no numbers.
            none = np.full(rows.nnz, np.nan)
            fields[f"{kind}_arrivals"] = np.array([arrivals[key].data if key in arrivals else none for key in names])
    for name in ("state_names", "choice_names"):
        if getattr(domain, name) is not None:
            fields[name] = to_json(getattr(domain, name))
    write_archive(path, fields, DOMAIN)


def saved_weights(path: AnyPath, domain: Domain, *, max_bytes: int = LARGEST_BYTES) -> NDArray[np.float64] | None:
    """The `true_weights` (d_r,) in the file of a domain, or None."""
    archive = read_archive(path, (), DOMAIN, others="true_weights", max_bytes=max_bytes)
    weights = archive.get("true_weights")
    return None if weights is None else reward_vector(domain, weights, "true_weights")


def load(path: AnyPath, *, max_bytes: int = LARGEST_BYTES) -> Domain:
    """The domain in a file that `save` wrote. max_bytes: the largest size of the file, and of its arrays."""
    archive = read_archive(path, DOMAIN_FIELDS, DOMAIN, others="|".join(OPTIONAL_FIELDS), max_bytes=max_bytes)
    with within(f"{path} holds no valid domain"):
        mdp = _mdp(archive)
        fields: dict[str, Any] = {"positions": archive.get("positions")}
        for field, most in (("state_names", mdp.n_states), ("choice_names", mdp.n_choices)):
            if field in archive:
                fields[field] = from_json(archive[field], field, most, max_bytes=max_bytes)
        for kind in ("reward", "preference"):
            fields |= _features(mdp, archive, kind)
        return Domain(mdp, **fields)


def _mdp(archive: Archive) -> MDP:
    initial = archive["initial"]
    indices, indptr = (integers(archive[field], field) for field in ("transition_indices", "transition_indptr"))
    if initial.ndim != 1:
        raise InvalidModel(f"initial must be a vector, got shape {initial.shape}")
    shape = (len(indptr) - 1, len(initial))
    check_compressed(indptr, indices, shape, "transition")
    try:
        rows = sparse.csr_array((archive["transition_data"], indices, indptr), shape=shape)
    except (TypeError, ValueError) as error:
        raise InvalidModel(str(error)) from error
    # Not `from_choices`: these discounts are those of the choices, also where there are durations.
    others: dict[str, Any] = {name: archive[name] for name in ("discount", "duration", "goals") if name in archive}
    if "final_states" in archive:
        first, finals = (integers(archive[name], name) for name in ("first_choice", "final_states"))
        others["labels"] = Labels(first, finals=finals)
    return MDP(rows, archive["first_choice"], initial, **others)


def _features(mdp: MDP, archive: Archive, kind: str) -> dict[str, Any]:
    """The features of one kind, their names, and the features on arrival, which have a row (nnz,) for each."""
    features, names = archive[f"{kind}_features"], archive[f"{kind}_names"]
    count = features.shape[-1] if features.ndim else 0
    if names.dtype.kind != "U" or names.ndim != 1 or len(names) not in (0, 1, count):
        form = f"{names.dtype} of shape {names.shape}"
        raise InvalidModel(f"{kind}_names must be a vector of strings, one for each of {count} features, got {form}")
    fields = {f"{kind}_features": features, f"{kind}_names": tuple(names.tolist())}
    values = archive.get(f"{kind}_arrivals")
    if values is not None:
        shape = (len(names), mdp.transition.nnz)
        if values.shape != shape or values.dtype.kind != "f":
            raise InvalidModel(f"{kind}_arrivals must have a row of {shape[1]} numbers for each of {shape[0]} features")
        is_given = np.isfinite(values).all(axis=1)
        numbers = np.asarray(values[is_given].T, dtype=np.float64)
        fields[f"{kind}_arrivals"] = by_name(mdp.transition, numbers, names[is_given].tolist())
    return fields


def save_demonstrations(demonstrations: Demonstrations, path: AnyPath) -> None:
    """Write demonstrations to an `.npz`, `.jsonl` or `.csv` file, as the path ends.

    A `.csv` file has a line for each visit, a `.jsonl` file for each demonstration: with names, where the MDP has some.
    An `.npz` file has numbers, which mean other states in an MDP of another order.
    """
    suffix = known_suffix(path, DEMONSTRATION_SUFFIXES, "demonstrations")
    states, offsets, taken = demonstrations.states, demonstrations.offsets, demonstrations.choices
    if suffix == ".csv":
        write_table(demonstrations.to_frame(), path)
    elif suffix == ".npz":
        choices = {} if taken is None else {"choices": taken}
        write_archive(path, {"states": states, "offsets": offsets, **choices}, DEMONSTRATIONS)
    else:
        write_table(to_lines(demonstrations.mdp, states, offsets, taken), path)


def load_demonstrations(path: AnyPath, mdp: MDP | Domain, *, max_bytes: int = LARGEST_BYTES) -> Demonstrations:
    """The demonstrations in an `.npz`, `.jsonl` or `.csv` file, refused unless every step is possible in the MDP."""
    mdp = mdp.mdp if isinstance(mdp, Domain) else mdp
    suffix = known_suffix(path, DEMONSTRATION_SUFFIXES, "demonstrations")
    try:
        if suffix == ".npz":
            archive = read_archive(path, ("states", "offsets"), DEMONSTRATIONS, others="choices", max_bytes=max_bytes)
            taken = archive.get("choices")
            return Demonstrations(archive["states"], archive["offsets"], taken, mdp).checked_against(mdp)
        with open_regular(path, max_bytes) as file:
            content = file.read()
        _check_size(path, OBJECT_BYTES * n_objects(content), max_bytes)
        columns, lines = (from_csv if suffix == ".csv" else from_lines)(content, str(path))
        if "choices" in columns and suffix == ".jsonl":
            return Demonstrations.from_choice_sequences(mdp, columns["states"], columns["choices"])
        optional: Any = {role: role if role in columns else None for role in ("action", "next_state", "terminated")}
        return Demonstrations.from_frame(mdp, columns, **optional, row_name=lambda row: f"line {lines[row]} of {path}")
    except InvalidModel as error:
        if str(path) in str(error):
            raise
        raise InvalidModel(f"{path} holds no valid demonstrations: {error}") from error


def write_table(columns: Mapping[str, Sequence[Any]], path: AnyPath) -> None:
    """Write a table to a `.csv` file, or to a `.jsonl` file with a line for each row, as the path ends."""
    if known_suffix(path, (".csv", ".jsonl"), "a table") == ".csv":
        write_whole(path, to_csv(columns))
        return
    rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
    # A number of NumPy becomes one of Python, and what JSON does not have its text.
    lines = (json.dumps(row, default=lambda value: getattr(value, "tolist", value.__str__)()) for row in rows)
    write_whole(path, "".join(f"{line}\n" for line in lines).encode())


def known_suffix(path: AnyPath, known: Sequence[str], what: str) -> str:
    """The suffix of a path; refused unless it is one of these."""
    if Path(path).suffix not in known:
        raise InvalidModel(f"{path} must end in {' or '.join(known)}, the file format of {what}")
    return Path(path).suffix


def write_archive(path: AnyPath, fields: Mapping[str, Any], form: tuple[str, int]) -> None:
    """Write arrays to an `.npz` file. form: the format and its version."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, format=np.array(form[0]), version=np.array(form[1]), **fields)
    write_whole(path, buffer.getbuffer())


def write_whole(path: AnyPath, content: bytes | memoryview) -> None:
    """Write a file completely or not at all: under another name in its folder, which is made, then renamed."""
    if isinstance(path, io.BytesIO):
        path.write(content)
        return
    target = Path(path)
    make_folder(target.parent)
    unfinished = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        with unfinished.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(target)
    except OSError as error:
        # It names the unfinished file; of a full disk it names none.
        raise Unavailable(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        unfinished.unlink(missing_ok=True)


def make_folder(path: Path) -> None:
    """Make a folder and those above it, unless they are there."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        is_file = isinstance(error, FileExistsError | NotADirectoryError)
        reason = "there is a file in its place; give another path" if is_file else error.strerror
        raise Unavailable(f"the folder {path} cannot be made: {reason}") from error


def open_regular(path: AnyPath, max_bytes: int = LARGEST_BYTES) -> BinaryIO:
    """The file, open for reading; a device, a pipe, a folder or a file of more than `max_bytes` is refused."""
    if isinstance(path, io.BytesIO):
        return io.BytesIO(path.getvalue())
    # Without O_NONBLOCK, opening a pipe waits for a writer.
    opened = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    status = os.fstat(opened)
    try:
        if not stat.S_ISREG(status.st_mode):
            raise Unavailable(f"{path} is not a regular file, so it is not read")
        _check_size(path, status.st_size, max_bytes)
    except TutelageError:
        os.close(opened)
        raise
    return os.fdopen(opened, "rb")


def read_archive(
    path: AnyPath, fields: Sequence[str], form: tuple[str, int], *, others: str = "", max_bytes: int = LARGEST_BYTES
) -> Archive:
    """The arrays of an `.npz` file of this format, of this version or an older one, with at least these fields.
    others: a pattern of the names of further arrays to read. max_bytes: of the file, and of its arrays."""
    wanted = re.compile(rf"({'|'.join(['format', 'version', *fields, others])})\.npy")
    cause, (kind, version) = "it is damaged, cut short, pickled or not an .npz file", form
    with open_regular(path, max_bytes) as file:
        try:
            with np.load(file, allow_pickle=False) as archive:
                members = {m.filename[:-4]: m for m in archive.zip.infolist() if wanted.fullmatch(m.filename)}
                _check_size(path, sum(member.file_size for member in members.values()), max_bytes)
                n_texts = sum(_n_texts(archive.zip, member) for member in members.values())
                _check_size(path, OBJECT_BYTES * n_texts, max_bytes)
                arrays: Archive = {name: archive[member.filename] for name, member in members.items()}
            for array in arrays.values():
                if array.dtype.kind == "U" and array.nbytes:
                    # Python makes texts of code points that do not exist, and fails when it reads them.
                    codes = np.frombuffer(array.tobytes(), array.dtype.byteorder + "u4")
                    if codes.max() > sys.maxunicode:
                        raise ValueError("a text has a code point that Unicode does not have")
        except InvalidModel:
            raise
        # Damaged bytes raise many kinds of exceptions in zip, zlib and NumPy; all have the same meaning here.
        except Exception as error:
            raise InvalidModel(f"{path} cannot be read as a {kind} file: {cause}") from error
    written_as = str(arrays.get("format", "no format"))
    written = arrays.get("version", np.array("unknown"))
    if written_as != kind:
        raise InvalidModel(f"{path} is not a {kind} file, but of format {written_as!r}")
    if written.ndim or written.dtype.kind not in "iu" or not 1 <= written <= version:
        raise InvalidModel(f"{path} is a {kind} of version {written}; this Tutelage reads versions up to {version}")
    for field in fields:
        if field not in arrays:
            raise InvalidModel(f"{path} lacks the field {field!r} of a {kind}; it is incomplete")
    return arrays


def _n_texts(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> int:
    """The number of texts in an array, each of which will be a Python object. Refused unless it is compressed as NumPy
    does, and its header has the size that the archive declares for it; any error is that of a damaged file."""
    with archive.open(member) as content:
        # Headers of later versions of the format may be gigabytes long.
        is_known = member.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
        is_known = is_known and np.lib.format.read_magic(content) == (1, 0)
        shape, _, dtype = np.lib.format.read_array_header_1_0(content) if is_known else ((), False, np.dtype("O"))
        # An array of objects is pickled. Any number of texts of length zero takes no bytes in a file.
        is_known = dtype.kind in "biufU" and (dtype.itemsize > 0 or prod(shape) <= 1)
        if not is_known or content.tell() + prod(shape) * dtype.itemsize != member.file_size:
            raise ValueError("an array that NumPy does not write")
    return prod(shape) if dtype.kind == "U" else 0


def _check_size(path: AnyPath, size: int, max_bytes: int) -> None:
    if size > max_bytes:
        raise InvalidModel(f"{path} holds {size} bytes, but the limit is {max_bytes}; raise it by max_bytes")
