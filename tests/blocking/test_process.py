"""The blocking API and its process: fork, Ctrl-C, exit. Each test runs a process of its own."""

from __future__ import annotations

import pytest

from jetspark import StreamConfig, blocking
from jetspark.server import Server
from tests.blocking.support import TELL_WHEN_WAITING, Program, run_program
from tests.support.waiting import wait_until


@pytest.fixture
def filled(server: Server) -> Server:
    """A server with a stream S of ten messages on `S.x`."""
    with blocking.connect(server.url) as nc:
        js = nc.jetstream()
        js.create_stream(StreamConfig(name="S", subjects=["S.>"]))
        for number in range(10):
            js.publish("S.x", b"%d" % number)
    return server


# --- fork

FORK = """
import os, sys, threading, warnings
from jetspark import ConnectionClosed, blocking
warnings.filterwarnings("ignore", message=".*fork.*")

url = sys.argv[1]
nc = blocking.connect(url)
nc.subscribe("echo", callback=lambda message: message.respond(message.data))
subscription = nc.subscribe("numbers")
publisher = nc.jetstream().publisher()
reader = threading.Thread(target=lambda: waiting.append(next(busy)))
waiting = []
busy = nc.subscribe("busy")
reader.start()
while not busy._supply._refilling.locked():
    pass
nc.flush()
sys.stdout.flush()
child = os.fork()
if child == 0:
    code = 1
    try:
        calls = [
            lambda: nc.publish("a", b""),
            lambda: nc.request("echo", b""),
            nc.flush,
            lambda: subscription.next(),
            lambda: next(busy),
            lambda: publisher.publish("S.x", b""),
            lambda: nc.jetstream().account_info(),
        ]
        for call in calls:
            try:
                call()
            except ConnectionClosed as error:
                assert "parent" in str(error), error
            else:
                raise AssertionError("a call on the parent's connection went through")
        nc.close()
        with blocking.connect(url) as own:
            assert own.request("echo", b"from the child").data == b"from the child"
            own.publish("numbers", b"7")
        print("child done", flush=True)
        code = 0
    finally:
        os._exit(code)
assert os.waitpid(child, 0)[1] == 0
assert subscription.next().data == b"7"
assert nc.request("echo", b"again").data == b"again"
publisher.close()
nc.publish("busy", b"")
reader.join()
nc.close()
print("parent done")
"""


def test_a_child_connects_again_and_the_parent_continues(filled: Server) -> None:
    assert run_program(FORK, filled.url) == "child done\nparent done\n"


FORK_AND_LEAVE = """
import os, sys, warnings
from jetspark import blocking
warnings.filterwarnings("ignore", message=".*fork.*")

with blocking.connect(sys.argv[1]) as nc:
    child = os.fork()
    if child == 0:
        sys.exit(3)  # leaves the context, runs exit handlers
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    nc.flush()
print("done")
"""


def test_a_child_that_leaves_the_context_does_the_parent_no_harm(filled: Server) -> None:
    assert run_program(FORK_AND_LEAVE, filled.url) == "done\n"


MANY_FORKS = """
import os, sys, threading, warnings
from jetspark import blocking
warnings.filterwarnings("ignore", message=".*fork.*")

stop = threading.Event()
nc = blocking.connect(sys.argv[1])

def publish():
    while not stop.is_set():
        nc.publish("a", b"x")
        with blocking.connect(sys.argv[1]) as other:
            other.flush()

threads = [threading.Thread(target=publish) for _ in range(2)]
for thread in threads:
    thread.start()
children = []
for _ in range(10):
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with blocking.connect(sys.argv[1]) as own:
                own.flush()
            code = 0
        finally:
            os._exit(code)
    children.append(child)
codes = [os.waitpid(child, 0)[1] for child in children]
stop.set()
for thread in threads:
    thread.join()
nc.close()
print(codes == [0] * 10)
"""


def test_a_fork_may_come_at_any_moment(filled: Server) -> None:
    assert run_program(MANY_FORKS, filled.url) == "True\n"


# --- Ctrl-C

