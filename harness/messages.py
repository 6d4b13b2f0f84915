"""Everything that a report, a result, a plan or the terminal may say to a user: reasons, notes,
advice.

Each message is a template, and `format` fills it in. `git grep NAME` finds where it is said.

    a plan          PlanReason, NotRun, Eligible, Cost, InputNote
    a result        NotJudged, Unranked, Note, EarlierRun, Next
    a comparison    Differs, DiffersFromPublished, Compared, NotCompared, Unproven, BuildCheck,
                    Inconclusive, History
    a report        Answer, ModelAnswers, Finding, KerasGenerates, SectionNote, Advice
    a sweep         SweepPlan, SweepProgress, SweepEnd
    a cluster       OnCluster
    a server        Serve
    a profile       Profiled
    limits          MachineLimits
    any command     Waiting, Ended, Files, DoctorFinding, DoctorAdvice

Only these are elsewhere:

- `UsageError` and `EnvironmentFailure` name the refused flag or file, so they are where it is read.
- `sut/registry.py` says why a SUT cannot run a cell.
- `compliance/` says what an audit found.
- `harness/report/page.html` and `history.html` have the headings and legends of a page.
- `COLUMNS` in `harness/comparison/tables.py` describes the columns of a table, and
  `harness/report/details.py` the lines of LoadGen's summary.
- `harness/execution/` and `harness/measurement/` say what they make and wait for.
"""

from __future__ import annotations

from enum import StrEnum


class PlanReason(StrEnum):
    """Why the plan chose a value that no flag gives, and what it does with some flags."""

    GROUP_LIMITS = "the control groups (a container's) limit this machine to {limits}"
    DEVICE_WITHOUT_LOCK = (
        "device {host}, although there is {gpu}: {environment} has no lock for {device} yet;"
        " --python PATH gives an interpreter that has the packages"
    )
    NO_NVML = (
        "NVML does not answer, so the memory, energy and clocks of the GPU are not known;"
        " --device {device} runs"
    )
    BATCH_OF_INPUTS = (
        "batch {batch}: as many as there are inputs (--batch-size {usual} repeats them)"
    )
    SIZE_ONLY = "size {size}: {model} has no size full"
    SIZE_FULL = "size full: its {need:.1f} GB fit into {gpu}"
    SIZE_TOO_LARGE = "size tiny: full needs {need:.1f} GB, and {gpu} has {memory:.1f} GB"
    SIZE_UNKNOWN_MEMORY = (
        "size tiny: the memory of the GPU is not known (--size mid or full to choose)"
    )
    SIZE_NO_ACCELERATOR = "size tiny: no accelerator in use (--size mid or full to choose)"
    ENGINE_PRECISION = (
        "precision unknown: the engine does not report it, so its answers are judged by the limits"
        " of {like}"
    )
    ENGINE_DEVICE = (
        "the machine and the device are those that send the requests; of those that answer them"
        " nothing is known"
    )
    ENGINE_SATURATION = (
        "the requests in flight are doubled until the engine answers no faster, which takes about"
        " 10 to 40 times as long as one answer, and a test of Offline takes 12 to 24 times as long"
        " (--sut-option in_flight=N needs no such search)"
    )
    ENGINE_TEMPLATE = (
        "the engine applies its own chat template; answers are comparable only if it is that of"
        " --weights"
    )
    ENGINE_WITHOUT_CHAT = (
        "the engine applies its chat template, and the reference does not: give --chat too, or the"
        " answers differ"
    )
    PRECISION = "precision {precision}: {sut} does not compute in {usual}, the default of this size"
    VARIABLES = (
        "these environment variables may change the figures, so they are part of the cell:"
        " {variables}"
    )
    TUNED = (
        "tuned: {switches}, which made it {ratio:.3g} times as fast in {work} (measured on"
        " {machine})"
    )
    TUNED_NOTHING = (
        "tuned: no switch was shown to make {sut} faster, so none is applied (measured on"
        " {machine})"
    )
    TUNED_NOT_MEASURED = (
        "tuned: no switch of {sut} was measured in these versions with {architecture} ({task}) in"
        " {precision} on {device}, so none is applied: ./run.sh tune measures them"
    )
    EOS_STOP = (
        "--eos stop: an answer ends at its end token ({tokens}), and only the tokens that were"
        " produced count"
    )
    EOS_STOP_BY_DEFAULT = f"{EOS_STOP} (--eos ignore gives each answer all its tokens)"
    EOS_IGNORE = (
        "--eos ignore: an answer continues after its end token ({tokens}), and all its tokens count"
    )
    LIMITS = "{limits}: the limits of {official} in the round"
    TOKEN_LATENCIES = (
        "answers are streamed, because {benchmark} requires token latencies (--stream off leaves"
        " them out)"
    )
    RATE = (
        "the highest rate is found first, in about {trials} trials of {seconds:g} s or more (--rate"
        " gives one)"
    )
    CHAT_NOT_APPLIED = "{path} has a chat template, which is not applied: --chat applies it"
    CHAT = "the chat template of {path} is applied to each prompt"
    CHAT_OPTIONS = "variables of the chat template: {options}"
    CHAT_DATED = (
        "the chat template may write today's date into each prompt, so a run of another day is"
        " another cell"
    )
    DURATION_NOT_USED = (
        "--duration {duration:g} is not used: {scenario} times {steps} steps in mode {mode}"
    )


class NotRun(StrEnum):
    """Why a cell is unsupported or skipped, in addition to the reasons of `sut/registry.py`."""

    NO_STREAM = (
        "{sut} hands over only whole answers, and token latencies (--stream, --max-ttft-ms,"
        " --max-tpot-ms, Interactive) need each token"
    )
    NO_FIT = "{model}.toml has no [fit], which says how the model is trained"
    UNLISTED = (
        "{model} has no file here, and this SUT has no general class that loads it: take"
        " native-torch-eager"
    )
    MEMORY = (
        "{model} {size} in {precision} needs about {need:.1f} GB of memory and {available:.1f} GB"
        " are available: choose {smaller}, or a machine with more memory"
    )
    DISK = (
        "--out {out}: the files of this run need about {need_mb:,.0f} MB and {free_mb:,.0f} MB are"
        " free: free some space, or choose another --out"
    )
    CUT_OFF = "cut off after {seconds:.0f} s"
    TOO_SHORT = (
        "a quick {scenario} test takes at least {least:.3g} s ({basis}), and --duration"
        " {duration:g} allows {longest:g} s: give --duration {needed:g}"
    )
    NOT_PREPARED = "the time was up before all was prepared; the same command continues with it"
    CUT_OFF_IN_SWEEP = "{reason}; the same command continues with this cell"
    NOT_FINISHED = "not finished"


