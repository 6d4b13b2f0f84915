"""Many cells in turns: the list of cells (recipe, cells), the next one (schedule) and the finished
ones (journal).
"""
