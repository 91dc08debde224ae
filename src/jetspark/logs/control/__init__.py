"""The control stream: operators pause and resume agents, and agents and jobs report their state.

switch     commands, reports and paused consumers as messages; the functions of `pause` and `resume`
watcher    the switch as an agent watches it; imports `switch`
"""
