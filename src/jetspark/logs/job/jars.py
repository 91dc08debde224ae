"""Classes that Spark has only with a jar of another project."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetspark.logs.toml_lines import Where

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["require_class"]


def require_class(spark: SparkSession, name: str, package: str, where: Where) -> None:
    """Raise `UsageError` if Spark does not have the class, which is in a package of Maven."""
    assert spark._jvm is not None
    if not spark._jvm.org.apache.spark.util.Utils.classIsLoadable(name):
        raise where.error(
            "sink.writer",
            f"this Spark does not have the class {name}",
            f'Add {package} to it: `"spark.jars.packages"` or `"spark.jars"` in [spark] conf, '
            "or remove `writer`",
        )
