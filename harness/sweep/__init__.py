"""Many cells in turns: which there are (recipe, cells), which is next (schedule), which are done
(journal).
"""
