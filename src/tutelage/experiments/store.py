"""Where rows are kept: one SQLite file, a row for each (settings, world, learner, teacher), committed as it comes.

A run that is killed loses what it had not committed, and nothing else. Several runs may share a store: whoever comes
second with a row leaves the first as it is, for the same task has the same row.
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from subprocess import DEVNULL, SubprocessError, check_output
from typing import Any

import tutelage
from tutelage.experiments.settings import RowKey
from tutelage.outcomes import Unavailable

# Tells our files from other programs', and later layouts from this one.
APPLICATION_ID = 0x54757465
LAYOUT = 1
# How long a run waits for another that is writing, in seconds.
PATIENCE = 60.0

SCHEMA = """
create table if not exists results (
    settings text not null, world text not null, learner text not null, teacher text not null,
    detail text not null, result text not null, version text not null, revision text not null,
    primary key (settings, world, learner, teacher)
) without rowid
"""


@dataclass(frozen=True, slots=True)
class Row:
    """What came of one task.

    detail: the settings in full, and result: what was found, both JSON texts; equal results are equal texts. version,
    revision: of the package that found it; the revision is the commit, where the package lies in a git checkout.
    """

    key: RowKey
    detail: str
    result: str
    version: str
    revision: str

    @property
    def found(self) -> dict[str, Any]:
        """The result as data."""
        found: dict[str, Any] = json.loads(self.result)
        return found


class Store:
    """Rows in a file, which is made when there is none."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        with self._open() as connection:
            (identity,) = connection.execute("pragma application_id").fetchone()
            (layout,) = connection.execute("pragma user_version").fetchone()
            is_new = not connection.execute("select count(*) from sqlite_schema").fetchone()[0]
            if not is_new and identity != APPLICATION_ID:
                raise Unavailable(f"{path} is a database of another program, and is left as it is")
            if not is_new and layout != LAYOUT:
                raise Unavailable(f"{path} has layout {layout} of a store, but this version reads {LAYOUT}")
            connection.execute(f"pragma application_id = {APPLICATION_ID}")
            connection.execute(f"pragma user_version = {LAYOUT}")
            connection.execute(SCHEMA)

    def add(self, row: Row) -> None:
        """Keep a row; one that is there already stays."""
        values = (*_columns(row.key), row.detail, row.result, row.version, row.revision)
        with self._open() as connection:
            connection.execute("insert or ignore into results values (?, ?, ?, ?, ?, ?, ?, ?)", values)

    def rows(self) -> dict[RowKey, Row]:
        """All that is there, in the order of the keys."""
        with self._open() as connection:
            found = connection.execute("select * from results order by settings, world, learner, teacher").fetchall()
        rows = (Row(RowKey(*columns[:4]), *columns[4:]) for columns in found)
        return {row.key: row for row in rows}

    def drop(self, keys: Iterator[RowKey]) -> None:
        """Forget these rows, so that they are computed anew."""
        with self._open() as connection:
            connection.executemany(
                "delete from results where settings = ? and world = ? and learner = ? and teacher = ?",
                map(_columns, keys),
            )

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """A connection whose changes are committed together, or not at all."""
        try:
            with closing(sqlite3.connect(self.path, timeout=PATIENCE)) as connection, connection:
                yield connection
        except sqlite3.DatabaseError as error:
            raise Unavailable(f"{self.path} cannot be used as a store of results: {error}") from error


def _columns(key: RowKey) -> tuple[str, str, str, str]:
    return key.settings, key.world, key.learner, key.teacher


@cache
def revision() -> str:
    """The commit of the checkout that the package lies in; empty where it was installed from a file."""
    folder = Path(tutelage.__file__).parent
    try:
        if not check_output(["git", "ls-files", "__init__.py"], cwd=folder, stderr=DEVNULL):
            return ""
        described = check_output(["git", "describe", "--always", "--dirty", "--abbrev=12"], cwd=folder, text=True)
        return described.strip()
    except (OSError, SubprocessError):
        return ""
