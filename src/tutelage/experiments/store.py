"""The store of results: one SQLite file with one row for each (settings, world, learner, teacher)."""

import json
import logging
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path
from subprocess import DEVNULL, SubprocessError, check_output
from typing import Any

import tutelage
from tutelage.data.files import make_folder
from tutelage.experiments.settings import RowKey
from tutelage.outcomes import Unavailable

APPLICATION_ID = 0x54757465
LAYOUT = 3
SCHEMA = """
create table if not exists results (
    settings text not null, world text not null, learner text not null, teacher text not null,
    detail text not null, result text not null, version text not null, revision text not null,
    checksum text not null default '', seconds real, primary key (settings, world, learner, teacher)
) without rowid
"""


@dataclass(frozen=True, slots=True)
class Row:
    """The result of one task. detail, result: settings and result, as JSON. seconds: None if the process was killed."""

    key: RowKey
    detail: str
    result: str
    version: str
    revision: str
    seconds: float | None = field(default=None, compare=False)

    @property
    def outcome(self) -> dict[str, Any]:
        data: dict[str, Any] = json.loads(self.result)
        return data

    @property
    def stored(self) -> tuple[Any, ...]:
        texts = (*self.key, self.detail, self.result, self.version, self.revision)
        return (*texts, sha256(repr(texts).encode()).hexdigest(), self.seconds)


class Store:
    """The rows in a file, which is created if it does not exist."""

    def __init__(self, path: Path) -> None:
        self.path = path
        make_folder(path.parent)
        with self._open() as connection:
            connection.execute("begin immediate")
            (identity,) = connection.execute("pragma application_id").fetchone()
            (layout,) = connection.execute("pragma user_version").fetchone()
            if connection.execute("select count(*) from sqlite_schema").fetchone()[0]:
                # Rows of an older version would not be used: a key has the version.
                if (identity, layout) != (APPLICATION_ID, LAYOUT):
                    made = f"another version, layout {layout}" if identity == APPLICATION_ID else "another program"
                    raise Unavailable(f"{path} is a database of {made}; choose another folder with --out")
                return
            connection.execute(f"pragma application_id = {APPLICATION_ID}")
            connection.execute(f"pragma user_version = {LAYOUT}")
            connection.execute(SCHEMA)

    def add(self, row: Row) -> None:
        """Store a row, unless its task has one already: equal tasks have equal rows."""
        with self._open() as connection:
            connection.execute(f"insert or ignore into results values ({'?, ' * 9}?)", row.stored)

    def rows(self) -> dict[RowKey, Row]:
        """All rows, in the order of their keys. A row whose checksum is wrong is named in the log and deleted."""
        rows, damaged = dict[RowKey, Row](), list[RowKey]()
        with self._open() as connection:
            stored = connection.execute("select * from results order by settings, world, learner, teacher").fetchall()
        for columns in stored:
            detail, result, version, made, _, seconds = columns[4:]
            row = Row(RowKey(*columns[:4]), detail, result, version, made, seconds)
            if row.stored == columns:
                rows[row.key] = row
            else:
                name = " ".join(map(str, row.key[1:]))
                logging.getLogger(__name__).warning("%s: the row %s is damaged; it is computed again", self.path, name)
                damaged.append(row.key)
        self.drop(damaged)
        return rows

    def drop(self, keys: Iterable[RowKey]) -> None:
        with self._open() as connection:
            named = "settings = ? and world = ? and learner = ? and teacher = ?"
            connection.executemany(f"delete from results where {named}", keys)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """A connection whose changes are committed together or not at all; another run may write for a minute."""
        try:
            with closing(sqlite3.connect(self.path, timeout=60.0)) as connection, connection:
                # A damaged text must not hide others.
                connection.text_factory = lambda text: text.decode(errors="replace")
                yield connection
        except sqlite3.DatabaseError as error:
            raise Unavailable(f"{self.path} cannot be used as a store of results: {error}") from error


@cache
def revision() -> str:
    """The commit of the git checkout that contains the package; empty if there is none."""
    folder = Path(tutelage.__file__).parent
    try:
        check_output(["git", "ls-files", "--error-unmatch", "__init__.py"], cwd=folder, stderr=DEVNULL)
        return check_output(["git", "describe", "--always", "--dirty", "--abbrev=12"], cwd=folder, text=True).strip()
    except (OSError, SubprocessError):
        return ""
