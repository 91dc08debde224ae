"""The keys of one bucket: their subjects, through a codec if there is one. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from jetspark.errors import UsageError
from jetspark.jetstream.kv.codecs import KeyCodec
from jetspark.jetstream.kv.names import check_key, check_key_filter
from jetspark.wire.subjects import check_text, text_list

__all__ = ["KeySpace"]


class KeySpace:
    """Turns keys into subjects that begin with `prefix`, and back."""

    def __init__(self, prefix: str, codec: KeyCodec | None) -> None:
        self.prefix = prefix
        self._codec = codec

    def stored(self, key: str) -> str:
        """A key as it is stored. Raises `UsageError`."""
        if self._codec is None:
            return check_key(key)
        return check_key(_encoded(self._codec.encode, key, "key"))

    def subject(self, key: str) -> str:
        """The subject of a key. Raises `UsageError`."""
        return self.prefix + self.stored(key)

    def subjects(self, filters: str | Iterable[str]) -> list[str]:
        """The subjects that filters stand for. Raises `UsageError`."""
        several = text_list(filters, "filters")
        if not several:
            raise UsageError("filters must not be empty; '>' stands for all keys")
        if self._codec is not None:
            several = [_encoded(self._codec.encode_filter, each, "filters") for each in several]
        return [self.prefix + check_key_filter(each) for each in several]

    def key(self, subject: str) -> str:
        """The key of a subject. A key that the codec cannot decode is returned as it is stored."""
        stored = subject[len(self.prefix) :]
        if self._codec is None:
            return stored
        try:
            return self._codec.decode(stored)
        except ValueError:
            return stored


def _encoded(encode: Callable[[str], str], text: str, argument: str) -> str:
    check_text(text, argument)
    try:
        return encode(text)
    except ValueError as error:
        raise UsageError(f"{argument}: {text!r} cannot be stored: {error}") from error
