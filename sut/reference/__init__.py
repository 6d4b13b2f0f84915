"""The reference calls Transformers plainly, in float32. It shares no code with the SUTs that are
compared with it.
"""
