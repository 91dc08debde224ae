"""The NATS connection, on asyncio: from the socket to a message in a subscription."""
