"""Reports data loss by the option `failOnDataLoss`. Every loss is reported here."""

from __future__ import annotations

from jetspark.errors import DataLoss
from jetspark.spark.log import logger
from jetspark.spark.options import SourceOptions

__all__ = ["report_loss"]


def report_loss(lost: DataLoss, options: SourceOptions) -> None:
    """Raise the loss with a hint, or log a warning if `failOnDataLoss` is false."""
    if options.fail_on_data_loss:
        lost.hint = (
            "Set failOnDataLoss to false to continue with the remaining messages, or give the stream limits "
            "that keep messages for longer than a query may lag behind"
        )
        raise lost
    logger.warning("%s; continuing because failOnDataLoss is false", lost)
