"""The stream JETSPARK_CONTROL, and the reports in it: of agents, of the log pipeline and of any Spark query.

control      the stream, and how long it keeps reports
publisher    publishes the reports of one agent, job or query; imports `control`
jobs         the progress of a job, and its report; imports `control`

The stream keeps the last message of each subject. A report is published every few seconds and when the state
changes. Agents and the commands to them are in `logs/control/`.
"""
