# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The compiled twin of `parser`, `frames.MsgFrame`, the publishes of `encode`, `bulk` and `queue`, in Cython.

The Python modules are the reference: same names, same results, same errors, proved by the tests of this
package, which run on both. Read those first; differences are explained here.

A message is lazy: it refers to the chunk of received bytes it lies in, and slices a field when it is read.
One small message must not keep a large chunk in memory, so a chunk counts the bytes of its messages that are
still alive. When fewer than an eighth of it are, the rest copy their own bytes and let the chunk go.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.object cimport PyObject
from cpython.ref cimport Py_XDECREF
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint32_t
from libc.string cimport memchr, memcmp, memcpy

from jetspark.errors import RemoteProtocolError
from jetspark.wire.frames import PubFrame
from jetspark.wire.parser import MAX_CONTROL_LINE, MAX_PAYLOAD, control, refused
from jetspark.wire.queue import MAX_SUBJECTS
from jetspark.wire.subjects import check_subject

cdef extern from "Python.h":
    PyObject* PyBytes_FromStringAndSize_raw "PyBytes_FromStringAndSize"(const char*, Py_ssize_t)
    object PyUnicode_DecodeUTF8(const char*, Py_ssize_t, const char*)
    void PyErr_Clear()

__all__ = [
    "FrameQueue",
    "MsgFrame",
    "Parser",
    "acks",
    "arrow_columns",
    "by_subscription",
    "header_column",
    "hpub",
    "hpub_numbered",
    "pub",
    "pub_acks",
    "redeliveries",
    "replies_start_with",
    "total_size",
]

#: A chunk is let go when less than 1/_ALIVE of its bytes belong to messages that are alive.
cdef enum:
    _ALIVE = 8
    #: A payload of at least so many bytes is kept after its first slice: making it again is dear.
    _LARGE = 4096
    #: Most digits of a size; more are invalid.
    _DIGITS = 18
    #: Received pieces are joined until they have this many bytes.
    _PIECE = 1024


# --- messages


@cython.final
@cython.no_gc
cdef class _Chunk:
    """Received bytes, and the messages in them that are alive."""

    cdef bytes data
    cdef Py_ssize_t alive
    # The last message, the head of a linked list. A message removes itself before it is freed.
    cdef PyObject* last

    cdef void release_if_few(self) noexcept:
        if self.last != NULL and self.alive * _ALIVE < PyBytes_GET_SIZE(self.data):
            self.release()

    cdef void release(self) noexcept:
        """Let every message copy its own bytes. Without memory for that, they stay."""
        cdef PyObject* own
        cdef MsgFrame frame
        while self.last != NULL:
            frame = <MsgFrame>self.last
            own = PyBytes_FromStringAndSize_raw(
                PyBytes_AS_STRING(frame.source) + frame.start, frame.span
            )
            if own == NULL:
                PyErr_Clear()
                return
            frame.leave()
            frame.source = <bytes>own
            Py_XDECREF(own)
            frame.start = 0
            frame.chunk = None


@cython.final
@cython.no_gc
@cython.freelist(4096)
cdef class MsgFrame:
    """MSG and HMSG: a message for subscription `sid`. `reply` and `header` are empty when absent."""

    __match_args__ = ("sid", "subject", "reply", "header", "data")

    cdef readonly bytes sid
    # The bytes that hold the message, from `start` on; all other positions count from there.
    cdef bytes source
    cdef Py_ssize_t start
    cdef uint32_t span
    cdef uint32_t subject_at, subject_size, reply_at, reply_size, header_at, header_size, data_size
    # None when the message has its own bytes.
    cdef _Chunk chunk
    cdef PyObject* before
    cdef PyObject* after
    # The payload, when it is large and was read.
    cdef bytes large

    def __init__(self, bytes sid not None, bytes subject not None, bytes reply not None,
                 bytes header not None, bytes data not None):
        self.sid = sid
        self.source = subject + reply + header + data
        self.span = <uint32_t>PyBytes_GET_SIZE(self.source)
        self.subject_size = <uint32_t>PyBytes_GET_SIZE(subject)
        self.reply_at = self.subject_size
        self.reply_size = <uint32_t>PyBytes_GET_SIZE(reply)
        self.header_at = self.reply_at + self.reply_size
        self.header_size = <uint32_t>PyBytes_GET_SIZE(header)
        self.data_size = <uint32_t>PyBytes_GET_SIZE(data)

    def __dealloc__(self):
        cdef _Chunk chunk = self.chunk
        if chunk is not None:
            self.leave()
            chunk.release_if_few()

    cdef inline void enter(self, _Chunk chunk) noexcept:
        self.chunk = chunk
        self.before = chunk.last
        if chunk.last != NULL:
            (<MsgFrame>chunk.last).after = <PyObject*>self
        chunk.last = <PyObject*>self
        chunk.alive += self.span

    cdef inline void leave(self) noexcept:
        if self.after != NULL:
            (<MsgFrame>self.after).before = self.before
        else:
            self.chunk.last = self.before
        if self.before != NULL:
            (<MsgFrame>self.before).after = self.after
        self.before = self.after = NULL
        self.chunk.alive -= self.span

    cdef inline const char* at(self, uint32_t position) noexcept:
        return PyBytes_AS_STRING(self.source) + self.start + position

    cdef inline uint32_t data_at(self) noexcept:
        return self.header_at + self.header_size

    @property
    def subject(self):
        return PyBytes_FromStringAndSize(self.at(self.subject_at), self.subject_size)

    @property
    def reply(self):
        return PyBytes_FromStringAndSize(self.at(self.reply_at), self.reply_size)

    @property
    def header(self):
        return PyBytes_FromStringAndSize(self.at(self.header_at), self.header_size)

    @property
    def data(self):
        if self.data_size < _LARGE:
            return PyBytes_FromStringAndSize(self.at(self.data_at()), self.data_size)
        if self.large is None:
            self.large = PyBytes_FromStringAndSize(self.at(self.data_at()), self.data_size)
        return self.large

    @property
    def size(self):
        return self.bytes_held()

    cdef inline Py_ssize_t bytes_held(self) noexcept:
        return <Py_ssize_t>self.subject_size + self.reply_size + self.header_size + self.data_size

    def __eq__(self, other):
        if type(other) is not MsgFrame:
            return NotImplemented
        return _fields(self) == _fields(other)

    __hash__ = None

    def __repr__(self):
        return "MsgFrame(sid=%r, subject=%r, reply=%r, header=%r, data=%r)" % _fields(self)

    def __copy__(self):
        return MsgFrame(*_fields(self))

    def __reduce__(self):
        return MsgFrame, _fields(self)


