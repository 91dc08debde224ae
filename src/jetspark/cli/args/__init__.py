"""args."""
