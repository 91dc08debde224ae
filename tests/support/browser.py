"""A real browser: Debian's Chromium, headless, without requests of its own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Dialog, Page, sync_playwright

__all__ = ["LONG", "Tab", "chromium", "signed_in"]

#: Milliseconds; only a hang takes so long.
LONG = 120_000

_ARGUMENTS = (
    "--no-sandbox",  # the tests may run as root
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser. A missing one fails the test."""
    names = (os.environ.get("CHROMIUM", ""), "chromium", "chromium-browser", "google-chrome")
    path = next((found for name in names if name and (found := shutil.which(name))), None)
    if path is None:
        pytest.fail("there is no Chromium: run the tests with scripts/with-chromium, which installs it")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(_ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def signed_in(browser: Browser, url: str, *, dark: bool = False) -> Iterator[BrowserContext]:
    """The tabs of an operator who has opened the URL with the token."""
    context = browser.new_context(
        viewport={"width": 1280, "height": 800}, color_scheme="dark" if dark else "light"
    )
    page = context.new_page()
    page.goto(url, timeout=LONG)
    page.close()
    yield context
    context.close()


class Tab:
    """A page of the console, and everything that went wrong in it."""

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.page: Page = context.new_page()
        self.page.set_default_timeout(LONG)
        self.base = "{0.scheme}://{0.netloc}".format(urlsplit(url))
        #: Errors in the console of the browser, requests to other hosts, dialogs that a script opened.
        self.wrong: list[str] = []
        self.page.on("console", self._note)
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("request", lambda request: self._check(request.url))
        self.page.on("websocket", lambda socket: self._check(socket.url))
        self.page.on("dialog", self._dismiss)

    def _note(self, said: ConsoleMessage) -> None:
        if said.type in ("error", "warning"):
            self.wrong.append(said.text)

    def _dismiss(self, dialog: Dialog) -> None:
        self.wrong.append(dialog.message)
        dialog.dismiss()

    def _check(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("data", "blob") and parts.netloc != urlsplit(self.base).netloc:
            self.wrong.append(f"a request to {url}")

    def open(self, path: str) -> Page:
        """Open a page, and wait until it is live."""
        self.page.goto(self.base + path)
        self.page.wait_for_function("() => window.did_handshake")
        return self.page

    def close(self) -> None:
        self.page.close()
