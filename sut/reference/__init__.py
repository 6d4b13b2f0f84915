"""The reference: Transformers called plainly, in float32. It shares no code with the SUTs that are
compared with it.
"""
