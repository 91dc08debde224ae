"""The log consumer: one file for each host.

files       appends, syncs and rotates the files
writer      a batch of messages into files, in a thread; imports `files`
cumulative  acknowledgements that cover all earlier messages
consumer    pulls batches and acknowledges them; imports the others
"""
