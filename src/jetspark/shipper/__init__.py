"""The log pipeline: agents that ship lines into JetStream, who turns them into files and tables, the stop button."""
