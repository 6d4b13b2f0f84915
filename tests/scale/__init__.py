"""Programs that are run by hand: how often the statistics are right, and what an audit and a report of many samples cost."""