class Eligible(StrEnum):
    """Whether a run of `--benchmark` can be submitted, and what it lacks."""

    YES = "eligible with {target}, if a review by MLCommons confirms it"
    NO = "not eligible: {lacks}"
    BOTH_DIVISIONS = "closed, if the weights are those of the reference; otherwise open"
    ONLY_OPEN = "open, because the model is not that of the closed division ({reasons})"
    OTHER_MODEL = "{name} {value}, not {closed}"
    NOT_INSTRUCT = (
        "its answers end at the tokens {tokens}, and those of the Instruct model end at {closed}"
    )
    TOKEN_LATENCIES = "token latencies, which --stream off leaves out"
    COUNT = "{count:,} of {size:,} samples"
    OTHER_FILE = "{file} (md5 {digest}) is not the published {name} (md5 {published})"
    MODE = "mode {mode}, not submission"
    SUBMITTER = "no --submitter"
    PARTNER = "{scenarios} of the same system, which cannot run with {what}"
    SYSTEM = "no --system FILE with {fields}"
    TARGET = "{name} requires {target}; a system of the suite {suite} needs {scenarios}"
    DIVISION = "division: {division}"


class Unranked(StrEnum):
    """Why a figure may not be compared with others."""

    STATUS = "its status is {status}"
    INVALID = "it is invalid ({cause})"
    NOT_VALID = "LoadGen does not call it VALID"
    NOT_JUDGED = "its accuracy could not be judged"
    TINY = "size tiny only shows that a cell works"
    NO_MODEL = "{sut} computes no model"
    STOOD_STILL = (
        "nothing was completed for {stalled:.2g} of its {seconds:.3g} s (longest {longest:.2g} s): "
        "the worker stood still, or one batch took far longer than is usual"
    )
    OTHER_PROGRAMS = "other programs used {share:.0%} of a processor while it was measured"
    STOLEN = (
        "the hypervisor kept {share:.0%} of a processor from this machine while it was measured"
    )
    CLOCK_SET = (
        "the calendar clock, by which LoadGen measures, was set by {step:+.3g} s while it was"
        " measured: measure again"
    )
    FRESH_SLOWER = (
        "new inputs took {slower:.3g} times as long as the inputs of the test. Either the SUT keeps"
        " parts of its answers, or the machine was disturbed: measure again"
    )
    REPEATS_FAILED = "{failed} of {runs} runs {are} not ok: {reason}"
    REPEATS_DISTURBED = "{disturbed} of {runs} repeats were disturbed: {first}"


class Note(StrEnum):
    """Further facts that a reader of a result should know.

    STOOD_STILL, OTHER_PROGRAMS and STOLEN of `Unranked` are notes if they are small.
    """

    OVER_LIMITS = "LoadGen: INVALID: {over:.3g}% of the requests were over their limits"
    OVERLOAD = (
        "{issued:.4g} requests/s arrived and {achieved:.4g}/s were answered, so {left} requests"
        " were left at the end"
    )
    BY_DISTURBANCE = "{reason}. The test was disturbed, which may be why: {disturbance}"
    LOWER_RATE = (
        "the SUT did not hold the rate that the search found, so a lower one was measured; the"
        " earlier test is in raw/{earlier}"
    )
    MEASURED_AGAIN = (
        "the performance test was measured again: the SUT was so much faster than while calibrating"
        " that LoadGen's least duration was not reached; the earlier test is in raw/{earlier}"
    )
    NOT_JUDGED = "accuracy not judged: {why}"
    ENGINE_TOKENS = (
        "the engine counts {engines:,} tokens where the tokenizer of --weights counts {ours:,}; in"
        " one answer they differ by {most}"
    )
    ENGINE_SHORT = (
        "{share:.0%} of the answers ended for their length, before they had the requested tokens:"
        " prompt and answer are longer than the engine's window, or it has a limit of its own"
    )
    ENGINE_WEIGHTS = (
        "the answers may differ because the engine has quantised weights: then give --sut-option"
        " weights=other, and they are not judged"
    )
    ENGINE_NO_USAGE = (
        "the engine reports no usage, so the tokens are only those that the tokenizer of --weights"
        " makes of its texts"
    )
    ENGINE_PROMPTS = (
        "{other} of {all} prompts have another number of tokens by the engine's count: it has"
        " another tokenizer or chat template, or adds a mark"
    )
    ENGINE_LOAD = (
        "an engine on this machine looks like any other program, so a disturbance by other programs"
        " is not noticed"
    )
    PROCESSES = (
        "the SUT ran in {processes}, which used {share:.0%} of a processor; their memory is not"
        " counted"
    )
    REPLICAS_NOT_JUDGED = (
        "{count} of {all} replicas answered no sample of the accuracy test, because it has fewer"
        " batches than replicas; their answers were judged only while measuring"
    )
    THREADS = "the framework ran with {threads}, and the worker may use {processors} processors"
    THREADS_UNKNOWN = (
        "{sut} does not report the threads of its matrix products; it was pinned to {threads}"
    )
    DRIFT = "the last third took {drift:+.1%} compared with the first"
    NO_SINGLE_STEPS = (
        "no times of single steps, because the last one was long: the framework may run ahead of"
        " its device"
    )
    ENERGY_ABSENT = "{source} not measured: {why}"
    NOT_COUNTED = "the model's operations are not counted: {why}"
    NO_ROOF = (
        "no share of the memory bandwidth: {command} measures it, and later runs have the share"
    )
    OVER_MATRIX_RATE = (
        "no share of the matrix rate: the model's {reached:,.0f} GFLOP/s are more than the"
        " {limit:,.0f} GFLOP/s of a large matrix product of this framework; either that was"
        " measured while other programs ran (./run.sh limits measures it again), or this SUT"
        " computes fewer operations than are counted, or it computes them by another library than"
        " that product, as convolutions may be"
    )
    OVER_BANDWIDTH = (
        "no share of the memory bandwidth: the {reached:,.1f} GB/s that the batches move are more"
        " than the {limit:,.1f} GB/s that this framework reads; either that was measured while"
        " other programs ran (./run.sh limits measures it again), or weights and activations stay"
        " in the processor's caches ({caches})"
    )


