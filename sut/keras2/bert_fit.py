"""Trains every parameter of BERT-like classifiers of KerasNLP on Keras 2; see `training`."""

from __future__ import annotations

import keras_nlp
import tf_keras

from sut.contract import Workload
from sut.keras import bert as keras_bert
from sut.keras.training import KerasTraining
from sut.keras2 import bert, training


def load(workload: Workload) -> KerasTraining:
    """The checkpoint's classifier, compiled for training."""
    loss = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return training.compiled(bert.build(workload), workload, keras_bert.prepare, loss, keras_nlp=keras_nlp.__version__)
