"""One line for the warnings of a call, and filters by reason."""

from __future__ import annotations

import pickle
import warnings

import chorale_client
import pytest
from chorale_client._data_warnings import join_warnings, tell

DataWarning = chorale_client.DataWarning
FAR = [DataWarning(f"column {name!r} lies far", "OUTLIERS", name, 2) for name in "abc"]
UNKNOWN = DataWarning("column 'd' has unknown ones", "UNKNOWN_CATEGORY", "d", 5)
SEASON = DataWarning("a season", "SEASON", "t", 0, severity="info")


def told(found: list[DataWarning], *filters: tuple[str, str]) -> list[DataWarning]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for action, message in filters:
            warnings.filterwarnings(action, message, DataWarning)  # type: ignore[arg-type]
        tell(found)
    assert all(warning.filename == __file__ for warning in caught)
    messages = [warning.message for warning in caught]
    assert all(isinstance(message, DataWarning) for message in messages)
    return messages  # type: ignore[return-value]


def test_one_line_a_call() -> None:
    (warning,) = told([*FAR, SEASON, UNKNOWN])
    assert warning.parts == (*FAR, UNKNOWN)
    assert warning.columns == ("a", "b", "c", "d")
    assert (warning.reason, warning.column, warning.cell_count) == ("SEVERAL", "", 11)
    assert str(warning) == (
        "column 'a' lies far; likewise 'b', 'c' [OUTLIERS]; "
        "column 'd' has unknown ones [UNKNOWN_CATEGORY]"
    )
    assert told([SEASON]) == []
    assert told([]) == []


def test_a_single_warning_is_itself() -> None:
    (warning,) = told([UNKNOWN])
    assert warning is UNKNOWN
    assert warning.parts == (UNKNOWN,)
    assert str(warning) == "column 'd' has unknown ones [UNKNOWN_CATEGORY]"
    assert str(DataWarning("plain")) == "plain"


def test_warnings_of_one_reason_keep_it() -> None:
    warning = join_warnings(FAR)
    assert (warning.reason, warning.column, warning.cell_count) == ("OUTLIERS", "", 6)
    many = join_warnings([DataWarning("m", "DROPPED_COLUMN", f"c{i}", 1) for i in range(40)])
    assert "'c20' and 19 more" in str(many)
    copy = pickle.loads(pickle.dumps(warning))
    assert str(copy) == str(warning)
    assert copy.severity == "warning"
    assert pickle.loads(pickle.dumps(SEASON)).severity == "info"
    assert [part.column for part in copy.parts] == ["a", "b", "c"]


def test_filters_name_a_reason_or_a_column() -> None:
    everything = [*FAR, UNKNOWN]
    (warning,) = told(everything, ("ignore", r".*\[OUTLIERS\]"))
    assert warning is UNKNOWN
    (warning,) = told(everything, ("ignore", "column 'b'"))
    assert warning.columns == ("a", "c", "d")
    assert told(everything, ("ignore", "")) == []
    # The latest filter comes first.
    (warning,) = told(everything, ("ignore", ""), ("always", r".*\[UNKNOWN_CATEGORY\]"))
    assert warning is UNKNOWN
    with warnings.catch_warnings():
        warnings.filterwarnings("error", r".*\[UNKNOWN_CATEGORY\]", DataWarning)
        with pytest.raises(DataWarning):
            tell(everything)


def test_filters_of_other_kinds_do_not_matter() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        warnings.filterwarnings("ignore", category=DataWarning, module="elsewhere")
        warnings.filterwarnings("ignore", category=DataWarning, lineno=1)
        tell(FAR)
    assert len(caught) == 1
