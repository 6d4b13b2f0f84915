#!/usr/bin/env bash
# Version: onnxruntime 1.31.1 (Linux, two cores or more)
# Guess: a process that is pinned to one CPU (taskset, cpuset of a job) computes on this CPU only.
# Seen: with the default number of threads, a session also computes on CPUs outside of the mask.
# Why: intra_op_num_threads=0 makes a thread for each core of the machine and binds each to its
#   core, whatever mask the process has. An explicit number makes threads that keep the mask.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sed -n '2,/^set/s/^# //p' "$0"
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install -qq onnxruntime==1.31.1 onnx==1.23.2
cat >"$folder/show.py" <<'EOF'
import os
import sys

if len(os.sched_getaffinity(0)) < 2:
    sys.exit("This needs two CPUs.")
own = min(os.sched_getaffinity(0))
os.sched_setaffinity(0, {own})

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

values = np.ones((512, 512), "f")
shape = list(values.shape)
graph = helper.make_graph(
    [helper.make_node("MatMul", ["x", "weight"], ["y"])],
    "product",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
    [numpy_helper.from_array(values, "weight")],
)
opsets = [helper.make_opsetid("", 17)]
model = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


def work_outside(threads):
    """Processor time, in ticks, of this process's threads that are bound outside of its mask."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    for _ in range(100):
        session.run(None, {"x": values})
    ticks = {}
    for thread in map(int, os.listdir("/proc/self/task")):
        mask = os.sched_getaffinity(thread)
        if own not in mask:
            with open(f"/proc/self/task/{thread}/stat") as file:
                ticks[min(mask)] = sum(map(int, file.read().rsplit(")")[-1].split()[11:13]))
    return ticks


for threads in (0, 2):
    ticks = work_outside(threads)
    print(f"Mask: CPU {own}. intra_op_num_threads={threads}:", end=" ")
    print(f"processor time outside, ticks by CPU: {ticks}")
    if bool(sum(ticks.values())) != (threads == 0):
        sys.exit("This has changed.")
EOF
"$folder/env/bin/python" "$folder/show.py"
