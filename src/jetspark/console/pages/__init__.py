"""The pages, on NiceGUI.

theme         colours, and the style sheet style.css
table         a table whose rows stay on the server: sorted, filtered and paged there
chart         lines over the last 15 minutes
listings      the tables of streams, consumers, agents and jobs
frame         what all pages share: the header, the banner, dialogs, updates
overview      `/`: the server, streams, consumers, agents, jobs, problems
stream        `/stream/NAME`: configuration, state, subjects, messages, consumers
consumer      `/consumer/STREAM/NAME`: lag over time; pause, resume, reset
buckets       `/buckets`: key-value buckets and object stores
dead_letters  `/dead-letters`: what consumers gave up; replay, discard
logs          `/logs`: agents, the pause switch, jobs and their batches, actions
routes        the addresses of the pages

Imports point up this list; the pages do not import each other.
"""
