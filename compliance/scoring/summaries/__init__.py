"""Summaries of CNN/DailyMail as MLPerf's llama3.1-8b uses them: ROUGE and the length of a run's
answers.

Written from the definitions in language/llama3.1-8b of mlcommons/inference (evaluation.py, which
calls the metric `rouge` of evaluate 0.4.0, which calls rouge-score 0.1.2).
"""

TARGETS = "targets.json"
TOKENIZER = "tokenizer.json"
SETTINGS = "tokenizer_config.json"
"""The files that the metric needs. The last one may be missing."""
