#!/usr/bin/env bash
# Version: Keras 3.15.1 on JAX 0.10.2 and on torch 2.13.0, on a CPU, float32
# Guess: 100 steps of Keras' AdamW with a rate of 5e-5, a decay of 0.01 and no gradient shrink a
#   weight by 5e-5 of it on every backend.
# Seen: on PyTorch it shrinks by 4.9 % less.
# Why: there Keras multiplies each weight by 1 - 5e-7, as PyTorch's own AdamW does. Float32 has
#   1 - 4.77e-7 and 1 - 5.36e-7 there. On other backends Keras subtracts weight * decay * rate, whose
#   rounding differs from weight to weight.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sed -n '2,/^set/s/^# //p' "$0"
python3 -m venv "$folder/env"
cat >"$folder/show.py" <<'EOF'
import sys

import keras
import numpy as np

RATE, DECAY, STEPS = 5e-5, 0.01, 100
initial = np.random.default_rng(0).normal(0, 1, 100_000).astype("f")
weight = keras.Variable(initial)
optimizer = keras.optimizers.AdamW(RATE, weight_decay=DECAY)
for _ in range(STEPS):
    optimizer.apply([keras.ops.zeros(weight.shape)], [weight])
lost = initial.astype("d") - keras.ops.convert_to_numpy(weight)
wanted = 1 - (1 - RATE * DECAY) ** STEPS
share = lost @ initial / (initial.astype("d") @ initial) / wanted
print(f"{keras.backend.backend()}: {share:.3f} of the decay")
least, most = map(float, sys.argv[1:])
if not least < share < most:
    sys.exit("This has changed.")
EOF
"$folder/env/bin/pip" install -qq torch==2.13.0 keras==3.15.1 jax==0.10.2 jaxlib==0.10.2
KERAS_BACKEND=jax "$folder/env/bin/python" "$folder/show.py" 0.99 1.01
KERAS_BACKEND=torch "$folder/env/bin/python" "$folder/show.py" 0.94 0.96
