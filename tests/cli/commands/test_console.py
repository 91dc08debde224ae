"""`jetspark console` as a process: what it prints, how it ends, what it refuses."""

from __future__ import annotations

import json
import signal
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from jetspark.server import Server
from tests.cli.support import Cli, Process
from tests.support.certs import Certs

TOKEN = "a-token-of-sixteen-or-more"


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follows no redirect."""

    def redirect_request(self, *_: object) -> None:
        return None


@contextmanager
def console(server: Server, *arguments: object, **options: Any) -> Iterator[Process]:
    process = Process("console", "--port", "0", "--server", server.url, *arguments, **options)
    try:
        yield process
    finally:
        process.kill()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_it_prints_the_url_first_and_ends_at_a_signal(
    shared_server: Server, number: signal.Signals, code: int
) -> None:
    with console(shared_server) as process:
        url = process.line()
        assert url.startswith("http://127.0.0.1:")
        assert "/?token=" in url
        process.signal(number)
        ended = process.end()
    assert (ended.code, ended.out, ended.err) == (code, "", "")


def test_with_tls_and_a_token_of_ones_own(shared_server: Server, certs: Certs, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    arguments = ("--tls-cert", certs.server.cert_file, "--tls-key", certs.server.key_file, "--json")
    with console(shared_server, "--console-token-file", tmp_path / "token", *arguments) as process:
        url = json.loads(process.line())["url"]
        assert url.startswith("https://127.0.0.1:")
        assert url.endswith(f"/?token={TOKEN}")
        trusted = ssl.create_default_context(cafile=certs.ca)
        opener = urllib.request.build_opener(_Stay(), urllib.request.HTTPSHandler(context=trusted))
        with pytest.raises(urllib.error.HTTPError) as answer:
            opener.open(url, timeout=60)
        answer.value.close()
        assert answer.value.code == 303
        assert "Secure" in answer.value.headers["Set-Cookie"]


def test_a_port_that_is_taken_is_told(shared_server: Server) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with console(shared_server, "--port", taken.getsockname()[1]) as process:
            ended = process.end()
    assert ended.code == 2
    assert ended.err.startswith("jetspark: cannot listen on 127.0.0.1 port ")
    assert ended.err.endswith("Choose another port; 0 chooses a free one\n")


def test_its_messages_can_be_json(cli: Cli) -> None:
    ended = cli("console", "--tls-key", "/nowhere", "--log-format", "json", code=2)
    assert json.loads(ended.err)["message"] == "--tls-key: /nowhere is not a file"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--address", "0.0.0.0"], "a console on 0.0.0.0 needs a token of your own"),
        (["--tls-key", "/nowhere"], "--tls-key: /nowhere is not a file"),
        (["--tls-cert", __file__], "a certificate needs its key"),
        (["--console-token-file", "/nowhere"], "--console-token-file: cannot read /nowhere"),
        (["--console-token-file", "/dev/null"], "the token of the console needs 16 or more"),
    ],
)
def test_what_is_missing_is_told_on_one_line(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.delenv("JETSPARK_CONSOLE_TOKEN", raising=False)
    assert cli.fails("console", *arguments, code=2).startswith(f"jetspark: {message}")
