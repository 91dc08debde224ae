"""The blocking API: the same classes and methods without await, for scripts, threads and notebooks."""

import os

import jetspark
from jetspark import ConsumerConfig, StreamConfig

URL = os.environ.get("NATS_URL", "nats://127.0.0.1:4222")

with jetspark.blocking.connect(URL) as nc:
    js = nc.jetstream()
    stream = js.create_stream(StreamConfig(name="SCRIPTS", subjects=["scripts"]))
    for number in range(5):
        js.publish("scripts", b"%d" % number)

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
