"""The report on finished runs.

`content` gathers measurements, `sections` describes and draws them, `page` and `exports` show them.
"""