class InputNote(StrEnum):
    """What was read from the files of a user: prompts, pictures, weights."""

    PROMPTS = "{file}: {count} prompts of {shortest} to {longest} tokens{padding} ({tokenizer})"
    ARTICLES = "{file} (md5 {digest}): {count:,} articles of {shortest} to {longest} tokens"
    QUESTIONS = "{file}: {questions} questions, which are {features} features of {width} tokens"
    LINES = (
        "{file} has {lines} lines and no empty line, so each line is a prompt; --whole makes the"
        " file one prompt"
    )
    UNUSED_FIELDS = "fields of {file} that are not used: {fields}"
    FIELD = "the prompts of {file} are its `{field}`; --field names another"
    ANSWERS_LEFT_OUT = (
        "{file}: conversations that end with an answer: {count}; it is left out, because the model"
        " is to give it"
    )
    DEFAULT_NEW_TOKENS = (
        "an answer has at most {tokens} tokens, the default for prompts of yours; --new-tokens sets"
        " another number"
    )
    NO_NEW_TOKENS = "max_new_tokens of {file} is ignored: {model} predicts, and generates no tokens"
    NO_NEW_TOKENS_TRAINED = "max_new_tokens of {file} is ignored: a training generates no tokens"
    BYTES = (
        "the weights have no tokenizer, so each byte is a token: prompts are several times as long"
        " as with the model's tokenizer, and the answers mean nothing; copy its tokenizer.json into"
        " the folder"
    )
    SPLIT = "{file}: trained on its first {used} inputs{times}, {held_out} {place} held out"
    SPLIT_REST = ", {unused} at its end not used, because they fill no batch"
    PICTURES = "{folder}: {pictures}, each with {points} points and {box} {source}"
    PICTURES_POINTS = (
        "(the middle is the object, the upper left corner is not): name others in {file}"
    )
    NOT_READ = "{folder}: not read: {files}"
    WEIGHTS = "weights of {path}"
    WEIGHTS_AND_TOKENIZER = "weights of {path}, tokenizer {tokenizer}"
    AUTO_MAP = "config.json names code of its own (auto_map), which is not run"
    UNLISTED = (
        "the distance of honest SUTs from the reference was not measured for {model}: the limits of"
        " accuracy follow from those of {like}, by precision, depth and width"
    )
    UNLISTED_BY_DEPTH = (
        "the distance of honest SUTs from the reference was not measured for {model}: the limits of"
        " accuracy follow from the precision, the number of layers with weights and the spread of"
        " the reference's answers"
    )
    WEIGHTS_FLOAT16 = (
        "stored in float16: {precision} is used unless --precision says otherwise; --precision"
        " float16 computes in float16"
    )
    WEIGHTS_NO_PARAMETER = "tensors without parameters, not read: {tensors}"
    WEIGHTS_HEAD = "tensors of a head, which {model} here lacks, not read: {tensors}"
    WEIGHTS_INDEX = "{index} names tensors that are in no file: {tensors}"
    WEIGHTS_RENAMED = (
        "the weights are copied to the cache under the names that the libraries read: {stored} is"
        " {name}"
    )
    WEIGHTS_NO_FORMAT = (
        "the weights are copied to the cache: their file has metadata without a format, which"
        " Transformers refuses"
    )
    WEIGHTS_TIED = "{tensor} equals {other}, with which it is tied: not read"
    MODEL_FILE = "model of {path}, saved by Keras {version}"
    MODEL_FILE_PRECISION = (
        "the layers saved in {precisions} run in the precision of the cell, as all others do"
    )
    MODEL_FILE_LIMITS = (
        "the limits of accuracy were not measured for this model: they follow from the precision"
        " and the number of layers"
    )
    MODEL_FILE_TRAINED = "trained by its own losses and optimizer, without its metrics"
    LOSS_ARGUMENT = (
        "the file holds no {argument} of its loss {loss} (Keras {version} does not store it), so"
        " {value} is used"
    )
    MODEL_FILE_NO_DROPOUT = (
        "its rates of dropout are 0, because each backend draws other random numbers"
    )
    ARRAYS = "{file}: {count} samples of {names}"
    PICTURES_PROCESSED = (
        "{folder}: {count} pictures, made {height} x {width} as {file} of the weights says"
    )
    PICTURES_OF_IMAGENET = (
        "{folder}: {count} pictures of the list, cropped to 224 x 224, prepared as by MLPerf's"
        " reference: {words}"
    )
    PICTURES_RESIZED = (
        "{folder}: {count} pictures, resized to {height} x {width}, values from 0 to 255, as"
        " keras.utils.image_dataset_from_directory reads them"
    )


class NotJudged(StrEnum):
    """Why the answers or losses of a user's own model are not judged by those of the reference."""

    NOT_FINITE = (
        "the answers {answer} of the reference are not all finite: give real inputs with --dataset"
    )
    NEARLY_EQUAL = (
        "the answers {answer} to these inputs hardly differ (the largest is {ratio:.2g} standard"
        " deviations), so rounding alone could exceed any limit: give real inputs with --dataset,"
        " or --precision float32"
    )
    ONE_CLASS = (
        "the reference gives all pictures the class {label}, so other answers cannot be told from"
        " right ones: give other weights or other pictures"
    )
    RANDOM_LAYERS = (
        "its layers draw random numbers while it is trained, and each backend draws other ones, so"
        " its losses are not compared with those of another backend"
    )
    LOSS_NOT_FINITE = (
        "the losses of the reference are not all finite: give real inputs and labels with --dataset"
    )
    LOSSES_NEARLY_EQUAL = (
        "the losses hardly differ from step to step (the largest is {ratio:.2g} standard"
        " deviations), so rounding alone could exceed any limit: give real inputs and labels with"
        " --dataset"
    )
    LOSSES_CHAOTIC = (
        "the rounding of the weights alone moves the losses by {moved:.2g} standard deviations, so"
        " they cannot be compared: give real inputs and labels with --dataset, or compile the model"
        " with a smaller learning rate"
    )


class KerasGenerates(StrEnum):
    """What the libraries of Keras compute in addition to other SUTs when they generate tokens."""

    FIRST_TOKEN = (
        "KerasHub and KerasNLP make two passes to the first token: one over the prompt and the"
        " answer's column, and one that reads the prompt's last token again; other SUTs make one"
    )
    UNEVEN = (
        "the prompts are of uneven length: KerasHub and KerasNLP pad them on the right, start where"
        " the shortest prompt of a batch ends, and read each longer one token by token from there"
    )
    MORE = (
        "{prompt} + {new} tokens: {suts}: {factor:.2f} × the multiplications needed, because Keras"
        " passes over the answer's columns before it has tokens for them"
    )
    LOGITS = ", and computes logits for them that it does not use"


class Advice(StrEnum):
    """How reliable the repeats of cells are, and what to do about it."""

    FEW_REPEATS = (
        "{repeats}: measure at least {fewest}, because two runs of one cell differ by chance"
    )
    OUTLIERS = (
        "repeat {repeats} is far from the others, so something disturbed it: measure more repeats"
    )
    DRIFT = (
        "the figures drift by {change:+.0%} over the repeats: let the machine settle, and compare"
        " only with interleaved runs"
    )
    DISTURBED = "{disturbed} of {repeats} {were} disturbed"
    OLDER = (
        "left out: {cells} measured earlier, with other versions, other files of SUTs, or another"
        " duration (see ./run.sh history)"
    )
    UNSUPPORTED = "unsupported: {sentence}"


