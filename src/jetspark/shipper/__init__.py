"""The log pipeline: agents that ship lines into JetStream, who writes them to files, and the stop button."""
