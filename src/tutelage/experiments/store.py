"""The store of results: one SQLite file with one row for each (settings, world, learner, teacher).

Every row is committed when it is computed, so a run that is killed loses only its unfinished tasks. Several runs may
share a store. The first row of a task stays; a second one is the same, because equal tasks have equal rows.

Each row has a checksum. A row that was changed since it was stored is named, deleted, and computed again.
"""

import json
import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from subprocess import DEVNULL, SubprocessError, check_output
from typing import Any

import tutelage
from tutelage.experiments.settings import RowKey
from tutelage.outcomes import Unavailable

# Marks a database as ours, and the version of its layout.
APPLICATION_ID = 0x54757465
LAYOUT = 3
# Seconds to wait for another run that is writing.
WRITING_SECONDS = 60.0

SCHEMA = """
create table if not exists results (
    settings text not null, world text not null, learner text not null, teacher text not null,
    detail text not null, result text not null, version text not null, revision text not null,
    checksum text not null default '', seconds real, primary key (settings, world, learner, teacher)
) without rowid
"""


@dataclass(frozen=True, slots=True)
class Row:
    """The result of one task.

    detail: the settings, result: the result, both as JSON texts; equal results are equal texts. version, revision: of
    the package that computed the row; the revision is the commit of its git checkout, if there is one. seconds: of
    processor time; rows that differ in it alone are equal. None in a row of an older store.
    """

    key: RowKey
    detail: str
    result: str
    version: str
    revision: str
    seconds: float | None = field(default=None, compare=False)

    @property
    def outcome(self) -> dict[str, Any]:
        """The result as data."""
        data: dict[str, Any] = json.loads(self.result)
        return data


class Store:
    """The rows in a file, which is created if it does not exist."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        with self._open() as connection:
            # No other run may change the layout meanwhile.
            connection.execute("begin immediate")
            (identity,) = connection.execute("pragma application_id").fetchone()
            (layout,) = connection.execute("pragma user_version").fetchone()
            is_new = not connection.execute("select count(*) from sqlite_schema").fetchone()[0]
            if not is_new and identity != APPLICATION_ID:
                raise Unavailable(f"{path} is a database of another program; choose another folder with --out")
            if not is_new and not 1 <= layout <= LAYOUT:
                raise Unavailable(f"{path} has layout {layout} of a store, but this version reads up to {LAYOUT}")
            connection.execute(f"pragma application_id = {APPLICATION_ID}")
            connection.execute(f"pragma user_version = {LAYOUT}")
            connection.execute(SCHEMA)
            if layout == 1:
                _add_checksums(connection)
            if layout in (1, 2):
                connection.execute("alter table results add column seconds real")

    def add(self, row: Row) -> None:
        """Store a row, unless its task has one already."""
        values = (*_columns(row.key), row.detail, row.result, row.version, row.revision)
        with self._open() as connection:
            stored = (*values, _checksum(*values), row.seconds)
            marks = ", ".join("?" * len(stored))
            connection.execute(f"insert or ignore into results values ({marks})", stored)

    def rows(self) -> dict[RowKey, Row]:
        """All rows, in the order of their keys. A row whose checksum is wrong is named in the log and deleted."""
        with self._open() as connection:
            stored = connection.execute("select * from results order by settings, world, learner, teacher").fetchall()
        rows = [
            (replace(Row(RowKey(*values[:4]), *values[4:]), seconds=seconds), _checksum(*values) == given)
            for *values, given, seconds in stored
        ]
        damaged = [row.key for row, is_whole in rows if not is_whole]
        for key in damaged:
            name = " ".join(map(str, key.names))
            logging.getLogger(__name__).warning("%s: the row %s is damaged; it is computed again", self.path, name)
        if damaged:
            self.drop(iter(damaged))
        return {row.key: row for row, is_whole in rows if is_whole}

    def drop(self, keys: Iterator[RowKey]) -> None:
        """Delete these rows, so that they are computed again."""
        with self._open() as connection:
            connection.executemany(
                "delete from results where settings = ? and world = ? and learner = ? and teacher = ?",
                map(_columns, keys),
            )

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """A connection whose changes are committed together or not at all."""
        try:
            with closing(sqlite3.connect(self.path, timeout=WRITING_SECONDS)) as connection, connection:
                # A damaged text must not hide the others.
                connection.text_factory = lambda text: text.decode(errors="replace")
                yield connection
        except sqlite3.DatabaseError as error:
            raise Unavailable(f"{self.path} cannot be used as a store of results: {error}") from error


def _columns(key: RowKey) -> tuple[str, str, str, str]:
    return key.settings, *key.names


def _checksum(*values: Any) -> str:
    """The checksum of all other columns of a row."""
    return sha256(repr(values).encode()).hexdigest()


def _add_checksums(connection: sqlite3.Connection) -> None:
    """Change layout 1, which had no checksums, to layout 2."""
    connection.execute("alter table results add column checksum text not null default ''")
    connection.create_function("checksum_of", 8, _checksum)
    names = "settings, world, learner, teacher, detail, result, version, revision"
    connection.execute(f"update results set checksum = checksum_of({names}) where json_valid(result)")


@cache
def revision() -> str:
    """The commit of the git checkout that contains the package; empty if there is none."""
    folder = Path(tutelage.__file__).parent
    try:
        if not check_output(["git", "ls-files", "__init__.py"], cwd=folder, stderr=DEVNULL):
            return ""
        described = check_output(["git", "describe", "--always", "--dirty", "--abbrev=12"], cwd=folder, text=True)
        return described.strip()
    except (OSError, SubprocessError):
        return ""
