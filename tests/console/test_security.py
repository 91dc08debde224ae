"""Who may use the console, asked as a browser, another site or a program would ask."""

from __future__ import annotations

from typing import Any

import pytest

from jetspark.console.options import ConsoleOptions
from jetspark.console.security import NONCE, Access, Guard, is_loopback
from jetspark.errors import UsageError

TOKEN = "a-token-of-the-test"
HOST = "127.0.0.1:8280"


class Answer:
    """What came back, and whether the application was asked."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""
        self.reached: dict[str, Any] | None = None


async def ask(
    path: str = "/", *, kind: str = "http", method: str = "GET", query: str = "", **headers: str
) -> Answer:
    answer = Answer()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        answer.reached = dict(scope)
        if scope["type"] == "http":
            await send(
                {"type": "http.response.start", "status": 200, "headers": [(b"x-frame-options", b"no")]}
            )
            await send({"type": "http.response.body", "body": b"page"})

    async def receive() -> dict[str, Any]:
        return {"type": f"{kind}.connect"}

    async def send(message: Any) -> None:
        if message["type"] == "websocket.close":
            answer.status = 403
        elif message["type"] == "http.response.start":
            answer.status = message["status"]
            answer.headers = {name.decode().lower(): value.decode() for name, value in message["headers"]}
        else:
            answer.body += message["body"]

    given = {"host": HOST, **{name.replace("_", "-"): value for name, value in headers.items()}}
    scope = {
        "type": kind,
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in given.items()],
    }
    await Guard(app, ACCESS)(scope, receive, send)
    return answer


ACCESS = Access(TOKEN, names=["nats.example.com"], port=8280)
COOKIE = ACCESS.set_cookie().partition(";")[0]


async def test_without_the_token_nothing_is_reached() -> None:
    for path in ("/", "/stream/ORDERS", "/metrics", "/_nicegui/static/nicegui.js", "/nothing"):
        for query in ("", "token=", "token=wrong", "token=wrong&token=" + TOKEN):
            answer = await ask(path, query=query)
            assert (answer.status, answer.reached) == (401, None)
            assert "jetspark console" in answer.body.decode()
            assert answer.headers["cache-control"] == "no-store"


async def test_the_token_becomes_a_cookie_and_leaves_the_address() -> None:
    answer = await ask("/stream/A B", query=f"x=1&token={TOKEN}")
    assert (answer.status, answer.reached) == (303, None)
    assert answer.headers["location"] == "/stream/A%20B?x=1"
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert TOKEN not in cookie
    assert (await ask(cookie=cookie.partition(";")[0])).status == 200


@pytest.mark.parametrize("path", ["//evil.example", "/\\evil.example", "/\\/evil.example"])
async def test_the_redirect_stays_here(path: str) -> None:
    location = (await ask(path, query=f"token={TOKEN}")).headers["location"]
    assert location.startswith("/evil.example")


async def test_a_cookie_of_another_run_or_port_is_worth_nothing() -> None:
    other = Access(TOKEN, port=8280).set_cookie().partition(";")[0]
    for cookie in (other, COOKIE.replace("8280", "8281"), COOKIE[:-1], "jetspark_console_8280=", "=;;=\xff"):
        assert (await ask(cookie=cookie)).status == 401
    assert (await ask(cookie=f"other=1; {COOKIE}")).status == 200


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8280", "localhost", "LOCALHOST:9000", "[::1]:80", "10.1.2.3", "nats.example.com"]
)
async def test_addresses_and_known_names_are_answered(host: str) -> None:
    assert (await ask(host=host, cookie=COOKIE)).status == 200


@pytest.mark.parametrize(
    "host", ["", "evil.example", "evil.example:8280", "127.0.0.1.evil.example", "[::1", "a:b:c", "@x"]
)
async def test_a_name_that_was_rebound_to_this_machine_is_refused(host: str) -> None:
    answer = await ask(host=host, cookie=COOKIE, query=f"token={TOKEN}")
    assert (answer.status, answer.reached) == (421, None)
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    "origin",
    [
        None,
        "null",
        "http://evil.example",
        "http://127.0.0.1:8281",
        "http://localhost:8280",
        f"ws://{HOST}",
        "",
    ],
)
async def test_a_websocket_of_another_site_is_refused(origin: str | None) -> None:
    given = {} if origin is None else {"origin": origin}
    answer = await ask("/_nicegui_ws/socket.io", kind="websocket", cookie=COOKIE, **given)
    assert (answer.status, answer.reached) == (403, None)


async def test_a_websocket_of_a_page_needs_the_cookie() -> None:
    given = {"kind": "websocket", "origin": f"http://{HOST}"}
    assert (await ask("/_nicegui_ws/socket.io", **given)).reached is None
    assert (await ask("/_nicegui_ws/socket.io", query=f"token={TOKEN}", **given)).reached is None
    assert (await ask("/_nicegui_ws/socket.io", cookie=COOKIE, **given)).reached is not None


async def test_other_sites_can_only_link_here() -> None:
    for mode in ("no-cors", "cors", "websocket", ""):
        answer = await ask(cookie=COOKIE, sec_fetch_site="cross-site", sec_fetch_mode=mode)
        assert (answer.status, answer.reached) == (403, None)
    assert (await ask(cookie=COOKIE, sec_fetch_site="cross-site", sec_fetch_mode="navigate")).status == 200
    assert (await ask(cookie=COOKIE, sec_fetch_site="same-origin", sec_fetch_mode="cors")).status == 200


async def test_only_get_and_websockets_are_used() -> None:
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE"):
        assert (await ask(method=method, cookie=COOKIE, origin=f"http://{HOST}")).status == 405
    assert (await ask("/_nicegui_ws/socket.io", cookie=COOKIE)).status == 403
    assert (await ask(cookie=COOKIE, query="a" * 9000)).status == 431


async def test_metrics_are_for_programs_too() -> None:
    assert (await ask("/metrics", authorization=f"Bearer {TOKEN}")).status == 200
    assert (await ask("/metrics", authorization="Bearer wrong")).status == 401
    assert (await ask("/metrics", authorization=f"Basic {TOKEN}")).status == 401
    assert (await ask("/", authorization=f"Bearer {TOKEN}")).status == 401


async def test_every_answer_has_a_strict_policy_with_a_nonce_of_its_own() -> None:
    first, second = await ask(cookie=COOKIE), await ask(cookie=COOKIE)
    assert first.reached is not None
    assert second.reached is not None
    nonce = first.reached[NONCE]
    assert nonce != second.reached[NONCE]
    policy = first.headers["content-security-policy"]
    directives = dict(part.strip().partition(" ")[::2] for part in policy.split(";"))
    assert directives["default-src"] == "'none'"
    assert directives["script-src"] == f"'self' 'nonce-{nonce}' 'unsafe-eval'"
    assert (
        directives["script-src-attr"] == directives["base-uri"] == directives["frame-ancestors"] == "'none'"
    )
    assert directives["connect-src"] == f"'self' ws://{HOST} wss://{HOST}"
    assert "http" not in policy
    assert first.headers["x-frame-options"] == "DENY"
    assert first.headers["x-content-type-options"] == "nosniff"
    assert first.headers["referrer-policy"] == "no-referrer"


def test_loopback_needs_no_token_of_ones_own_and_other_addresses_do() -> None:
    for address in ("127.0.0.1", "127.1.2.3", "::1", "localhost"):
        assert is_loopback(address)
        assert ConsoleOptions(address=address).is_local
    for address in ("0.0.0.0", "::", "10.0.0.1", "example.com"):
        with pytest.raises(UsageError, match="needs a token of your own"):
            ConsoleOptions(address=address)
        assert not ConsoleOptions(address=address, token=TOKEN).is_local


@pytest.mark.parametrize("token", ["", "short", "ü" * 20, "line\nbreak-in-the-token"])
def test_a_token_that_can_be_guessed_or_not_sent_is_refused(token: str) -> None:
    with pytest.raises(UsageError, match="16 or more printable"):
        ConsoleOptions(token=token)


def test_a_certificate_needs_its_key(tmp_path: Any) -> None:
    with pytest.raises(UsageError, match="needs its key"):
        ConsoleOptions(tls_cert_file=tmp_path / "cert.pem")


def test_with_tls_the_cookie_is_sent_over_tls_only() -> None:
    assert "Secure" in Access(TOKEN, tls=True).set_cookie()
    assert "Secure" not in Access(TOKEN).set_cookie()
