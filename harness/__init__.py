"""The parent's side: plans a cell, sleeps while a worker measures it, turns raw logs into a
directory, a result and a page.
"""
