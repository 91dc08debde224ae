"""The version, read by the build and by `jetspark.__version__`."""

__version__ = "0.1.0.dev0"