class Differs(StrEnum):
    """Differences between two measurements. The ratio of the two includes their effect."""

    MACHINE = "other machine: {a} / {b}"
    SETTING = "other {name}: {a} / {b}"
    SOURCE = "other source of the SUTs or the worker: revision {revisions}"
    SOURCE_EDITED = (
        "other source of the SUTs or the worker: revision {revision}, with files that were edited"
    )
    VERSION = "other version of {package}: {a} / {b}"
    LORA = "their LoRA trains different parameters (--lora matched trains the same)"
    THREADS = (
        "they multiplied matrices with different numbers of threads: {threads} (--threads N makes"
        " them equal)"
    )
    NOT_IN_TURNS = (
        "the repeats were not measured in turns, so a drift of the machine between the two counts"
        " as a difference"
    )
    UNRANKED = "not ranked ({sides}): {reason}"


class DiffersFromPublished(StrEnum):
    """Differences between a published figure and ours."""

    MACHINE = "machine: {theirs} / {ours}"
    SIZE = "size: theirs is the published model, ours is {ours}"
    BATCH = "batch: {theirs} / {ours}"
    TOKENS = "tokens an input: {theirs} / {ours}"
    USER = "inputs or weights: ours are a user's"
    UNEVEN = "inputs: our prompts are of uneven length"
    LORA = "LoRA: theirs is the default of KerasHub or peft, ours is --lora matched"
    PRECISION = "precision: their table does not state it, ours is {ours}"
    METHOD = "method: theirs is the mean of 100 steps, without a check of answers or of what ran"


class Compared(StrEnum):
    """What the ratio of two speeds shows, and what `compare` says of two cells."""

    FASTER = "{a} is {times}"
    NO_DIFFERENCE = "no difference shown: the interval is {interval}"
    TOO_FEW = (
        "too few repeats: {runs} of one, and {fewest} of each are needed; so far {a} is"
        " {ratio:.3g} × {b}"
    )
    UNSURE = "inconclusive, because {why}"
    PUBLISHED = (
        "not comparable: another machine and another way of measuring (their time is {times:.3g} ×"
        " ours)"
    )
    LEGEND = "A is {a}, B is {b}; a ratio is the speed of B over that of A, with its 95 % interval"


class NotCompared(StrEnum):
    """Why two measurements are not compared at all."""

    ONLY_IN = "only in {side}"
    NO_FIGURE = "no figure in {side}: {obstacle}"
    OTHER_STATISTICS = "refused: other statistics ({a} / {b})"
    OTHER_WORK = "refused: this is other work ({differences})"
    STATISTIC = (
        "its figure is another statistic than the others' ({name} by {estimate}), so it is not"
        " compared with them"
    )


class Unproven(StrEnum):
    """Why a ratio proves nothing, so that no build passes or fails because of it."""

    MACHINES = "the two were measured on different machines"
    TOO_FEW = "it has too few repeats ({repeats}, and {fewest} are needed)"
    UNSURE = "the ratio is uncertain by more than a factor of two ({interval})"


class BuildCheck(StrEnum):
    """Why `compare --fail-if-slower` fails."""

    SLOWER = "slower than {limit}: {sut}, {work}: {verdict}"
    UNPROVEN = "nothing proven: {sut}, {work}: {why}"


class Inconclusive(StrEnum):
    """Why measurements do not show which SUT is faster."""

    RUNS_DISTURBED = "{disturbed} of {runs} runs were disturbed ({first})"
    SUT_DISTURBED = "of {sut} {disturbed}"
    CONTROL = "{sut}, measured twice a round, was {ratio:.3g} × as fast as itself ({interval})"
    THREADS = (
        "not all SUTs obey {variables}, and they multiplied matrices with other numbers of threads"
        " ({threads})"
    )
    THREADS_REMEDY = "unset it, or give --threads N instead"
    ALL_UNSURE = "every ratio is uncertain by more than a factor of two ({interval})"


class EarlierRun(StrEnum):
    """A run compared with the last earlier run of its cell."""

    RATIO = "{ratio:.3g} × the speed of {run}: {differences}"
    NOTHING_DIFFERS = "no setting or version that is recorded differs"
    ALL_RUNS = "the {repeats} runs so far: {figure}"
    EARLIER_DISTURBED = "that run was disturbed: {why}"
    THIS_DISTURBED = "this run was disturbed: {why}"


class History(StrEnum):
    """The runs of a cell over time."""

    FASTER = "faster: {verdict}"
    SLOWER = "slower: {verdict}"
    CHANGE = "{verdict} since {time} ({difference})"
    NO_CHANGE = "{runs}, nothing changed: {figure}"
    NO_DIFFERENCE = "{runs}, {changes}; no difference of speed shown"
    FAILED = "the last {runs} not ok since {time} ({reason})"


class Finding(StrEnum):
    """The sentences below the answer of a report. The sections of a report make them."""

    MEANS = (
        "mean speed (geometric) over the {number} comparisons that all SUTs have, compared with"
        " {base}: {speeds}"
    )
    CONTROL = "control run: {sut} measured twice a round, {work}: {ratio}"
    P90 = (
        "90th percentile of the latency (less is better), of {queries} queries a run: {percentiles}"
    )
    P90_TOO_FEW = (
        "90th percentile of the latency (less is better), of {queries} queries a run: {needed} are"
        " needed, so it is not compared (--duration sets a longer test)"
    )
    P90_TOO_FEW_RUNS = "too few runs to compare"
    P90_NOT_HIGHER = "not shown to be higher"
    P90_HIGHER = "{ratio:.3g} times as long, {interval}"
    MATRIX_SHARES = (
        "the model's products reach, of the rate of a large matrix product of the same framework:"
        " {shares}"
    )
    BANDWIDTH_SHARES = (
        "the batches move, of the bytes a second that the same framework reads from memory, at"
        " least: {shares}"
    )
    OPERATORS = "Python calls operators for a batch of eager SUTs: {numbers}"
    NODES = (
        "{nodes} nodes of one kind were measured: {names}; figures of two nodes are never pooled"
    )
    NODES_PRODUCTS = (
        "large matrix products of {framework} in {precision} on {device}{replicas} reach"
        " {low:,.0f} to {high:,.0f} GFLOP/s on {nodes} nodes of one kind: {fastest} reaches"
        " {more:.1%} more than {slowest}"
    )
    NODES_CELL = (
        "{cell} was measured on {nodes} nodes of one kind: {low} to {high} {unit}, the largest is"
        " {more:.1%} above the smallest"
    )
    MATRIX_PRODUCTS = (
        "large matrix products in {precision} on {device}{apart}: {rates}; a model that spends its"
        " time in such products is about as much faster or slower"
    )
    MKL_WITHOUT_AVX512 = (
        "{framework} multiplies {precision} matrices with MKL, which takes its {path} path on this"
        " AMD processor although it has AVX-512; {others} {times} times as fast, so {framework}'s"
        " figures here say little about an Intel processor"
    )
    DEVICE_MEMORY = "memory on the accelerator, at most"
    HOST_MEMORY = "memory of the worker, at most"
    FIRST_ANSWER = "the first answer comes after"
    FIRST_CACHED = "the first answer with compiled programs from the cache comes after"
    COMPILING = "compiling takes"
    FROM_CACHE = "with the compiled programs from the cache"
    PAYS_NOT = "not here: {eager} is as fast"
    BEST_BATCHES = "{work}: of the batches {batches} the fastest of each SUT: {fastest}"
    TUNED = "tuned, compared with the same SUT as it comes, {work}: {gains}"
    REPLICAS = "{sut}, {work}: efficiency {efficiency}"
    HELD = "{work}: within {limits} for {share}% of the requests, {rates}"
    UNSEEN_TIMES = "; no single times of {suts}"


