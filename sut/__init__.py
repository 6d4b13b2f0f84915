"""Systems Under Test: one flat file per framework and model family. Knows a framework; nothing of
LoadGen, scenarios or files' meaning.
"""
