"""The access log of the guides."""

from __future__ import annotations

from pathlib import Path

__all__ = ["access_log"]


def access_log(path: Path, lines: int = 20_000) -> None:
    """Write a log; its lines are those that the guides show."""
    path.write_text(
        "".join(
            f"10.0.0.{number % 250} - - [15/Nov/2026:14:{number // 60 % 60:02}:{number % 60:02} +0000] "
            f'"GET /item/{number} HTTP/1.1" 200 512 "-" "curl/8.5"\n'
            for number in range(lines)
        )
    )