class PageText(StrEnum):
    """The title of a report's page, and how its cells were measured."""

    TITLE = "Which SUT is fastest?"
    TITLE_OF_ONE = "Which SUT is fastest for {model}?"
    LOADGEN = "MLPerf's LoadGen {versions} issued the samples and took the times."
    RUNS = (
        "{runs} runs, {fewest} to {repeats} good ones of each cell; a timed test took {least:.0f}"
        " to {most:.0f} seconds, after warm-up and compilation."
    )
    ANSWERS = (
        "Answers are compared with those of a float32 reference, and answers given while measuring"
        " with those of the accuracy test. The section of a cell says if its answers were not"
        " judged."
    )
    INTERVALS = (
        "A ratio compares runs of the same round. Its 95 % interval comes from the noise of all"
        " SUTs, and the intervals of all pairs hold at once."
    )
    VERSIONS = "Versions: {versions}."


class SectionNote(StrEnum):
    """The paragraphs below the headings of a report's sections."""

    BARS = (
        "A bar is the mean of the runs, and a dot is a run. A line is the 95 % interval of the"
        " speed compared with the SUT on top: if it contains that SUT's figure, no difference is"
        " shown. An arrow ends a bar or a line that is longer than drawn."
    )
    NUMBERS = (
        "The first number is the figure by which SUTs are compared. A click on a"
        " heading sorts. Memory is that of the process that runs the model. The error is the"
        " distance of the answers from those of PyTorch in float32."
    )
    TOKENS = (
        "Medians of the runs. First: the time from a request to its first token, in Offline from"
        " the beginning of its batch. Later: the time from the first token to the last one, divided"
        " by the number of later tokens. These are MLPerf's definitions."
    )
    MACHINE_SHARE = (
        "Operations: the products of the model, counted once on the reference, for every SUT"
        " alike. Their share is that of a large matrix product of the same framework (of"
        " TensorFlow without XLA). Bytes: what a batch must move at least, with each weight read"
        " once a forward pass. Their share is that of the bytes a second that the same framework"
        " reads from memory. The larger share binds if it is a tenth or more. If neither is, the"
        " time goes to small operations, to padding or to Python. If the operations are not"
        " counted, those of products with weights are used, and their share is a lower bound. The"
        " last column counts the operators that Python calls for a batch of an eager SUT."
    )
    ROOFLINE = (
        "A line of a picture is what a framework reaches on this machine: on the left it reads"
        " memory at its full bandwidth, on the right it multiplies matrices at its full rate. A"
        " dot is a SUT."
    )
    GRID = (
        "In brackets the 95 % interval, and after it over how many cells. Few models take long"
        " inputs, so along a row the models change, too."
    )
    KERAS_COSTS = (
        "Keras 3 compared with the same framework without it. Above 1 Keras is faster. If a model"
        " generates, a batch is all its tokens. A token is the time in which each answer of a batch"
        " gets one token, with Keras and without."
    )
    KERAS_TORCH = "Above 1 Keras is faster."
    KERAS_2 = "On the same framework, with the same execution. Above 1 Keras 3 is faster."
    PUBLISHED = (
        "The speed of the fastest Keras 3 SUT over the other's, with its 95 % interval. Right of"
        " the dotted line Keras 3 is faster. A ring is the published ratio, which is of an NVIDIA"
        " A100 and models of full size. Machine and method differ, and for fit perhaps the batch,"
        " so the two show only whether the same side is faster."
    )
    PUBLISHED_PRECISION = (
        "An A100 computes at most {most} TFLOP/s in float32. The published predictions of BERT are"
        " faster with {fast}. So these columns are TF32, or a lower precision: compare them with"
        " cells of --precision tf32. Those of {slow} may be float32. Ratios between the two kinds"
        " are in part ratios of precision."
    )
    PAYBACK = (
        "Cold: no compiled program was on disk. Warm: some were. The first answer includes the"
        " import of the framework and the loading of the model. Compile time is the time of the"
        " first calls of all shapes minus that of the second calls. Compiling pays as soon as the"
        " saved time is longer. The eager SUT is that of the same framework, if there is one. Runs"
        " of both kinds are needed for both columns: the first run of a cell is cold, and"
        " `./run.sh profile --starts` measures both."
    )
    TUNED = (
        "A tuned cell has switches that its framework documents and does not use by default"
        " (docs/tuning.md). The gain is its speed over that of the same cell without them, repeat"
        " by repeat. The column `sets` has the number of sets of switches that were measured for"
        " the cell: the more there are, the larger a gain has to be to be shown, because one of"
        " them may be fast by chance."
    )
    REPLICAS = (
        "Several replicas of a SUT run at the same time, each on its own accelerator or cores. The"
        " efficiency is their speed over as many times that of one of them, which ran by itself at"
        " one of these places, repeat by repeat (docs/scale.md)."
    )
    TRAININGS = (
        "A step is one batch: forward, backward and update. Two steps come first and are not timed;"
        " the first of them builds and compiles. Times of single steps are shown only if the"
        " framework does not run ahead of its device. The loss error is the largest difference of"
        " a step's loss from the float32 reference's, in standard deviations of the reference's"
        " losses."
    )


class ModelAnswers(StrEnum):
    """The answers of a model compared with those of the reference."""

    EQUAL = "all {tokens} tokens are the reference's"
    DIFFER = "differs from the reference from token {token} of {tokens} on"
    ENDED = "it ended by itself"
    CUT = "it was cut off there"


class Cost(StrEnum):
    """What a run or a test costs, before it begins."""

    RUN = (
        "about {duration} in all{setup}; {disk_mb:,.0f} MB on disk, {memory_gb:.1f} GB of memory"
        " ({basis})"
    )
    TEST = (
        "{test}: {samples:,} samples, {batches}, in about {duration}, until {time};"
        " {memory_mb:.0f} MB for LoadGen, {logs_mb:.0f} MB of logs"
    )
    REFERENCE_LATER = "computed at the first use of these inputs"


