"""`scripts/audit`, the last step of `make check`: fails for a vulnerability, goes on without its database."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Callable, Iterator
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "audit"
LOCKS = len(list((SCRIPT.parents[1] / "requirements").glob("*.lock")))


@pytest.fixture
def audit() -> ModuleType:
    loader = SourceFileLoader("audit", str(SCRIPT))
    spec = spec_from_loader("audit", loader)
    assert spec is not None
    loader.exec_module(module := module_from_spec(spec))
    return module


@pytest.fixture
def serve() -> Iterator[Callable[[object], str]]:
    """Starts a server that answers with a JSON document; its URL."""
    running: list[http.server.HTTPServer] = []

    def serve(document: object) -> str:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.end_headers()
                self.wfile.write(json.dumps(document).encode())

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        running.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield serve
    for server in running:
        server.shutdown()
        server.server_close()


def pip_audit(tmp_path: Path, report: object) -> list[str]:
    """A command that writes this report, or none."""
    script = tmp_path / "pip-audit"
    script.write_text(
        "#!/bin/sh\nfor each; do case $each in --output=*)\n"
        f"cat > \"${{each#--output=}}\" <<'END'\n{json.dumps(report)}\nEND\n;; esac; done\nexit 1\n"
        if report is not None
        else "#!/bin/sh\nexit 1\n"
    )
    script.chmod(0o755)
    return [str(script)]


KNOWN = {"vulnerabilities": [{"id": "PYSEC-1"}]}


@pytest.mark.parametrize("document", [{}, {"vulnerabilities": []}, [], "x"])
def test_it_goes_on_where_the_database_is_missing(
    document: object, audit: ModuleType, serve: Callable[[object], str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert audit.main(serve(document), ["false"]) == 0
    assert capsys.readouterr().out.count("\n") == 1


def test_it_goes_on_where_nobody_answers(audit: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit.main("http://127.0.0.1:1", ["false"]) == 0
    assert "cannot be reached" in capsys.readouterr().out


@pytest.mark.parametrize("report", [None, "not a report"])
def test_it_goes_on_if_the_audit_does_not_end(
    report: object,
    audit: ModuleType,
    serve: Callable[[object], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert audit.main(serve(KNOWN), pip_audit(tmp_path, report)) == 0
    assert "did not end" in capsys.readouterr().out


def test_a_vulnerability_fails_it(
    audit: ModuleType, serve: Callable[[object], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = {"name": "b", "version": "1", "vulns": [{"id": "PYSEC-7", "fix_versions": ["1.1"]}]}
    report = {"dependencies": [{"name": "a", "skip_reason": "x"}, bad], "fixes": []}
    assert audit.main(serve(KNOWN), pip_audit(tmp_path, report)) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == LOCKS
    assert "dev.lock: b 1: PYSEC-7, fixed in 1.1" in lines


def test_no_vulnerability_is_said_too(
    audit: ModuleType, serve: Callable[[object], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert audit.main(serve(KNOWN), pip_audit(tmp_path, {"dependencies": []})) == 0
    assert f"no known vulnerabilities in {LOCKS} locks" in capsys.readouterr().out
