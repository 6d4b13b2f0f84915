"""The samples of a query and their answers: what is loaded, batched, handed to the SUT and packed
for LoadGen.
"""