class SweepPlan(StrEnum):
    """What a sweep will measure, and what it leaves out."""

    CELLS = "{cells}: {measurements}, {done}"
    CELLS_AND_CONTROL = (
        "{cells}, and the control run {control}, which shows this machine's own noise:"
        " {measurements}, {done}"
    )
    COST = "about {duration}, until {time} ({basis})"
    NOTHING_LEFT = "nothing is left to measure"
    DEADLINE = (
        "all of it takes about {all} ({basis}); it ends after {duration}; cells in the list's"
        " order, each once before any repeat"
    )
    OVERVIEW = "after each cell {folder}/overview.md shows all"
    ROUNDS = (
        "each round has an order of its own (seed {seed}); a disturbed repeat is measured again at"
        " once, at most twice, and at most {most} times in the whole sweep"
    )
    SCREENS = (
        "a switch that is slower in the first round than the SUT without it is measured only once"
    )
    UNTIL = (
        "this is the least time: repeats are added, up to {most} of each cell, until its ratio to"
        " the first one is known to ± {until:.1%}"
    )
    ROOM = (
        "about {disk:.2f} GB on disk, {free_disk:.0f} GB are free; about {memory:.2f} GB of memory,"
        " {free_memory:.0f} GB are available"
    )
    TO_MAKE = "made first: {names}"
    NOT_MEASURED = "not measured: {cell}: {reason}"
    NOT_MEASURED_MORE = "not measured: {cell} and {others} more: {reason}"
    MISSING = "not in this harness: {part}: {reason}"
    FOLDER = "the sweep is {folder}; the same command continues after an interruption"


class Choose(StrEnum):
    """What `choose` does, and what to do after it."""

    PLAN = (
        "within {duration}: all SUTs once, those with an environment first; then again those that"
        " may be the fastest, until it is known which one is"
    )
    CONTINUE = "{command}  (continues, for a surer answer)"
    BUSY = (
        "other programs take {share:.0%} of a processor now: runs that they disturb show nothing,"
        " so end them first, or measure later"
    )
    AGAIN = "{command} --again  (measures all again: end other programs first)"
    NEW_TOKENS = (
        "an answer has at most {tokens} tokens, so that all SUTs are measured within minutes;"
        " --new-tokens 128 measures longer answers, in more time"
    )
    CONTINUE_LONGER = "{command}  (continues, with room for all)"
    FASTEST = "{command}  (measures the fastest one by itself)"
    NOTHING = "./run.sh list --matrix  (which SUT runs which model)"


class NoRoom(StrEnum):
    """Why SUTs have no figure after the time of `choose`."""

    CUT_OFF = "no figure in {scenario}, because the time was too short for a run of {suts}"
    NOT_BEGUN = "no figure in {scenario}, because the time was up before the turn of {suts}"
    MORE_THAN = "{sut} (more than {duration})"
    ABOUT = "{sut} (about {duration})"
    PUT_OFF = (
        "no figure in {scenario}, because calibrations were less than half as fast as the fastest"
        " SUT: {suts}"
    )
    CALIBRATED = "{sut} ({rate} samples/s)"


class Converted(StrEnum):
    """What `weights` does."""

    BEGINS = "converting {source}"
    DONE = "{folder}: {size_mb:,.0f} MB, for --weights; next: ./run.sh choose {folder} [PROMPTS]"


class LongPlan(StrEnum):
    """What is said before a plan that takes more than an hour."""

    QUESTION = "this takes about {duration}: go on? [y/N] "
    REFUSED = (
        "this takes about {duration}: give --yes if you want that; --dry-run shows the plan, and"
        " fewer cells, a smaller --size or --duration, or --for TIME make it shorter"
    )
    DECLINED = "nothing was measured"


class SweepProgress(StrEnum):
    """What happens while a sweep measures."""

    CELL = "[{number}/{all}] {cell}, repeat {repeat}; {left}"
    LEFT = "about {duration} left, until {time}"
    LEFT_OF_DEADLINE = "{duration} left"
    RATIO = "; {ratio:.3g} times as fast as {first}"
    DISTURBED = "; disturbed: {why}"
    MEASURED_AGAIN = "    disturbed, so it is measured again ({number} of {most})"
    RUNS_DISTURBED = "{disturbed} of {runs} runs disturbed"
    FAIL_FAST = "--fail-fast: the sweep ends here; the same command continues"
    TIME_IS_UP = "the time is up; the same command continues"
    NO_COPY_RATE = "the speed of the device's memory is not known: {why}"


class SweepEnd(StrEnum):
    """What a sweep advises at its end, and says in its overview."""

    UNTIL_NOT_REACHED = (
        "--until {until:.1%}: {comparisons} did not reach it in {repeats}; --max-repeats N allows"
        " more"
    )
    TOO_SHORT = (
        "{cells} skipped, because their tests take longer: a sweep with --duration {duration:g}"
        " measures all"
    )
    OVERVIEW = "`{command}` continues. No figure here is an MLPerf result."
    COPY_RATE = "- The device copies {rate:,.0f} GB/s, read and written."
    SHARES = """\
- Share of a large product: the model's operations a second, over those of a large matrix product of
  the same framework.
- Share of bandwidth: the bytes of weights that decoding reads a second, over those that the device
  copies. An embedding that is not the head, keys and values are not counted. It needs at least
  8 new tokens.
"""


class OnCluster(StrEnum):
    """What a sweep on a cluster says of its jobs."""

    PLAN = (
        "{cells} in {comparisons}, each cell {repeats}; each comparison is a job that has a"
        " node to itself"
    )
    PRINTED = "nothing was submitted; the files of the jobs are in {folder}"
    FINISHED_BEFORE = "finished by an earlier command"
    FOUND = "comparison {number} is job {id} of an earlier command: {words}{where}"
    SUBMITTED = "comparison {number} is submitted: {work}"
    STATE = "comparison {number}, job {id}: {words}{where}"
    MEASURED = "[{done}/{all}] {cell}, repeat {repeat}, node {node}: {outcome}"
    NOT_COMPLETE = "comparison {number} is not complete: {outcome}"
    DONE = "complete"
    ENDED = "{words} on {node}; its last line: {last} ({log})"
    INTERRUPTED = "{words} on {node}; the same command continues"
    NOT_SHARED = (
        "the job wrote nothing to its log, so {node} does not see {folder}: --out, --cache and this"
        " checkout must be in folders that all nodes share ({words})"
    )
    UNKNOWN_NODE = "its node"
    FORGOTTEN = "the scheduler does not list the job any more"
    SILENT = "the scheduler does not answer; jobs go on, and this command waits"
    TAKEN = "another command follows the sweep {folder}: wait for it, or end it"
    REFUSED = "sbatch refused the job {name}: {words}"
    SUBMITTED_BEFORE = "{words}; already submitted: {jobs}, which the same command follows"
    NO_DRIVER = "the process that talks to Ray was ended"
    NO_RAY = "--on: Ray at {address} cannot run the jobs: {words}"


class Tune(StrEnum):
    """What `tune` prints."""

    KEPT = "\n--tuned on applies the best set of each SUT: {file}"


