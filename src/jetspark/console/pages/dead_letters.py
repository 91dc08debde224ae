"""`/dead-letters`: the messages that consumers gave up, with reason and source; replay or discard some."""

from __future__ import annotations

from urllib.parse import quote

from nicegui import ui

from jetspark.console.letters import Letter, LetterCount, LetterPage, count_letters, read_letters
from jetspark.console.messages import read_message
from jetspark.console.pages.frame import LivePage, PageContext, details, failing, page, panel
from jetspark.console.pages.table import Column, PagedTable, numbers
from jetspark.console.text import line, show_bytes, show_count, show_time
from jetspark.errors import UsageError

__all__ = ["build"]


def build(context: PageContext, stream: str, consumer: str) -> None:
    """Build the page, about one consumer if it is named."""
    with page(context, "Dead letters", "/dead-letters") as shown:
        LetterBrowser(shown, stream[:300], consumer[:300]).build()


class LetterBrowser:
    """The consumers with dead letters, and the letters of one of them."""

    def __init__(self, shown: LivePage, stream: str, consumer: str) -> None:
        self._shown, self._js = shown, shown.context.js
        self._stream, self._consumer = stream, consumer
        self._counts: list[LetterCount] = []
        self._page = LetterPage([], {})

    def build(self) -> None:
        with panel("Consumers with dead letters"):
            self._note = ui.label().classes("soft")
            self._counted = PagedTable[LetterCount](
                [
                    Column(
                        "consumer",
                        "Consumer",
                        lambda each: line(each.consumer),
                        lambda each: each.consumer,
                        style="link",
                    ),
                    Column("stream", "Stream", lambda each: line(each.stream), lambda each: each.stream),
                    numbers("letters", "Dead letters", lambda each: each.letters, show_count),
                ],
                lambda: self._counts,
                key=lambda each: f"{each.stream} {each.consumer}",
                sort="letters",
                descending=True,
                link=_link,
                search="Filter consumers",
                empty="No dead letters",
                marker="letter-counts",
            )
        if self._stream and self._consumer:
            with panel(f"Dead letters of {line(self._stream, 80)} > {line(self._consumer, 80)}"):
                self._error = ui.label().style("color: var(--bad)")
                if self._shown.context.actions.write:
                    self._buttons()
                self._letters = PagedTable[Letter](
                    [
                        Column(
                            "sequence",
                            "Sequence",
                            lambda each: str(each.sequence),
                            lambda each: each.sequence,
                            number=True,
                        ),
                        Column(
                            "given_up",
                            "Given up (UTC)",
                            lambda each: show_time(each.given_up),
                            lambda each: show_time(each.given_up),
                        ),
                        Column("kind", "Kind", _kind, _kind),
                        Column(
                            "deliveries",
                            "Deliveries",
                            lambda each: show_count(each.deliveries),
                            lambda each: each.deliveries,
                            number=True,
                        ),
                        Column(
                            "reason",
                            "Reason",
                            lambda each: each.reason,
                            lambda each: each.reason,
                            style="long",
                        ),
                        Column(
                            "subject",
                            "Subject",
                            lambda each: "deleted from the stream" if each.gone else each.subject,
                            lambda each: each.subject,
                            style="long",
                        ),
                        numbers("size", "Size", lambda each: each.size, show_bytes),
                        Column("message", "Message", lambda each: each.preview, style="long"),
                    ],
                    lambda: self._page.letters,
                    key=_key,
                    rows=25,
                    search="Filter by reason, subject or message",
                    selection=self._shown.context.actions.write,
                    on_click=self._open,
                    empty="No dead letters",
                    marker="letters",
                )
                self._more = ui.button("Next page", on_click=self._next).props("flat no-caps dense")
                self._more.visible = False
        # After the page is there: a slow server does not keep it waiting.
        ui.timer(0.05, self._load, once=True)
        ui.timer(5.0, self._count)

    def _buttons(self) -> None:
        with ui.element("div").classes("tools"):
            ui.button("Replay", icon="replay", on_click=self._replay).props(
                "unelevated no-caps dense padding='6px 14px'"
            )
            self._again = ui.checkbox("also messages that are replays").props("dense")
            ui.element("div").classes("push")
            self._with_messages = ui.checkbox("delete the messages, too").props("dense")
            ui.button("Discard", icon="delete", on_click=self._discard).props(
                "outline no-caps dense padding='6px 14px'"
            )

    async def _load(self) -> None:
        await self._count()
        if self._stream and self._consumer:
            await self._read(None)

    async def _count(self) -> None:
        with failing(self._note):
            counts = await count_letters(self._js)
            self._counts = counts or []
            self._counted.update()
            if counts is None:
                raise UsageError(
                    "no stream captures advisories",
                    hint="`jetspark dead-letters capture` creates one, for the dead letters from then on",
                )

    async def _read(self, start: dict[str, int] | None) -> None:
        with failing(self._error):
            self._page = await read_letters(self._js, self._stream, self._consumer, start)
            self._letters.unselect()
            self._letters.update()
            self._more.visible = bool(self._page.next)

    async def _next(self) -> None:
        await self._read(self._page.next)

    def _chosen(self) -> list[Letter]:
        selected = set(self._letters.selected)
        chosen = [letter for letter in self._page.letters if _key(letter) in selected]
        if not chosen:
            ui.notify("Select some dead letters first", position="top")
        return chosen

    async def _replay(self) -> None:
        chosen, again = self._chosen(), bool(self._again.value)
        result = (0, 0)

        async def replay() -> None:
            nonlocal result
            result = await self._shown.context.actions.replay(self._shown.who, chosen, again=again)

        question = f"Publish {show_count(len(chosen))} message{'s' if len(chosen) > 1 else ''} again?"
        advice = "Every consumer of the stream gets the new message. The original stays."
        if chosen and await self._shown.act(question, advice, replay, "Done"):
            left = f"; {show_count(result[1])} left out: gone, or replayed before" if result[1] else ""
            ui.notify(f"{show_count(result[0])} replayed{left}", position="top")
            self._letters.unselect()

    async def _discard(self) -> None:
        chosen, messages = self._chosen(), bool(self._with_messages.value)
        question = f"Forget {show_count(len(chosen))} dead letter{'s' if len(chosen) > 1 else ''}?"
        advice = (
            "Their messages are deleted from the stream, for all consumers."
            if messages
            else "Their messages stay in the stream."
        )
        discard = self._shown.context.actions.discard
        if chosen and await self._shown.act(
            question, advice, lambda: discard(self._shown.who, chosen, messages=messages), "Discarded"
        ):
            await self._load()

    async def _open(self, letter: Letter) -> None:
        with failing(self._error):
            found = None if letter.gone else await read_message(self._js, letter.stream, letter.sequence)
            with ui.dialog() as dialog, ui.element("div").classes("panel wide"):
                with ui.element("div").classes("tools"):
                    ui.label(letter.place).classes("title")
                    ui.element("div").classes("push")
                    ui.button(icon="close", on_click=dialog.close).props("flat dense round")
                details(
                    [
                        ("Consumer", letter.consumer),
                        ("Given up (UTC)", show_time(letter.given_up)),
                        ("Kind", _kind(letter)),
                        ("Deliveries", letter.deliveries),
                        ("Reason", letter.reason),
                    ]
                )
                if found is None:
                    ui.label("The stream no longer has the message").classes("soft")
                else:
                    details(
                        [("Subject", found.subject), ("Stored (UTC)", show_time(found.time)), *found.headers]
                    )
                    ui.label(f"Body, {found.body.kind} {found.body.note}").classes("title")
                    with ui.element("pre").classes("body mono"):
                        ui.label(found.body.text).props("data-body").style("white-space: inherit")
            dialog.on("hide", dialog.delete)
            dialog.open()


def _kind(letter: Letter) -> str:
    return "terminated" if letter.kind == "terminated" else "too many deliveries"


def _key(letter: Letter) -> str:
    return f"{letter.sequence} {letter.kind}"


def _link(count: LetterCount) -> str:
    return f"/dead-letters?stream={quote(count.stream, safe='')}&consumer={quote(count.consumer, safe='')}"
