"""The web console: its parts against a real server, and its pages in a real browser."""