INTERRUPTED = (
    TELL_WHEN_WAITING
    + """
import sys, threading
from jetspark import ConsumerConfig, blocking

with blocking.connect(sys.argv[1]) as nc:
    js = nc.jetstream()
    consumer = js.create_consumer("S", ConsumerConfig(name="c", ack_wait=60.0))
    consumer.fetch(10).ack()
    subscription = nc.subscribe("nothing")
    messages = consumer.messages()
    running = consumer.consume(lambda message: None)
    calls = {
        "fetch": lambda: consumer.fetch(10, expires=60),
        "next": lambda: consumer.next(expires=60),
        "messages": lambda: next(messages),
        "subscription": lambda: next(subscription),
        "request": lambda: (nc.subscribe("silent"), nc.request("silent", timeout=60)),
        "wait_closed": running.wait_closed,
        "iterator": lambda: list(js.dead_letters("S", "c", follow=True)),
    }
    watching = tell_when_waiting("ready")
    try:
        calls[sys.argv[2]]()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    running.stop()
    messages.stop()
    js.publish("S.x", b"after")
    print(consumer.next(expires=10).data.decode())
watching.join(60)
print(threading.active_count())
"""
)


@pytest.mark.parametrize(
    "call", ["fetch", "next", "messages", "subscription", "request", "wait_closed", "iterator"]
)
def test_ctrl_c_interrupts_a_call_that_waits_and_the_connection_goes_on(filled: Server, call: str) -> None:
    program = Program(INTERRUPTED, filled.url, call)
    program.wait_for("ready")
    program.interrupt()
    program.wait_for("interrupted")
    code, out, err = program.finish()
    assert (code, out, err) == (0, "after\n1\n", "")


INTERRUPTED_UNHANDLED = (
    TELL_WHEN_WAITING
    + """
import sys
from jetspark import blocking

with blocking.connect(sys.argv[1]) as nc:
    subscription = nc.subscribe("nothing")
    tell_when_waiting("ready")
    for message in subscription:
        pass
"""
)


def test_ctrl_c_ends_a_program_that_does_not_expect_it(filled: Server) -> None:
    program = Program(INTERRUPTED_UNHANDLED, filled.url)
    program.wait_for("ready")
    program.interrupt()
    code, _, err = program.finish()
    assert code != 0
    assert err.rstrip().endswith("KeyboardInterrupt")


INTERRUPTED_CONNECT = (
    TELL_WHEN_WAITING
    + """
import socket, sys, threading
from jetspark import blocking

with socket.create_server(("127.0.0.1", 0)) as silent:
    watching = tell_when_waiting("ready")
    try:
        blocking.connect(f"nats://127.0.0.1:{silent.getsockname()[1]}", connect_timeout=60)
    except KeyboardInterrupt:
        watching.join(60)
        print("interrupted", threading.active_count(), flush=True)
"""
)


def test_ctrl_c_interrupts_connect() -> None:
    program = Program(INTERRUPTED_CONNECT)
    program.wait_for("ready")
    program.interrupt()
    program.wait_for("interrupted 1")
    assert program.finish() == (0, "", "")


# --- exit

FORGOTTEN = """
import sys
from jetspark import ConsumerConfig, blocking

nc = blocking.connect(sys.argv[1])
js = nc.jetstream()
nc.subscribe("a", callback=print)
consumer = js.create_consumer("S", ConsumerConfig(name="c"))
running = consumer.consume(lambda message: message.ack())
messages = consumer.messages()
next(iter(js.streams()))
for number in range(1000):
    nc.publish("S.y", b"x")
print("end of the program")
"""


def test_a_program_that_closes_nothing_ends_and_what_it_published_is_written(filled: Server) -> None:
    assert run_program(FORGOTTEN, filled.url) == "end of the program\n"
    with blocking.connect(filled.url) as nc:
        stream = nc.jetstream().get_stream("S")
        wait_until(lambda: stream.info().state.messages == 1010, "all messages to be stored")


FORGOTTEN_WITHOUT_SERVER = """
import sys, time
from jetspark import blocking
from jetspark.server import run

with run() as server:
    nc = blocking.connect(server.url)
nc.publish("a", b"")
sys.exit(7)
"""


def test_a_program_ends_without_the_server_too() -> None:
    code, _, _ = Program(FORGOTTEN_WITHOUT_SERVER).finish()
    assert code == 7


BLOCKED_HANDLER = """
import sys, threading
from jetspark import ConsumerConfig, blocking

nc = blocking.connect(sys.argv[1])
begun = threading.Event()

def handle(message):
    begun.set()
    threading.Event().wait()

nc.jetstream().create_consumer("S", ConsumerConfig(name="c")).consume(handle)
begun.wait()
print("end of the program")
"""


def test_a_handler_that_never_returns_does_not_keep_the_program_alive(filled: Server) -> None:
    assert run_program(BLOCKED_HANDLER, filled.url) == "end of the program\n"
