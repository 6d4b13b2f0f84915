"""A SUT that streams hands over the tokens of its whole answers, in programs that are compiled
once.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compliance import rules
from compliance.checks.run.evidence import findings
from sut.registry import spec_of
from tests.support.frameworks import run_module, workload
from tests.support.long import LONG
from tests.sut.conftest import Loaded, of_folder, seeded
from tests.sut.streams import STOP

LENGTHS = np.array([3, 40, 17, 9, 30], np.int32)
NEW = np.array([6, 12, 8, 12, 7], np.int32)
QUICK = ("keras3-jax", "mistral")
