#!/usr/bin/env bash
# Version: Keras 3.15.1 on JAX 0.10.2 and on torch 2.13.0, on a CPU
# Guess: keras.ops gives numpy's shapes and values on every backend.
# Seen: on PyTorch ops.sum, prod, max and min with keepdims=True and no axis drop the axes, which
#   ops.mean keeps; ops.count_nonzero(x, axis=0) is transposed; ops.pad(x, 1) pads only the last
#   axis; ops.pad(mode="symmetric") repeats the edge; AveragePooling2D(3, 2, "same") of an even side
#   counts repeated pixels. Nothing warns.
# Why: the torch backend calls torch.sum(x) without keepdims, transposes what it counted, gives
#   torch.nn.functional.pad one pair, uses its mode "replicate" for symmetric, and pads by
#   "replicate" before it averages.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sed -n '2,/^set/s/^# //p' "$0"
python3 -m venv "$folder/env"
cat >"$folder/show.py" <<'EOF'
import sys

import keras
import numpy as np
from keras import ops

x = np.arange(24, dtype="f").reshape(2, 3, 4)
wrong = []


def compare(words, found, right):
    found = np.asarray(ops.convert_to_numpy(found))
    same = found.shape == right.shape and np.allclose(found, right, rtol=1e-5)
    print(f"{keras.backend.backend()}: {words}: {found.shape}, {'right' if same else 'wrong'}")
    if not same:
        wrong.append(words)


compare("mean, keepdims", ops.mean(x, keepdims=True), x.mean(keepdims=True))
for name in ("sum", "prod", "max", "min"):
    right = getattr(x, name)(keepdims=True)
    compare(f"{name}, keepdims", getattr(ops, name)(x, keepdims=True), right)
right = np.count_nonzero(x, axis=0)
compare("count_nonzero, axis 0", ops.count_nonzero(x, axis=0), right)
compare("pad of 1", ops.pad(x, 1), np.pad(x, 1))
two = ((0, 0), (2, 2), (2, 2))
compare("pad, reflect", ops.pad(x, two, "reflect"), np.pad(x, two, "reflect"))
compare("pad, symmetric", ops.pad(x, two, "symmetric"), np.pad(x, two, "symmetric"))
picture = np.random.default_rng(0).random((1, 16, 16, 1), "f")
pooled = keras.layers.AveragePooling2D(3, strides=2, padding="same")(picture)
corner = ops.convert_to_numpy(pooled)[0, -1, -1]
compare("average pooling, last corner", corner, picture[0, -2:, -2:].mean((0, 1)))
expected = sys.argv[1:]
print(f"  {len(wrong)} wrong")
if (len(wrong) == 8) != ("wrong" in expected) or ("right" in expected and wrong):
    sys.exit("This has changed.")
EOF
"$folder/env/bin/pip" install -qq torch==2.13.0 keras==3.15.1 jax==0.10.2 jaxlib==0.10.2
KERAS_BACKEND=jax "$folder/env/bin/python" "$folder/show.py" right
KERAS_BACKEND=torch "$folder/env/bin/python" "$folder/show.py" wrong
