"""The pages in a real browser, with the console as a process, as an operator uses it."""

from __future__ import annotations

import os
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect
from prometheus_client.parser import text_string_to_metric_families

import jetspark.blocking
from jetspark.server import Server
from tests.cli.support import Process
from tests.console.conftest import HOSTILE, Stage, report
from tests.console.gallery import Gallery
from tests.support.browser import LONG, Tab, signed_in
from tests.support.waiting import wait_until

IMAGES = Path(__file__).parents[2] / "docs" / "images"
PAGES = {
    "overview": "/",
    "stream": "/stream/ORDERS",
    "consumer": "/consumer/ORDERS/billing",
    "dead-letters": "/dead-letters?stream=ORDERS&consumer=billing",
    "logs": "/logs",
}

# What a page of another site could try, in a browser that is signed in.
SOCKET = """url => new Promise(done => {
    const socket = new WebSocket(url);
    socket.onopen = () => done("open");
    socket.onerror = () => done("refused");
})"""
SCRIPT = """url => new Promise(done => {
    const script = document.createElement("script");
    script.onload = () => done("loaded");
    script.onerror = () => done("refused");
    script.src = url;
    document.head.append(script);
})"""

expect.set_options(timeout=LONG)


def row(page: Page, table: str, text: str) -> Locator:
    """The row of a table that has a cell with this text."""
    return page.locator(f'[data-table="{table}"] tbody tr', has_text=text)


def hacked(page: Page) -> bool:
    return bool(page.evaluate("() => window.hacked !== undefined"))


@pytest.fixture
def stranger(browser: Browser, stage: Stage) -> Iterator[Page]:
    """A browser that does not know the token."""
    context = browser.new_context()
    yield context.new_page()
    context.close()


def test_a_browser_without_the_token_sees_nothing(stranger: Page, stage: Stage) -> None:
    base = stage.url.partition("?")[0]
    for url in (base, f"{base}?token=wrong", f"{base}stream/ORDERS", f"{base}metrics"):
        answer = stranger.goto(url, timeout=LONG)
        assert answer is not None
        assert answer.status == 401
        assert "ORDERS" not in stranger.content()


def test_the_token_leaves_the_address(stranger: Page, stage: Stage) -> None:
    stranger.goto(stage.url, timeout=LONG)
    assert stranger.url == stage.url.partition("?")[0]


def test_the_overview_shows_everything(tab: Tab) -> None:
    page = tab.open("/")
    for table, text in (
        ("streams", "ORDERS"),
        ("consumers", "billing"),
        ("agents", "web1"),
        ("jobs", "access"),
        ("problems", "ADVISORIES"),
    ):
        expect(row(page, table, text).first).to_be_visible()
    expect(row(page, "agents", "onerror")).to_contain_text(HOSTILE)
    expect(page.locator('[data-figure="Streams"]')).to_have_text("6")
    assert not hacked(page)


def test_live_values_move(tab: Tab, stage: Stage) -> None:
    page = tab.open("/")
    expect(row(page, "consumers", "archive")).to_contain_text("0")
    for _ in range(7):
        stage.js.publish("logs.web1", b"a line")
    expect(row(page, "streams", "logs.>").locator("td").nth(2)).to_have_text("7")
    expect(row(page, "consumers", "archive").locator("td").nth(2)).to_have_text("7")
    report(stage.js, 2000)
    expect(row(page, "agents", "web1")).to_contain_text("2,000")


def test_tables_are_filtered_and_sorted_on_the_server(tab: Tab) -> None:
    page = tab.open("/")
    streams = page.locator('[data-table="streams"] tbody tr')
    expect(streams).to_have_count(6)
    page.get_by_placeholder("Filter streams").fill("orders.")
    expect(streams).to_have_count(1)
    page.get_by_placeholder("Filter streams").fill("")
    expect(streams).to_have_count(6)
    page.locator('[data-table="streams"] th', has_text="Stream").click()
    expect(streams.first).to_contain_text("ORDERS")


def test_a_link_leads_from_a_stream_to_its_messages(tab: Tab) -> None:
    page = tab.open("/")
    row(page, "streams", "orders.>").get_by_role("link").click()
    expect(page.get_by_text("Stream ORDERS")).to_be_visible()
    expect(row(page, "messages", "orders.binary")).to_contain_text("binary: 00 01 02")
    expect(row(page, "subjects", "orders.eu")).to_be_visible()
    expect(row(page, "consumers", "audit")).to_be_visible()