cdef tuple _fields(MsgFrame frame):
    return frame.sid, frame.subject, frame.reply, frame.header, frame.data


# --- parsing


cdef class Parser:
    """An incremental parser for one direction of one connection. See `jetspark.wire.parser.Parser`."""

    cdef bint _from_server
    cdef Py_ssize_t _max_control_line
    cdef int64_t _max_payload
    cdef list _chunks
    cdef Py_ssize_t _have, _need
    # The id of the last message: most messages of a connection share few.
    cdef bytes _sid
    cdef public object error

    def __init__(self, peer="server", *, max_control_line=MAX_CONTROL_LINE, max_payload=MAX_PAYLOAD):
        self._from_server = peer == "server"
        self._max_control_line = max_control_line
        self._max_payload = max_payload
        self._chunks = []
        self._sid = b""

    @property
    def buffered(self):
        """How many bytes of an unfinished frame are kept."""
        return self._have

    def feed(self, bytes data not None):
        """Parse received bytes and return the frames that they complete."""
        if self.error is not None:
            raise self.error
        cdef Py_ssize_t last = PyList_GET_SIZE(self._chunks) - 1
        if last >= 0:
            if PyBytes_GET_SIZE(self._chunks[last]) < _PIECE:
                self._chunks[last] += data
            else:
                self._chunks.append(data)
            self._have += PyBytes_GET_SIZE(data)
            if self._have < self._need:
                return []
            data = b"".join(self._chunks)
            self._chunks.clear()
            self._have = 0
        self._need = 0
        cdef list complete = []
        cdef Py_ssize_t pos = 0
        try:
            pos = self._parse(data, complete)
        except RemoteProtocolError as error:
            self.error = error
            if complete:
                return complete
            raise
        cdef Py_ssize_t total = PyBytes_GET_SIZE(data)
        if pos < total:
            self._chunks.append(data[pos:] if pos else data)
            self._have = total - pos
        return complete

    cdef Py_ssize_t _parse(self, bytes data, list complete) except -1:
        """Append each complete frame of `data`; return where the first incomplete one starts."""
        cdef const char* base = PyBytes_AS_STRING(data)
        cdef Py_ssize_t total = PyBytes_GET_SIZE(data)
        cdef Py_ssize_t pos = 0, end, start, body, stop
        cdef const char* found
        cdef bint plain
        cdef _Chunk chunk = _Chunk.__new__(_Chunk)
        # The fields of a control line after the operation: where they start, and the end of the last.
        cdef Py_ssize_t[8] fields
        cdef int count, last
        cdef int64_t number
        cdef MsgFrame frame
        chunk.data = data
        while pos < total:
            found = <const char*>memchr(base + pos, c"\r", total - pos)
            end = found - base if found != NULL else total
            if end + 1 >= total:
                if end - pos > self._max_control_line:
                    raise refused(f"a control line of more than {self._max_control_line} bytes", data[pos:])
                break
            if end - pos > self._max_control_line:
                raise refused(f"a control line of more than {self._max_control_line} bytes", data[pos:end])
            if base[end + 1] != c"\n":
                raise refused("a control line with a bare CR", data[pos:end])
            start = body = end + 2
            plain = _is_op(base + pos, end - pos, "MSG" if self._from_server else "PUB", 3)
            if not plain and not (
                end - pos > 4 and _is_op(base + pos, end - pos, "HMSG" if self._from_server else "HPUB", 4)
            ):
                complete.append(control(data[pos:end], self._from_server))
                pos = start
                continue
            count = _split(base, pos, end, fields)
            last = count - 1
            if not plain:
                last -= 1
                # With one field, the size of the header is missing.
                number = _number(base, fields[last], fields[last + 1] - 1) if last >= 1 else -1
                if number < 0:
                    raise refused("a header size that is not a number", data[pos:end])
                body = start + number
            number = _number(base, fields[count - 1], end) if count > 1 else -1
            if number < 0:
                raise refused("a message size that is not a number", data[pos:end])
            if number > self._max_payload:
                raise refused(f"a message of more than {self._max_payload} bytes", data[pos:end])
            stop = start + number
            if body > stop:
                raise refused("a header larger than its message", data[pos:end])
            if stop + 2 > total:
                self._need = stop + 2 - pos
                break
            if base[stop] != c"\r" or base[stop + 1] != c"\n":
                raise refused("a message that does not end where its size says", data[pos:end])
            # `last` fields stand before the sizes, the operation included.
            if self._from_server:
                if last != 3 and last != 4:
                    raise refused("a message with the wrong number of fields", data[pos:end])
                frame = MsgFrame.__new__(MsgFrame)
                frame.sid = self._sid_at(base + fields[2], fields[3] - 1 - fields[2])
                frame.source = data
                frame.start = pos
                frame.span = <uint32_t>(stop - pos)
                frame.subject_at = <uint32_t>(fields[1] - pos)
                frame.subject_size = <uint32_t>(fields[2] - 1 - fields[1])
                if last == 4:
                    frame.reply_at = <uint32_t>(fields[3] - pos)
                    frame.reply_size = <uint32_t>(fields[4] - 1 - fields[3])
                frame.header_at = <uint32_t>(start - pos)
                frame.header_size = <uint32_t>(body - start)
                frame.data_size = <uint32_t>(stop - body)
                frame.enter(chunk)
                complete.append(frame)
            elif last == 2 or last == 3:
                complete.append(PubFrame(
                    data[fields[1]:fields[2] - 1],
                    data[fields[2]:fields[3] - 1] if last == 3 else b"",
                    data[start:body],
                    data[body:stop],
                ))
            else:
                raise refused("a message with the wrong number of fields", data[pos:end])
            pos = stop + 2
        chunk.release_if_few()
        return pos

    cdef bytes _sid_at(self, const char* text, Py_ssize_t size):
        cdef bytes sid = self._sid
        if PyBytes_GET_SIZE(sid) != size or memcmp(PyBytes_AS_STRING(sid), text, size) != 0:
            sid = self._sid = PyBytes_FromStringAndSize(text, size)
        return sid


