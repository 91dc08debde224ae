"""The consumer behind a subscription, and whether it goes when the subscription does.

A subscription deletes the consumer that it created, and no other. One exception: the consumer of a queue
stays, whoever created it. Its members come and go, and none can know that it is the last one; the first
to leave would take the messages, and the place in the stream, from all others.
"""

from __future__ import annotations

from collections.abc import Callable

from jetspark.errors import Error
from jetspark.jetstream.api import API
from jetspark.jetstream.manage import consumers
from jetspark.jetstream.model.info import ConsumerInfo

__all__ = ["Owned"]


class Owned:
    """Deletes a consumer at the end, if there is something to delete."""

    def __init__(
        self, api: API, info: ConsumerInfo, *, created: bool, notify: Callable[[Exception], None]
    ) -> None:
        self._api = api
        self._stream = info.stream_name
        self._name = info.name
        self._durable = bool(info.config.durable_name)
        self._notify = notify
        #: Whether it goes with the subscription.
        self.ours = created and not info.config.deliver_group
        if self.ours:
            api.connection.at_drain.add(self.delete_quietly)

    @property
    def ends_with_us(self) -> bool:
        """Whether nobody can bring it back: it has neither been there before nor a name that stays."""
        return self.ours and not self._durable

    def forget(self) -> None:
        """There is nothing to delete any more."""
        self.ours = False
        self._api.connection.at_drain.discard(self.delete_quietly)

    async def delete(self) -> None:
        """Delete it. Raises what the server says; then it can be tried again."""
        if not self.ours:
            return
        if self._api.connection.closed and not self._durable:
            return  # The server does it by itself when nobody listens.
        await consumers.delete(self._api, self._stream, self._name, while_draining=True)
        self.forget()

    async def delete_quietly(self) -> None:
        """Delete it; an error is reported, and it is not tried again."""
        try:
            await self.delete()
        except Error as error:
            self.forget()
            self._notify(error)