def test_a_hostile_message_is_shown_as_text(tab: Tab) -> None:
    page = tab.open("/stream/ORDERS")
    row(page, "messages", "orders.html").click()
    body = page.locator("[data-body]")
    expect(body).to_have_text(HOSTILE)
    assert body.inner_html() == HOSTILE.replace("<", "&lt;").replace(">", "&gt;")
    expect(page.locator(".q-dialog")).to_contain_text("Note")
    assert not hacked(page)


def test_messages_are_found_by_sequence_subject_and_time(tab: Tab) -> None:
    page = tab.open("/stream/ORDERS")
    rows = page.locator('[data-table="messages"] tbody tr')
    expect(rows.last).to_contain_text("orders.binary")
    page.get_by_placeholder("From sequence").fill("39")
    page.get_by_role("button", name="Show").click()
    expect(rows.first.locator("td").first).to_have_text("39")
    page.get_by_placeholder("Subject, such as orders.>").fill("orders.html")
    page.get_by_role("button", name="Show").click()
    expect(rows).to_have_count(1)
    page.get_by_placeholder("From sequence").fill("")
    page.get_by_placeholder("From time, 2026-01-31T12:00").fill("tomorrow")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_text("not a time: tomorrow")).to_be_visible()
    page.get_by_placeholder("Subject, such as orders.>").fill("")
    page.get_by_role("button", name="First").click()
    expect(rows.first.locator("td").first).to_have_text("1")
    rows.nth(1).click()
    expect(page.locator("[data-body]")).to_contain_text('"item": "A-1"')


def test_a_pause_works_after_it_was_confirmed(tab: Tab, stage: Stage) -> None:
    page = tab.open("/consumer/ORDERS/audit")
    expect(page.locator('[data-figure="Lag"]')).not_to_have_text("…")
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("button", name="Confirm")).to_have_count(0)
    assert not stage.js.consumer_info("ORDERS", "audit").paused
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Confirm").click()
    expect(page.locator('[data-figure="State"]')).to_have_text("paused")
    assert stage.js.consumer_info("ORDERS", "audit").paused
    page.get_by_role("button", name="Resume").click()
    page.get_by_role("button", name="Confirm").click()
    expect(page.locator('[data-figure="State"]')).to_have_text("idle")
    assert not stage.js.consumer_info("ORDERS", "audit").paused
    page = tab.open("/logs")
    expect(row(page, "actions", "pause consumer ORDERS > audit")).to_contain_text("127.0.0.1")


def test_buckets_show_keys_revisions_and_objects(tab: Tab) -> None:
    page = tab.open("/buckets")
    row(page, "buckets", "key-value").get_by_role("link").click()
    keys = page.locator('[data-table="keys"] tbody tr')
    expect(keys).to_have_count(2)
    page.get_by_placeholder("Keys, such as users.>").fill("eu.*")
    page.get_by_role("button", name="Show").click()
    expect(keys).to_have_count(1)
    keys.first.click()
    expect(page.locator("[data-body]").first).to_contain_text('"name": "Ann"')
    expect(page.locator("[data-body]").last).to_have_text(HOSTILE)
    page = tab.open("/bucket/objects/files")
    expect(row(page, "objects", "onerror")).to_contain_text(HOSTILE)
    expect(tab.open("/bucket/key-value/nope").get_by_text("nope not found")).to_be_visible()
    assert not hacked(page)


def test_dead_letters_are_replayed_and_discarded(tab: Tab, stage: Stage) -> None:
    page = tab.open("/dead-letters")
    row(page, "letter-counts", "billing").get_by_role("link").click()
    letters = page.locator('[data-table="letters"] tbody tr')
    expect(letters).to_have_count(4)
    expect(letters.first).to_contain_text(f"invalid amount {HOSTILE}")
    assert not hacked(page)
    last = stage.js.get_stream("ORDERS").info().state.last_seq
    letters.first.locator(".q-checkbox").click()
    page.get_by_role("button", name="Replay").click()
    page.get_by_role("button", name="Confirm").click()
    expect(page.get_by_text("1 replayed")).to_be_visible()
    replayed = stage.js.get_stream("ORDERS").get_message(last + 1)
    assert replayed.headers["Jetspark-Replayed-From"] == "ORDERS#1"
    letters.nth(3).locator(".q-checkbox").click()
    page.get_by_role("button", name="Discard").click()
    page.get_by_role("button", name="Confirm").click()
    expect(letters).to_have_count(3)
    letters.first.locator("td").nth(2).click()
    expect(page.locator("[data-body]")).to_contain_text('"item": "A-0"')


