"""Access to the console: a token, a cookie, and checks against cross-site requests.

Every request passes `Guard`, before any page or file. A browser sends the token in the URL once and gets a
cookie for it; the token then disappears from the address. Programs that scrape `/metrics` give it as a
bearer token.

- **Host:** only an IP address, `localhost`, or a name that the operator gave. A page of another site whose
  name was made to point to this machine (DNS rebinding) sends its own name.
- **Origin:** a websocket must come from a page of the console. The cookie is `SameSite=Strict` besides.
- **Sec-Fetch-Site:** no other site may load anything from here.
- **Content policy:** scripts only from here, and inline ones only with the nonce of the page. NiceGUI
  compiles templates in the browser, which needs `unsafe-eval`, and sets styles inline; nothing else is open.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from jetspark.errors import UsageError

__all__ = [
    "METRICS",
    "NONCE",
    "WEBSOCKET",
    "Access",
    "Guard",
    "check_token",
    "content_policy",
    "is_loopback",
    "new_token",
]

#: The path of the metrics, and that of the websocket of NiceGUI.
METRICS: Final = "/metrics"
WEBSOCKET: Final = "/_nicegui_ws/"
#: Where the scope of a request has the nonce for inline scripts.
NONCE: Final = "jetspark.nonce"
#: Characters of a token that an operator chooses.
_SHORTEST: Final = 16
#: Longer values of headers and queries are refused.
_LONGEST: Final = 8192

_Scope: TypeAlias = MutableMapping[str, Any]
_Message: TypeAlias = MutableMapping[str, Any]
_Receive: TypeAlias = Callable[[], Awaitable[_Message]]
_Send: TypeAlias = Callable[[_Message], Awaitable[None]]
_App: TypeAlias = Callable[[_Scope, _Receive, _Send], Awaitable[None]]

_HEADERS: Final = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
_UNKNOWN: Final = (
    "This is the console of jetspark. Open it with the URL that `jetspark console` printed, which ends with "
    "?token= and the token\n"
)


def new_token() -> str:
    """A random token."""
    return secrets.token_urlsafe(24)


def check_token(token: str) -> None:
    """Raise `UsageError` for a token that could be guessed or cannot be sent."""
    if len(token) < _SHORTEST or not token.isascii() or not token.isprintable():
        raise UsageError(
            f"the token of the console needs {_SHORTEST} or more printable ASCII characters",
            hint="Make one with: python3 -c 'import secrets; print(secrets.token_urlsafe(24))'",
        )


def is_loopback(address: str) -> bool:
    """Whether only programs on this machine reach the address."""
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


class Access:
    """The token, and the cookie that stands for it."""

    def __init__(self, token: str, *, names: Iterable[str] = (), port: int = 0, tls: bool = False) -> None:
        check_token(token)
        self.token = token
        self._names = {name.lower().rstrip(".") for name in names}
        self._tls = tls
        # Cookies do not distinguish ports: two consoles on one machine need two names.
        self.cookie = f"jetspark_console_{port}"
        # Not the token itself, and worthless for the next run.
        self._session = hmac.new(secrets.token_bytes(32), token.encode(), hashlib.sha256).hexdigest()

    def is_token(self, given: str) -> bool:
        """Whether it is the token, compared in constant time."""
        return hmac.compare_digest(given.encode("utf-8", "replace"), self.token.encode())

    def is_session(self, cookies: str) -> bool:
        """Whether the cookies have the session of this run."""
        for part in cookies.split(";"):
            name, _, value = part.strip().partition("=")
            if name == self.cookie:
                return hmac.compare_digest(value.encode("utf-8", "replace"), self._session.encode())
        return False

    def set_cookie(self) -> str:
        """The header that gives a browser the session."""
        secure = "; Secure" if self._tls else ""
        return f"{self.cookie}={self._session}; Path=/; HttpOnly; SameSite=Strict{secure}"

    def is_host(self, host: str) -> bool:
        """Whether a `Host` may be asked here."""
        name = (urlsplit(f"//{host}").hostname or "") if host else ""
        if name == "localhost" or name.rstrip(".") in self._names:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


class Guard:
    """The ASGI application around all others."""

    def __init__(self, app: _App, access: Access) -> None:
        self.app = app
        self._access = access

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = _headers(scope)
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await _refuse(scope, receive, send, *refusal)
            return
        if scope["type"] == "http" and (location := self._login(scope)) is not None:
            cookie = ("set-cookie", self._access.set_cookie())
            await _answer(send, 303, "", [("location", location), cookie])
            return
        if not self._is_known(scope, headers):
            await _refuse(scope, receive, send, 401, _UNKNOWN)
            return
        nonce = secrets.token_urlsafe(16)
        scope[NONCE] = nonce
        policy = content_policy(nonce, headers.get("host", ""))
        await self.app(scope, receive, _with_headers(send, {**_HEADERS, "content-security-policy": policy}))

    def _refusal(self, scope: _Scope, headers: dict[str, str]) -> tuple[int, str] | None:
        """The status and the reason for a request that is refused even with the token."""
        if any(len(value) > _LONGEST for value in headers.values()) or len(scope["query_string"]) > _LONGEST:
            return 431, "Too long\n"
        host = headers.get("host", "")
        try:
            known = self._access.is_host(host)
        except ValueError:  # Not a host at all.
            known = False
        if not known:
            return 421, "The console does not have this host name: start it with --name NAME to use it\n"
        websocket = scope["type"] == "websocket"
        origin = headers.get("origin")
        if (websocket or origin is not None) and not _is_same(origin, host):
            return 403, "A request from another site\n"
        site, mode = headers.get("sec-fetch-site", "none"), headers.get("sec-fetch-mode", "")
        if site not in ("none", "same-origin") and mode != "navigate":
            return 403, "A request from another site\n"
        if not websocket and scope["method"] not in ("GET", "HEAD"):
            return 405, "Only GET\n"
        if not websocket and scope["path"].startswith(WEBSOCKET):
            return 403, "Only as a websocket\n"
        return None

    def _login(self, scope: _Scope) -> str | None:
        """Where a request with the right token goes: the same page without it."""
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        tokens = [value for name, value in query if name == "token"]
        if not tokens or not self._access.is_token(tokens[0]):
            return None
        rest = urlencode([(name, value) for name, value in query if name != "token"])
        # The path of this site, and not `//name`, which is another one.
        path = "/" + quote(scope["path"].lstrip("/\\"))
        return f"{path}?{rest}" if rest else path

    def _is_known(self, scope: _Scope, headers: dict[str, str]) -> bool:
        if self._access.is_session(headers.get("cookie", "")):
            return True
        kind, _, given = headers.get("authorization", "").partition(" ")
        return scope["path"] == METRICS and kind.lower() == "bearer" and self._access.is_token(given.strip())


def content_policy(nonce: str, host: str) -> str:
    """What a page may load: from here only.

    `unsafe-eval`: NiceGUI compiles the templates of its elements in the browser. `unsafe-inline` for styles:
    its elements set their style, and the page begins with style sheets. Inline scripts need the nonce, so
    that no handler in an attribute runs.
    """
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src 'self' 'nonce-{nonce}' 'unsafe-eval'",
            "script-src-attr 'none'",
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data:",
            "font-src 'self'",
            # Not every browser counts websockets to 'self'.
            f"connect-src 'self' ws://{host} wss://{host}",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        )
    )


def _headers(scope: _Scope) -> dict[str, str]:
    """The headers by name; of several with one name, all of them, so that no check sees only one."""
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        joiner = "; " if key == "cookie" else ", "
        found[key] = f"{found[key]}{joiner}{text}" if key in found else text
    return found


def _is_same(origin: str | None, host: str) -> bool:
    """Whether a page of this host sent the request. A tunnel or proxy may have ended TLS."""
    if origin is None:
        return False
    parts = urlsplit(origin)
    return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()


async def _refuse(scope: _Scope, receive: _Receive, send: _Send, status: int, text: str) -> None:
    if scope["type"] == "websocket":
        await receive()  # The server sends the first message before it accepts an answer.
        await send({"type": "websocket.close", "code": 1008})
        return
    await _answer(send, status, text, [])


async def _answer(send: _Send, status: int, text: str, more: list[tuple[str, str]]) -> None:
    body = text.encode()
    headers = {
        **_HEADERS,
        "content-type": "text/plain; charset=utf-8",
        "content-length": str(len(body)),
        "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
        "cache-control": "no-store",
    }
    listed = [*headers.items(), *more]
    encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in listed]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})


def _with_headers(send: _Send, more: dict[str, str]) -> _Send:
    async def send_with_headers(message: _Message) -> None:
        if message["type"] == "http.response.start":
            own = {name.encode("latin-1"): value.encode("latin-1") for name, value in more.items()}
            rest = [(name, value) for name, value in message["headers"] if name.lower() not in own]
            message["headers"] = [*rest, *own.items()]
        await send(message)

    return send_with_headers
