"""SUTs that are mistaken, not dishonest: broken as an author would break them, or as a new release
of a framework would.
"""