cdef inline bint _is_op(const char* line, Py_ssize_t size, const char* op, Py_ssize_t op_size) noexcept:
    return size >= op_size and memcmp(line, op, op_size) == 0 and (size == op_size or line[op_size] == c" ")


cdef inline int _split(const char* base, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t* fields) noexcept:
    """Where the fields of a control line start; those behind the seventh do not count one by one."""
    cdef int count = 1
    cdef const char* space
    fields[0] = pos
    while True:
        space = <const char*>memchr(base + fields[count - 1], c" ", end - fields[count - 1])
        if space == NULL:
            break
        if count == 8:  # Too many in any case: keep the last two, which are the sizes.
            fields[6] = fields[7]
            count = 7
        fields[count] = space - base + 1
        count += 1
    return count


cdef inline int64_t _number(const char* base, Py_ssize_t start, Py_ssize_t end) noexcept:
    """The number of the digits; -1 when it is invalid."""
    cdef int64_t number = 0
    cdef Py_ssize_t at
    if end <= start or end - start > _DIGITS:
        return -1
    for at in range(start, end):
        if base[at] < c"0" or base[at] > c"9":
            return -1
        number = number * 10 + (base[at] - c"0")
    return number


# --- encoding


cdef inline char* _put(char* at, const char* text, Py_ssize_t size) noexcept:
    memcpy(at, text, size)
    return at + size


cdef inline char* _put_bytes(char* at, bytes text) noexcept:
    return _put(at, PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))


cdef inline char* _put_address(char* at, bytes subject, bytes reply) noexcept:
    """Write a subject, a reply unless it is empty, and a space after each."""
    at = _put_bytes(at, subject)
    if PyBytes_GET_SIZE(reply):
        at = _put(at, " ", 1)
        at = _put_bytes(at, reply)
    return _put(at, " ", 1)


cdef inline int _digits(char* into, Py_ssize_t number) noexcept:
    """Write a number to the end of 20 characters; how many digits it has."""
    cdef int count = 0
    while True:
        count += 1
        into[20 - count] = c"0" + number % 10
        number //= 10
        if number == 0:
            return count


