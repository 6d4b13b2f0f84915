"""The parent process: it plans a cell, sleeps while a worker measures it, and turns the raw logs
into a directory, a result and a page.
"""
