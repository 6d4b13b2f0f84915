"""The checks, one file for each group of rules. A group gets the content of one result folder and
returns its checks.

`logs` judges LoadGen's logs, `submission` the files and documents of any submission, and `run` the
files of this project's own run directories. No file of a group imports another.
`entries` makes their faults of the detail log.
"""