def pub(bytes subject not None, bytes reply not None, bytes data not None):
    """PUB; an empty `reply` means none."""
    return _pub(subject, reply, data)


cdef bytes _pub(bytes subject, bytes reply, bytes data):
    cdef char[20] number
    cdef Py_ssize_t size = PyBytes_GET_SIZE(data)
    cdef int digits = _digits(number, size)
    cdef Py_ssize_t reply_size = PyBytes_GET_SIZE(reply)
    cdef bytes frame = PyBytes_FromStringAndSize(
        NULL, 4 + PyBytes_GET_SIZE(subject) + (reply_size + 1 if reply_size else 0) + 1 + digits + 2 + size + 2
    )
    cdef char* at = PyBytes_AS_STRING(frame)
    at = _put(at, "PUB ", 4)
    at = _put_address(at, subject, reply)
    at = _put(at, number + 20 - digits, digits)
    at = _put(at, "\r\n", 2)
    at = _put_bytes(at, data)
    _put(at, "\r\n", 2)
    return frame


def hpub(bytes subject not None, bytes reply not None, bytes header not None, bytes data not None):
    """HPUB; `header` is a whole header block."""
    cdef char[20] header_number
    cdef char[20] number
    cdef Py_ssize_t header_size = PyBytes_GET_SIZE(header)
    cdef Py_ssize_t size = header_size + PyBytes_GET_SIZE(data)
    cdef int header_digits = _digits(header_number, header_size)
    cdef int digits = _digits(number, size)
    cdef Py_ssize_t reply_size = PyBytes_GET_SIZE(reply)
    cdef bytes frame = PyBytes_FromStringAndSize(
        NULL,
        5 + PyBytes_GET_SIZE(subject) + (reply_size + 1 if reply_size else 0)
        + 1 + header_digits + 1 + digits + 2 + size + 2,
    )
    cdef char* at = PyBytes_AS_STRING(frame)
    at = _put(at, "HPUB ", 5)
    at = _put_address(at, subject, reply)
    at = _put(at, header_number + 20 - header_digits, header_digits)
    at = _put(at, " ", 1)
    at = _put(at, number + 20 - digits, digits)
    at = _put(at, "\r\n", 2)
    at = _put_bytes(at, header)
    at = _put_bytes(at, data)
    _put(at, "\r\n", 2)
    return frame


def hpub_numbered(
    bytes subject not None,
    bytes reply not None,
    Py_ssize_t number,
    bytes block_start not None,
    bytes block_end not None,
    bytes data not None,
):
    """HPUB of a message whose number, 0 or more, ends its reply and stands in its header block."""
    cdef char[20] token
    cdef char[20] header_number
    cdef char[20] total
    cdef int token_digits = _digits(token, number)
    cdef Py_ssize_t header_size = PyBytes_GET_SIZE(block_start) + token_digits + PyBytes_GET_SIZE(block_end)
    cdef Py_ssize_t size = header_size + PyBytes_GET_SIZE(data)
    cdef int header_digits = _digits(header_number, header_size)
    cdef int digits = _digits(total, size)
    cdef bytes frame = PyBytes_FromStringAndSize(
        NULL,
        5 + PyBytes_GET_SIZE(subject) + 1 + PyBytes_GET_SIZE(reply) + token_digits
        + 1 + header_digits + 1 + digits + 2 + size + 2,
    )
    cdef char* at = PyBytes_AS_STRING(frame)
    at = _put(at, "HPUB ", 5)
    at = _put_bytes(at, subject)
    at = _put(at, " ", 1)
    at = _put_bytes(at, reply)
    at = _put(at, token + 20 - token_digits, token_digits)
    at = _put(at, " ", 1)
    at = _put(at, header_number + 20 - header_digits, header_digits)
    at = _put(at, " ", 1)
    at = _put(at, total + 20 - digits, digits)
    at = _put(at, "\r\n", 2)
    at = _put_bytes(at, block_start)
    at = _put(at, token + 20 - token_digits, token_digits)
    at = _put_bytes(at, block_end)
    at = _put_bytes(at, data)
    _put(at, "\r\n", 2)
    return frame


