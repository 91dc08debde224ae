"""The text of nats-server's configuration file, from options. Pure: no files, no clock.

Every value is written as a double-quoted string or a number. The server would read a bare word as a
variable (`$x`), a size (`1k`) or a boolean.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

from jetspark.server.options import TLS, Member, Options, User

__all__ = ["HOST", "quote", "render"]

HOST = "127.0.0.1"
"""The only address that the servers bind."""


def quote(text: str | os.PathLike[str]) -> str:
    """Return a double-quoted string. The lexer knows \\t \\n \\r \\" \\\\ and \\xHH, but not JSON's \\u."""
    out = []
    for char in os.fspath(text):
        if char in '"\\':
            out.append("\\" + char)
        elif ord(char) < 0x20 or ord(char) == 0x7F:
            out.append(f"\\x{ord(char):02X}")
        else:
            out.append(char)
    return '"' + "".join(out) + '"'


def render(
    options: Options,
    *,
    name: str,
    port: int,
    monitor_port: int,
    websocket_port: int,
    ports_dir: str,
    store_dir: str,
) -> str:
    """Return the whole file. With port 0 the server picks a port and writes it to `ports_dir`."""
    lines = [
        f"server_name: {quote(name)}",
        f"host: {quote(HOST)}",
        f"port: {port or -1}",
        f"ports_file_dir: {quote(ports_dir)}",
    ]
    if options.monitor:
        lines.append(f"http: {quote(f'{HOST}:{monitor_port or -1}')}")
    if options.websocket:
        lines += ["websocket {", *_indent(_websocket(options, websocket_port)), "}"]
    if options.max_payload is not None:
        lines.append(f"max_payload: {options.max_payload}")
    lines += [f"{option}: true" for option in ("debug", "trace") if getattr(options, option)]
    if options.jetstream:
        lines += _jetstream(options, store_dir)
    lines += _authorization(options)
    lines += _accounts(options)
    if options.tls is not None:
        lines += ["tls {", *_indent(_tls(options.tls)), "}"]
    if options.cluster is not None:
        lines += ["cluster {", *_indent(_cluster(options.cluster)), "}"]
    if options.config:
        lines.append(options.config)
    return "\n".join(lines) + "\n"


def _jetstream(options: Options, store_dir: str) -> Iterator[str]:
    yield "jetstream {"
    yield f"  store_dir: {quote(store_dir)}"
    if options.domain is not None:
        yield f"  domain: {quote(options.domain)}"
    if options.sync_interval == "always":
        yield "  sync_interval: always"
    elif options.sync_interval is not None:
        yield f"  sync_interval: {quote(f'{options.sync_interval:.9f}s')}"
    yield "}"


def _authorization(options: Options) -> Iterator[str]:
    if options.token is not None:
        yield f"authorization {{ token: {quote(options.token)} }}"
    users = [_user(user) for user in options.users if user.account is None]
    users += [f"{{ nkey: {quote(key)} }}" for key in options.nkeys]
    if users:
        yield "authorization {"
        yield from _indent(_users(users))
        yield "}"


def _accounts(options: Options) -> Iterator[str]:
    accounts: dict[str, list[str]] = {}
    for user in options.users:
        if user.account is not None:
            accounts.setdefault(user.account, []).append(_user(user))
    if accounts:
        yield "accounts {"
        for account, users in accounts.items():
            yield f"  {quote(account)} {{"
            if options.jetstream:
                yield "    jetstream: enabled"
            yield from _indent(_users(users), 4)
            yield "  }"
        yield "}"


def _users(users: Iterable[str]) -> Iterator[str]:
    yield "users: ["
    yield from _indent(users)
    yield "]"


def _user(user: User) -> str:
    """One user on one line."""
    permissions = []
    for verb, allow, deny in (
        ("publish", user.publish_allow, user.publish_deny),
        ("subscribe", user.subscribe_allow, user.subscribe_deny),
    ):
        lists = []
        if allow is not None:
            lists.append(f"allow: {_list(allow)}")
        if deny:
            lists.append(f"deny: {_list(deny)}")
        if lists:
            permissions.append(f"{verb}: {{ {', '.join(lists)} }}")
    tail = f", permissions: {{ {', '.join(permissions)} }}" if permissions else ""
    return f"{{ user: {quote(user.user)}, password: {quote(user.password)}{tail} }}"


def _tls(tls: TLS) -> Iterator[str]:
    yield f"cert_file: {quote(os.path.abspath(tls.cert_file))}"
    yield f"key_file: {quote(os.path.abspath(tls.key_file))}"
    if tls.ca_file is not None:
        yield f"ca_file: {quote(os.path.abspath(tls.ca_file))}"
    if tls.verify:
        yield "verify: true"
    if tls.handshake_first:
        yield "handshake_first: true"
    yield "timeout: 5"  # the default of 2 seconds is short on a busy machine


def _websocket(options: Options, port: int) -> Iterator[str]:
    yield f"listen: {quote(f'{HOST}:{port or -1}')}"
    if options.tls is None:
        yield "no_tls: true"
    else:
        yield "tls {"
        # A WebSocket begins with TLS in any case.
        yield from _indent(line for line in _tls(options.tls) if not line.startswith("handshake_first"))
        yield "}"


def _cluster(member: Member) -> Iterator[str]:
    yield f"name: {quote(member.cluster)}"
    yield f"listen: {quote(f'{HOST}:{member.port}')}"
    yield f'authorization {{ user: "route", password: {quote(member.secret)}, timeout: 5 }}'
    # One route per pair: with a pool, servers that start at once open many duplicate routes, and for a
    # moment consider each other offline.
    yield "pool_size: -1"
    # JetStream waits for as many servers as there are routes, so all are listed.
    routes = [f"nats-route://route:{member.secret}@{HOST}:{port}" for port in member.ports]
    yield f"routes: {_list(routes)}"


def _list(values: Sequence[str]) -> str:
    return f"[{', '.join(quote(value) for value in values)}]"


def _indent(lines: Iterable[str], by: int = 2) -> Iterator[str]:
    return (" " * by + line for line in lines)
