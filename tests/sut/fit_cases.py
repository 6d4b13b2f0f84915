"""Trains a real SUT at size tiny, as it is and with mistakes, in its own environment. `python -m
tests.sut.fit_cases SPEC.json`.

The specification has a job's file → its case; each leaves what a worker leaves: steps.json and the
outcome.
"""

import gc
import sys
from dataclasses import replace
from pathlib import Path

from formats.job import read_job
from formats.outcome import WorkerOutcome
from formats.writing import write_json
from scenarios.worker import fit
from scenarios.worker.heartbeat import Heartbeat
from sut.registry import loader
from tests.support.files import read_json


def honest(job):
    """The SUT as it is."""
    return loader(job.sut, job.architecture, job.workload.task)(job.workload)


def with_constant(name, change):
    """Another constant of the optimizer."""

    def load(job):
        constants = job.config["optimizer"]
        constants = {**constants, name: change(constants[name])}
        return honest(replace(job, config={**job.config, "optimizer": constants}))

    return load


twice_the_rate = with_constant("learning_rate", lambda rate: 2 * rate)
a_hundredth_more_rate = with_constant("learning_rate", lambda rate: 1.01 * rate)
decays_nothing = with_constant("weight_decay", lambda decay: 0.0)
decays_ten_times = with_constant("weight_decay", lambda decay: 10 * decay)
another_epsilon = with_constant("epsilon", lambda epsilon: 100 * epsilon)
another_beta_2 = with_constant("beta_2", lambda beta: 0.99)  # of many recipes for language models


def decays_no_norms(job):
    """Transformers' own choice: no decay of biases and norms."""
    import transformers

    sut = honest(job)
    own = transformers.Trainer.get_decay_parameter_names
    sut.trainer.get_decay_parameter_names = own.__get__(sut.trainer)
    return sut


def amsgrad(job):
    """The largest second moment of all steps (Reddi et al. 2018)."""
    sut = honest(job)
    for group in sut.trainer.create_optimizer().param_groups:
        group["amsgrad"] = True
    return sut


def moments_in_bfloat16(job):
    """Keeps both moments in bfloat16."""

    def rounded(optimizer, *_):
        for state in optimizer.state.values():
            for name in ("exp_avg", "exp_avg_sq"):
                state[name].copy_(state[name].bfloat16())

    sut = honest(job)
    sut.trainer.create_optimizer().register_step_post_hook(rounded)
    return sut


def gradients_in_bfloat16(job):
    """Rounds each gradient to bfloat16."""

    def rounded(optimizer, *_):
        for parameter in sut.model.parameters():
            parameter.grad.copy_(parameter.grad.bfloat16())

    sut = honest(job)
    sut.trainer.create_optimizer().register_step_pre_hook(rounded)
    return sut


def updates_lazily(job):
    """Leaves the rows of words that a batch lacks as they are, decay and momentum included."""
    sut = honest(job)
    words = sut.model.get_input_embeddings().weight
    optimizer = sut.trainer.create_optimizer()
    kept = []

    def keep(*_):
        state = optimizer.state[words]
        lacking = (words.grad == 0).all(1)
        moments = [state[name] for name in ("exp_avg", "exp_avg_sq") if name in state]
        for values in (words.data, *moments):
            kept.append((values, lacking, values[lacking].clone()))

    def restore(*_):
        for values, lacking, rows in kept:
            values[lacking] = rows
        kept.clear()

    optimizer.register_step_pre_hook(keep)
    optimizer.register_step_post_hook(restore)
    return sut


def freezes_the_words(job):
    """Leaves the word embedding as it is."""
    return _frozen(honest(job), lambda name: "word_embeddings" in name)


def freezes_query_and_key(job):
    """Leaves the matrices of query and key as they are."""
    return _frozen(honest(job), lambda name: name.endswith(("query.weight", "key.weight")))


def _frozen(sut, is_frozen):
    """Give the named parameters no update, though they count as trained."""
    frozen = [each for name, each in sut.model.named_parameters() if is_frozen(name)]
    initial = [each.detach().clone() for each in frozen]

    def restore(*_):
        for parameter, values in zip(frozen, initial, strict=True):
            parameter.data.copy_(values)

    sut.trainer.create_optimizer().register_step_post_hook(restore)
    return sut


def changes_the_files_rate(job):
    """Trains the model of a `.keras` file with twice its learning rate."""
    sut = honest(job)
    optimizer = sut.model.optimizer
    optimizer.learning_rate = 2 * float(optimizer.learning_rate)
    return sut


def twice_the_scale(job):
    """What LoRA adds counts twice, as by another alpha."""
    return _with_lora(job, alpha=2 * job.workload.config["lora"]["alpha"])


def freezes_an_adapter(job):
    """Leaves the first layer's factors as they are."""
    sut = honest(job)
    for parameter in sut.model.model.layers[0].parameters():
        parameter.requires_grad_(False)
    return sut


def drops_out_of_adapters(job):
    """Trains with peft's dropout."""
    from torch import nn

    sut = honest(job)
    for module in sut.model.modules():
        if hasattr(module, "lora_dropout"):
            module.lora_dropout["default"] = nn.Dropout(0.1)
    return sut


def _with_lora(job, **changes):
    lora = {**job.config["lora"], **changes}
    return honest(replace(job, config={**job.config, "lora": lora}))


def in_bfloat16(job):
    """Computes in bfloat16 where float32 is asked for."""
    return honest(replace(job, cell=replace(job.cell, precision="bfloat16")))


def skips_a_batch(job):
    """Trains on the second batch twice and never on the third one."""
    return _with_batches(honest(job), lambda batches: [*batches[:2], batches[1], *batches[3:]])


def shuffles(job):
    """Takes the batches in another order."""
    return _with_batches(honest(job), lambda batches: batches[::-1])


def freezes_a_layer(job):
    """Leaves the first layer of the encoder as it is."""
    sut = honest(job)
    sut.model.bert.encoder.layer[0].requires_grad_(False)
    return sut


def drops_out(job):
    """Trains with the dropout of the model's configuration."""
    from torch import nn

    sut = honest(job)
    for module in sut.model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.1
    return sut


def runs_eagerly(job):
    """Was compiled, and calls the model's own forward, or the function that was to be compiled."""
    sut = honest(job)
    if job.sut == "native-jax":
        sut.program = sut.program.__wrapped__
        return sut
    sut.model.forward = type(sut.model).forward.__get__(sut.model)
    return sut


def _with_batches(sut, change):
    own = sut.fit

    def changed(batches, steps, on_step):
        own(iter(change(list(batches)) if steps > 3 else batches), steps, on_step)

    sut.fit = changed
    return sut


def main(specification):
    """Run every case of the specification."""
    for file, name in read_json(specification).items():
        job = read_job(Path(file))
        fields = fit.train(job, globals()[name](job), Heartbeat(job.log_dir / "heartbeat"), 0)
        write_json(job.log_dir / "outcome.json", WorkerOutcome("ok", "", **fields))
        forget()


def forget():
    """In a run each model has a process of its own. Here TensorFlow's evidence would count the
    graphs of those before, too.
    """
    if backend := sys.modules.get("sut.keras.on_tensorflow"):
        backend._functions_run.clear()
        gc.collect()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
