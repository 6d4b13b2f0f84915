"""Readers that turn bytes into values: LoadGen's logs, traces and user.conf, dates, JSON and
arrays. This package contains no rule.
"""

from compliance.logs.answers import (
    TWICE,
    Answers,
    LoggedAnswers,
    Row,
    read_accuracy,
    read_ends,
    read_logged,
)
from compliance.logs.detail import Detail, Line, read_detail
from compliance.logs.summary import Summary, read_summary

__all__ = [
    "TWICE",
    "Answers",
    "Detail",
    "Line",
    "LoggedAnswers",
    "Row",
    "Summary",
    "read_accuracy",
    "read_detail",
    "read_ends",
    "read_logged",
    "read_summary",
]
