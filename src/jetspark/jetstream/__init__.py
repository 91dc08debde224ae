"""JetStream over a connection: streams, consumers, messages, acknowledgements, publishing."""
