"""SIGINT for the tests, also where the runner started them with SIGINT ignored.

A shell ignores SIGINT in the commands that it starts in the background, and so do some CI runners. Python
leaves an ignored signal ignored, and every child process inherits that: a test that interrupts a child would
wait forever. `exec` resets a signal that has a handler to its default. One handler here is therefore
enough for every process that a test starts; `preexec_fn` would be needed at each place, and is unsafe with
threads.
"""

from __future__ import annotations

import signal
import threading

__all__ = ["accept_interrupts"]


def accept_interrupts() -> None:
    """Replace an ignored SIGINT by Python's default handler, for this process and its children."""
    if threading.current_thread() is not threading.main_thread():
        return  # only the main thread can set a handler
    if signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, None):
        signal.signal(signal.SIGINT, signal.default_int_handler)
