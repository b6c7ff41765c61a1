"""`python -m verbena` is `verbena`, where the scripts of this interpreter are not in the path."""

import sys

from .programs import become, program

try:
    executable = program()
except FileNotFoundError as error:
    sys.exit(str(error))
become("verbena", executable)