def test_the_stop_button_is_pressed_and_released(tab: Tab, stage: Stage) -> None:
    page = tab.open("/logs")
    switch = page.locator("[data-switch]")
    expect(switch).to_contain_text("not paused")
    page.get_by_role("button", name="Pause shippers").click()
    page.get_by_role("button", name="Confirm").click()
    expect(switch).to_contain_text("Shippers are paused until")
    page.get_by_role("button", name="Resume").click()
    page.get_by_role("button", name="Confirm").click()
    expect(switch).to_contain_text("not paused")
    expect(row(page, "batches", "access").first).to_be_visible()
    expect(page.get_by_text("batch 7 failed and was repeated").first).to_be_visible()
    assert not hacked(page)


def test_without_write_there_is_nothing_to_press(reader: Tab) -> None:
    for path in ("/consumer/ORDERS/audit", "/dead-letters?stream=ORDERS&consumer=billing", "/logs"):
        page = reader.open(path)
        expect(page.get_by_text("read-only")).to_be_visible()
        for name in ("Pause", "Pause shippers", "Resume", "Reset", "Replay", "Discard"):
            expect(page.get_by_role("button", name=name)).to_have_count(0)


def test_a_page_of_another_site_reaches_nothing(reading: BrowserContext, stage: Stage) -> None:
    class Elsewhere(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<title>Elsewhere</title>")

        def log_message(self, *_: object) -> None: ...

    base = stage.read_only.partition("?")[0]
    with ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere) as elsewhere:
        serving = threading.Thread(target=elsewhere.serve_forever)
        serving.start()
        try:
            page = reading.new_page()
            page.goto(f"http://localhost:{elsewhere.server_port}/", timeout=LONG)
            socket = f"{base.replace('http', 'ws', 1)}_nicegui_ws/socket.io/?EIO=4&transport=websocket"
            assert page.evaluate(SOCKET, socket) == "refused"
            assert page.evaluate(SCRIPT, f"{base}metrics") == "refused"
            page.close()
        finally:
            elsewhere.shutdown()
            serving.join()


def test_what_does_not_exist_is_told(reader: Tab) -> None:
    expect(reader.open("/stream/NOPE").get_by_text("stream NOPE not found")).to_be_visible()
    expect(
        reader.open("/consumer/ORDERS/nope").get_by_text("nope of stream ORDERS not found")
    ).to_be_visible()
    page = reader.open("/stream/%3Cimg%20src=x%20onerror=window.hacked=1%3E")
    expect(page.locator(".banner").last).to_be_visible()
    assert not hacked(page)


def test_nothing_but_the_pages_is_served(reading: BrowserContext, stage: Stage) -> None:
    for path in ("docs", "redoc", "openapi.json", "_nicegui/auto/nothing", "..%2f..%2fetc%2fpasswd"):
        answer = reading.request.get(stage.read_only.partition("?")[0] + path, timeout=LONG)
        assert answer.status == 404, path
        assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_the_metrics_are_served_to_a_program_with_the_token(stage: Stage) -> None:
    base, _, token = stage.read_only.partition("?token=")
    request = urllib.request.Request(f"{base}metrics", headers={"Authorization": f"Bearer {token}"})

    def scrape() -> set[str]:
        with urllib.request.urlopen(request, timeout=60) as answer:
            text = answer.read().decode()
        return {sample.name for family in text_string_to_metric_families(text) for sample in family.samples}

    wait_until(lambda: "jetspark_agent_lines_total" in scrape(), "the agents are in the metrics")
    assert {"jetspark_stream_messages", "jetspark_consumer_pending_messages", "jetspark_job_up"} <= scrape()
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(f"{base}metrics", timeout=60)


if os.environ.get("SCREENSHOTS"):

    def test_pictures_for_the_docs(browser: Browser, server: Server) -> None:
        console = Process("console", "--port", "0", "--server", server.url, "--write")
        try:
            with jetspark.blocking.connect(server.url) as nc:
                draw(browser, console.line().strip(), Gallery(nc.jetstream()))
        finally:
            console.kill()


def draw(browser: Browser, url: str, gallery: Gallery) -> None:
    """Watch the overview for some minutes, then take a picture of each page."""

    def show(page: Page, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            gallery.step()
            page.wait_for_timeout(100)

    IMAGES.mkdir(exist_ok=True)
    for dark in (False, True):
        with signed_in(browser, url, dark=dark) as context:
            tab = Tab(context, url)
            if not dark:
                show(tab.open("/"), 150)
            # The last one is for a dark system.
            for name in list(PAGES)[-1:] if dark else list(PAGES)[:-1]:
                page = tab.open(PAGES[name])
                show(page, 6)
                page.screenshot(path=IMAGES / f"console-{name}.png")
            assert tab.wrong == []
