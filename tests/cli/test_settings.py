"""Where the connection comes from: flags, environment, contexts; and that secrets stay secret."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from jetspark.cli.settings import COMMON, Settings
from jetspark.core.contexts import Context
from jetspark.server import TLS, Server
from tests.cli.support import Cli, Terminal
from tests.support.certs import Certs


@pytest.fixture
def guarded(
    guarded_server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Cli:
    """Runs commands against a server that wants a user, without saying which."""
    monkeypatch.setenv("NATS_URL", guarded_server.url)
    return Cli(capsys, monkeypatch)


def write_context(config: Path, name: str, *, select: bool = False, **fields: object) -> None:
    directory = config / "nats" / "context"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"{name}.json").write_text(json.dumps({"description": "", "color_scheme": "x", **fields}))
    if select:
        (config / "nats" / "context.txt").write_text(f"{name}\n")


def test_user_and_password_come_from_the_environment(guarded: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    guarded.fails("stream", "ls", code=5)
    monkeypatch.setenv("NATS_USER", "admin")
    monkeypatch.setenv("NATS_PASSWORD", "admin-secret")
    guarded("stream", "ls")


def test_user_and_password_come_from_flags_and_files(guarded: Cli, tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("admin-secret\n")
    guarded("stream", "ls", "--user", "admin", "--password-file", secret)
    line = guarded.fails("stream", "ls", "--user", "admin", "--password-file", tmp_path / "none", code=2)
    assert "--password-file: cannot read" in line
    assert "--password-file needs --user" in guarded.fails("stream", "ls", "--password-file", secret, code=2)


def test_there_is_no_flag_for_a_secret() -> None:
    assert not {"password", "token", "seed", "jwt"} & set(COMMON)


def test_credentials_in_the_url_are_refused_on_the_command_line_only(
    guarded: Cli, guarded_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = guarded_server.url.replace("://", "://admin:admin-secret@")
    line = guarded.fails("--server", url, "stream", "ls", code=2)
    assert "which every user of this machine can read" in line
    assert "admin-secret" not in line
    monkeypatch.setenv("NATS_URL", url)
    guarded("stream", "ls")


def test_common_options_stand_before_or_behind_the_command_and_the_latter_win(
    cli: Cli, shared_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NATS_URL", "nats://127.0.0.1:1")
    assert isinstance(cli("-s", shared_server.url, "--json", "stream", "ls").json, list)
    assert isinstance(cli("stream", "ls", "--json", "--server", shared_server.url).json, list)
    cli("--server", "nats://127.0.0.1:2", "stream", "ls", "--server", shared_server.url)


def test_the_selected_context_is_used(
    guarded: Cli, guarded_server: Server, no_settings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NATS_URL")
    write_context(
        no_settings, "prod", select=True, url=guarded_server.url, user="admin", password="admin-secret"
    )
    guarded("stream", "ls")
    checks = {check["name"]: check["detail"] for check in guarded("doctor", "--json").json}
    assert checks["Settings"] == "context prod"


def test_a_context_is_chosen_by_flag_or_environment(
    guarded: Cli, guarded_server: Server, no_settings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NATS_URL")
    write_context(no_settings, "wrong", select=True, url="nats://127.0.0.1:1")
    write_context(no_settings, "right", url=guarded_server.url, user="admin", password="admin-secret")
    guarded.fails("stream", "ls", code=3)
    guarded("stream", "ls", "--context", "right")
    monkeypatch.setenv("NATS_CONTEXT", "right")
    guarded("stream", "ls")


def test_flags_win_over_the_environment_and_that_over_the_context(
    no_settings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_context(
        no_settings,
        "c",
        url="nats://context",
        creds="~/c.creds",
        ca="$SOMEWHERE/ca.pem",
        jetstream_domain="hub",
    )
    monkeypatch.setenv("SOMEWHERE", "/certs")
    only_context = Settings(context="c").connect_options(None)
    assert only_context["servers"] == "nats://context"
    assert only_context["credentials_file"] == Path.home() / "c.creds"
    assert only_context["tls_ca_file"] == Path("/certs/ca.pem")
    assert Settings(context="c").jetstream_options()["domain"] == "hub"
    monkeypatch.setenv("NATS_URL", "nats://environment")
    monkeypatch.setenv("NATS_NKEY", "/env.nk")
    monkeypatch.setenv("NATS_TIMEOUT", "30s")
    both = Settings(context="c").connect_options(None)
    assert both["servers"] == "nats://environment"
    assert "credentials_file" not in both
    assert (both["nkey_seed_file"], both["request_timeout"]) == (Path("/env.nk"), 30.0)
    every = Settings(context="c", server="flag:4222", creds=Path("/flag.creds"), timeout=1.0).connect_options(
        None
    )
    assert (every["servers"], every["credentials_file"], every["request_timeout"]) == (
        "flag:4222",
        Path("/flag.creds"),
        1.0,
    )
    assert "nkey_seed_file" not in every


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("none", None, "context 'none' not found"),
        ("../../etc/passwd", None, "is not a valid context name"),
        ("broken", '{"password": "hidden", ', "is not a valid context file"),
        ("typed", '{"url": 7, "password": "hidden"}', "is not a valid context file"),
        ("nsc", '{"nsc": "nsc://x/y/z"}', "refers to nsc://x/y/z, but `nsc` is not on the PATH"),
    ],
)
def test_a_context_that_cannot_be_used_is_told_without_its_secrets(
    cli: Cli, no_settings: Path, name: str, content: str | None, complaint: str
) -> None:
    if content is not None:
        write_context(no_settings, name)
        (no_settings / "nats" / "context" / f"{name}.json").write_text(content)
    line = cli.fails("stream", "ls", "--context", name, code=2)
    assert complaint in line
    assert "hidden" not in line


def test_a_context_does_not_show_its_secrets() -> None:
    assert "hidden" not in repr(Context(url="x", password="hidden", token="hidden"))


def test_a_token_comes_from_the_environment_or_a_file(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with Server(token="t0ken") as server:
        monkeypatch.setenv("NATS_URL", server.url)
        cli.fails("stream", "ls", code=5)
        (tmp_path / "token").write_text("t0ken")
        cli("stream", "ls", "--token-file", tmp_path / "token")
        monkeypatch.setenv("NATS_TOKEN", "t0ken")
        cli("stream", "ls")


def test_tls_files_come_from_flags_and_environment(
    cli: Cli, certs: Certs, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls = TLS(cert_file=certs.server.cert_file, key_file=certs.server.key_file, ca_file=certs.ca, verify=True)
    with Server(tls=tls) as server:
        monkeypatch.setenv("NATS_URL", server.url)
        line = cli.fails("stream", "ls", code=3)
        assert "certificate" in line
        assert "--tlsca" in line
        cli(
            "stream",
            "ls",
            "--tlsca",
            certs.ca,
            "--tlscert",
            certs.client.cert_file,
            "--tlskey",
            certs.client.key_file,
        )
        monkeypatch.setenv("NATS_CA", str(certs.ca))
        monkeypatch.setenv("NATS_CERT", str(certs.client.cert_file))
        monkeypatch.setenv("NATS_KEY", str(certs.client.key_file))
        cli("stream", "ls")


def test_a_domain_leads_to_another_jetstream(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    with Server(domain="hub") as server:
        monkeypatch.setenv("NATS_URL", server.url)
        cli("stream", "add", "A", "--subjects", "a", "--js-domain", "hub")
        assert cli.json("stream", "ls", "--names", "--js-domain", "hub") == ["A"]
        cli.fails("stream", "ls", "--js-domain", "elsewhere", "--timeout", "3s", code=1)
        cli.fails("stream", "ls", "--js-domain", "a", "--js-api-prefix", "b", code=2)


def test_trace_shows_the_protocol_without_secrets(guarded: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NATS_USER", "admin")
    monkeypatch.setenv("NATS_PASSWORD", "admin-secret")
    guarded("stream", "add", "T", "--subjects", "t")
    trace = guarded("pub", "t", "he\x1bllo", "--trace").err.splitlines()
    assert any(line.startswith("<<< INFO {") for line in trace)
    connect = next(line for line in trace if line.startswith(">>> CONNECT"))
    assert '"user":"admin"' in connect
    assert '"pass":"***"' in connect
    assert any(line.startswith(">>> PUB t _INBOX.") and line.endswith(r" 6 he\x1bllo") for line in trace)
    assert any(line.startswith("<<< MSG _INBOX.") for line in trace)
    assert "admin-secret" not in "".join(trace)
    # It ends with the command.
    assert guarded("stream", "ls").err == ""


def test_a_password_is_asked_for_on_a_terminal(
    terminal: Callable[..., Terminal], guarded_server: Server
) -> None:
    shown = terminal("stream", "ls", "--user", "admin", env={"NATS_URL": guarded_server.url})
    shown.expect("Password for admin: ")
    shown.type("admin-secret")
    assert shown.end() == 0
    assert "admin-secret" not in shown.seen
