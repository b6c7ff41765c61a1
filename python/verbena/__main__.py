"""`python -m verbena` is `verbena`, where the scripts of this interpreter are not in the path."""

from .programs import become

become("verbena")
