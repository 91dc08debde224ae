"""Bytes to frames and frames to bytes. No asyncio, no sockets, no clock."""
