"""Benchmarks: jetspark beside its peers and beside a raw socket, interleaved in one run.

`make bench` runs all suites, `make bench ARGS="core --rounds 3"` one. Absolute figures depend on the
machine and on what else it does; the ratios within one run are what counts.
"""