class Waiting(StrEnum):
    """What a command waits for or prepares, so that a user knows why nothing is measured yet."""

    OTHER_CELL = (
        "waiting: another cell is being measured on this machine, and two at a time would disturb"
        " each other"
    )
    OF_COMMAND = "{cell}: {command}, since {since}; {left}"
    MINUTES = "about {minutes:.0f} min more"
    SOON = "it should end soon"
    NO_LOCK = (
        "this command does not wait for cells of other commands, because the lock {path} cannot be"
        " used ({error})"
    )
    CHECKPOINT = "waiting for another process that writes {name}"
    WRITING_CHECKPOINT = "writing the checkpoint {name}, {size_mb:,.0f} MB"


class Ended(StrEnum):
    """Why a command ended before its work was done."""

    INTERRUPTED = (
        "interrupted: finished measurements stay; the same command continues from there: {command}"
    )
    DISK_FULL = "the disk is full ({file}): free some space, or choose another --out or --cache"
    FILE_ERROR = "{error} ({file}): see --out and --cache"
    FAULT = "this is a fault of the harness: please report the traceback above with the command"


class Start(StrEnum):
    """The time until a SUT's first answer, and the state of its cache of compiled programs."""

    FIRST_ANSWER = "first answer after {seconds} s ({state})"
    EAGER = "nothing is compiled"
    COLD = "compiled; cache cold"
    WARM = "compiled programs from the cache; cache warm"
    PARTLY = "some programs compiled, some from the cache; cache partly warm"
    NO_CACHE = "compiled; no programs are kept on disk"


class Profiled(StrEnum):
    """What a profile says of the time of a step."""

    TABLE = "Time of a step by class of operation: milliseconds, percent"
    PLANNED = "some steps are timed, and as many run under the framework's profiler"
    NO_PROFILER = "nothing is written for the profiler of the framework of {sut}"
    NOT_COUNTED = "the operations are counted only on a reference of PyTorch, and there is none"
    SHARES = (
        "{sut}: products are {flops:.1%} of the floating-point operations and {time:.0%} of the"
        " time; norms, softmax and sums take {norms:.0%}, pointwise operators {pointwise:.0%}"
    )
    TIME_SHARES = (
        "{sut}: products take {time:.0%} of the time, norms, softmax and sums {norms:.0%},"
        " pointwise operators {pointwise:.0%}"
    )
    FUSED = "{compiled} runs {few:,.0f} kernels a step, and {eager} {many:,.0f}"
    OTHER = (
        "{sut}: {share:.0%} of the time is in operators that are in no class, such as {names}, so"
        " the shares of the classes are too small"
    )
    BUSY = (
        "{sut}: the profiled steps were faster than those without the profiler, so other programs"
        " slowed the machine down: repeat the command"
    )
    STARTS = (
        "Each start is a new process. Cold: the cache of compiled programs was empty. Warm: it had"
        " the programs of the cold start. The first answer includes the import of the framework"
        " and the loading of the model. Compiling is the time of the first calls of all shapes"
        " minus that of the second calls. It pays as soon as the batches save as much time,"
        " compared with the eager SUT of the same framework and library."
    )
    NO_CACHE = (
        "{sut}: at the second start not all compiled programs were found on disk, so every start"
        " compiles"
    )
    PAYS_NOT = "not here"
    NO_FIRST_ANSWER = (
        "profile --starts: the result of a training has the time of its first step, which compiles:"
        " leave --starts out"
    )
    NO_OPERATIONS = "the floating-point operations were not counted: {reason}"
    NO_PROFILE = "{sut}: {status}: {reason}"
    COUNTED = (
        "The operations are those of a batch of average inputs without padding, counted on the"
        " reference in float32. A product counts two for each multiplication with its addition,"
        " and every other operator one for each element that it writes. An optimizer is not"
        " counted. The products of attention have their own class, whether a SUT fuses them or not."
    )
    DIVIDED = (
        "The classes of a column add up to the profiled step. If several operators run at once,"
        " each gets an equal part of the time. If none runs, the time is overhead. A sum over an"
        " axis counts as a norm."
    )


class Serve(StrEnum):
    """What a server says of itself."""

    SHAPES = "shapes that are run first, so that nothing compiles while requests wait: {shapes}"
    READY = "{model} on {sut}, {precision}, {device}, {whole}: {url}"
    STREAMS = "token by token"
    WHOLE = "whole answers, because this SUT does not stream"
    POLICY = (
        "batches of {sizes}, formed within {wait_ms:g} ms; at most {queue} requests wait, each for"
        " at most {timeout:g} s"
    )
    LENGTHS = (
        "prompts of at most {prompt} tokens, padded to {buckets}; answers of at most {new}; {ends}"
    )
    ENDS = "they end at their end token"
    NO_ENDS = "no end token ends them"
    OPEN = (
        "--host {host}: every machine that reaches this address may send requests, because the"
        " server asks for no key"
    )
    CURL = (
        "curl {url}/completions -H 'Content-Type: application/json' -d"
        ' \'{{"model": "{model}", "prompt": "Once upon a time", "max_tokens": 16}}\''
    )
    END = "Ctrl-C ends it"
    NO_TEMPLATE = (
        "{model} has no chat template (a chat_template.jinja in the folder of --weights): use"
        " /v1/completions"
    )
    SUMMARY = (
        "{requests} requests: {answered} answered, with {prompt:,} prompt tokens and {new:,} new"
        " ones; {left} left by their client; {refused} refused{statuses}"
    )
    COMPILED = "{count} programs were compiled while requests waited"
    STOPPED = "the server was ended"
    INTERRUPTED = "interrupted before requests were answered"


class Files(StrEnum):
    """What commands read, wrote and removed."""

    LEFT_OUT = "left out: {path}: {why}"
    NO_RUN = "no finished run below {folder}"
    PAGE = "the page: {path}"
    PACKED = "{cells} cells, {files} files in {folder}, sha256 of names and bytes {digest}"
    NO_CALIBRATION = (
        "# Calibration\n\nNo data set is used to calibrate weights or activations. The"
        " measurements.json of each result says how weights are converted.\n"
    )
    BUNDLED = "{folder}: {size_mb:,.1f} MB; on the other machine: {name}/run.sh …"
    BUNDLE_PLAN = (
        "{packages} packages; source {source_mb:.1f} MB; weights {weights_mb:,.1f} MB. The locks"
        " have no sizes of wheels: docs/offline.md shows those of some bundles."
    )
    NO_REFERENCE = (
        "{model} {size}: there is no reference in {cache}. The other machine computes its own."
    )
    REMOVED = "{size_gb:.2f} GB: removed"
    NOT_REMOVED = "{size_gb:.2f} GB: nothing was removed; --yes removes them"
    REMOVED_ENVIRONMENTS = "made again from their locks, over the network"
    REMOVED_CHECKPOINTS = (
        "seeded weights are drawn again; of your own weights only links and copies are here"
    )
    REMOVED_INPUTS = "made again in seconds"
    REMOVED_REFERENCES = "computed again by the reference's framework"
    REMOVED_COMPILED = "compiled again by JAX and torch"
    REMOVED_LIMITS = "measured again by `limits`"


