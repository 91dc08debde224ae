"""The page docs/benchmarks.md: `targets` and `plots` are parts of `page`. Nothing is measured here."""
