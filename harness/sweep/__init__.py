"""Many cells in turns: which there are (recipe, cells), which is next (schedule, interval), which are done (journal)."""
