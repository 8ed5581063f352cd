"""Where an exception comes from, for the log, without its text: that may hold a destination, data or a secret."""

from __future__ import annotations

import traceback


def origin(error: BaseException) -> str:
    """The exception's type, and the lines of code that it passed."""
    return f"{type(error).__name__}\n{''.join(traceback.format_tb(error.__traceback__))}".rstrip()
