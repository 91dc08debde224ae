"""Ownership: whether a subscription deletes its consumer at the end.

A subscription deletes the consumer that it created, unless the caller asks to keep it, and no other. The
consumer of a queue always stays: no member can know that it is the last one, and the first to leave would
take the messages, and the position in the stream, from all others. Draining the connection deletes no
durable: the program ends, and its next run continues.
"""

from __future__ import annotations

from collections.abc import Callable

from jetspark.errors import Error
from jetspark.jetstream.api import API
from jetspark.jetstream.manage import consumers
from jetspark.jetstream.model.info import ConsumerInfo

__all__ = ["Ownership"]


class Ownership:
    """The consumer of a subscription, deleted at the end if the subscription created it."""

    def __init__(
        self,
        api: API,
        info: ConsumerInfo,
        *,
        created: bool,
        keep: bool,
        notify: Callable[[Exception], None],
    ) -> None:
        self._api = api
        self._stream = info.stream_name
        self._name = info.name
        self._durable = bool(info.config.durable_name)
        self._notify = notify
        #: Whether it exists for this subscription only: created by it, and not durable.
        self.ends_with_us = created and not info.config.deliver_group and not self._durable
        #: Whether the subscription deletes it.
        self.ours = created and not info.config.deliver_group and not keep
        if self.ours and not self._durable:
            api.connection.at_drain.add(self.delete_quietly)

    def forget(self) -> None:
        """Do not delete it: it no longer exists."""
        self.ours = False
        self._api.connection.at_drain.discard(self.delete_quietly)

    async def delete(self) -> None:
        """Delete it. Raises the error of the server; then the caller may try again."""
        if not self.ours:
            return
        if self._api.connection.closed and not self._durable:
            return  # The server deletes it when nothing subscribes.
        await consumers.delete(self._api, self._stream, self._name, while_draining=True)
        self.forget()

    async def delete_quietly(self) -> None:
        """Delete it; an error is reported, not raised, and it is not repeated."""
        try:
            await self.delete()
        except Error as error:
            self.forget()
            self._notify(error)
