"""The measurements, one file per subject. A new one is a `Measurement` in its file and a line here.

This list is also the order of the page. The files that need Spark are imported when they are used.
"""

from __future__ import annotations

import importlib.util

from bench.harness import Measurement
from bench.measurements import buckets, console, consume, core, latency, publish, recovery, scale, ship


def everything() -> list[Measurement]:
    """All measurements; without those of Spark if it is not installed."""
    listed = [core.PUBLISH, core.SUBSCRIBE, consume.FETCH, consume.ACKED, publish.PUBLISH]
    listed += [latency.DELIVERY, latency.REQUEST, scale.SCALE]
    listed += [buckets.KV_PUT, buckets.KV_GET, buckets.OBJECT_PUT, buckets.OBJECT_GET]
    if importlib.util.find_spec("pyspark") is None:
        return [*listed, ship.SHIP, recovery.RECOVERY, recovery.STEPDOWN, console.CONSOLE]
    from bench.measurements import (
        pipeline,
        pipeline_batch,
        pipeline_formats,
        queue,
        spark_read,
        spark_write,
        streams,
    )

    listed += [spark_read.READ, queue.QUEUE, streams.STREAMS, spark_write.WRITE, ship.SHIP]
    listed += [pipeline.PIPELINE, pipeline.STEPS, pipeline_formats.FORMATS]
    listed += [pipeline_batch.BATCH, pipeline_batch.START]
    return [*listed, recovery.RECOVERY, recovery.STEPDOWN, console.CONSOLE]
