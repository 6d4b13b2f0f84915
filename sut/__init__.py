"""Systems Under Test (SUTs): one flat file for each framework and model family. A SUT uses a
framework, and knows nothing of LoadGen, scenarios or the meaning of files.
"""
