"""The store: what was committed stays, whoever else writes; and what is not a store is left alone."""

import sqlite3
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import pytest

from tutelage.experiments.settings import RowKey
from tutelage.experiments.store import Row, Store
from tutelage.outcomes import Unavailable


def row(number: int, result: str = '{"reward": 0.1}') -> Row:
    return Row(RowKey(f"{number:016}", "published:0:10", "L2", "agnostic"), "{}", result, "1.0", "abc")


def add_many(path, numbers):
    store = Store(path)
    for number in numbers:
        store.add(row(number))


def test_rows_come_back_as_they_went_in_and_in_order(tmp_path):
    store = Store(tmp_path / "deep" / "results.sqlite")
    for number in (2, 0, 1):
        store.add(row(number))
    assert list(Store(store.path).rows().values()) == [row(0), row(1), row(2)]
    assert row(0).outcome == {"reward": 0.1}


def test_the_first_row_of_a_key_stays(tmp_path):
    """Whoever comes second has the same row, so nothing is lost; and a report never changes under its reader."""
    store = Store(tmp_path / "results.sqlite")
    store.add(row(0))
    store.add(replace(row(0), result='{"reward": 9.0}'))
    assert list(store.rows().values()) == [row(0)]


def test_forgotten_rows_are_gone_and_no_others(tmp_path):
    store = Store(tmp_path / "results.sqlite")
    add_many(store.path, range(4))
    store.drop(iter([row(1).key, row(7).key]))
    assert list(store.rows()) == [row(number).key for number in (0, 2, 3)]


def test_two_processes_may_write_at_the_same_time(tmp_path):
    path = tmp_path / "results.sqlite"
    with ProcessPoolExecutor(2) as pool:
        # Half of the rows are written by both.
        list(pool.map(add_many, [path, path], [range(40), range(20, 60)]))
    assert list(Store(path).rows().values()) == [row(number) for number in range(60)]
    with sqlite3.connect(path) as connection:
        assert connection.execute("pragma integrity_check").fetchone() == ("ok",)


def test_a_database_of_another_program_is_left_as_it_is(tmp_path):
    path = tmp_path / "photos.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("create table photos (name)")
    before = path.read_bytes()
    with pytest.raises(Unavailable, match="of another program"):
        Store(path)
    assert path.read_bytes() == before


def test_what_is_no_database_is_refused_with_its_name(tmp_path):
    path = tmp_path / "results.sqlite"
    path.write_text("once upon a time " * 100)
    with pytest.raises(Unavailable, match=r"results\.sqlite cannot be used as a store"):
        Store(path)


@pytest.mark.parametrize("layout", [2, 9])
def test_another_layout_is_refused(tmp_path, layout):
    """Rows of another version of the package would be computed again, since a key has the version."""
    store = Store(tmp_path / "results.sqlite")
    with sqlite3.connect(store.path) as connection:
        connection.execute(f"pragma user_version = {layout}")
    with pytest.raises(Unavailable, match=f"of another version, layout {layout}; choose another folder"):
        Store(store.path)


def spoil(path, command: str, *values) -> None:
    with sqlite3.connect(path) as connection:
        assert connection.execute(command, values).rowcount == 1


@pytest.mark.parametrize(
    "change",
    [
        "result = '{\"reward\": 0.2}'",
        "result = '{\"rewa'",
        "result = x'ff00'",
        "result = cast(x'7bff7d' as text)",
        "detail = '{ }'",
        "version = '1.1'",
        "checksum = ''",
        "world = 'published:1:10'",
    ],
)
def test_a_damaged_row_is_named_and_computed_again_and_the_others_stay(tmp_path, change, caplog):
    store = Store(tmp_path / "results.sqlite")
    add_many(store.path, range(3))
    spoil(store.path, f"update results set {change} where settings = ?", f"{1:016}")
    assert list(Store(store.path).rows().values()) == [row(0), row(2)]
    (said,) = caplog.messages
    assert "results.sqlite: the row published:" in said and "10 L2 agnostic is damaged" in said
    store.add(row(1))
    assert list(store.rows().values()) == [row(0), row(1), row(2)] and len(caplog.messages) == 1
