"""The report on finished runs.

`content` is what it is about, `sections` say and draw it, and `page` and `exports` show any
section.
"""
