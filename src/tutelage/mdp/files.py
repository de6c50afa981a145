"""Domains in files: one `.npz` each, without pickle, versioned, written whole or not at all, checked when read.

`write_archive` and `read_archive` are the one door to such files, also for demonstrations. A file that was cut,
damaged, pickled, or made by something else is refused with its name; it never becomes a wrong model.
"""

import io
import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from tutelage.arrays import integers
from tutelage.mdp.model import MDP, Domain
from tutelage.outcomes import InvalidModel

DOMAIN_FORMAT = "tutelage domain"
DOMAIN_VERSION = 1
DOMAIN_FIELDS = (
    "transition_data",
    "transition_indices",
    "transition_indptr",
    "first_choice",
    "initial",
    "discount",
    "reward_features",
    "preference_features",
    "reward_names",
    "preference_names",
)

Archive = Mapping[str, NDArray[Any]]
AnyPath = str | os.PathLike[str]


def save(domain: Domain, path: AnyPath) -> None:
    """Write a domain to an `.npz` file, from which `load` makes the same one, bit for bit."""
    if Path(path).suffix != ".npz":
        raise InvalidModel(f"{path} must end in .npz, the format of a domain")
    rows = domain.mdp.transition
    arrays = (
        rows.data,
        rows.indices,
        rows.indptr,
        domain.mdp.first_choice,
        domain.mdp.initial,
        np.array(domain.mdp.discount),
        domain.reward_features,
        domain.preference_features,
        np.array(domain.reward_names, dtype=np.str_),
        np.array(domain.preference_names, dtype=np.str_),
    )
    write_archive(path, dict(zip(DOMAIN_FIELDS, arrays, strict=True)), kind=DOMAIN_FORMAT, version=DOMAIN_VERSION)


def load(path: AnyPath) -> Domain:
    """The domain in a file that `save` wrote."""
    archive = read_archive(path, DOMAIN_FIELDS, kind=DOMAIN_FORMAT, version=DOMAIN_VERSION)
    try:
        return Domain(
            _mdp(archive),
            archive["reward_features"],
            archive["preference_features"],
            _names(archive, "reward_names"),
            _names(archive, "preference_names"),
        )
    except InvalidModel as error:
        raise InvalidModel(f"{path} holds no valid domain: {error}") from error


def _mdp(archive: Archive) -> MDP:
    initial = archive["initial"]
    indices = integers(archive["transition_indices"], "transition_indices")
    indptr = integers(archive["transition_indptr"], "transition_indptr")
    try:
        shape = (len(indptr) - 1, len(initial))
        rows = sparse.csr_array((archive["transition_data"], indices, indptr), shape=shape)
        discount = float(archive["discount"])
    except (TypeError, ValueError) as error:
        raise InvalidModel(str(error)) from error
    return MDP.from_choices(rows, archive["first_choice"], initial, discount)


def _names(archive: Archive, name: str) -> tuple[str, ...]:
    names = archive[name]
    if names.dtype.kind != "U" or names.ndim != 1:
        raise InvalidModel(f"{name} must be a vector of words, got {names.dtype} of shape {names.shape}")
    return tuple(names.tolist())


def write_archive(path: AnyPath, fields: Mapping[str, ArrayLike], *, kind: str, version: int) -> None:
    """Write arrays to an `.npz` file that says what it is."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, format=np.array(kind), version=np.array(version), **fields)  # type: ignore[arg-type]
    write_whole(path, buffer.getbuffer())


def write_whole(path: AnyPath, content: bytes | memoryview) -> None:
    """Write a file whole or not at all: under another name in the same folder, then renamed over the old one."""
    target = Path(path)
    unfinished = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        with unfinished.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)


def read_archive(path: AnyPath, fields: Sequence[str], *, kind: str, version: int) -> Archive:
    """The arrays of an `.npz` file of this kind, of this version or an older one, with at least the given fields."""
    content = Path(path).read_bytes()
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            arrays = {name: np.asarray(archive[name]) for name in archive.files}
    # Damaged bytes raise whatever zip, zlib or NumPy trip over first; all of it means the same here.
    except Exception as error:
        raise InvalidModel(
            f"{path} cannot be read as a {kind}: it is damaged, cut short, pickled or no .npz"
        ) from error
    found = str(arrays.get("format", "no format"))
    if found != kind:
        raise InvalidModel(f"{path} is not a {kind} file, but of format {found!r}")
    written = arrays.get("version", np.array("unknown"))
    if written.ndim or written.dtype.kind not in "iu" or not 1 <= written <= version:
        raise InvalidModel(f"{path} is a {kind} of version {written}; this Tutelage reads versions up to {version}")
    for field in fields:
        if field not in arrays:
            raise InvalidModel(f"{path} lacks the field {field!r} of a {kind}; it is incomplete")
    return arrays
