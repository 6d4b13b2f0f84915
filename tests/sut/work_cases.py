"""Counts the work of references at size tiny. `python -m tests.sut.work_cases SPEC.json`.

The specification is a list of job files. Each leaves work.json in the folder of its job. With
`flops` it also leaves the operations that PyTorch's own counter finds in the first answer.
"""

import sys
from pathlib import Path

import numpy as np
from torch.utils.flop_counter import FlopCounterMode

from formats.job import read_job
from formats.writing import write_json
from scenarios.worker import work
from scenarios.worker.heartbeat import Heartbeat
from sut.registry import FIT, loader
from tests.support.files import read_json


def main(files):
    for file in files:
        job = read_job(Path(file))
        sut = loader(job.sut, job.architecture, job.workload.task)(job.workload)
        work.write(job, sut, Heartbeat(job.log_dir / "heartbeat"))
        if job.workload.task == FIT:
            continue
        with np.load(job.inputs) as inputs:
            first = {name: inputs[name][:1] for name in inputs.files}
        with FlopCounterMode(display=False) as counter:
            sut.predict(first)
        write_json(job.log_dir / "flops.json", counter.get_total_flops())


if __name__ == "__main__":
    main(read_json(Path(sys.argv[1])))
