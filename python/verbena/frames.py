"""Rows as pandas frames. pandas is imported only when a frame is requested."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Sequence

if TYPE_CHECKING:
    import pandas



def frame(rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> pandas.DataFrame:
    """Returns a frame with `columns` first. Columns in which no row has a value are omitted."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError("verbena's frames need pandas, which is not installed; run 'pip install pandas'") from error
    if not rows:
        return pandas.DataFrame(columns=list(columns))
    names = dict.fromkeys([*columns, *(name for row in rows for name in row)])
    known = [name for name in names if any(row.get(name) is not None for row in rows)]
    return pandas.DataFrame([[row.get(name) for name in known] for row in rows], columns=known)
