"""The Spark job of the log pipeline: one file says what it reads, how lines are parsed and where rows go."""
