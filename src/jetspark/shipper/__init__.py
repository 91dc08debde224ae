"""The log pipeline: agents that ship lines into JetStream, and the Spark job that turns them into tables."""
