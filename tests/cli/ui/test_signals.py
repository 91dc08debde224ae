"""Signals that arrive while a command prints that it runs."""

from __future__ import annotations

import os
import signal

import pytest

from jetspark.cli.ui.signals import wait_for_signal

NUMBERS = (signal.SIGINT, signal.SIGTERM)


@pytest.mark.parametrize("number", NUMBERS)
def test_a_signal_during_the_announcement_ends_the_wait(number: int) -> None:
    before = [signal.getsignal(each) for each in NUMBERS]
    wait_for_signal(lambda: os.kill(os.getpid(), number))
    assert [signal.getsignal(each) for each in NUMBERS] == before
