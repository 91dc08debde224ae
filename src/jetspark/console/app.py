"""The web server of the console.

```python
async with Console(js, ConsoleOptions(write=True)) as console:
    print(console.url)
    await console.wait()
```

NiceGUI has one application per process: only one console can run in a process.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import warnings
from collections.abc import Callable, Generator
from contextlib import AsyncExitStack, contextmanager, suppress
from typing import Any, Final, Self
from urllib.parse import quote

from jetspark.console.actions import Action, Actions
from jetspark.console.collector import Collector
from jetspark.console.metrics import CONTENT_TYPE, exposition
from jetspark.console.options import ConsoleOptions
from jetspark.console.security import METRICS, NONCE, Access, Guard, new_token
from jetspark.errors import Error, UsageError
from jetspark.jetstream.context import JetStream

with warnings.catch_warnings():
    # Some dependencies of NiceGUI warn about deprecated features that they use themselves.
    warnings.simplefilter("ignore", DeprecationWarning)
    import jinja2
    import uvicorn
    from fastapi import FastAPI, Response
    from nicegui import app as nicegui_app
    from nicegui import client as nicegui_client
    from nicegui import ui

    from jetspark.console.pages.frame import PageContext
    from jetspark.console.pages.routes import register
    from jetspark.console.pages.theme import ACCENT, FAVICON, STYLE

__all__ = ["Console"]

#: Bytes of a message of a browser.
_LARGEST: Final = 1 << 20
#: Connections at a time.
_CONNECTIONS: Final = 256
#: Seconds to end connections in.
_GRACE: Final = 2.0
#: Seconds to start in.
_START: Final = 60.0


class Console:
    """The console of one server. Enter it with `async with`."""

    def __init__(
        self,
        js: JetStream,
        options: ConsoleOptions | None = None,
        *,
        report: Callable[[Action], None] = lambda action: None,
    ) -> None:
        self._options = options or ConsoleOptions()
        self.collector = Collector(js)
        self.actions = Actions(js, write=self._options.write, report=report)
        self._context = PageContext(js, self.collector, self.actions)
        self._token = self._options.token or new_token()
        self._stack = AsyncExitStack()
        self._server: _Server | None = None
        self._serving: asyncio.Task[None] | None = None
        self.port = self._options.port

    @property
    def url(self) -> str:
        """The address for a browser, with the token."""
        options = self._options
        host = options.names[0] if options.names else options.address
        if host in ("0.0.0.0", "::"):
            host = socket.gethostname()
        host = f"[{host}]" if ":" in host else host
        return f"{'https' if options.tls else 'http'}://{host}:{self.port}/?token={quote(self._token)}"

    async def __aenter__(self) -> Self:
        listener = _listen(self._options.address, self._options.port)
        try:
            self.port = listener.getsockname()[1]
            self._server = _Server(self._config())
            await self._stack.enter_async_context(self.collector)
            self._serving = asyncio.create_task(self._server.serve([listener]), name="jetspark-console")
            ready = asyncio.ensure_future(self._server.ready.wait())
            await asyncio.wait({ready, self._serving}, timeout=_START, return_when=asyncio.FIRST_COMPLETED)
            ready.cancel()
            if not self._server.started:
                raise Error("the web server of the console does not start")
        except BaseException:
            await self.__aexit__()
            listener.close()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._server is not None and self._serving is not None:
            self._server.should_exit = True
            with suppress(TimeoutError, asyncio.CancelledError):
                async with asyncio.timeout(2 * _GRACE):
                    await self._serving
        await self._stack.aclose()

    async def wait(self) -> None:
        """Wait until it ends, which it does not by itself."""
        if self._serving is not None:
            await asyncio.shield(self._serving)

    def _config(self) -> uvicorn.Config:
        options = self._options
        names = {*options.names}
        if not options.is_local:
            names |= {options.address, socket.gethostname(), socket.getfqdn()}
        access = Access(self._token, names=names, port=self.port, tls=options.tls)
        return uvicorn.Config(
            Guard(_application(self._context), access),
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # Otherwise a browser could choose its own address.
            ws="websockets-sansio",
            ws_max_size=_LARGEST,
            ws_per_message_deflate=not options.is_local,
            limit_concurrency=_CONNECTIONS,
            timeout_graceful_shutdown=int(_GRACE),
            ssl_certfile=options.tls_cert_file,
            ssl_keyfile=options.tls_key_file,
        )


class _Server(uvicorn.Server):
    """Leaves signals to the command, and tells when it has started."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


def _listen(address: str, port: int) -> socket.socket:
    """A socket that listens. Raises `UsageError` if it cannot."""
    try:
        family, *_, place = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(place)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise UsageError(
            f"cannot listen on {address} port {port}: {error.strerror}",
            hint="Choose another port; 0 chooses a free one",
        ) from error
    listener.setblocking(False)
    return listener


def _application(context: PageContext) -> Any:
    logging.getLogger("nicegui").setLevel(logging.ERROR)
    application = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)

    @application.get(METRICS)
    async def metrics() -> Response:  # In the event loop, which changes what the collector knows.
        context.collector.touch()
        return Response(exposition(context.collector), media_type=CONTENT_TYPE)

    register(context)
    _add_nonce()
    ui.add_head_html(f"<style>{STYLE}</style>", shared=True)
    nicegui_app.colors(primary=ACCENT)
    ui.run_with(
        application,
        title="jetspark",
        favicon=FAVICON,
        dark=None,
        language="en-US",
        binding_refresh_interval=None,
        reconnect_timeout=10.0,
        message_history_length=100,
        gzip_middleware_factory=None,
        tailwind=False,
        show_welcome_message=False,
    )
    nicegui_app.config.socket_io_js_transports = ["websocket"]
    return application


def _add_nonce() -> None:
    """Give the inline scripts in the page of NiceGUI the nonce of the request.

    Only those in its template: whatever else got into a page would have none, and not run.
    """
    environment = nicegui_client.templates.env
    loader = environment.loader
    assert loader is not None

    def source(name: str) -> str:
        text = loader.get_source(environment, name)[0]
        return text.replace("<script", f"<script nonce=\"{{{{ request.scope['{NONCE}'] }}}}\"")

    environment.loader = jinja2.FunctionLoader(source)
