"""The commands. A command is one file; one that needs more than a file is a folder with a `command.py`.

manage    stream/ consumer/    `options.py` in each is the table of the configuration flags
buckets   kv/ object           kv/ too has an `options.py`
messages  pub sub req reply trace dead_letters export/
logs      ship consume_logs pause resume pipeline demo
operate   console events server/ bench doctor

`main.TREE` lists them, and imports the module of a command by its name when the command runs. Each module or
package has an `app`. Commands do not import each other, except that resume uses functions of pause.
"""
