#!/usr/bin/env bash
# Version: Keras 3.15.1 on JAX 0.10.2 and on torch 2.13.0, on a CPU, float32
# Guess: LayerNormalization(axis=1) of an array [2, 6, 6] gives each column of 6 the mean 0, on every
#   backend.
# Seen: on PyTorch each row has the mean 0, and columns have not. RMSNormalization(axis=1) is wrong
#   in the same way. Of an array [2, 4, 6] PyTorch refuses both.
# Why: ops.layer_normalization and ops.rms_normalization call PyTorch's own kernels for any
#   neighbouring axes (is_continuous_axis in keras/src/ops/nn.py). These kernels take only the last
#   axes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sed -n '2,/^set/s/^# //p' "$0"
python3 -m venv "$folder/env"
cat >"$folder/show.py" <<'EOF'
import sys

import keras
import numpy as np

x = np.random.default_rng(0).normal(1, 2, (2, 6, 6)).astype("f")
name = keras.backend.backend()
found = keras.ops.convert_to_numpy(keras.layers.LayerNormalization(axis=1)(x))
right = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-3)
apart = np.abs(found - right).max()
print(f"{name}, LayerNormalization(axis=1): {apart:.1e} from numpy")
means = [np.abs(found.mean(axis)).max() for axis in (1, 2)]
print(f"  largest mean over axis 1: {means[0]:.1e}, 2: {means[1]:.1e}")
root = keras.ops.convert_to_numpy(keras.layers.RMSNormalization(axis=1)(x))
rms = x / np.sqrt((x**2).mean(1, keepdims=True) + 1e-6)
print(f"{name}, RMSNormalization(axis=1): {np.abs(root - rms).max():.1e} from numpy")
last = keras.ops.convert_to_numpy(keras.layers.LayerNormalization(axis=2)(x))
right = (x - x.mean(2, keepdims=True)) / np.sqrt(x.var(2, keepdims=True) + 1e-3)
print(f"{name}, LayerNormalization(axis=2): {np.abs(last - right).max():.1e} from numpy")
assert np.abs(last - right).max() < 1e-4
wrong = sys.argv[1] == "wrong"
if (apart > 0.1) != wrong or (np.abs(root - rms).max() > 0.1) != wrong:
    sys.exit("This has changed.")
EOF
"$folder/env/bin/pip" install -qq torch==2.13.0 keras==3.15.1 jax==0.10.2 jaxlib==0.10.2
KERAS_BACKEND=jax "$folder/env/bin/python" "$folder/show.py" right
KERAS_BACKEND=torch "$folder/env/bin/python" "$folder/show.py" wrong
