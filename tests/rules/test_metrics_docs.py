"""The table in `docs/metrics.md` is that of the code, and the dashboard uses metrics of it."""

from __future__ import annotations

import json
import re
from pathlib import Path

from jetspark.metrics import METRICS
from tests.support.metrics_page import ROWS

DASHBOARD = Path(__file__).parents[2] / "docs" / "grafana" / "jetspark.json"


def test_the_table_is_that_of_the_code() -> None:
    assert [row.name for row in ROWS] == list(METRICS)
    for row in ROWS:
        metric = METRICS[row.name]
        assert (row.kind, row.labels, row.meaning) == (metric.kind, metric.labels, metric.help)
        assert set(row.served_by) <= {
            "programs",
            "ship",
            "consume-logs",
            "pipeline run",
            "listener",
            "console",
        }


def test_the_dashboard_uses_metrics_and_labels_that_exist() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    shown = set()
    for panel in panels:
        assert panel["datasource"] == {"uid": "${datasource}"}
        for target in panel["targets"]:
            (name,) = re.findall(r"jetspark_\w+", target["expr"])
            metric = METRICS[name]
            shown.add(name)
            counted = re.search(r"\b(rate|increase)\(", target["expr"]) is not None
            assert counted == (metric.kind == "counter"), target
            labels = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            assert labels <= {*metric.labels, "instance"}, target
    for part in ("stream", "consumer", "agent", "job", "publisher"):
        assert any(name.startswith(f"jetspark_{part}_") for name in shown), part
    places = [tuple(panel["gridPos"][key] for key in "xy") for panel in dashboard["panels"]]
    assert len(set(places)) == len(places)
