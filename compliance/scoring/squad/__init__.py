"""SQuAD v1.1 as MLPerf's bert-99 uses it: the features of its questions, and the F1 and exact match
of a run's answers.

Written from the definitions in language/bert of mlcommons/inference (create_squad_data.py,
accuracy-squad.py, evaluate_v1.1.py).
"""
