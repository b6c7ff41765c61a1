"""Runs `verbena` as `python -m verbena`, for interpreters whose scripts are not in the path."""

import sys

from .programs import become, program

try:
    executable = program()
except FileNotFoundError as error:
    sys.exit(str(error))
become("verbena", executable)
