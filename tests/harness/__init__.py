"""The harness of the end-to-end suites: cases, processes with deadlines, and the matrix.

A suite is a folder of `tests/` with a `suite.py` that has

- `TITLE`: one line;
- `REQUIRES`: the tools it cannot do without, as `requirement.Tool` values;
- `cases()`: the list of `case.Case`.

Only the standard library of Python 3.9 is used.
"""
