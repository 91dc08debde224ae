"""Pull requests and a server that answers what the test wants: what the real one cannot be made to do."""
