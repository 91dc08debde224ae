"""The agent: follows log files and publishes each line once.

split         bytes into lines, without I/O
containers    lines as container runtimes write them
multiline     rules that say which lines belong to one event
join          lines into events by a rule, without I/O
input         which files are read, and how their lines are joined and published
journal_entry entries of systemd's journal, as journalctl writes them
positions     the position file: how far each log is stored
file          one followed file, and whether it is still the same
discovery     the followed files: patterns, renames, truncations
journal       the journal of systemd, read by journalctl
options       the options of an agent
config_file   reads and checks `shipper.toml`
reader        new lines of the followed files, oldest file first
stdin         standard input as lines
stored_ids    ids of lines that the stream stored beyond the positions
send_queue    lines in flight, and the positions that follow from acknowledgements
saver         saves the positions when they changed
report        status reports
agent         runs the parts above

Each file imports files above it only. The agent imports `format`, `compression`, `control` and
`toml_file`.
"""