class MachineLimits(StrEnum):
    """What `limits` does, and what its figures mean."""

    PLAN = "{count} to measure, about {duration}, until {time}; {kept} kept from earlier"
    BEGINS = "[{number}/{all}] {environment} on {device}"
    PRODUCTS = "Matrix products on {device}: {unit}, the median of the repeats"
    MEMORY = "Memory and calls on {device}"
    OTHER_WAY = "  through {way}"
    LEGEND = (
        "large: two square matrices; layer: {layer}; one row: with a matrix larger than the"
        " last-level cache, as decoding needs it, and the bytes that it reads; operation: adds 1 to"
        " one number; ±: the repeat that is furthest from the median"
    )
    LACKING = "{environment} has no matrix product in {precision} on {device}: {words}"
    ABSENT = "{environment} on {device}, {name}: {words}"
    DIFFER = "large matrix products on {device}: {precisions}"
    DIFFER_IN = "in {precision} {fastest} is {times} times as fast as {slowest}"
    WAY = "{framework} multiplies {precision} matrices {times} times as fast through {way}"
    BOUND = (
        "one row times a matrix reads less than half of the bandwidth, so computing binds and not"
        " memory: {names}"
    )
    BOUND_IN = "{framework} in {precision} ({share})"
    DISTURBED = (
        "repeats of the same product differ from their median by more than {most}: {names}; other"
        " programs or the host disturbed them, so `./run.sh limits --again` on a quiet machine"
        " gives better figures"
    )


class Next(StrEnum):
    """What to do after a run, after its status."""

    SKIPPED = "the same command, changed as the status line says"
    OOM = "a smaller {flags}"
    OOM_SMALLEST = "a machine with more memory"
    ERROR = "the same command continues from here: {command}"
    ERROR_LOG = (
        "the same command continues from here: {command}; the output of the worker:"
        " {directory}/raw/*/worker.log"
    )
    UNSUPPORTED = "./run.sh list  (shows what there is), or another --precision or --device"
    AUDIT = "./run.sh audit {directory} --mode {mode}"
    LONGER = "{command} --duration {duration:g}  (LoadGen had too few queries to call it VALID)"
    VALID_TRAINING = "{command} --mode valid  (100 steps)"
    ALL_SUTS = (
        "{sweep}  (all SUTs in turns; or this command with --mode valid: 10 minutes and more, by"
        " MLPerf's settings)"
    )
    PACK = "./run.sh pack {directory} --out submission  (and other cells' directories)"
    REPORT = "./run.sh report {directory} --html report.html"


class DoctorFinding(StrEnum):
    """What `doctor` found on this machine."""

    PYTHON = "Python {version}"
    NO_COMPILER = (
        "none found: native-torch-compile needs one on a CPU, and LoadGen if it has no wheel"
    )
    HEADERS = "Python.h is there"
    NO_HEADERS = "no Python.h: native-torch-compile needs it"
    DISK = "{free:.1f} GB free for environments and weights"
    MEMORY = "{available:.1f} GB of {all:.1f} GB available"
    MEMORY_LIMIT = ", limited to {limit:.1f} GB"
    SWAP = "{used:.0f} MB in use"
    NO_SWAP = "none in use"
    PROCESSORS = "{usable} of {all} threads usable{cores}{quota}"
    NO_GOVERNOR = "the kernel does not report it (a virtual machine, or not Linux)"
    BOOST = "boost {state}, {now} MHz now, {most} at most"
    NO_BOOST = "the kernel does not report whether boost is on{now}"
    NO_CLOCK = "the kernel does not report its clock source"
    LOAD = "load average {load:.2f} over the last minute on {threads} threads"
    PROCESS = "{name} (process {pid}) {percent:.0f} %"
    NO_PROCESSES = "none above 5 % of a processor"
    NO_HYPERVISOR = "no hypervisor"
    NO_ACCELERATOR = "no NVIDIA driver answers: cells run on the CPU"
    GPU = "{name}, {memory:.0f} GiB, driver {driver}"
    GPU_DRIVER = "supports CUDA up to {cuda}"
    GPU_OTHERS = "{processes} processes on it, {used:.1f} GiB in use"
    GPU_WHOLE = "the whole GPU"
    GPU_SLICES = "MIG is on"
    GPU_CLOCKS = "{now} MHz now, {most} at most, limited to {power} W (recorded with each cell)"
    ENVIRONMENT = "made for {devices}"
    NO_ENVIRONMENT = "made on first use"
    WRITABLE = "writable"
    NOT_WRITABLE = "not writable"


class DoctorAdvice(StrEnum):
    """What to do about a finding of `doctor`."""

    PYTHON = "LoadGen has wheels for Python 3.11 to 3.13"
    COMPILER = "install g++ (Debian, Ubuntu: apt install g++)"
    HEADERS = "install them (Debian, Ubuntu: apt install python3-dev)"
    DISK = (
        "all environments take about {need:.0f} GB, a 7 B model 15 GB more: free some space, or"
        " give --cache DIR"
    )
    MEMORY = "end other programs: the smallest cells need 2 GB"
    SWAP = (
        "memory was short: end other programs, then `sudo swapoff -a && sudo swapon -a`; if a cell"
        " swaps, its figures are those of the disk"
    )
    PROCESSORS = (
        "lift the container's CPU limit, or pin it to whole processors (--cpuset-cpus); --threads"
        " auto gives SUTs at most the quota, rounded up"
    )
    GOVERNOR = "sudo cpupower frequency-set -g performance"
    BOOST = (
        "for figures that repeat, switch boost off: echo 0 | sudo tee"
        " /sys/devices/system/cpu/cpufreq/boost (Intel: echo 1 | sudo tee"
        " /sys/devices/system/cpu/intel_pstate/no_turbo)"
    )
    CLOCK = "a slow clock adds to every latency: boot with clocksource=tsc"
    LOAD = "end other programs, and wait a minute: they make every figure worse"
    PROCESSES = "end them, or wait until they are done"
    VIRTUAL = (
        "other machines on the same host change the figures: measure rival cells in turns"
        " (A B A B …), and compare their medians"
    )
    ENERGY = "if you allow it, cells record their energy"
    GPU_DRIVER = (
        "the environments of PyTorch and JAX are for CUDA {cuda}, which needs driver {driver} or"
        " newer: update it, or take --python"
    )
    GPU_OTHERS = "end them (nvidia-smi lists them), or choose another GPU with CUDA_VISIBLE_DEVICES"
    GPU_PERSISTENCE = (
        "sudo nvidia-smi -pm 1: otherwise the driver unloads between cells, and the first call"
        " takes longer"
    )
    GPU_SLICES = (
        "a slice shares the GPU with others: its figures are those of the slice, and its energy is"
        " not reported"
    )
    CACHE = "give --cache DIR"
