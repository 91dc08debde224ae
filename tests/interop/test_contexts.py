"""Contexts as the `nats` CLI writes them: jetspark connects with one, nats-py with what is written in it.

nats-py does not read contexts; a program of it takes URL and credentials out of the file.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import nats
import pytest

import jetspark
from jetspark.server import TLS, Server, User
from tests.support.certs import Certs
from tests.support.jwt import Operator, new_identity

#: All that `nats context save` writes, in its order.
EMPTY: dict[str, Any] = {
    "description": "",
    "url": "",
    "socks_proxy": "",
    "token": "",
    "user": "",
    "password": "",
    "creds": "",
    "nkey": "",
    "cert": "",
    "key": "",
    "ca": "",
    "nsc": "",
    "jetstream_domain": "",
    "jetstream_api_prefix": "",
    "jetstream_event_prefix": "",
    "inbox_prefix": "",
    "user_jwt": "",
    "user_seed": "",
    "color_scheme": "",
    "tls_first": False,
    "windows_cert_store": "",
    "windows_cert_match_by": "",
    "windows_cert_match": "",
    "windows_ca_certs_match": None,
}


@pytest.fixture
def contexts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of the contexts."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    directory = tmp_path / "nats" / "context"
    directory.mkdir(parents=True)
    return directory


@pytest.fixture(params=["user", "token", "nkey", "creds", "tls"])
def context(request: pytest.FixtureRequest, contexts: Path, tmp_path: Path, certs: Certs) -> Iterator[Path]:
    """A context file for a server that demands what the context has."""
    options: dict[str, Any] = {"jetstream": False}
    fields: dict[str, Any] = {}
    match request.param:
        case "user":
            options["users"] = [User(user="me", password="right")]
            fields = {"user": "me", "password": "right"}
        case "token":
            options["token"] = fields["token"] = "right"
        case "nkey":
            identity = new_identity()
            options["nkeys"] = [identity.public_key]
            (tmp_path / "seed").write_text(identity.seed)
            fields["nkey"] = str(tmp_path / "seed")
        case "creds":
            operator = Operator()
            options["config"] = operator.config
            fields["creds"] = str(operator.user().write(tmp_path / "user.creds"))
        case "tls":
            own, client = certs.server, certs.client
            options["tls"] = TLS(
                cert_file=own.cert_file, key_file=own.key_file, ca_file=certs.ca, verify=True
            )
            fields = {"ca": str(certs.ca), "cert": str(client.cert_file), "key": str(client.key_file)}
    with Server(**options) as server:
        path = contexts / "prod.json"
        written = {**EMPTY, **fields, "url": server.url, "inbox_prefix": "_MINE"}
        path.write_text(json.dumps(written, indent=2))
        yield path


@asynccontextmanager
async def connect_nats_py(path: Path) -> AsyncIterator[Any]:
    """A connection of nats-py with what a context says."""
    said = json.loads(path.read_text())
    options: dict[str, Any] = {
        "user": said["user"],
        "password": said["password"],
        "token": said["token"],
        "user_credentials": said["creds"],
        "nkeys_seed": said["nkey"],
        "inbox_prefix": said["inbox_prefix"],
    }
    if said["ca"]:
        options["tls"] = ssl.create_default_context(cafile=said["ca"])
        options["tls"].load_cert_chain(said["cert"], said["key"])
    nc = await nats.connect(said["url"], **{name: value for name, value in options.items() if value})
    try:
        yield nc
    finally:
        await nc.close()


async def test_both_connect_with_what_a_context_says(context: Path) -> None:
    async with connect_nats_py(context) as theirs, jetspark.connect(context="prod") as ours:
        assert ours.new_inbox().startswith("_MINE.")
        assert theirs.new_inbox().startswith("_MINE.")

        async def answer(message: Any) -> None:
            await message.respond(b"answer to " + message.data)

        await theirs.subscribe("theirs", cb=answer)
        await ours.subscribe("ours", callback=answer)
        await theirs.flush()
        await ours.flush()
        assert (await ours.request("theirs", b"jetspark", timeout=60)).data == b"answer to jetspark"
        assert (await theirs.request("ours", b"nats-py", timeout=60)).data == b"answer to nats-py"


async def test_both_use_the_domain_of_a_context(contexts: Path) -> None:
    with Server(domain="hub") as server:
        path = contexts / "hub.json"
        path.write_text(json.dumps({**EMPTY, "url": server.url, "jetstream_domain": "hub"}, indent=2))
        async with connect_nats_py(path) as theirs, jetspark.connect(context="hub") as ours:
            js = theirs.jetstream(domain=json.loads(path.read_text())["jetstream_domain"])
            await js.add_stream(name="SHARED", subjects=["shared"])
            await js.publish("shared", b"1")
            stream = await ours.jetstream().get_stream("SHARED")
            assert (await stream.get_message(1)).data == b"1"
