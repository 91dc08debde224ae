"""Scrapes metrics as Prometheus does, and parses them with the parser of prometheus-client."""

from __future__ import annotations

import urllib.request

from prometheus_client.parser import text_string_to_metric_families

from jetspark.metrics import METRICS

__all__ = ["Scrape", "scrape"]

Scrape = dict[str, dict[tuple[str, ...], float]]


def scrape(port: int) -> Scrape:
    """What a server of metrics says now: by name, then by the values of the labels."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    found: Scrape = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if not sample.name.startswith("jetspark_"):
                continue
            metric = METRICS[sample.name]
            assert (family.type, set(sample.labels)) == (metric.kind, set(metric.labels)), sample
            values = found.setdefault(sample.name, {})
            labels = tuple(sample.labels[label] for label in metric.labels)
            assert labels not in values
            values[labels] = sample.value
    return found
