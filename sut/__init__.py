"""Systems Under Test (SUTs): one flat file for each framework and architecture. They use a
framework, and contain no code for LoadGen, scenarios or the meaning of files.
"""
