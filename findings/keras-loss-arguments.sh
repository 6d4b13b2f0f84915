#!/usr/bin/env bash
# Version: keras 3.15.1, on jax 0.10.2
# Guess: a compiled model that was saved as .keras has the same loss after load_model.
# Seen: Huber(delta=0.05) comes back with delta 1 and CosineSimilarity(axis=1) with axis -1, without
#   a warning. The same weights have another loss on the same data, and train towards it.
# Why: get_config of these two losses leaves the argument out. BinaryFocalCrossentropy, for
#   example, stores all of its arguments. Compile the loaded model again.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sed -n '2,/^set/s/^# //p' "$0"
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install -qq keras==3.15.1 jax==0.10.2 jaxlib==0.10.2
cat >"$folder/show.py" <<'EOF'
import sys

import keras
import numpy as np

path = f"{sys.argv[1]}/model.keras"
keras.utils.set_random_seed(0)
generator = np.random.default_rng(0)
inputs, targets = generator.random((8, 3, 4), "f"), generator.integers(0, 2, (8, 3, 4)).astype("f")
LOSSES = (  # the loss and whether the file loses its argument
    (keras.losses.Huber(delta=0.05), True),
    (keras.losses.CosineSimilarity(axis=1), True),
    (keras.losses.BinaryFocalCrossentropy(gamma=5.0), False),
)
for loss, loses in LOSSES:
    layer = keras.layers.Dense(4, activation="sigmoid")
    model = keras.Sequential([keras.Input((3, 4)), layer])
    model.compile("sgd", loss)
    model.fit(inputs, targets, verbose=0)
    model.save(path)
    before = model.evaluate(inputs, targets, verbose=0)
    after = keras.saving.load_model(path).evaluate(inputs, targets, verbose=0)
    stored = {k: v for k, v in loss.get_config().items() if k not in ("name", "reduction", "dtype")}
    print(f"{loss.name}: stored {stored}, loss {before:.5f} before, {after:.5f} after")
    if loses == np.isclose(before, after, rtol=1e-4):
        sys.exit("This has changed.")
EOF
KERAS_BACKEND=jax "$folder/env/bin/python" "$folder/show.py" "$folder"
