"""The control stream: operators pause and resume agents, and agents and jobs report their state.

switch     commands, reports and paused consumers as messages; what `pause` and `resume` call
watcher    the switch as an agent watches it; imports `switch`
"""