@cython.final
cdef class FrameQueue:
    """The frames that wait to be written, and their size in bytes. See `jetspark.wire.queue.FrameQueue`."""

    cdef public list frames
    cdef public Py_ssize_t size
    cdef public Py_ssize_t room
    cdef public Py_ssize_t published
    cdef public Py_ssize_t acked
    cdef dict _subjects

    def __init__(self):
        self.frames = []
        self._subjects = {}

    def publish(self, subject, data, Py_ssize_t max_payload):
        """Queue a PUB and return the size; 0 if it is not queued. Raises `UsageError` for an invalid subject."""
        if type(subject) is not str or type(data) is not bytes or PyBytes_GET_SIZE(data) > max_payload:
            return 0
        cdef bytes encoded = self._subjects.get(subject)
        if encoded is None:
            encoded = check_subject(subject)
            if len(self._subjects) >= MAX_SUBJECTS:
                self._subjects.clear()
            self._subjects[subject] = encoded
        cdef bytes frame = _pub(encoded, b"", data)
        cdef Py_ssize_t size = self.size + PyBytes_GET_SIZE(frame)
        if size >= self.room:
            return 0
        self.frames.append(frame)
        self.size = size
        self.published += 1
        return size

    def ack(self, MsgFrame frame not None):
        """Queue the acknowledgement of a message and return the size; 0 if it is not queued."""
        if not _is_for_ack(frame):
            return 0
        cdef Py_ssize_t length = 4 + frame.reply_size + 10
        cdef Py_ssize_t size = self.size + length
        if size >= self.room:
            return 0
        cdef bytes written = PyBytes_FromStringAndSize(NULL, length)
        cdef char* to = _put(PyBytes_AS_STRING(written), "PUB ", 4)
        to = _put(to, frame.at(frame.reply_at), frame.reply_size)
        _put(to, " 4\r\n+ACK\r\n", 10)
        self.frames.append(written)
        self.size = size
        self.acked += 1
        return size


# --- many messages at once


def by_subscription(list frames not None):
    """The messages of each subscription, with its id; None for other frames, which keep their places."""
    cdef Py_ssize_t count = PyList_GET_SIZE(frames), at
    cdef list groups = [], group = None
    cdef dict known = {}
    cdef object sid, current = None
    for at in range(count):
        frame = <object>PyList_GET_ITEM(frames, at)
        sid = (<MsgFrame>frame).sid if type(frame) is MsgFrame else frame.sid
        if group is None or (sid is not current and sid != current):
            if at and len(groups) == 0:
                # The first change: until here, and mostly to the end, all are of one subscription.
                group = frames[:at]
                groups.append((current, group))
                if current is not None:
                    known[current] = group
            current = sid
            if at:
                group = known.get(sid)
                if group is None:
                    group = []
                    groups.append((sid, group))
                    if sid is None:
                        known.clear()
                    else:
                        known[sid] = group
            else:
                group = frames
        if group is not frames:
            group.append(frame)
    if count and len(groups) == 0:
        groups.append((current, frames))
    return groups


def total_size(list frames not None):
    """Their size as the server counts it: subjects, replies, headers and payloads."""
    cdef Py_ssize_t at, size = 0
    for at in range(PyList_GET_SIZE(frames)):
        size += (<MsgFrame?>PyList_GET_ITEM(frames, at)).bytes_held()
    return size


def replies_start_with(list frames not None, bytes prefix not None):
    """Whether all their replies start so."""
    cdef Py_ssize_t at, size = PyBytes_GET_SIZE(prefix)
    cdef const char* text = PyBytes_AS_STRING(prefix)
    cdef MsgFrame frame
    for at in range(PyList_GET_SIZE(frames)):
        frame = <MsgFrame?>PyList_GET_ITEM(frames, at)
        if frame.reply_size < size or memcmp(frame.at(frame.reply_at), text, size) != 0:
            return False
    return True


cdef inline bint _is_for_ack(MsgFrame frame) noexcept:
    return frame.reply_size >= 8 and memcmp(frame.at(frame.reply_at), "$JS.ACK.", 8) == 0


cdef inline const char* _after_names(
    const char* at, const char* end, const char* names, Py_ssize_t size
) noexcept:
    """The dot after these names, or, without any, after two tokens; NULL if something else is there."""
    if size:
        return at + size if end - at > size and memcmp(at, names, size) == 0 else NULL
    at = <const char*>memchr(at, c".", end - at)
    return <const char*>memchr(at + 1, c".", end - at - 1) if at != NULL else NULL


cdef inline bint _are_numbers(const unsigned char* text, Py_ssize_t size) noexcept:
    """Whether it is five numbers with a dot before each. Without branches, so that C compares many at once."""
    cdef Py_ssize_t at
    cdef unsigned char dots = 0, wrong = 0, here, after
    if size < 10 or size > 105 or text[0] != c"." or text[size - 1] == c".":
        return False
    for at in range(size - 1):
        here, after = text[at], text[at + 1]
        dots += <unsigned char>(here == c".")
        wrong |= <unsigned char>((after != c".") & (<unsigned char>(after - c"0") > 9))
        wrong |= <unsigned char>((here == c".") & (after == c"."))
    return dots == 5 and not wrong


cdef inline const char* _after_numbers(const char* at, const char* end) noexcept:
    """The position after five numbers with a dot before each; NULL if something else is there."""
    cdef const char* start = at
    cdef int number
    for number in range(5):
        if at >= end or at[0] != c".":
            return NULL
        at += 1
        while at < end and c"0" <= at[0] <= c"9":
            at += 1
    return at if _are_numbers(<const unsigned char*>start, at - start) else NULL


