"""The report on finished runs.

`content` gathers the measurements, `sections` describe and draw them, and `page` and `exports` show
any section.
"""
