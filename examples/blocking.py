"""The blocking API: the same classes and methods without await, for scripts, threads and notebooks."""

from example_server import example_server

import jetspark
from jetspark import ConsumerConfig, StreamConfig

with example_server("EXAMPLE_SCRIPTS") as url, jetspark.blocking.connect(url) as nc:
    js = nc.jetstream()
    stream = js.create_stream(StreamConfig(name="EXAMPLE_SCRIPTS", subjects=["example.scripts"]))
    for number in range(5):
        js.publish("example.scripts", b"%d" % number)

    consumer = stream.create_consumer(ConsumerConfig(durable_name="reader"))
    for message in consumer.fetch(3, expires=1.0):
        print("fetched", message.data.decode())
        message.ack()

    with consumer.messages() as messages:
        for message in messages:
            print("iterated", message.data.decode())
            message.ack()
            if message.metadata.num_pending == 0:
                break