cdef inline const char* _ack_numbers(MsgFrame frame, const char* names, Py_ssize_t size) noexcept:
    """The numbers in its reply, if that is an acknowledgement subject of this consumer, else NULL.

    It has 9 tokens, or at least 11.
    """
    cdef const char* at = frame.at(frame.reply_at)
    cdef const char* end = at + frame.reply_size
    cdef const char* numbers
    cdef const char* after
    if not _is_for_ack(frame):
        return NULL
    at += 8
    numbers = _after_names(at, end, names, size)
    if numbers != NULL and _are_numbers(<const unsigned char*>numbers, end - numbers):
        return numbers
    at = _after_names(at, end, NULL, 0)
    if at == NULL:
        return NULL
    numbers = _after_names(at + 1, end, names, size)
    if numbers == NULL:
        return NULL
    after = _after_numbers(numbers, end)
    return numbers if after != NULL and (after == end or after[0] == c".") else NULL


def redeliveries(list frames not None, bytes names not None):
    """How many of them were delivered before; -1 unless all of them can be acknowledged."""
    cdef Py_ssize_t at, again = 0, size = PyBytes_GET_SIZE(names)
    cdef const char* text = PyBytes_AS_STRING(names)
    cdef const char* numbers
    for at in range(PyList_GET_SIZE(frames)):
        numbers = _ack_numbers(<MsgFrame?>PyList_GET_ITEM(frames, at), text, size)
        if numbers == NULL:
            return -1
        again += not (numbers[1] == c"1" and numbers[2] == c".")
    return again


def acks(list frames not None, bytes kind not None):
    """The acknowledgements of all of them, to be written at once; empty when one has no such reply."""
    cdef Py_ssize_t at, size = 0, kind_size = PyBytes_GET_SIZE(kind)
    cdef char[20] number
    cdef int digits = _digits(number, kind_size)
    cdef MsgFrame frame
    for at in range(PyList_GET_SIZE(frames)):
        frame = <MsgFrame?>PyList_GET_ITEM(frames, at)
        if not _is_for_ack(frame):
            return b""
        size += 4 + frame.reply_size + 1 + digits + 2 + kind_size + 2
    cdef bytes written = PyBytes_FromStringAndSize(NULL, size)
    cdef char* to = PyBytes_AS_STRING(written)
    for at in range(PyList_GET_SIZE(frames)):
        frame = <MsgFrame>PyList_GET_ITEM(frames, at)
        to = _put(to, "PUB ", 4)
        to = _put(to, frame.at(frame.reply_at), frame.reply_size)
        to = _put(to, " ", 1)
        to = _put(to, number + 20 - digits, digits)
        to = _put(to, "\r\n", 2)
        to = _put_bytes(to, kind)
        to = _put(to, "\r\n", 2)
    return written


cdef inline const char* _after_text(const char* at, const char* end) noexcept:
    """The position after the closing quote of a JSON string; NULL if it has more than printable ASCII."""
    while at < end and c" " <= at[0] <= c"~" and at[0] != c'"' and at[0] != c"\\":
        at += 1
    return at + 1 if at < end and at[0] == c'"' else NULL


cdef inline const char* _after_key(const char* at, const char* end, const char* key, Py_ssize_t size) noexcept:
    """The position after a comma, perhaps a space, and a key; NULL if something else is there."""
    if at == NULL or at >= end or at[0] != c",":
        return NULL
    at += 1
    if at < end and at[0] == c" ":
        at += 1
    return at + size if end - at >= size and memcmp(at, key, size) == 0 else NULL


cdef inline bint _is_plain_ack(const char* at, Py_ssize_t size) noexcept:
    """Whether it is `{"stream":"S","seq":1}`, perhaps with a domain before the sequence."""
    cdef const char* end = at + size
    cdef const char* value
    if size < 12 or memcmp(at, '{"stream":"', 11) != 0 or at[11] == c'"':
        return False  # An answer that names no stream comes from another client.
    at = _after_text(at + 11, end)
    value = _after_key(at, end, '"domain":"', 10)
    if value != NULL:
        at = _after_text(value, end)
    at = _after_key(at, end, '"seq":', 6)
    return (
        at != NULL and at < end and at[0] != c"0" and (end - 1)[0] == c"}" and _number(at, 0, end - 1 - at) > 0
    )


def pub_acks(list frames not None, Py_ssize_t start):
    """For each plain publish ack, the number that its subject is from `start` on; 0 for other messages."""
    cdef Py_ssize_t at
    cdef int64_t number
    cdef MsgFrame frame
    cdef list numbers = []
    for at in range(PyList_GET_SIZE(frames)):
        frame = <MsgFrame?>PyList_GET_ITEM(frames, at)
        number = 0
        if (
            frame.header_size == 0
            and frame.subject_size > start
            and _is_plain_ack(frame.at(frame.data_at()), frame.data_size)
        ):
            number = _number(frame.at(frame.subject_at), start, frame.subject_size)
        numbers.append(number if number > 0 else 0)
    return numbers


# --- into Arrow


