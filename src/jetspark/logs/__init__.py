"""The log pipeline: agents that ship lines into JetStream, the jobs that write them down, the stop button."""
