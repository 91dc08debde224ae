"""How threads and the event loop work together, in reading order; each file may import those above it.

    portal   the event loop of the process, in a thread; runs coroutines for other threads
    worker   a thread that calls listeners
    writer   queues frames of all threads for the loop, and wakes it once for many
    supply   hands messages from the loop to threads, many at a time
    bridge   the parts that one connection uses, and the end of its threads

Nothing here knows streams, consumers or messages.
"""