cdef inline bint _is_ascii(const char* text, Py_ssize_t size) noexcept:
    cdef Py_ssize_t at
    cdef unsigned char seen = 0
    for at in range(size):
        seen |= <unsigned char>text[at]
    return seen < 128


cdef inline bint _is_text(const char* text, Py_ssize_t size) except -1:
    """Whether it is UTF-8."""
    if _is_ascii(text, size):
        return True
    try:
        PyUnicode_DecodeUTF8(text, size, NULL)
    except UnicodeDecodeError:
        return False
    return True


cdef bint _read_position(MsgFrame frame, int64_t* sequence, int64_t* nanoseconds) noexcept:
    """The stream sequence and the time in an acknowledgement subject; false for any other reply."""
    cdef const char* text = frame.at(frame.reply_at)
    cdef Py_ssize_t size = frame.reply_size
    cdef Py_ssize_t[12] tokens
    cdef Py_ssize_t at
    cdef int count = 1, first, number
    cdef int64_t[5] numbers
    if size < 8 or memcmp(text, "$JS.ACK.", 8) != 0:
        return False
    tokens[0] = 0
    for at in range(size):
        if text[at] == c".":
            if count < 12:
                tokens[count] = at + 1
            count += 1
    if count == 9:
        first = 4
    elif count >= 11:
        first = 6
    else:
        return False
    for number in range(5):
        at = tokens[first + number + 1] - 1 if first + number + 1 < count else size
        # Nineteen digits, and below 2**63 for any time and sequence before the year 2262.
        if at - tokens[first + number] == 19:
            numbers[number] = _number(text, tokens[first + number], at - 1)
            if numbers[number] < 0 or numbers[number] > 922337203685477579 or not c"0" <= text[at - 1] <= c"9":
                return False
            numbers[number] = numbers[number] * 10 + (text[at - 1] - c"0")
        else:
            numbers[number] = _number(text, tokens[first + number], at)
            if numbers[number] < 0:
                return False
    sequence[0] = numbers[1]
    nanoseconds[0] = numbers[3]
    return True


@cython.final
cdef class _Strings:
    """A column of strings that grows: the offsets and the bytes, each with room for the expected bytes."""

    cdef bytes offsets, text
    cdef int32_t* ends
    cdef char* to
    cdef Py_ssize_t count, size

    def __cinit__(self, Py_ssize_t count, Py_ssize_t size):
        self.offsets = PyBytes_FromStringAndSize(NULL, 4 * (count + 1))
        self.text = PyBytes_FromStringAndSize(NULL, size)
        self.ends = <int32_t*>PyBytes_AS_STRING(self.offsets)
        self.to = PyBytes_AS_STRING(self.text)
        self.ends[0] = 0

    cdef inline void add(self, const char* text, Py_ssize_t size) noexcept:
        memcpy(self.to + self.size, text, size)
        self.size += size
        self.count += 1
        self.ends[self.count] = <int32_t>self.size


def arrow_columns(list frames not None, bint headers):
    """The buffers of an Arrow batch; None when a message needs the care of the Python version."""
    cdef Py_ssize_t count = PyList_GET_SIZE(frames), at
    cdef Py_ssize_t subject_bytes = 0, data_bytes = 0, header_bytes = 0
    cdef MsgFrame frame
    for at in range(count):
        frame = <MsgFrame?>PyList_GET_ITEM(frames, at)
        subject_bytes += frame.subject_size
        data_bytes += frame.data_size
        header_bytes += frame.header_size
    if subject_bytes > INT32_MAX or data_bytes > INT32_MAX or header_bytes > INT32_MAX:
        return None
    cdef _Strings subjects = _Strings(count, subject_bytes), data = _Strings(count, data_bytes)
    cdef bytes sequences = PyBytes_FromStringAndSize(NULL, 8 * count)
    cdef bytes timestamps = PyBytes_FromStringAndSize(NULL, 8 * count)
    cdef int64_t* sequence = <int64_t*>PyBytes_AS_STRING(sequences)
    cdef int64_t* timestamp = <int64_t*>PyBytes_AS_STRING(timestamps)
    cdef int64_t nanoseconds
    for at in range(count):
        frame = <MsgFrame>PyList_GET_ITEM(frames, at)
        if not _read_position(frame, &sequence[at], &nanoseconds):
            return None
        timestamp[at] = nanoseconds // 1000
        if not _is_text(frame.at(frame.subject_at), frame.subject_size):
            return None
        subjects.add(frame.at(frame.subject_at), frame.subject_size)
        data.add(frame.at(frame.data_at()), frame.data_size)
    columns = (subjects.offsets, subjects.text, data.offsets, data.text, sequences, timestamps)
    if not headers:
        return columns + (None,)
    header_columns = _header_columns(frames, header_bytes)
    return None if header_columns is None else columns + (header_columns,)


