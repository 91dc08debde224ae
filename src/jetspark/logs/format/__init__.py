"""How a line becomes a message. No I/O; everything here is shared by the agent, the log consumer and the job.

names      names of hosts and files, safe for subjects, headers and file systems; kinds of files
line       a line, or a piece of a long one
message    subject, id and headers of a line; imports the other two
"""
