"""A busy bus for the pictures in the docs: orders, dead letters, hosts that ship logs, a job."""

from __future__ import annotations

import json
import math
import time

import msgspec

import jetspark.blocking
from jetspark import ConsumerConfig, StreamConfig
from jetspark.logs.control.switch import AGENTS, CONTROL_STREAM, AgentReport
from jetspark.reports.jobs import JOBS, JobBatch, JobReport

__all__ = ["Gallery"]

HOSTS = 5
REASONS = ("card was declined", "unknown currency XYZ", "customer 1183 not found")


class Gallery:
    """Call `step` about ten times a second for as long as there is something to show."""

    def __init__(self, js: jetspark.blocking.JetStream) -> None:
        self._js = js
        js.create_stream(
            StreamConfig(name="ADVISORIES", subjects=["$JS.EVENT.ADVISORY.CONSUMER.>"], max_age=7 * 86400.0)
        )
        js.create_stream(
            StreamConfig(name="ORDERS", subjects=["orders.>"], allow_direct=True, max_age=86400.0)
        )
        js.create_stream(StreamConfig(name="LOGS", subjects=["logs.>"], max_bytes=1 << 30))
        js.create_stream(
            StreamConfig(
                name=CONTROL_STREAM,
                subjects=["jetspark.control.>"],
                max_msgs_per_subject=1,
                allow_direct=True,
            )
        )
        self._billing = js.create_consumer("ORDERS", ConsumerConfig(durable_name="billing", max_deliver=3))
        self._shipping = js.create_consumer(
            "ORDERS", ConsumerConfig(durable_name="shipping", filter_subject="orders.eu")
        )
        self._files = js.create_consumer("LOGS", ConsumerConfig(durable_name="log-files"))
        self._steps = self._orders = 0
        self._lines = [0] * HOSTS
        self._batches: list[JobBatch] = []

    def step(self) -> None:
        self._steps += 1
        self._order(3 + round(2 * math.sin(self._steps / 60)))
        for host in range(HOSTS):
            for _ in range(1 + (self._steps + host) % 3):
                self._js.publish(f"logs.web{host + 1}", b'10.0.0.7 - "GET /index.html HTTP/1.1" 200 5120')
                self._lines[host] += 1
        # A reader that is away for a while, and catches up.
        for message in self._files.fetch_no_wait(5 if self._steps % 500 < 220 else 40):
            message.ack()
        if self._steps % 20 == 0:
            self._report()

    def _order(self, number: int) -> None:
        for _ in range(number):
            self._orders += 1
            order = {
                "id": 10_000 + self._orders,
                "customer": 1000 + self._orders * 37 % 500,
                "items": [{"sku": f"A-{self._orders * 13 % 900}", "quantity": 1 + self._orders % 3}],
                "total": round(self._orders * 7.3 % 250, 2),
            }
            region = ("eu", "us", "eu", "asia")[self._orders % 4]
            self._js.publish(
                f"orders.{region}", json.dumps(order).encode(), headers={"Content-Type": "application/json"}
            )
        for message in self._billing.fetch_no_wait(20):
            metadata = message.metadata
            if metadata.sequence.stream % 90 == 7:
                message.term(REASONS[metadata.sequence.stream // 90 % len(REASONS)])
            elif metadata.sequence.stream % 9 or metadata.num_delivered > 1:
                message.ack()
        for message in self._shipping.fetch_no_wait(2 if self._steps % 100 < 70 else 8):
            message.ack()

    def _report(self) -> None:
        for host, lines in enumerate(self._lines):
            agent = AgentReport(
                name=f"web{host + 1}-4f2a91",
                host=f"web{host + 1}",
                pid=812,
                state="shipping",
                obeys=0,
                lines=lines * 40,
                bytes=lines * 3200,
                behind=(self._steps * (host + 3) * 97) % 9000,
            )
            self._js.publish(f"{AGENTS}.web{host + 1}", msgspec.json.encode(agent))
        rows = 350 + round(90 * math.sin(self._steps / 50))
        lag = max(0, round(900 * math.sin(self._steps / 90)))
        at = time.time()
        self._batches.append(
            JobBatch(id=len(self._batches), at=at, rows=rows, seconds=0.82, lag=lag, bad_lines=rows % 2)
        )
        job = JobReport(
            name="access-to-parquet",
            host="spark1",
            pid=4021,
            state="running",
            source="LOGS",
            sink="/data/access",
            rows=sum(batch.rows for batch in self._batches),
            bad_lines=sum(batch.bad_lines for batch in self._batches),
            rate=rows / 2,
            lag=lag,
            batches=self._batches[-120:],
        )
        self._js.publish(f"{JOBS}.access-to-parquet", msgspec.json.encode(job))