cdef _header_columns(list frames, Py_ssize_t size):
    """The buffers of the headers: where each message's begin, names, values; None for unusual ones."""
    cdef Py_ssize_t count = PyList_GET_SIZE(frames), at
    cdef MsgFrame frame
    # The shortest header is `a:` and the end of its line.
    cdef _Strings names = _Strings(size // 4, size), values = _Strings(size // 4, size)
    cdef bytes rows = PyBytes_FromStringAndSize(NULL, 4 * (count + 1))
    cdef int32_t* row = <int32_t*>PyBytes_AS_STRING(rows)
    row[0] = 0
    for at in range(count):
        frame = <MsgFrame>PyList_GET_ITEM(frames, at)
        if frame.header_size and not _add_headers(
            frame.at(frame.header_at), frame.header_size, names, values, row[at]
        ):
            return None
        row[at + 1] = <int32_t>names.count
    # Each value is a list of one.
    cdef bytes ones = PyBytes_FromStringAndSize(NULL, 4 * (names.count + 1))
    cdef int32_t* one = <int32_t*>PyBytes_AS_STRING(ones)
    for at in range(names.count + 1):
        one[at] = <int32_t>at
    return rows, names.count, names.offsets, names.text, ones, values.offsets, values.text


cdef bint _add_headers(const char* block, Py_ssize_t size, _Strings names, _Strings values, Py_ssize_t first) except -1:
    """Add the headers of one message. False for a block that is not as NATS clients write it."""
    cdef Py_ssize_t other
    cdef _Header header
    if not _begin(&header, block, size):
        return False
    while header.next < size - 2:
        if not _advance(&header, block, size):
            return False
        for other in range(first, names.count):
            if _same_name(
                names.to + names.ends[other],
                names.ends[other + 1] - names.ends[other],
                block + header.name,
                header.name_size,
            ):
                return False
        names.add(block + header.name, header.name_size)
        values.add(block + header.value, header.value_size)
    return True


def header_column(list frames not None, bytes name not None):
    """The buffers of a string column with the first value of a header; None for unusual header blocks.

    They are the validity, the offsets and the bytes.
    """
    cdef Py_ssize_t count = PyList_GET_SIZE(frames), at, size = 0
    cdef MsgFrame frame
    cdef _Header header
    for at in range(count):
        frame = <MsgFrame?>PyList_GET_ITEM(frames, at)
        size += frame.header_size
    if size > INT32_MAX:
        return None
    cdef _Strings values = _Strings(count, size)
    cdef bytes validity = bytes((count + 7) // 8)
    cdef char* valid = PyBytes_AS_STRING(validity)
    cdef const char* block
    for at in range(count):
        frame = <MsgFrame>PyList_GET_ITEM(frames, at)
        block = frame.at(frame.header_at)
        found = False
        if frame.header_size:
            if not _begin(&header, block, frame.header_size):
                return None
            while header.next < <Py_ssize_t>frame.header_size - 2:
                if not _advance(&header, block, frame.header_size):
                    return None
                if not found and _same_name(
                    block + header.name, header.name_size, PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name)
                ):
                    found = True
                    values.add(block + header.value, header.value_size)
                    valid[at // 8] |= 1 << (at % 8)
        if not found:
            values.add(block, 0)
    return validity, values.offsets, values.text


cdef struct _Header:
    # Positions in a header block: of one header, and of the next.
    Py_ssize_t name, name_size, value, value_size, next


cdef inline bint _begin(_Header* header, const char* block, Py_ssize_t size) noexcept:
    """Go to the first header. False for a block that is not as NATS clients write it."""
    header.next = 10
    return size >= 12 and memcmp(block, "NATS/1.0\r\n", 10) == 0 and memcmp(block + size - 2, "\r\n", 2) == 0


cdef bint _advance(_Header* header, const char* block, Py_ssize_t size) except -1:
    """Read the next header. False for one that is not as NATS clients write it."""
    cdef Py_ssize_t at = header.next, end = at, colon
    cdef const char* found
    while True:
        found = <const char*>memchr(block + end, c"\r", size - 1 - end)
        if found == NULL:
            return False
        end = found - block
        if block[end + 1] == c"\n":
            break
        end += 1
    found = <const char*>memchr(block + at, c":", end - at)
    if found == NULL or found == block + at or end + 2 > size - 2:
        return False
    colon = found - block
    header.name, header.name_size = at, colon - at
    header.value = colon + 2 if colon + 1 < end and block[colon + 1] == c" " else colon + 1
    header.value_size = end - header.value
    header.next = end + 2
    return _is_ascii(block + at, colon - at) and _is_text(block + header.value, header.value_size)


cdef inline bint _same_name(const char* one, Py_ssize_t one_size, const char* two, Py_ssize_t two_size) noexcept:
    """Whether two names are the same but for upper and lower case."""
    cdef Py_ssize_t at
    cdef char a, b
    if one_size != two_size:
        return False
    for at in range(one_size):
        a, b = one[at], two[at]
        if c"A" <= a <= c"Z":
            a += 32
        if c"A" <= b <= c"Z":
            b += 32
        if a != b:
            return False
    return True
