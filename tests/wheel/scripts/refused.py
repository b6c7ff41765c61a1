"""A call that is refused, for the scripts beside this one."""

import verbena


def refused(call, *words, code=None, kind=verbena.CommandError):
    """Returns the error of a call, whose message has these words."""
    try:
        call()
    except kind as error:
        assert all(word in str(error) for word in words), str(error)
        assert code is None or error.exit_code == code, error.exit_code
        return error
    raise AssertionError(f"it is not refused with {words}")
